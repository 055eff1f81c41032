"""The bookkeeping between a batch of columns and the sequences of an engine.

transformers thinks in columns: a rectangle [batch][column] of tokens, padded, with a mask. Emblema
thinks in sequences of tokens. Here is which columns of each sequence are tokens; padding never
becomes a row.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import emblema

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def bool_mask(attention_mask: Any, batch: int, past: int, columns: int) -> Mask:
    """The mask [batch][past + columns] as booleans; all true where none is given.

    UnsupportedError: a mask that says more than which columns are padding. InvalidError: its shape.
    """
    wanted = (batch, past + columns)
    if attention_mask is None:
        return np.ones(wanted, dtype=bool)
    if not isinstance(attention_mask, torch.Tensor) or attention_mask.ndim != 2:
        raise emblema.UnsupportedError(
            f"attention_mask is {in_words(attention_mask)}; allowed: a tensor [batch][columns], "
            "1 for tokens and 0 for padding"
        )
    if tuple(attention_mask.shape) != wanted:
        raise emblema.InvalidError(
            f"attention_mask is {list(attention_mask.shape)}; allowed: {list(wanted)}, "
            f"{past} columns in the cache and {columns} new ones"
        )
    mask: Mask = attention_mask.detach().to("cpu", torch.bool).numpy()
    return mask


def in_words(given: Any) -> str:
    """What an argument is, for a message."""
    if isinstance(given, torch.Tensor):
        return f"a tensor {list(given.shape)}"
    return "missing" if given is None else f"a {type(given).__name__}"


def positions_of(
    position_ids: Any, batch: int, past: int, columns: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions [batch][columns] that the model rotates by; as transformers counts them where
    none are given. UnsupportedError: positions of more than one axis."""
    if position_ids is None:
        return np.broadcast_to(np.arange(past, past + columns, dtype=np.int64), (batch, columns))
    if not isinstance(position_ids, torch.Tensor) or position_ids.ndim > 2:
        raise emblema.UnsupportedError(
            f"position_ids is {in_words(position_ids)}; allowed: a tensor [batch][columns]"
        )
    given = position_ids.detach().to("cpu", torch.int64).numpy()
    given = given.reshape((-1, given.shape[-1]))
    if given.shape[-1] != columns or given.shape[0] not in (1, batch):
        raise emblema.InvalidError(
            f"position_ids is {list(position_ids.shape)}; allowed: [{batch}, {columns}] or "
            f"[1, {columns}]"
        )
    return np.broadcast_to(given, (batch, columns))


@dataclass
class Row:
    """One sequence of the batch."""

    sequence: emblema.Sequence
    stored: Mask  # [columns so far] which of them are tokens of the sequence
    offset: int  # position that the model gave its first token

    def tokens(self) -> int:
        """Tokens in the columns so far; a hit may hold more rows than these."""
        return int(self.stored.sum())


@dataclass
class Share:
    """One sequence's part of a step."""

    columns: np.ndarray[Any, np.dtype[np.intp]]  # of its tokens, in the step
    position: int  # of the first of them in the sequence


def share_of(index: int, row: Row, mask: Mask, positions: np.ndarray[Any, Any]) -> Share:
    """Where a row's tokens lie in a step with this mask [columns] and these positions [columns].

    UnsupportedError: positions that do not go on from token to token.
    """
    own = np.flatnonzero(mask)
    first = row.tokens()
    wanted = row.offset + first + np.arange(own.size)
    if not np.array_equal(positions[own], wanted):
        at = int(np.flatnonzero(positions[own] != wanted)[0])
        raise emblema.UnsupportedError(
            f"position_ids of sequence {index} has {int(positions[own][at])} for token "
            f"{first + at}; allowed: {int(wanted[at])}, one more than the token before: the cache "
            f"holds {first} tokens, and what follows them is given (a new EmblemaCache begins "
            "anew; packed sequences share none)"
        )
    return Share(own, first)


def masked_since(index: int, row: Row, mask: Mask) -> int:
    """How many of the last tokens of a row the mask [columns so far] no longer shows.

    transformers masks what a finished sequence was given while others went on. InvalidError: a mask
    that hides tokens before ones that it shows, or shows padding.
    """
    shown = row.stored & mask
    if (mask & ~row.stored).any():
        column = int(np.flatnonzero(mask & ~row.stored)[0])
        raise emblema.InvalidError(
            f"attention_mask of sequence {index} shows column {column}, which was padding when it "
            "was given; allowed: 0 there"
        )
    kept = int(shown.sum())
    tokens = np.flatnonzero(row.stored)
    if not shown[tokens[:kept]].all():
        raise emblema.UnsupportedError(
            f"attention_mask of sequence {index} hides tokens before ones that it shows; allowed: "
            "to hide the last ones"
        )
    return int(tokens.size) - kept
