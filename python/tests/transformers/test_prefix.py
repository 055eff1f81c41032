"""What an earlier call computed is found by a later one, and by nobody who should not find it."""

import pytest
import torch
import zoo
from compare import assert_equal_logits, assert_same_greedy
from running import ComputedTokens, generate, generate_with_logits, logits_of, ours

from emblema.transformers import EmblemaCache


def block_tokens(cache: EmblemaCache) -> int:
    """Tokens of the smallest whole that can be found: one block of every group of layers."""
    return max(group.block_tokens for group in cache.engine.plan.groups)


@pytest.mark.parametrize("length", [1000, 128, 129, 65, 64, 63])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_the_second_request_computes_only_the_rest(name, length, new_cache):
    ids = zoo.tokens(length)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=6)
    first = new_cache(ours(name))
    assert_same_greedy(generate(ours(name), ids, first, max_new_tokens=6), stock, least=2)
    assert first.hit_tokens == [0]

    second, block = new_cache(ours(name)), block_tokens(first)
    with ComputedTokens(ours(name)) as computed:
        found = generate_with_logits(ours(name), ids, second, max_new_tokens=6)
    assert_same_greedy(found.sequences, stock, least=2)
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))
    whole_blocks = length // block * block
    assert second.hit_tokens[0] in (whole_blocks, (length - 1) // block * block)
    (_, width), *others = computed.calls
    assert width == max(length - second.hit_tokens[0], 1) and others == 5 * [(1, 1)]


@pytest.mark.parametrize("name", zoo.KINDS)
def test_while_the_first_one_still_runs(name, new_cache):
    ids = zoo.tokens(200)
    first, second = new_cache(ours(name)), new_cache(ours(name))
    logits_of(ours(name), ids, first, logits_to_keep=1)
    found = logits_of(ours(name), ids, second, logits_to_keep=1)
    assert second.hit_tokens[0] >= 200 - block_tokens(first)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids)[:, -1:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_a_plain_call_returns_logits_of_all_tokens(name, new_cache):
    ids = zoo.tokens(200)
    logits_of(ours(name), ids, new_cache(ours(name)))
    found = logits_of(ours(name), ids, new_cache(ours(name)))
    assert_equal_logits(found, logits_of(zoo.stock(name), ids))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_only_the_common_beginning_is_found(name, new_cache):
    ids, other = zoo.tokens(300), zoo.tokens(300)
    other[0, 205] = 3 if other[0, 205] != 3 else 4
    first = new_cache(ours(name))
    generate(ours(name), ids, first, max_new_tokens=2)
    second, block = new_cache(ours(name)), block_tokens(first)
    found = generate_with_logits(ours(name), other, second, max_new_tokens=6)
    assert 205 - 2 * block < second.hit_tokens[0] <= 205
    stock = generate_with_logits(zoo.stock(name), other, max_new_tokens=6)
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_an_answer_is_found_by_the_next_question(name, new_cache):
    """A new cache for each turn, as a server without conversations would have it."""
    first = new_cache(ours(name))
    answered = generate(ours(name), zoo.tokens(60), first, max_new_tokens=80)
    text = torch.cat([answered, zoo.tokens(20, seed=6)], dim=1)
    second, block = new_cache(ours(name)), block_tokens(first)
    found = generate_with_logits(ours(name), text, second, max_new_tokens=4)
    assert second.hit_tokens[0] > 139 - block > 60
    stock = generate_with_logits(zoo.stock(name), text, max_new_tokens=4)
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rows_of_a_batch_find_different_lengths(name, new_cache):
    lengths = (300, 100, 20)
    ids, mask = zoo.tokens(*lengths), zoo.mask_of(*lengths)
    first = new_cache(ours(name))
    generate(ours(name), ids[1:, -100:], first, attention_mask=mask[1:, -100:], max_new_tokens=2)
    generate(ours(name), ids[:1, :150], new_cache(ours(name)), max_new_tokens=2)
    second, block = new_cache(ours(name)), block_tokens(first)
    settings = {"attention_mask": mask, "max_new_tokens": 6}
    found = generate_with_logits(ours(name), ids, second, **settings)
    hits = second.hit_tokens
    assert 150 - 2 * block < hits[0] <= 150, hits
    # The batch begins at row 0's last 156 tokens. Others lie in them whole: they may ask with what
    # they found, but windows have let go of what first tokens would see, so there they begin anew.
    assert hits[1] == 0 if name in ("gemma3", "gpt-oss") else 100 - 2 * block < hits[1] <= 100
    stock = generate_with_logits(zoo.stock(name), ids, **settings)
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))


@pytest.mark.parametrize("settings", [{"num_beams": 3}, {"prefill_chunk_size": 150}])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_what_was_found_is_generated_from_in_other_ways(name, settings, new_cache):
    ids = zoo.tokens(200)
    generate(ours(name), ids, new_cache(ours(name)), max_new_tokens=2)
    second = new_cache(ours(name))
    found = generate(ours(name), ids, second, max_new_tokens=8, **settings)
    assert second.hit_tokens[0] > 0
    stock = generate(zoo.stock(name), ids, max_new_tokens=8, **settings)
    assert found.tolist() == stock.tolist()


@pytest.mark.parametrize("other", [{"salt": "pepper"}, {"tenant": "somebody else"}])
def test_another_salt_or_tenant_finds_nothing(other, new_cache):
    ids = zoo.tokens(200)
    logits_of(ours("llama"), ids, new_cache(ours("llama"), salt="salt", tenant="me"))
    same = new_cache(ours("llama"), salt="salt", tenant="me")
    logits_of(ours("llama"), ids, same, logits_to_keep=1)
    assert same.hit_tokens[0] > 0
    third = new_cache(ours("llama"), **{"salt": "salt", "tenant": "me", **other})
    logits_of(ours("llama"), ids, third, logits_to_keep=1)
    assert third.hit_tokens == [0]


def scale_in_place(model):
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.mul_(-1.5)


def load_other_weights(model):
    state = model.state_dict()
    name = "model.layers.0.mlp.down_proj.weight"
    model.load_state_dict({**state, name: -2.0 * state[name]})


def write_through_data(model):
    """How many optimizers and mergers of adapters write: autograd does not count it."""
    model.model.layers[0].self_attn.o_proj.weight.data.mul_(-1.5)


def replace_data(model):
    weight = model.model.layers[0].self_attn.o_proj.weight
    weight.data = -1.5 * weight.data


@pytest.mark.parametrize(
    "change",
    [
        scale_in_place,
        load_other_weights,
        write_through_data,
        replace_data,
    ],
)
def test_changed_weights_find_nothing(change, new_cache):
    model, ids = zoo.build("llama", "emblema"), zoo.tokens(200)
    logits_of(model, ids, new_cache(model))
    change(model)
    second = new_cache(model)
    found = logits_of(model, ids, second, logits_to_keep=1)
    assert second.hit_tokens == [0]
    changed = zoo.build("llama", "eager")
    changed.load_state_dict(model.state_dict())
    assert_equal_logits(found, logits_of(changed, ids)[:, -1:])


def test_a_weight_where_an_old_one_lay_is_another_weight(new_cache):
    """Freed memory is given out again: of weights that are replaced, some share an address."""
    model, ids = zoo.build("llama", "emblema", intermediate_size=8192), zoo.tokens(200)
    layer, addresses = model.model.layers[0].mlp.down_proj, []
    for factor in (2.0, -0.5, 3.0, -0.5, 2.0, -0.5, 3.0, -0.5):
        layer.weight = torch.nn.Parameter(factor * layer.weight.detach())
        addresses.append(layer.weight.data_ptr())
        cache = new_cache(model)
        logits_of(model, ids, cache, logits_to_keep=1)
        assert cache.hit_tokens == [0]
    if len(set(addresses)) == len(addresses):
        pytest.skip("this machine gave every weight an address of its own")


@pytest.mark.parametrize("through", [lambda weight: weight, lambda weight: weight.data])
@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v2"])
def test_changed_up_projections_are_absorbed_anew(name, through, new_cache):
    model, ids = zoo.build(name, "emblema"), zoo.tokens(70)
    logits_of(model, ids, new_cache(model))
    with torch.no_grad():
        through(model.model.layers[1].self_attn.kv_b_proj.weight).mul_(-1.5)
    changed = zoo.build(name, "eager")
    changed.load_state_dict(model.state_dict())
    cache = new_cache(model, salt="after the change")
    found = torch.cat(
        [logits_of(model, ids[:, :69], cache), logits_of(model, ids[:, 69:], cache)], dim=1
    )
    assert_equal_logits(found, logits_of(changed, ids))


def test_two_models_share_nothing(new_cache):
    ids = zoo.tokens(200)
    one, two = zoo.build("llama", "emblema"), zoo.build("llama", "emblema")
    scale_in_place(two)
    first = new_cache(one)
    logits_of(one, ids, first)
    for cache in (new_cache(two), new_cache(two, engine=first.engine)):
        found = logits_of(two, ids, cache, logits_to_keep=1)
        assert cache.hit_tokens == [0]
        changed = zoo.build("llama", "eager")
        scale_in_place(changed)
        assert_equal_logits(found, logits_of(changed, ids)[:, -1:])


def test_caches_of_one_model_share_its_engine(new_cache):
    one, two = new_cache(ours("llama")), new_cache(ours("llama"))
    assert one.engine is two.engine
    assert new_cache(ours("llama"), pool_bytes="16MiB").engine is not one.engine


def test_embeddings_share_nothing_with_tokens_or_each_other(new_cache):
    """inputs_embeds say nothing of which tokens they are."""
    model = ours("llama")
    with torch.no_grad():
        one, two = (model.get_input_embeddings()(zoo.tokens(150, seed=s)) for s in (1, 2))
    for embeddings, seed in ((one, 1), (two, 2), (one, 1)):
        cache = new_cache(model)
        found = generate(model, None, cache, inputs_embeds=embeddings, max_new_tokens=5)
        assert cache.hit_tokens == [0]
        ids = zoo.tokens(150, seed=seed)
        stock = generate_with_logits(zoo.stock("llama"), ids, max_new_tokens=5)
        assert found[0].tolist() == stock.sequences[0, -5:].tolist()
