"""What "equal to stock transformers" means here, in one place."""

from __future__ import annotations

import torch

FLOAT32_TOLERANCE = 1e-5
BFLOAT16_FACTOR = 1.25
BFLOAT16_POSITIONS = 256
DECIDED = 1e-4  # a gap between the two best logits from which on the best one is no accident


def relative_error(found: torch.Tensor, stock: torch.Tensor) -> float:
    """The largest |found - stock| divided by the largest |stock|, each over all entries.

    Both have one shape; computed in float64. A value that is not finite is an infinite error.
    """
    assert found.shape == stock.shape, f"shapes {tuple(found.shape)}, {tuple(stock.shape)}"
    if not torch.isfinite(found).all():
        return float("inf")
    found, stock = found.double(), stock.double()
    return ((found - stock).abs().max() / stock.abs().max()).item()


def assert_equal_logits(
    found: torch.Tensor, stock: torch.Tensor, tolerance: float = FLOAT32_TOLERANCE
) -> None:
    """Fails unless relative_error(found, stock) <= tolerance."""
    error = relative_error(found, stock)
    assert error <= tolerance, f"relative error {error:.2e} of logits, allowed {tolerance:.0e}"


def mean_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The mean of |found - exact| over all entries; infinite where a value is not finite."""
    assert found.shape == exact.shape, f"shapes {tuple(found.shape)}, {tuple(exact.shape)}"
    if not torch.isfinite(found).all():
        return float("inf")
    return (found.double() - exact.double()).abs().mean().item()


def assert_as_exact_as_stock(found: torch.Tensor, stock: torch.Tensor, exact: torch.Tensor) -> None:
    """Fails unless bfloat16 logits lie as near to the float32 model's as stock's bfloat16 do.

    Logits are [...][positions][vocabulary], of at least 256 positions; `exact` is the float32
    model's. The rule: mean_error(found, exact) <= 1.25 * mean_error(stock, exact).
    """
    assert exact.shape[:-1].numel() >= BFLOAT16_POSITIONS
    error, allowed = mean_error(found, exact), BFLOAT16_FACTOR * mean_error(stock, exact)
    assert error <= allowed, f"mean error {error:.3e} of bfloat16 logits, allowed {allowed:.3e}"


def decided_steps(logits: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """For each row of a batch, its steps before the first one that is nearly a tie, as [rows].

    logits: of each step, [rows][vocabulary], as generate returns them.
    """
    best = torch.stack(logits, dim=1).topk(2, dim=-1).values
    decided = (best[..., 0] - best[..., 1]) > DECIDED
    return decided.long().cumprod(dim=1).sum(dim=1)


def assert_same_greedy(found: torch.Tensor, stock, least: int = 1) -> None:
    """Fails unless `found` chose stock's tokens up to each row's first near tie.

    found: [rows][prompt and new tokens]; stock: what generate returned with
        return_dict_in_generate and output_logits. After a tie that fell otherwise, two texts are
        different texts; so a row is compared up to there, and it must be `least` steps.
    """
    prompt_tokens = stock.sequences.shape[1] - len(stock.logits)
    for row, steps in enumerate(decided_steps(stock.logits).tolist()):
        assert steps >= least, f"row {row}: only {steps} steps are decided"
        end = prompt_tokens + steps
        assert found[row, :end].tolist() == stock.sequences[row, :end].tolist(), f"row {row}"
