"""How the sequences of a new batch begin: what of their prompts is found, and what of that can be
used when the batch is one rectangle of columns."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import emblema
from emblema.transformers.batch import Mask, Row

Ids = np.ndarray[Any, np.dtype[np.int64]]
_unshared = itertools.count()


def _apart() -> str:
    """A word that no other sequence has."""
    return f"/unshared {next(_unshared)}"


@dataclass(frozen=True)
class Identity:
    """What must be equal, beside tokens, for rows to be found."""

    tenant: str
    salt: str
    weights: str  # models.weights_state
    is_shared: bool = True  # False: nothing is found, and nothing can be found later


class Starter:
    """Starts sequences on one engine for one forward."""

    def __init__(self, engine: emblema.Engine, identity: Identity, has_windows: bool) -> None:
        self._engine = engine
        self._identity = identity
        self._has_windows = has_windows

    def start(
        self, ids: Ids | None, mask: Mask, positions: Ids, keep: int | None
    ) -> tuple[list[Row], int]:
        """Sequences for ids [batch][columns] (None: not known) and the columns to be skipped: all
        rows of them are there, for every sequence. keep: of the last so many columns, none; None:
        none at all. On an error nothing is held."""
        rows: list[Row] = []
        try:
            for index, shown in enumerate(mask):
                own = np.flatnonzero(shown)
                offset = int(positions[index, own[0]]) if own.size else 0
                tokens = None if ids is None else ids[index, own]
                sequence = self._found(tokens, offset)
                rows.append(Row(sequence, np.zeros(0, dtype=bool), offset))
            skipped = self._skippable(rows, ids, mask, 0 if keep is None else mask.shape[1] - keep)
        except BaseException:
            for row in rows:
                row.sequence.release()
            raise
        for row, shown in zip(rows, mask, strict=True):
            row.stored = shown[:skipped].copy()
        return rows, skipped

    # What is found is whole blocks, and at most all but one token of what is asked for. With a
    # token more asked for, that can be the whole prompt: its last token then asks and is not stored
    # again. Not with windows, which have let go of what that token would see.
    def _asked(self, tokens: Ids) -> Ids:
        return tokens if self._has_windows else np.append(tokens, 0)

    def _found(self, tokens: Ids | None, offset: int) -> emblema.Sequence:
        salt = self._salt(offset)
        if tokens is None:  # embeddings: nothing can be known to be equal
            tokens = np.zeros(0, dtype=np.int64)
            salt += _apart()
        sequence = self._engine.start(self._asked(tokens), tenant=self._identity.tenant, salt=salt)
        sequence.truncate(sequence.tokens)  # what was asked for is no promise of what comes
        return sequence

    def _salt(self, offset: int) -> str:
        who = self._identity
        salt = f"{len(who.salt)}:{who.salt}/weights {who.weights}/offset {offset}"
        return salt if who.is_shared else salt + _apart()

    def why(self, tokens: Ids) -> emblema.WhyReport:
        """What would be found of a prompt whose first token has position 0."""
        tenant, salt = self._identity.tenant, self._salt(0)
        return self._engine.why(self._asked(tokens), tenant=tenant, salt=salt)

    def _skippable(self, rows: list[Row], ids: Ids | None, mask: Mask, most: int) -> int:
        """Columns of which every row is there. A window has let go of rows before what was found:
        a sequence that must begin before that starts again, with less."""
        while True:
            skipped = max(most, 0)
            for row, shown in zip(rows, mask, strict=True):
                own = np.flatnonzero(shown)
                if row.sequence.tokens < own.size:
                    skipped = min(skipped, int(own[row.sequence.tokens]))
            if not self._has_windows or ids is None:
                return skipped
            again = False
            for index, row in enumerate(rows):
                before = int(mask[index, :skipped].sum())
                if row.sequence.tokens > before:
                    own = np.flatnonzero(mask[index])
                    row.sequence.release()
                    row.sequence = self._found(ids[index, own[: before + 1]], row.offset)
                    again |= row.sequence.tokens < before
            if not again:
                return skipped
            most = skipped
