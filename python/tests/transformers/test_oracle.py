"""The oracle itself: what the other tests compare with is worth comparing with."""

import pytest
import torch
import zoo
from compare import assert_same_greedy, decided_steps, mean_error, relative_error
from running import generate_with_logits, logits_of


def test_relative_error_is_the_largest_difference_over_the_largest_entry():
    stock = torch.tensor([[1.0, -4.0], [2.0, 0.0]])
    found = torch.tensor([[1.0, -4.0], [2.0, 0.5]])
    assert relative_error(found, stock) == 0.125
    assert mean_error(found, stock) == 0.125
    found[0, 0] = float("nan")
    assert relative_error(found, stock) == mean_error(found, stock) == float("inf")


def test_steps_after_a_near_tie_are_not_decided():
    sure, tie = torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 1.00005]])
    assert decided_steps((sure, sure, tie, sure)).tolist() == [2]


def test_other_greedy_tokens_are_found():
    model = zoo.stock("llama")
    stock = generate_with_logits(model, zoo.tokens(20), max_new_tokens=4)
    other = stock.sequences.clone()
    other[0, -1] = 3 if other[0, -1] != 3 else 4
    with pytest.raises(AssertionError):
        assert_same_greedy(other, stock, least=4)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_stock_float32_is_near_its_float64(name):
    """A tenth of the tolerance is left to stock's own rounding."""
    exact = zoo.build(name, "eager", torch.float64)
    exact.set_experts_implementation("eager")  # the grouped product takes no float64
    ids = zoo.tokens(300)
    assert relative_error(logits_of(zoo.stock(name), ids), logits_of(exact, ids)) < 2e-6


@pytest.mark.parametrize("name", zoo.ZOO)
def test_old_tokens_matter(name):
    """A model that forgot everything but the last tokens would not pass for this one."""
    ids = zoo.tokens(60)
    whole = logits_of(zoo.stock(name), ids)[:, -8:]
    recent = logits_of(zoo.stock(name), ids[:, -8:])
    assert relative_error(recent, whole) > 0.1
