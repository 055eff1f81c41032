"""What ends a forward early, and what goes on around one: the cache is as before, or says no."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import zoo
from compare import assert_equal_logits
from running import CACHE, generate, logits_of, ours

from emblema import InvalidError, UnsupportedError
from emblema.transformers import EmblemaCache, steps


def interrupt_in_layer(model, error):
    """Makes the last layer's MLP raise; gives back what removes that."""

    def raises(*_):
        raise error

    return model.model.layers[-1].mlp.register_forward_pre_hook(raises)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), RuntimeError()])
@pytest.mark.parametrize("held", [0, 40])
def test_a_forward_that_is_interrupted_leaves_the_cache_as_it_was(error, held, new_cache):
    model = zoo.build("llama", "emblema")
    ids = zoo.tokens(90)
    cache = new_cache(model)
    if held:
        logits_of(model, ids[:, :held], cache)
    hook = interrupt_in_layer(model, error)
    with pytest.raises(type(error)):
        logits_of(model, ids[:, held:70], cache)
    hook.remove()
    assert steps.current() is None and not cache.is_running
    assert cache.get_seq_length() == held
    other = ids.flip(1)  # other tokens go where the interrupted ones would have
    found = logits_of(model, other[:, : 70 - held], cache)
    text = torch.cat((ids[:, :held], other[:, : 70 - held]), dim=1)
    assert_equal_logits(found, logits_of(zoo.stock("llama"), text)[:, held:])
    again = new_cache(model)
    assert_equal_logits(logits_of(model, text, again), logits_of(zoo.stock("llama"), text))


class InterruptedCommit:
    """A sequence whose commit is interrupted; all else is the sequence's own."""

    def __init__(self, sequence):
        self._sequence = sequence

    def __getattr__(self, name):
        return getattr(self._sequence, name)

    def commit(self, ids):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["llama", "deepseek-v3", "gpt-oss"])
def test_an_interrupt_between_two_commits(name, new_cache):
    """The first sequence has committed, the second has not: neither counts."""
    model = ours(name)
    ids = zoo.tokens(60, 60)
    cache = new_cache(model)
    logits_of(model, ids[:, :40], cache)
    real = cache.finish

    def finish():
        second = cache._rows[1]
        whole = second.sequence
        second.sequence = InterruptedCommit(whole)
        try:
            real()
        finally:
            second.sequence = whole

    cache.finish = finish
    with pytest.raises(KeyboardInterrupt):
        logits_of(model, ids[:, 40:], cache)
    cache.finish = real
    held = cache.get_seq_length()  # 0 where a window let go of what it would need
    assert [sequence.tokens for sequence in cache.sequences] == ([held] * 2 if held else [])
    other = ids.flip(1)
    text = torch.cat((ids[:, :held], other[:, : 60 - held]), dim=1)
    found = logits_of(model, other[:, : 60 - held], cache)
    assert_equal_logits(found, logits_of(zoo.stock(name), text)[:, held:])


def test_a_stock_forward_of_another_model_keeps_its_mask_within_a_step(new_cache):
    model, other = zoo.build("llama", "emblema"), ours("qwen3")
    ids, mask = zoo.tokens(9, 20), zoo.mask_of(9, 20)
    answers = []

    def ask(*_):
        answers.append(logits_of(other, ids, attention_mask=mask))

    hook = model.model.layers[0].mlp.register_forward_pre_hook(ask)
    logits_of(model, zoo.tokens(30), new_cache(model))
    hook.remove()
    assert_equal_logits(answers[0], logits_of(other, ids, attention_mask=mask), 0.0)


def test_embeddings_behind_tokens_are_refused(new_cache):
    model = ours("llama")
    cache = new_cache(model)
    ids = zoo.tokens(20)
    logits_of(model, ids, cache)
    embedded = model.get_input_embeddings()(ids).detach()
    with pytest.raises(UnsupportedError, match="inputs_embeds behind tokens"):
        model(inputs_embeds=embedded, use_cache=True, **{CACHE: cache})
    assert cache.get_seq_length() == 20


def test_a_crop_that_is_refused_changes_no_row(new_cache):
    model = ours("mistral-window")
    cache = new_cache(model)
    ids, mask = zoo.tokens(100, 60), zoo.mask_of(100, 60)
    logits_of(model, ids, cache, attention_mask=mask)
    before = [sequence.tokens for sequence in cache.sequences]
    with pytest.raises(UnsupportedError, match="a window let go of"):
        cache.crop(-50)
    assert [sequence.tokens for sequence in cache.sequences] == before == [100, 60]
    longer = torch.cat((mask, torch.ones(2, 2, dtype=mask.dtype)), dim=1)
    logits_of(model, zoo.tokens(2, 2), cache, attention_mask=longer)


def test_a_projection_that_does_more_than_its_weight_is_refused(new_cache):
    model = zoo.build("deepseek-v3", "emblema")
    ids = zoo.tokens(20)
    cache = new_cache(model)
    logits_of(model, ids, cache)
    attention = model.model.layers[0].self_attn
    hook = attention.kv_b_proj.register_forward_hook(lambda *_: None)
    with pytest.raises(UnsupportedError, match="kv_b_proj of layer 0 is Linear with a hook"):
        logits_of(model, ids, cache)
    hook.remove()
    old = attention.kv_b_proj
    attention.kv_b_proj = torch.nn.Linear(old.in_features, old.out_features, bias=True)
    with pytest.raises(UnsupportedError, match="Linear with a bias; allowed: torch.nn.Linear with"):
        logits_of(model, ids, cache)
    with pytest.raises(UnsupportedError, match="Linear with a bias"):
        EmblemaCache(model)


@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
def test_rotation_by_length_is_never_found(rope, new_cache):
    """What one length stored is not what another computes; within one cache it is stock's."""
    pairs = zoo.ZOO["llama"].settings["head_dim"] // 2
    parameters = {"rope_type": rope, "rope_theta": 10000.0, "factor": 4.0}
    if rope == "longrope":
        parameters |= {
            "short_factor": [1.0] * pairs,
            "long_factor": [2.0] * pairs,
            "original_max_position_embeddings": 64,
        }
    model = zoo.build("llama", "emblema", rope_parameters=parameters)
    stock = zoo.build("llama", "eager", rope_parameters=parameters)
    ids = zoo.tokens(100)
    for _ in range(2):
        cache = new_cache(model)
        found = generate(model, ids, cache, max_new_tokens=4)
        assert cache.hit_tokens == [0]
    assert torch.equal(found, generate(stock, ids, max_new_tokens=4))


def test_an_adapter_switched_off_finds_nothing_of_what_it_computed(new_cache):
    """As peft's layers look: attributes of a module, no weight is written."""
    model = zoo.build("llama", "emblema")
    part = model.model.layers[0].mlp.up_proj
    part.active_adapters, part.disable_adapters, part.scaling = ["a"], False, {"a": 1.0}
    ids = zoo.tokens(40)
    logits_of(model, ids, new_cache(model))
    for name, value in (("disable_adapters", True), ("scaling", {"a": 5.0})):
        setattr(part, name, value)
        assert new_cache(model).why(ids).hit_tokens == 0
    part.disable_adapters, part.scaling = False, {"a": 1.0}
    assert new_cache(model).why(ids).hit_tokens == 32


def test_buffers_and_training_count_as_weights(new_cache):
    model = zoo.build("llama", "emblema")
    ids = zoo.tokens(40)
    logits_of(model, ids, new_cache(model))
    model.train()
    assert new_cache(model).why(ids).hit_tokens == 0
    model.eval()
    assert new_cache(model).why(ids).hit_tokens == 32
    model.model.rotary_emb.inv_freq.mul_(0.5)
    assert new_cache(model).why(ids).hit_tokens == 0


def test_another_attention_function_meanwhile_is_named(new_cache):
    model = zoo.build("llama", "emblema")
    cache = new_cache(model)
    logits_of(model, zoo.tokens(20), cache)
    model.set_attn_implementation("eager")
    with pytest.raises(UnsupportedError, match="its attention is 'eager'; allowed"):
        logits_of(model, zoo.tokens(5), cache)


@pytest.mark.parametrize("name", ["llama", "deepseek-v3"])
def test_copies_of_a_model_that_had_a_cache(name, new_cache):
    """A forward that was wrapped is the copy's own, not the first model's."""
    model = zoo.build(name, "emblema")
    ids = zoo.tokens(30)
    expected = logits_of(model, ids, new_cache(model))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.01)
        assert_equal_logits(logits_of(other, ids, new_cache(other)), expected)


def test_a_compiled_model_runs_as_it_is(new_cache):
    model = zoo.build("llama", "emblema")
    ids = zoo.tokens(20)
    compiled = torch.compile(model, backend="eager")
    found = logits_of(compiled, ids, new_cache(model))
    assert_equal_logits(found, logits_of(zoo.stock("llama"), ids))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": 5}, "engine is 5; allowed: an emblema.Engine, or None"),
        ({"salt": None}, "salt is None; allowed: a str"),
        ({"pool_bytes": [1]}, r"pool_bytes is \[1\]; allowed"),
        ({"untested": "no"}, "untested is 'no'; allowed: True or False"),
    ],
)
def test_arguments_of_a_cache(arguments, message):
    with pytest.raises(InvalidError, match=message):
        EmblemaCache(ours("llama"), **arguments)


def test_arguments_of_a_caches_methods(new_cache):
    model = ours("llama")
    cache = new_cache(model)
    logits_of(model, zoo.tokens(20, 20), cache)
    for call, message in (
        (lambda: cache.why(None), "input_ids is missing; allowed"),
        (lambda: cache.why(zoo.tokens(5) / 2), "allowed: a tensor of token ids"),
        (lambda: cache.why(zoo.tokens(5, 5)), r"input_ids is \[2, 5\]; allowed: \[columns\] or"),
        (lambda: cache.crop("x"), "tokens_to_remove is a str; allowed: an int"),
        (lambda: cache.reorder_cache(torch.tensor([0, 2])), "row 2 of the batch; allowed: 0 to 1"),
        (lambda: logits_of(model, zoo.tokens(5)[0], cache), r"input_ids is a tensor \[5\]; allow"),
    ):
        with pytest.raises(InvalidError, match=message):
            call()
    cache.batch_select_indices(torch.tensor([], dtype=torch.long))
    assert (cache.get_seq_length(), cache.sequences) == (0, [])


def test_a_prompt_longer_than_its_positions(new_cache):
    """transformers warns and goes on; so does Emblema."""
    model = zoo.build("llama", "emblema", max_position_embeddings=32)
    ids = zoo.tokens(50)
    stock = zoo.build("llama", "eager", max_position_embeddings=32)
    assert_equal_logits(logits_of(model, ids, new_cache(model)), logits_of(stock, ids))
