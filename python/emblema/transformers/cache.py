"""EmblemaCache: a transformers cache whose rows lie in the blocks of an engine."""

import weakref
from collections.abc import Callable
from collections.abc import Sequence as Sequences
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import Cache

import emblema
from emblema import _core
from emblema.transformers import forward, models, steps
from emblema.transformers.batch import (
    Mask,
    Row,
    bool_mask,
    in_words,
    masked_since,
    positions_of,
    share_of,
)
from emblema.transformers.cache_layer import CacheLayer
from emblema.transformers.latent import bypass_expansion, is_latent, up_projections_of
from emblema.transformers.starting import Identity, Starter

# Tokens that may be taken back exactly where windows would have let go of their rows: more than
# assisted decoding guesses at once (20 unless told otherwise).
_DRAFT_TOKENS = 64


class EmblemaCache(Cache):
    """The past of a batch of sequences, paged, shared and kept by an `emblema.Engine`.

        model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="emblema")
        model.generate(**inputs, cache=EmblemaCache(model))

    A cache is one conversation (or batch of them): give it to several calls to go on. A new cache
    of the same model finds what an earlier one computed: the same tokens from the first on, for the
    same tenant and salt, with the same weights.

    model       a causal language model on the CPU, loaded with attn_implementation="emblema"
    pool_bytes  memory for all caches of this model together: bytes or "4GiB"; None: a quarter of
                the machine's memory, taken as it is used
    kv_dtype    how rows are stored ("bf16", "fp8_ds_mla" ...); None: as the model computes
    engine      an engine of one's own in place of the model's, of the same geometry
    tenant      whose it is; other tenants' tokens are never found
    salt        a further word that must be equal to be found
    untested    True: tries a model type that the tests do not cover

    One thread at a time; caches of one model may be used from several. What it holds goes back with
    release(), or when it is deleted.

    UnsupportedError: the model, by name, and what is missing. InvalidError: an argument.
    """

    def __init__(
        self,
        model: models.Model,
        *,
        pool_bytes: int | str | None = None,
        kv_dtype: str | None = None,
        engine: emblema.Engine | None = None,
        tenant: str = "",
        salt: str = "",
        untested: bool = False,
    ) -> None:
        _check_arguments(pool_bytes, engine, tenant, salt, untested)
        models.check_model(model, untested)
        geometry = models.geometry_of(model, kv_dtype)
        models.check_rows(model, geometry)
        modules = models.attention_modules(model, len(geometry.layers))
        for module in modules:
            if is_latent(module):
                bypass_expansion(module)
        forward.install(model)
        self._model: Callable[[], models.Model] = weakref.ref(model)
        self._geometry = geometry
        self._up = {i: up_projections_of(m) for i, m in enumerate(modules) if is_latent(m)}
        self._value_widths = [layer.value_dim for layer in geometry.layers]
        self._windows = any(layer.window_tokens for layer in geometry.layers)
        self._pool_bytes = pool_bytes
        self._own_engine = engine is not None
        self._identity = (tenant, salt)
        if engine is not None and engine.geometry.fingerprint != geometry.fingerprint:
            raise emblema.InvalidError(
                f"engine has the geometry of {engine.geometry.attention_in_words}; allowed: the "
                f"model's, {geometry.attention_in_words}, stored alike"
            )
        self.engine = engine or models.engine_of(model, geometry, pool_bytes, 0)
        self._core: _core.Step | None = None  # kept for its scratch
        self._rows: list[Row] = []
        self._columns = 0
        self._is_anonymous = False
        self._forget_step()
        super().__init__(
            layers=[
                CacheLayer(self, layer.index, layer.window_tokens or None)
                for layer in geometry.layers
            ]
        )

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """Columns of the batch so far, padding included: what transformers calls its length."""
        return self._columns

    @property
    def sequences(self) -> list[emblema.Sequence]:
        """The engine's sequence of each row of the batch. Theirs to read, not to write."""
        return [row.sequence for row in self._rows]

    @property
    def hit_tokens(self) -> list[int]:
        """Tokens of each row that were found when it began."""
        return [row.sequence.hit_tokens for row in self._rows]

    @property
    def batch_size(self) -> int:
        """Rows of the batch, -1 before the first call."""
        return len(self._rows) or -1

    @property
    def is_initialized(self) -> bool:
        """Whether anything is held."""
        return bool(self._rows)

    def why(self, input_ids: torch.Tensor) -> emblema.WhyReport:
        """What a new cache would find of these tokens [columns] or [1][columns], and why not the
        rest. Changes nothing. Where the whole prompt can be found (no windows), the report has one
        token more, for the one that comes next."""
        if not isinstance(input_ids, torch.Tensor) or input_ids.is_floating_point():
            raise emblema.InvalidError(
                f"input_ids is {in_words(input_ids)}; allowed: a tensor of token ids"
            )
        if input_ids.ndim > 2 or (input_ids.ndim == 2 and input_ids.shape[0] != 1):
            raise emblema.InvalidError(
                f"input_ids is {list(input_ids.shape)}; allowed: [columns] or [1, columns]"
            )
        tokens = input_ids.detach().to("cpu", torch.int64).flatten().numpy()
        return self._starter().why(tokens)

    def __repr__(self) -> str:
        return (
            f"EmblemaCache({self._geometry.attention_in_words}, {len(self._rows)} sequences, "
            f"{self._columns} columns)"
        )

    # ---- a step: what forward.py calls -----------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a forward is on its way."""
        return self._step is not None

    def _forget_step(self) -> None:
        self._step: steps.RunningStep | None = None
        self._token: Any = None
        self._is_first = False
        self._held: list[int] = []  # tokens of each row before the step
        self._pending: list[np.ndarray[Any, Any]] = []
        self._mask: Mask = np.zeros((0, 0), dtype=bool)

    def begin(
        self,
        module: nn.Module,
        input_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        attention_mask: Any,
        position_ids: Any,
        keep: int | None,
    ) -> int:
        """Prepares a forward over these tokens; gives back how many columns need not be computed.

        keep: so many of the last columns are computed in any case; None: all of them. On an error
        the cache is as before.
        """
        self._check_model(module)
        given = input_ids if input_ids is not None else inputs_embeds
        wanted = 2 if input_ids is not None else 3
        if not isinstance(given, torch.Tensor) or given.ndim != wanted:
            raise emblema.InvalidError(
                f"input_ids is {in_words(given)}; allowed: a tensor [batch][columns]"
            )
        if input_ids is None and self._rows and not self._is_anonymous:
            raise emblema.UnsupportedError(
                "inputs_embeds behind tokens, which are found by their ids; allowed: input_ids, or "
                "a new EmblemaCache that begins with inputs_embeds"
            )
        batch, columns = int(given.shape[0]), int(given.shape[1])
        if columns == 0:
            raise emblema.InvalidError(
                f"input_ids has no tokens behind the {self._columns} columns that the cache holds; "
                "allowed: the whole text with what is new, or a new EmblemaCache"
            )
        mask = bool_mask(attention_mask, batch, self._columns, columns)
        positions = positions_of(position_ids, batch, self._columns, columns)
        ids = None if input_ids is None else input_ids.detach().to("cpu", torch.int64).numpy()
        skipped = 0
        self._is_first = not self._rows
        if self._is_first:
            self._is_anonymous = input_ids is None
        try:
            if self._is_first:
                skipped = self._start(ids, mask, positions, keep)
            else:
                self._follow_mask(batch, mask[:, : self._columns])
            self._prepare(
                ids, mask[:, self._columns :], positions[:, skipped:], columns - skipped, skipped
            )
        except BaseException:
            self._take_back()
            raise
        assert self._step is not None
        self._token = steps.enter(self._step)
        return skipped

    def _check_model(self, module: nn.Module) -> None:
        model = self._model()
        if model is None or module not in (model, model.base_model):
            raise emblema.InvalidError(
                f"cache belongs to another model than this {models.name_of(module)}; allowed: "
                "EmblemaCache(model) of the model that is called"
            )
        models.check_attention(model)

    def _start(
        self, ids: Any, mask: Mask, positions: np.ndarray[Any, Any], keep: int | None
    ) -> int:
        for up in self._up.values():
            up.look()
        self._rows, self._columns = self._starter().start(ids, mask, positions, keep)
        return self._columns

    def _starter(self) -> Starter:
        model = self._model()
        if model is None:
            raise emblema.InvalidError("the model of this EmblemaCache is gone")
        is_shared = not models.rotates_by_length(model)
        identity = Identity(*self._identity, models.weights_state(model), is_shared)
        return Starter(self.engine, identity, self._windows)

    def _follow_mask(self, batch: int, mask: Mask) -> None:
        if batch != len(self._rows):
            raise emblema.InvalidError(
                f"input_ids has {batch} sequences; allowed: {len(self._rows)}, as in the cache"
            )
        hidden = [masked_since(i, row, mask[i]) for i, row in enumerate(self._rows)]
        if not any(hidden):
            return
        self._truncate([row.tokens() - hidden[i] for i, row in enumerate(self._rows)])
        for index, row in enumerate(self._rows):
            row.stored = row.stored & mask[index]

    def _prepare(
        self, ids: Any, mask: Mask, positions: np.ndarray[Any, Any], columns: int, skipped: int
    ) -> None:
        shares = [
            share_of(i, row, mask[i], positions[i]) for i, row in enumerate(self._rows)
        ]
        self._held = [row.sequence.tokens for row in self._rows]
        self._pending = []
        for index, (row, share) in enumerate(zip(self._rows, shares, strict=True)):
            new = max(share.position + share.columns.size - row.sequence.tokens, 0)
            self._reserve(row, new)
            own = skipped + share.columns[share.columns.size - new :]
            self._pending.append(np.zeros(new, np.int64) if ids is None else ids[index, own])
        if self._core is None:
            self._core = _core.Step(self.engine)
        self._core.begin(
            [
                (row.sequence, share.columns.tolist(), share.position)
                for row, share in zip(self._rows, shares, strict=True)
            ],
            columns,
        )
        self._mask = mask
        self._step = steps.RunningStep(self._core, self._value_widths, self._up, self._configs())

    def _configs(self) -> list[Any]:
        model = self._model()
        return [model.config, models.text_config(model)]

    def _reserve(self, row: Row, tokens: int) -> None:
        try:
            row.sequence.reserve(tokens)
        except emblema.InvalidError as error:  # a step has a longest length, and nothing else
            raise emblema.InvalidError(
                f"input_ids has {tokens} new tokens for a sequence: {error}; longer prompts in "
                "pieces (prefill_chunk_size), or an engine with larger step_tokens"
            ) from None

    def _take_back(self) -> None:
        if self._is_first or not self._rolled_back():
            self._let_go()
        self._forget_step()

    # Whoever was interrupted between two commits has rows that count for some sequences only.
    def _rolled_back(self) -> bool:
        """Gives back what the step reserved or committed. False: a window let go of what that
        would need, and the cache can only begin anew."""
        for row in self._rows:
            row.sequence.cancel()
        over = [
            row.sequence.truncate(held)[1]
            for row, held in zip(self._rows, self._held, strict=False)  # none: nothing was begun
            if row.sequence.tokens > held
        ]
        return not any(over)

    def store(
        self, key: torch.Tensor, value: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores one layer's new rows; what the model's layers call through update()."""
        if self._step is None:
            raise emblema.InvalidError(
                "the cache was given to a part of its model, or to another one; allowed: the model "
                "it was made for, whose tokens it sees"
            )
        return self._step.update(key, value, layer)

    def finish(self) -> None:
        """Ends a forward that went well: its rows are accepted and can be found."""
        mask, pending = self._mask, self._pending
        stored = [np.concatenate((row.stored, mask[i])) for i, row in enumerate(self._rows)]
        for row, ids in zip(self._rows, pending, strict=True):
            row.sequence.commit(ids)
        for row, columns in zip(self._rows, stored, strict=True):
            row.stored = columns
        self._columns += mask.shape[1]
        steps.leave(self._token)
        self._forget_step()

    def check_attended(self) -> None:
        """UnsupportedError: a layer that did not attend through attention "emblema"."""
        assert self._step is not None
        self._step.check_complete(len(self._value_widths))

    def abandon(self) -> None:
        """Ends a forward that failed: its rows are given back."""
        if self._step is None:
            return
        steps.leave(self._token)
        self._take_back()

    # ---- what transformers asks for --------------------------------------------------------------

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns so far, padding included."""
        return self._columns

    def crop(self, tokens_to_remove: int) -> None:
        """Takes back the last columns: -n takes back n (n > 0: all but the first n, as before).

        UnsupportedError: a window has let go of rows that the shorter sequence needs.
        """
        if not isinstance(tokens_to_remove, int):
            raise emblema.InvalidError(
                f"tokens_to_remove is a {type(tokens_to_remove).__name__}; allowed: an int"
            )
        kept = tokens_to_remove if tokens_to_remove > 0 else self._columns + tokens_to_remove
        if kept >= self._columns:
            return
        if kept < 0:
            raise emblema.InvalidError(
                f"crop of {-tokens_to_remove} columns; allowed: up to the {self._columns} held"
            )
        self._truncate([int(row.stored[:kept].sum()) for row in self._rows])
        for row in self._rows:
            row.stored = row.stored[:kept]
        self._columns = kept

    def _truncate(self, tokens: list[int]) -> None:
        """Takes each row back to so many tokens, or, where one cannot be, none of them."""
        short = [i for i, row in enumerate(self._rows) if tokens[i] < row.sequence.tokens]
        if not self._windows:  # every row is held
            for i in short:
                self._rows[i].sequence.truncate(tokens[i])
            return
        forks = {i: self._rows[i].sequence.fork() for i in short}
        lost = [forks[i].truncate(tokens[i])[1] for i in short]
        if any(lost):
            for fork in forks.values():
                fork.release()
            raise emblema.UnsupportedError(
                f"crop to {tokens} tokens: a window let go of {max(lost)} that would be needed "
                "again; allowed: fewer, or activate_past_recording() before the first call"
            )
        for i, fork in forks.items():
            self._rows[i].sequence.release()
            self._rows[i].sequence = fork

    def activate_past_recording(self) -> None:
        """Keeps what windows need to take back up to 64 tokens. Before the first call."""
        if self._windows and not self._rows and not self._own_engine:
            model = self._model()
            assert model is not None
            self.engine = models.engine_of(model, self._geometry, self._pool_bytes, _DRAFT_TOKENS)
            self._core = None

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Row i goes on from what row beam_idx[i] holds; nothing is copied but a last block."""
        self._select(beam_idx.tolist())

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps these rows, in this order."""
        if indices.dtype == torch.bool:
            indices = torch.nonzero(indices).flatten()
        self._select(indices.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so many times, one after the other."""
        self._select([i for i in range(len(self._rows)) for _ in range(repeats)])

    def _select(self, indices: Sequences[int]) -> None:
        for index in indices:
            if not 0 <= index < len(self._rows):
                raise emblema.InvalidError(
                    f"row {index} of the batch; allowed: 0 to {len(self._rows) - 1}"
                )
        if not indices:
            self.release()
        chosen = [self._rows[i] for i in indices]
        rows, used = [], set()
        for row in chosen:
            is_first = id(row) not in used
            used.add(id(row))
            sequence = row.sequence if is_first else row.sequence.fork()
            rows.append(Row(sequence, row.stored.copy(), row.offset))
        for row in self._rows:
            if id(row) not in used:
                row.sequence.release()
        self._rows = rows

    def fork(self) -> "EmblemaCache":
        """A second cache with the same past; both go on by themselves. Nothing is copied."""
        if self.is_running:
            raise emblema.InvalidError("fork during a forward; allowed: between calls")
        other = object.__new__(EmblemaCache)
        other.__dict__.update(self.__dict__)
        other._core = None
        other.layers = [
            CacheLayer(other, layer.index, layer.window_tokens or None)
            for layer in self._geometry.layers
        ]
        other._rows = [
            Row(row.sequence.fork(), row.stored.copy(), row.offset) for row in self._rows
        ]
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "EmblemaCache":
        return self.fork()

    def release(self) -> None:
        """Gives everything back; what was sealed can still be found. The cache is empty again."""
        if self.is_running:
            raise emblema.InvalidError("release during a forward; allowed: between calls")
        self._let_go()

    def _let_go(self) -> None:
        for row in self._rows:
            row.sequence.release()
        self._rows = []
        self._columns = 0

    def reset(self) -> None:
        """The same, by the name that transformers uses."""
        self.release()


def _check_arguments(
    pool_bytes: Any, engine: Any, tenant: Any, salt: Any, untested: Any
) -> None:
    """InvalidError, naming the first argument of another type than allowed."""
    for name, given, kinds, allowed in (
        ("pool_bytes", pool_bytes, (int, str, type(None)), "a number, '4GiB', or None"),
        ("engine", engine, (emblema.Engine, type(None)), "an emblema.Engine, or None"),
        ("tenant", tenant, (str,), "a str"),
        ("salt", salt, (str,), "a str"),
        ("untested", untested, (bool,), "True or False"),
    ):
        if not isinstance(given, kinds):
            raise emblema.InvalidError(f"{name} is {given!r}; allowed: {allowed}")
