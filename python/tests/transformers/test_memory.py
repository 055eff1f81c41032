"""Memory: what is held equals the planner's number, and everything comes back."""

import gc
import json

import pytest
import torch
import zoo
from compare import assert_equal_logits
from running import generate, logits_of, one_by_one

from emblema import OutOfBlocksError, _core
from emblema.transformers import EmblemaCache


def planned_bytes(model, tokens: int, folder) -> int:
    """What `emblema plan` says that one sequence of so many tokens takes of the pool."""
    path = folder / "config.json"
    path.write_text(model.config.to_json_string(use_diff=False))
    options = ["--kv-dtype", "fp32", "--pool", "64MiB", "--at", str(tokens), "--json"]
    code, output, complaint = _core.run_command(["plan", str(path), *options])
    assert code == 0, complaint
    return json.loads(output)["ranks"][0]["allocated_bytes_per_sequence"][str(tokens)]


def held_bytes(cache: EmblemaCache) -> int:
    return cache.engine.stats().totals.physical_bytes


@pytest.fixture
def alone(new_cache):
    """Makes a new model of the zoo and a cache with an engine that nobody else uses."""

    def make(name: str):
        model = zoo.build(name, "emblema")
        return model, new_cache(model, pool_bytes="64MiB")

    return make


@pytest.mark.parametrize(
    ("name", "tokens"),
    [(name, tokens) for name in zoo.KINDS for tokens in (1, 63, 64, 65, 1000)]
    + [(name, 129) for name in zoo.ZOO],
)
def test_one_sequence_takes_what_the_planner_says(name, tokens, alone, tmp_path):
    model, cache = alone(name)
    one_by_one(model, zoo.tokens(tokens), cache, first=max(tokens - 2, 1))
    assert held_bytes(cache) == planned_bytes(model, tokens, tmp_path)
    cache.release()
    assert held_bytes(cache) == 0


@pytest.mark.parametrize("name", zoo.KINDS)
def test_padding_takes_nothing(name, alone, tmp_path):
    model, cache = alone(name)
    lengths = (200, 20, 65)
    logits_of(model, zoo.tokens(*lengths), cache, attention_mask=zoo.mask_of(*lengths))
    assert held_bytes(cache) == sum(planned_bytes(model, n, tmp_path) for n in lengths)
    assert [sequence.tokens for sequence in cache.sequences] == list(lengths)


@pytest.mark.parametrize("how", [{"num_beams": 4}, {"do_sample": True, "num_return_sequences": 4}])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_beams_and_samples_share_their_prompt(name, how, alone, tmp_path):
    """Four texts of one prompt take less than two: the prompt once, and four last blocks."""
    model, cache = alone(name)
    torch.manual_seed(3)
    generate(model, zoo.tokens(400), cache, max_new_tokens=5, **how)
    assert len(cache.sequences) == 4
    growing = planned_bytes(model, 404, tmp_path) - planned_bytes(model, 1, tmp_path)
    assert held_bytes(cache) < 4 * planned_bytes(model, 404, tmp_path) - 2 * growing
    if name in ("llama", "deepseek-v3"):
        assert held_bytes(cache) < 2 * planned_bytes(model, 404, tmp_path)


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_fork_takes_nothing_until_it_goes_on(name, alone):
    model, cache = alone(name)
    logits_of(model, zoo.tokens(100), cache)
    held = held_bytes(cache)
    forks = [cache.fork() for _ in range(5)]
    assert held_bytes(cache) == held
    for fork in forks:
        fork.release()
    assert held_bytes(cache) == held
    cache.release()
    assert held_bytes(cache) == 0


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_rollback_gives_blocks_back(name, alone):
    model, cache = alone(name)
    logits_of(model, zoo.tokens(20), cache)
    held = held_bytes(cache)
    logits_of(model, zoo.tokens(10, seed=1), cache)
    cache.crop(-10)
    assert held_bytes(cache) == held


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_deleted_cache_gives_everything_back(name):
    model = zoo.build(name, "emblema")
    cache = EmblemaCache(model, pool_bytes="64MiB")
    generate(model, zoo.tokens(100), cache, max_new_tokens=3, num_beams=3)
    engine = cache.engine
    assert engine.stats().totals.physical_bytes > 0
    del cache
    gc.collect()
    assert engine.stats().totals.physical_bytes == 0
    engine.check_invariants()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("past", [0, 70])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_forward_that_fails_takes_nothing(name, past, layer, alone):
    """Whatever was written before the error is gone; the same call then works."""
    model, cache = alone(name)
    before, ids = zoo.tokens(max(past, 1))[:, :past], zoo.tokens(80, seed=1)
    if past:
        logits_of(model, before, cache)
    held, length = held_bytes(cache), cache.get_seq_length()

    def fail(*_):
        raise RuntimeError("out of luck")

    hook = model.model.layers[layer].mlp.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        logits_of(model, ids, cache)
    hook.remove()
    assert (held_bytes(cache), cache.get_seq_length()) == (held, length)
    cache.engine.check_invariants()
    found = logits_of(model, ids, cache)
    stock = logits_of(zoo.stock(name), torch.cat([before, ids], dim=1))
    assert_equal_logits(found, stock[:, past:])


def test_a_full_pool_says_so_and_goes_on_after_a_release(new_cache):
    model = zoo.build("llama", "emblema")
    small = new_cache(model, pool_bytes=300 * 512)  # a token takes 512 bytes
    ids = zoo.tokens(200)
    logits_of(model, ids, small)
    other = new_cache(model, pool_bytes=300 * 512, salt="another text")
    with pytest.raises(OutOfBlocksError):
        logits_of(model, ids, other)
    small.release()
    assert_equal_logits(logits_of(model, ids, other), logits_of(zoo.stock("llama"), ids))


def test_many_requests_leave_nothing(new_cache):
    model = zoo.build("gemma3", "emblema")
    engine = None
    for turn in range(12):
        cache = new_cache(model, pool_bytes="4MiB")
        generate(model, zoo.tokens(90 + turn, seed=turn % 3), cache, max_new_tokens=3)
        engine = cache.engine
        cache.release()
    assert engine.stats().totals.physical_bytes == 0
    engine.check_invariants()
