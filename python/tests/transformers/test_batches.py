"""Batches of prompts of unequal lengths: a padding token is nothing to any other token."""

import pytest
import torch
import zoo
from compare import assert_equal_logits
from running import generate, generate_with_logits, logits_of, ours

LENGTHS = (70, 1, 129, 64)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Positions of tokens as generate gives them: the first token of each row is at 0."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def alone(name: str, ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    """Stock's logits of each row's tokens, each row computed alone and without padding."""
    return [logits_of(zoo.stock(name), row[None])[0] for row in kept(ids, mask)]


def kept(rows: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    """Of each row what belongs to tokens."""
    return [row[shown.bool()] for row, shown in zip(rows, mask, strict=True)]


def assert_rows_equal(found: torch.Tensor, mask: torch.Tensor, stock: list) -> None:
    for row, expected in zip(kept(found, mask), stock, strict=True):
        assert_equal_logits(row, expected)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_padding_on_the_left(name, new_cache):
    ids, mask = zoo.tokens(*LENGTHS), zoo.mask_of(*LENGTHS)
    found = logits_of(
        ours(name), ids, new_cache(ours(name)), attention_mask=mask, position_ids=positions(mask)
    )
    assert_rows_equal(found, mask, alone(name, ids, mask))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_padding_on_the_left_where_positions_count_it(name, new_cache):
    """Without position_ids stock counts padding as positions; its own padded run is the oracle."""
    ids, mask = zoo.tokens(*LENGTHS), zoo.mask_of(*LENGTHS)
    stock = logits_of(zoo.stock(name), ids, attention_mask=mask)
    found = logits_of(ours(name), ids, new_cache(ours(name)), attention_mask=mask)
    assert_rows_equal(found, mask, kept(stock, mask))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rows_at_other_positions_are_other_rows(name, new_cache):
    """The same tokens, once from position 0, once after padding that is counted as positions."""
    ids, mask = zoo.tokens(150, 200), zoo.mask_of(150, 200)
    for counted in (False, True, False):
        where = {} if counted else {"position_ids": positions(mask)}
        stock = logits_of(zoo.stock(name), ids, attention_mask=mask, **where)
        found = logits_of(ours(name), ids, new_cache(ours(name)), attention_mask=mask, **where)
        assert_rows_equal(found, mask, kept(stock, mask))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_padding_on_the_right_then_next_tokens(name, new_cache):
    padding = [max(LENGTHS) - length for length in LENGTHS]
    rows = zip(zoo.tokens(*LENGTHS), padding, strict=True)
    ids = torch.stack([row.roll(-count) for row, count in rows])
    mask = zoo.mask_of(*LENGTHS).flip(1)
    cache = new_cache(ours(name))
    found = logits_of(ours(name), ids, cache, attention_mask=mask)
    assert_rows_equal(found, mask, alone(name, ids, mask))

    new_ids = zoo.tokens(2, 2, 2, 2, seed=5)
    whole_mask = torch.cat([mask, torch.ones_like(new_ids)], dim=1)
    found = logits_of(
        ours(name),
        new_ids,
        cache,
        attention_mask=whole_mask,
        position_ids=positions(whole_mask)[:, -2:],
    )
    stock = alone(name, torch.cat([ids, new_ids], dim=1), whole_mask)
    for row, expected in zip(found, stock, strict=True):
        assert_equal_logits(row, expected[-2:])


@pytest.mark.parametrize("name", zoo.EVERY)
def test_greedy_of_a_batch_is_greedy_of_each_row(name, new_cache):
    ids, mask = zoo.tokens(*LENGTHS), zoo.mask_of(*LENGTHS)
    found = generate_with_logits(
        ours(name), ids, new_cache(ours(name)), attention_mask=mask, max_new_tokens=8
    )
    for i, row in enumerate(kept(ids, mask)):
        stock = generate_with_logits(zoo.stock(name), row[None], max_new_tokens=8)
        assert found.sequences[i, -8:].tolist() == stock.sequences[0, -8:].tolist()
        assert_equal_logits(torch.stack(found.logits)[:, i], torch.stack(stock.logits)[:, 0])


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rows_that_end_early(name, new_cache):
    """A row that chose its end gets padding from generate; the others go on undisturbed."""
    ids, mask = zoo.tokens(*LENGTHS), zoo.mask_of(*LENGTHS)
    free = generate(zoo.stock(name), ids, attention_mask=mask, max_new_tokens=12)
    ends = {"eos_token_id": [int(free[0, -9]), int(free[2, -5])], "max_new_tokens": 12}
    stock = generate(zoo.stock(name), ids, attention_mask=mask, **ends)
    assert (stock[:, -1] == zoo.PAD).any() and not (stock[:, -1] == zoo.PAD).all()
    found = generate(ours(name), ids, new_cache(ours(name)), attention_mask=mask, **ends)
    assert found.tolist() == stock.tolist()


@pytest.mark.parametrize("name", zoo.KINDS)
def test_two_equal_rows_of_a_batch(name, new_cache):
    ids = zoo.tokens(150).repeat(3, 1)
    found = generate_with_logits(ours(name), ids, new_cache(ours(name)), max_new_tokens=4)
    stock = generate_with_logits(zoo.stock(name), ids, max_new_tokens=4)
    assert_equal_logits(torch.stack(found.logits), torch.stack(stock.logits))


@pytest.mark.parametrize("name", zoo.KINDS)
def test_rows_chosen_and_repeated(name, new_cache):
    """batch_select_indices and batch_repeat_interleave, then other tokens for every row."""
    ids = zoo.tokens(100, 100, 100)
    cache = new_cache(ours(name))
    logits_of(ours(name), ids, cache)
    cache.batch_select_indices(torch.tensor([2, 0]))
    cache.batch_repeat_interleave(2)
    new_ids = zoo.tokens(3, 3, 3, 3, seed=9)
    found = logits_of(ours(name), new_ids, cache)
    whole = torch.cat([ids[[2, 2, 0, 0]], new_ids], dim=1)
    assert_equal_logits(found, logits_of(zoo.stock(name), whole)[:, -3:])
