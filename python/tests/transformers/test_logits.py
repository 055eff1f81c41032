"""Logits of prompts and of tokens after them, float32, for every model of the zoo."""

import functools

import pytest
import torch
import zoo
from compare import FLOAT32_TOLERANCE, assert_equal_logits, relative_error
from running import in_pieces, logits_of, one_by_one, ours

from emblema import Engine
from emblema.transformers import TESTED_MODEL_TYPES

LENGTHS = (1, 63, 64, 65, 127, 128, 129, 1000)


LONG = zoo.tokens(max(LENGTHS) + 3)


@functools.cache
def stock_logits(name: str) -> torch.Tensor:
    """Stock's logits of LONG: those of its first tokens are the logits of a shorter prompt."""
    return logits_of(zoo.stock(name), LONG)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", zoo.EVERY)
def test_prompt_and_next_tokens(name, length, new_cache):
    ids = LONG[:, : length + 3]
    found = one_by_one(ours(name), ids, new_cache(ours(name)), first=length)
    assert_equal_logits(found, stock_logits(name)[:, : length + 3])


@pytest.mark.parametrize("cuts", [(1,), (63,), (64,), (65,), (100,), (50, 51, 180), (128, 192)])
@pytest.mark.parametrize("name", zoo.KINDS)
def test_prompt_in_pieces(name, cuts, new_cache):
    ids = zoo.tokens(200)
    found = in_pieces(ours(name), ids, new_cache(ours(name)), *cuts)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_every_token_alone(name, new_cache):
    ids = zoo.tokens(140)
    found = one_by_one(ours(name), ids, new_cache(ours(name)), first=1)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_an_engine_with_two_threads(name, new_cache):
    """Of one's own; the rest of these tests has one thread."""
    geometry = new_cache(ours(name)).engine.geometry
    engine = Engine(geometry, "64MiB", threads=2, step_tokens=4096)
    ids = zoo.tokens(300)
    found = one_by_one(ours(name), ids, new_cache(ours(name), engine=engine), first=290)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_the_cache_counts_its_tokens(name, new_cache):
    cache = new_cache(ours(name))
    assert cache.get_seq_length() == 0
    logits_of(ours(name), zoo.tokens(70), cache)
    assert cache.get_seq_length() == 70
    logits_of(ours(name), zoo.tokens(1), cache)
    assert cache.get_seq_length() == 71


@pytest.mark.parametrize("name", zoo.KINDS)
def test_set_attn_implementation_on_a_stock_model(name, new_cache):
    model = zoo.build(name, "eager")
    model.set_attn_implementation("emblema")
    ids = zoo.tokens(90)
    assert_equal_logits(
        one_by_one(model, ids, new_cache(model), first=80), logits_of(zoo.stock(name), ids)
    )


@pytest.mark.parametrize("name", zoo.KINDS)
def test_only_the_last_logits_are_asked_for(name, new_cache):
    ids = zoo.tokens(100)
    found = logits_of(ours(name), ids, new_cache(ours(name)), logits_to_keep=1)
    assert_equal_logits(found, logits_of(zoo.stock(name), ids)[:, -1:])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_prompt_given_as_embeddings(name, new_cache):
    """Rows without token ids: computed right, whether or not the cache can share them."""
    ids = zoo.tokens(90)
    stock = logits_of(zoo.stock(name), ids)
    model, cache = ours(name), new_cache(ours(name))
    with torch.no_grad():
        embeddings = model.get_input_embeddings()(ids[:, :80])
    found = logits_of(model, None, cache, inputs_embeds=embeddings)
    assert_equal_logits(found, stock[:, :80])
    assert_equal_logits(logits_of(model, ids[:, 80:], cache), stock[:, 80:])


def test_every_model_type_that_is_called_tested_is_here():
    types = {animal.model_type for animal in zoo.ZOO.values()}
    assert types == TESTED_MODEL_TYPES


def test_a_wrong_row_is_found(new_cache):
    """The tolerance of this file is tight enough to see one token that was another one."""
    ids = zoo.tokens(200)
    other = ids.clone()
    other[0, 3] = 3 if other[0, 3] != 3 else 4
    found = logits_of(ours("llama"), other, new_cache(ours("llama")))[:, -1:]
    stock = logits_of(zoo.stock("llama"), ids)[:, -1:]
    assert relative_error(found, stock) > 10 * FLOAT32_TOLERANCE
