"""bfloat16: Emblema's logits lie as near to the float32 model's as stock's bfloat16 logits do."""

import pytest
import torch
import zoo
from compare import assert_as_exact_as_stock
from running import in_pieces, logits_of, one_by_one, ours, stock_cache

BF16 = torch.bfloat16


@pytest.mark.parametrize("name", zoo.EVERY)
def test_prompt(name, new_cache):
    ids = zoo.tokens(320)
    found = in_pieces(ours(name, BF16), ids, new_cache(ours(name, BF16)), 200)
    stock = in_pieces(zoo.stock(name, BF16), ids, stock_cache(zoo.stock(name, BF16)), 200)
    assert_as_exact_as_stock(found, stock, logits_of(zoo.stock(name), ids))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_token_by_token(name, new_cache):
    """Eight texts at once, 33 tokens of each computed alone after a prompt of 50."""
    ids = zoo.tokens(*8 * [83])
    found = one_by_one(ours(name, BF16), ids, new_cache(ours(name, BF16)), first=50)
    stock = one_by_one(zoo.stock(name, BF16), ids, stock_cache(zoo.stock(name, BF16)), first=50)
    exact = logits_of(zoo.stock(name), ids)
    assert_as_exact_as_stock(found[:, 50:], stock[:, 50:], exact[:, 50:])


def test_a_float32_cache_of_a_bfloat16_model_is_as_exact(new_cache):
    ids = zoo.tokens(300)
    model = ours("llama", BF16)
    found = in_pieces(model, ids, new_cache(model, kv_dtype="fp32"), 200)
    stock = logits_of(zoo.stock("llama", BF16), ids)
    assert_as_exact_as_stock(found, stock, logits_of(zoo.stock("llama"), ids))
