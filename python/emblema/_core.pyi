"""The engine behind the package emblema; import emblema, not this."""

from collections.abc import Iterable, Sequence as _Sequence
import fractions
import os
from typing import Any

import numpy.typing


class EmblemaError(Exception):
    """
    What every error of the engine is. The message is one line: what, which field,
    the value, what is allowed.
    """

class NotFoundError(EmblemaError, LookupError):
    """It is not there; nothing was changed."""

class CorruptError(EmblemaError):
    """Stored bytes are not what was written; they are out of use."""

class OutOfBlocksError(EmblemaError, MemoryError):
    """
    No room in the pool: release something, or open a larger pool; nothing was taken.
    """

class IoError(EmblemaError, OSError):
    """The operating system refused; the message has its reason."""

class InvalidError(EmblemaError, ValueError):
    """An argument or input is wrong: correct it; nothing was changed."""

class UnsupportedError(EmblemaError, NotImplementedError):
    """
    Legal, but not served by this build: the message names what is missing.
    """

def run_command(arguments: _Sequence[str]) -> tuple[int, str, str]:
    """
    Runs `emblema ARGUMENTS...` in this process: (exit code, output, complaint). The
    complaint is one line, "" where nothing is wrong. Reads and writes the files
    that the command does.
    """

def command_output(arguments: _Sequence[str]) -> str:
    """
    The output of `emblema ARGUMENTS...`, run in this process, or the error of the code
    that the command failed with.
    """

def run_command_line(arguments: _Sequence[str]) -> int:
    """
    The same as a program does it: writes to standard output and standard error,
    with a bar of progress on a terminal, and gives the exit code.
    """

class LayerFacts:
    """
    One layer of a ModelConfig: what it attends to, and the widths that its cache
    follows from.
    """

    @property
    def reach(self) -> str:
        """What it sees: "full", "window" or "chunk"."""

    @property
    def window_tokens(self) -> int:
        """Length of the window or chunk in tokens; 0 without one."""

    @property
    def cache(self) -> str:
        """Whose keys and values: "own", "shared", "cross" or "none"."""

    @property
    def num_attention_heads(self) -> int:
        """Query heads."""

    @property
    def num_key_value_heads(self) -> int:
        """KV heads of grouped attention."""

    @property
    def head_dim(self) -> int:
        """Width of a key of grouped attention."""

    @property
    def v_head_dim(self) -> int:
        """Width of a value of grouped attention."""

    @property
    def has_sinks(self) -> bool:
        """A learned logit for each head joins the softmax."""

    @property
    def has_rope(self) -> bool:
        """Queries and keys are rotated by position."""

class ModelConfig:
    """
    Facts of one model, read from a config.json and checked: no derived number is
    here (see Geometry). Made by load() or from_json().
    """

    @staticmethod
    def load(source: str | os.PathLike[str]) -> ModelConfig:
        """
        Reads a preset ("deepseek-v3"), a config.json, or the folder that holds one.

        NotFoundError: no such preset or file, with the nearest names. InvalidError:
        names the field, its value and what is allowed. UnsupportedError: an attention
        that is not known here.
        """

    @staticmethod
    def from_json(json: str | dict[str, Any], name: str = 'config') -> ModelConfig:
        """
        Reads the text of a config.json, or its content as a dict. `name` stands for the
        model in messages. Errors as load().
        """

    @property
    def name(self) -> str:
        """Preset, file or the name given."""

    @property
    def model_type(self) -> str:
        """Of the language part."""

    @property
    def architectures(self) -> list[str]:
        """As the config lists them."""

    @property
    def family(self) -> str:
        """"grouped", "latent" or "compressed"."""

    @property
    def hidden_size(self) -> int:
        """0 where the config does not say."""

    @property
    def num_hidden_layers(self) -> int:
        """Without draft layers."""

    @property
    def num_attention_heads(self) -> int:
        """Of the widest layer."""

    @property
    def max_positions(self) -> int:
        """0 where the config does not say."""

    @property
    def q_lora_rank(self) -> int | None:
        """Of latent attention; None: queries straight from the hidden state."""

    @property
    def kv_lora_rank(self) -> int:
        """Width of a latent; 0 of other attention."""

    @property
    def qk_nope_head_dim(self) -> int:
        """Of latent attention: channels of a head without rotation."""

    @property
    def qk_rope_head_dim(self) -> int:
        """Of latent attention: channels of a head that rotate."""

    @property
    def v_head_dim(self) -> int:
        """Of latent attention: width of a head's value."""

    @property
    def num_nextn_predict_layers(self) -> int:
        """Draft (MTP) layers, not in `layers`."""

    @property
    def layers(self) -> list[LayerFacts]:
        """num_hidden_layers of them."""

    @property
    def notes(self) -> list[str]:
        """What was assumed or ignored, in sentences."""

    @property
    def source(self) -> str:
        """What load() was given; "" of a text."""

    @property
    def json(self) -> str:
        """The text that from_json() was given, else ""."""

    def __repr__(self) -> str: ...

def presets() -> list[str]:
    """Names of the models that come with the package, sorted."""

class Stream:
    """One kind of thing that a layer remembers."""

    @property
    def role(self) -> str:
        """
        "kv", "latent", "indexer", "compressed", "window", "compressor",
        "state" or "cross".
        """

    @property
    def encodings(self) -> list[str]:
        """The runs of numbers of one row, in order: "k 1024 x bf16"."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""

    @property
    def stride_tokens(self) -> int:
        """Tokens for each row."""

    @property
    def retention(self) -> str:
        """How long rows stay: "growing", "window", "fixed", "chunk", "encoder"."""

    @property
    def retention_tokens(self) -> int:
        """Of a window or chunk its length; of the others the rows kept."""

    @property
    def placement(self) -> str:
        """"paged" in blocks, or in the "arena"."""

class LayerGeometry:
    """How one layer attends, and over which rows."""

    @property
    def index(self) -> int:
        """In Geometry.layers."""

    @property
    def model_layer(self) -> int:
        """In the model."""

    @property
    def kind(self) -> str:
        """"mha", "gqa", "mqa", "mla", "mla+dsa", "cross" ..."""

    @property
    def window_tokens(self) -> int:
        """0: sees everything before it."""

    @property
    def chunk_tokens(self) -> int:
        """0: no chunks."""

    @property
    def shares_with(self) -> int | None:
        """The layer whose rows it reads; None: its own."""

    @property
    def is_draft(self) -> bool:
        """A draft (MTP) layer."""

    @property
    def query_heads(self) -> int:
        """Of this rank."""

    @property
    def kv_heads(self) -> int:
        """Of this rank; 1 for latents."""

    @property
    def key_dim(self) -> int:
        """
        Width of a query and of a cached key; of latents their width and the rotary key's.
        """

    @property
    def value_dim(self) -> int:
        """Width of a cached value; of latents the latent's."""

    @property
    def scale(self) -> float:
        """Of the softmax."""

    @property
    def softcap(self) -> float:
        """0: none."""

    @property
    def has_sinks(self) -> bool:
        """A learned logit for each head joins the softmax."""

    @property
    def has_rope(self) -> bool:
        """Queries and keys are rotated by position."""

    @property
    def streams(self) -> list[Stream]:
        """What it remembers; none where it shares."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the first stream; 0 without one."""

class Geometry:
    """What a model must remember, exactly. Immutable; any thread may read."""

    def __init__(self, model: str | os.PathLike[str] | dict[str, Any] | ModelConfig, *, kv_dtype: str = 'bf16', indexer_dtype: str | None = None, state_dtype: str | None = None, block_tokens: int = 0, layers: int = 0, first_layer: int = 0, tensor_parallel: int = 1, tensor_rank: int = 0, speculative_mtp: bool = False, encoder_tokens: int = 0) -> None:
        """
        kv_dtype: "bf16", "fp16", "fp32", "fp8", "fp8_ds_mla" ... block_tokens
        0: derived, else a multiple of the derived number. layers 0: all, else so many
        from first_layer on. tensor_parallel: ranks that share the heads.

        InvalidError: names the option, its value and what is allowed. UnsupportedError:
        a type that has no meaning for this attention.
        """

    @property
    def name(self) -> str:
        """The model's."""

    @property
    def kv_dtype(self) -> str:
        """How rows are stored: "bf16" ..."""

    @property
    def layers(self) -> list[LayerGeometry]:
        """One LayerGeometry for each layer."""

    @property
    def groups(self) -> list[str]:
        """Names of the groups of blocks: "growing", "window 128" ..."""

    @property
    def block_tokens(self) -> list[int]:
        """Tokens of a block, for each group."""

    @property
    def has_arena(self) -> bool:
        """
        Something is kept outside blocks: windows of DeepSeek-V4, recurrent state.
        """

    @property
    def attention_in_words(self) -> str:
        """"61 x MLA\""""

    @property
    def growing_bytes_per_token(self) -> fractions.Fraction:
        """Payload of one more token, exactly; windows do not grow."""

    def bytes_per_sequence(self, tokens: int) -> int:
        """
        Payload of one sequence of so many tokens: windows capped, strides floored, no
        rounding to blocks.
        """

    @property
    def fixed_bytes_per_sequence(self) -> int:
        """The cap that windows and chunks reach."""

    @property
    def state_bytes_per_sequence(self) -> int:
        """Recurrent and compressor state."""

    @property
    def fingerprint(self) -> bytes:
        """32 bytes, equal where the bytes of two caches are interchangeable."""

    def __repr__(self) -> str: ...

class BlockStats:
    """Counters since the engine was opened."""

    @property
    def prefix_hits(self) -> int:
        """Look-ups that found something."""

    @property
    def prefix_hit_tokens(self) -> int:
        """Tokens found by start()."""

    @property
    def segment_hits(self) -> int:
        """Segments found whole."""

    @property
    def segment_hit_tokens(self) -> int:
        """Their tokens."""

    @property
    def missed_tokens_never_stored(self) -> int:
        """Tokens of whole blocks that were looked for and never stored."""

    @property
    def missed_tokens_evicted(self) -> int:
        """The same, of blocks that were evicted."""

    @property
    def missed_tokens_unknown(self) -> int:
        """Never stored, or evicted before the record begins."""

    @property
    def stored_blocks(self) -> int:
        """Blocks that became findable."""

    @property
    def content_shared_blocks(self) -> int:
        """Blocks merged after all their bytes compared equal."""

    @property
    def content_collisions(self) -> int:
        """Equal digest, other bytes: a security signal."""

    @property
    def key_collisions(self) -> int:
        """Equal key, other content."""

    @property
    def duplicate_unequal(self) -> int:
        """Equal key and content, other bytes: kept private."""

    @property
    def evicted_entries(self) -> int:
        """Entries that went."""

    @property
    def evicted_for_memory(self) -> int:
        """Because memory was wanted."""

    @property
    def evicted_when_asked(self) -> int:
        """By evict_idle()."""

    @property
    def evicted_superseded(self) -> int:
        """Snapshots, by the next of their turn."""

    @property
    def evicted_blocks(self) -> int:
        """Blocks that came free so."""

    @property
    def refused_for_blocks(self) -> int:
        """OutOfBlocksError."""

    @property
    def copied_blocks(self) -> int:
        """Copies on write."""

    @property
    def zeroed_blocks(self) -> int:
        """Blocks cleared because their tenant changed."""

    @property
    def dead_keys(self) -> int:
        """Evictions that why() can name now."""

    @property
    def dead_keys_forgotten(self) -> int:
        """Evictions that it cannot."""

    def __repr__(self) -> str: ...

class BlockCounts:
    """Blocks at this moment: free + open + referenced + idle = capacity."""

    @property
    def capacity(self) -> int:
        """All blocks."""

    @property
    def free(self) -> int:
        """Nobody has them."""

    @property
    def open(self) -> int:
        """Being written."""

    @property
    def referenced(self) -> int:
        """Sealed, held by sequences or segments."""

    @property
    def idle(self) -> int:
        """Sealed, held by none, still findable."""

    @property
    def holds(self) -> int:
        """Blocks as their holders see them."""

    @property
    def entries(self) -> int:
        """Ways to find a block."""

    @property
    def logical_bytes(self) -> int:
        """holds x block bytes."""

    @property
    def physical_bytes(self) -> int:
        """(open + referenced) x block bytes."""

    def __repr__(self) -> str: ...

class PoolGroup:
    """One group's share of a pool."""

    @property
    def blocks(self) -> int:
        """Blocks."""

    @property
    def block_bytes(self) -> int:
        """Bytes of each."""

    @property
    def block_tokens(self) -> int:
        """Tokens of each."""

    def __repr__(self) -> str: ...

class PoolPlan:
    """How an engine divided its pool."""

    @property
    def groups(self) -> list[PoolGroup]:
        """As Geometry.groups."""

    @property
    def arena_slots(self) -> int:
        """0: the model has no arena streams."""

    @property
    def arena_bytes(self) -> int:
        """Slots and step buffers."""

    @property
    def snapshot_bytes(self) -> int:
        """Memory of snapshots."""

    @property
    def snapshots(self) -> int:
        """Whole ones in it."""

    @property
    def used_bytes(self) -> int:
        """Sum of the above, at most pool_bytes."""

    @property
    def sequence_tokens(self) -> int:
        """The length it was made for."""

    @property
    def tokens(self) -> int:
        """That fit as one long sequence."""

    @property
    def sequences(self) -> int:
        """Of `sequence_tokens` that fit at once."""

    def __repr__(self) -> str: ...

class ArenaCounts:
    """What is used of the arena."""

    @property
    def slots(self) -> int:
        """Sequences that fit."""

    @property
    def slots_used(self) -> int:
        """Sequences that are there."""

    @property
    def steps_used(self) -> int:
        """Step buffers in use."""

    @property
    def units_used(self) -> list[int]:
        """Units, by class."""

    @property
    def zeroed_units(self) -> int:
        """Cleared for another tenant."""

    def __repr__(self) -> str: ...

class EngineStats:
    """What Engine.stats() gives."""

    @property
    def blocks(self) -> BlockStats:
        """BlockStats."""

    @property
    def totals(self) -> BlockCounts:
        """BlockCounts, summed over groups."""

    @property
    def refused_for_quota(self) -> int:
        """Requests of all tenants."""

    @property
    def region_bytes(self) -> int:
        """Of all blocks."""

    @property
    def arena(self) -> ArenaCounts:
        """ArenaCounts, zero without an arena."""

    @property
    def snapshots_taken(self) -> int:
        """Snapshots left."""

    @property
    def snapshots_missed(self) -> int:
        """Steps ran past a boundary where one was wanted."""

    @property
    def snapshots_refused(self) -> int:
        """No memory for one."""

    @property
    def huge_pages(self) -> bool:
        """Every group's region was advised for 2 MiB pages."""

    def __repr__(self) -> str: ...

class TenantUsage:
    """What a tenant holds and may hold."""

    @property
    def held_bytes(self) -> int:
        """Logical, by its sequences now."""

    @property
    def quota_bytes(self) -> int:
        """0: no limit."""

    @property
    def refusals(self) -> int:
        """Requests refused for the quota."""

    def __repr__(self) -> str: ...

class BlockAnswer:
    """One boundary's worth of a prompt."""

    @property
    def first_token(self) -> int:
        """Position of its first token."""

    @property
    def tokens(self) -> int:
        """How many."""

    @property
    def verdict(self) -> str:
        """
        "hit", "not whole", "never stored", "evicted", "older than the
        record", "identity differs" or "another tenant".
        """

    @property
    def group(self) -> str:
        """The group that lacks its part; "": all of them."""

    @property
    def reason(self) -> str | None:
        """Of an eviction."""

    @property
    def age_uses(self) -> int:
        """Of an eviction: uses of the cache since."""

    @property
    def fields(self) -> list[str]:
        """What differs: "salt", "adapter", "extra ids"."""

    def __repr__(self) -> str: ...

class WhyReport:
    """Why a prompt is found, or not, block by block. Its text is describe()."""

    @property
    def asked_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def hit_tokens(self) -> int:
        """What start() would find."""

    @property
    def segment_tokens(self) -> int:
        """All tokens, where segment() would find them."""

    @property
    def boundary_tokens(self) -> int:
        """A hit ends at a multiple of it."""

    @property
    def blocks(self) -> list[BlockAnswer]:
        """BlockAnswer by BlockAnswer; together they cover the prompt."""

    def describe(self) -> list[str]:
        """A line of the whole, then one for each run of equal answers."""

    def __str__(self) -> str: ...

class Rows:
    """
    Where to write the reserved rows of one layer: chunks of consecutive rows in the
    blocks themselves. len() is their number.

    They end when the sequence changes (reserve, commit, cancel, truncate, fork,
    attach, release): everything here is InvalidError then, and arrays that rows[i]
    gave are read-only, so that writing raises ValueError. What was made of such an
    array before (a slice, a tensor), and DLPack tensors, cannot be taken back: let go
    of them before the sequence changes. An array keeps its memory and, until
    release(), its blocks; in blocks that were given back it shows whatever comes
    there next.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> numpy.typing.NDArray[Any]:
        """
        A writable array (rows, numbers) over chunk `index`, without a copy: float32,
        float16, of bf16 rows the bits as uint16, of any other type the bytes as uint8.
        Keeps the memory alive.
        """

    def tensor(self, index: int = 0) -> Any:
        """
        The same as an object that speaks DLPack, bf16 as such: torch.from_dlpack(...)
        makes a tensor of it without a copy.
        """

    def first_token(self, index: int = 0) -> int:
        """Position of a chunk's first row."""

    def write(self, *parts: Any, key_scale: float = 1.0, value_scale: float = 1.0) -> None:
        """
        Encodes all rows as they are stored, keys rotated already. Each part is an array
        (rows, ...) of float32, float16 or bfloat16, of any strides; a row is its parts
        one after the other: keys (rows, kv_heads, key_dim) and values (rows, kv_heads,
        value_dim), or latents (rows, value_dim) and rotary keys (rows, key_dim -
        value_dim). Scales are those of fp8 rows: stored number x scale = number.

        InvalidError: shapes that do not give these rows. UnsupportedError: a stored
        type that is not encoded here.
        """

    @property
    def rows(self) -> int:
        """Of all chunks."""

    @property
    def role(self) -> str:
        """Of the stream."""

class Span:
    """
    Consecutive tokens whose rows lie in a list of blocks: row `first_row` of
    `blocks` is the first token's.
    """

    @property
    def blocks(self) -> list[int]:
        """Block indexes in the group's region, in token order."""

    @property
    def first_row(self) -> int:
        """Counted through `blocks`."""

    @property
    def rows(self) -> int:
        """Tokens."""

    @property
    def position(self) -> int:
        """Stored position of the first token."""

    @property
    def delta(self) -> int:
        """Attached position = stored position + delta."""

class Sequence:
    """
    One sequence of tokens and its place in the cache; made by Engine.start() or
    fork(). reserve(), then rows() of every layer to write and attention to read,
    then commit(). Positions count the tokens of attached segments.

    Any thread may call; calls on one sequence take turns, and work without the GIL.
    Dying gives back every block, once no array of its rows is left; release(), or
    the end of a `with` block, at once.
    """

    @property
    def tokens(self) -> int:
        """Committed, attached segments included."""

    @property
    def reserved_tokens(self) -> int:
        """Reserved and not committed."""

    @property
    def hit_tokens(self) -> int:
        """Found by start(): need not be computed."""

    @property
    def tenant(self) -> str:
        """Whose request it is."""

    @property
    def replay(self) -> tuple[int, int]:
        """
        (first, count): tokens that a hit could not bring back the state of. Run them
        again before anything else, by reserve / rows / commit of the same ids from
        `first` on, then finish_replay(). count 0: nothing to do, the usual case.
        """

    @property
    def next_snapshot(self) -> int | None:
        """
        Where a step should end so that the next snapshot can be left; None: none is wanted.
        """

    def spans(self, group: int = 0) -> list[Span]:
        """What attention sees in a group of blocks."""

    def held_blocks(self, group: int = 0) -> list[tuple[int, int]]:
        """Names (index, generation) of the blocks held in a group."""

    def reserve(self, tokens: int) -> None:
        """
        Room for so many tokens behind what is reserved, all or nothing. Copies the last
        block where somebody shares it.

        InvalidError: more than step_tokens at once, or past the end of a replay.
        OutOfBlocksError: the pool, the tenant's quota or the step buffers have no room;
        nothing was taken.
        """

    def cancel(self) -> None:
        """Gives back what is reserved and not committed."""

    def commit(self, tokens: Iterable[int]) -> None:
        """
        The word that all layers of the next len(tokens) reserved tokens are written and
        accepted: full blocks are sealed and can be found from now on; what stays
        reserved may be written again.

        InvalidError, nothing changed: more than reserved, or ids that differ from the
        prompt given to start().
        """

    def fork(self) -> Sequence:
        """
        A second sequence with the same past; both copy the last block when they write.

        InvalidError: with rows reserved, or replaying. OutOfBlocksError: the tenant's
        quota, or no arena slot is free.
        """

    def truncate(self, tokens: int) -> tuple[int, int]:
        """
        Takes back all but the first `tokens` tokens, reserved ones too. Gives (first,
        count) of what must be run again, and is expected by commit(); count 0: exact.

        InvalidError, nothing changed: past the committed tokens, inside an attached
        segment, or replaying.
        """

    def finish_replay(self) -> None:
        """Ends a replay. InvalidError: not all of its tokens were run."""

    def attach(self, segment: Segment, following: Iterable[int] = ()) -> int:
        """
        Puts a segment behind this sequence's tokens, without a copy. `following` are
        the tokens to be run next; gives back how many of them were stored behind this
        very segment and need not be run.

        InvalidError: rows reserved, a prompt that is not run to its end, a segment of
        another identity or engine, or a position inside a chunk. OutOfBlocksError: the
        tenant's quota. UnsupportedError: rotary frequencies that depend on the length,
        state in the arena.
        """

    def release(self) -> None:
        """
        Gives back every block; arrays of its rows become read-only. Again: does
        nothing. Everything else is InvalidError from then on.
        """

    def __enter__(self) -> Sequence: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def rows(self, layer: int, role: str | None = None, first: int | None = None, count: int | None = None) -> Rows:
        """
        Where to write the rows of `count` reserved tokens from position `first` on; by
        default of all reserved tokens, and of the layer's first stream ("kv" or
        "latent"). A layer that shares another's rows gives that layer's.

        InvalidError: positions that are not reserved, or no such layer or stream.
        """

    def row(self, layer: int, position: int, role: str | None = None) -> numpy.typing.NDArray[Any]:
        """
        A copy of one committed row, typed as rows() gives them.

        NotFoundError: behind a window. InvalidError: not committed, or no such layer or
        stream.
        """

class Segment:
    """
    A stored span of tokens, encoded alone from position 0; Sequence.attach() puts
    it behind a sequence without a copy. Holds its blocks until release() or until
    nobody has it; a context manager. Any thread may read.
    """

    @property
    def tokens(self) -> int:
        """How many."""

    def release(self) -> None:
        """Gives the blocks back; what attached them keeps its own hold."""

    def __enter__(self) -> Segment: ...

    def __exit__(self, *exc_info: object) -> None: ...

class SegmentBuilder:
    """
    Encodes a segment that was not stored (or not whole): run `sequence` like any
    other, from its hit_tokens to the end of the span, then seal().
    """

    @property
    def sequence(self) -> Sequence:
        """The sequence to run."""

    def seal(self) -> Segment:
        """
        Ends the building: the segment can be found from now on. Again: another hold on
        the same.

        InvalidError: tokens missing, or rows still reserved.
        """

    def release(self) -> None:
        """Gives back what was not sealed, as Sequence.release()."""

class Pin:
    """
    Keeps the stored prefix of a request from being evicted until release(), the end
    of a `with` block, or until nobody has it.
    """

    @property
    def tokens(self) -> int:
        """That are pinned; 0 once released."""

    def release(self) -> None:
        """Ends the pin. Again: does nothing."""

    def __enter__(self) -> Pin: ...

    def __exit__(self, *exc_info: object) -> None: ...

class Engine:
    """
    The cache of one model on one rank. Any thread may call any member; work is done
    without the GIL. Sequences, segments, pins and lent arrays keep alive what they
    need: the Engine object may go first.
    """

    def __init__(self, model: str | os.PathLike[str] | dict[str, Any] | ModelConfig | Geometry, pool_bytes: int | str, *, kv_dtype: str | None = None, threads: int = 1, isa: str | None = None, step_tokens: int = 2048, sequence_tokens: int = 0, max_sequences: int = 16, steps_max: int = 1, draft_tokens_max: int = 0, weights_id: bytes = b'', share_content: bool = True, share_content_across_tenants: bool = False, seal: str = 'inline', snapshots: str = 'boundaries', snapshot_period_tokens: int = 0, snapshot_bytes: int | str | None = None, tenant_quota_bytes: int | str = 0, tenant_quotas: dict[str, int | str] | None = None, why_across_tenants: bool = True, metadata_only: bool = False) -> None:
        """
        pool_bytes: memory that attention reads, a number or "4GiB". kv_dtype None:
        bf16, or as the Geometry says. threads: that one attention call may use, the
        caller's included. isa: "scalar", "avx2", "avx512", "amx"; None: the
        widest of this machine. step_tokens: largest reserve(). weights_id: 32 bytes, a
        digest of the weights. The others are those of the C++ EngineOptions.

        InvalidError: names the option, its value and what is allowed. OutOfBlocksError:
        the pool is too small, with the bytes needed. IoError: memory was refused.
        UnsupportedError: a model that can be planned, but not run.
        """

    def __repr__(self) -> str: ...

    def start(self, tokens: Iterable[int], *, tenant: str = '', salt: str = '', adapter: bytes = b'', extra: Iterable[tuple[int, bytes]] = (), recompute_last_block: bool = False) -> Sequence:
        """
        A sequence that already holds the longest stored prefix of the prompt: at most
        all but one token. adapter: 32 bytes, a digest of its content. extra: (offset,
        digest) of what is not a token. recompute_last_block: a hit ends one boundary
        earlier.

        InvalidError: ids past 32 bits, extra ids outside the prompt or out of order.
        OutOfBlocksError: no arena slot is free, or the tenant's quota has no room.
        """

    def segment(self, tokens: Iterable[int], *, tenant: str = '', salt: str = '', adapter: bytes = b'', extra: Iterable[tuple[int, bytes]] = ()) -> Segment | SegmentBuilder:
        """
        The stored segment of exactly these tokens, or a builder for it.

        InvalidError: no tokens, extra ids as start(). UnsupportedError: models with
        state in the arena.
        """

    def why(self, tokens: Iterable[int], *, tenant: str = '', salt: str = '', adapter: bytes = b'', extra: Iterable[tuple[int, bytes]] = ()) -> WhyReport:
        """
        What start() would find, block by block, and why not the rest. Changes nothing.
        """

    def pin(self, tokens: Iterable[int], *, tenant: str = '', salt: str = '', adapter: bytes = b'', extra: Iterable[tuple[int, bytes]] = ()) -> Pin:
        """
        Keeps the longest stored prefix of the request from being evicted while the Pin
        lives: `with engine.pin(tokens): ...`.
        """

    def seal_pending(self, budget_blocks: int) -> int:
        """
        With seal='deferred': shares the content of up to so many blocks; gives how many
        were handled.
        """

    def evict_idle(self) -> int:
        """
        Drops everything that no sequence, segment or pin holds; gives the blocks freed.
        """

    def stats(self) -> EngineStats:
        """Counters since open, and blocks at this moment."""

    def usage(self, tenant: str = '') -> TenantUsage:
        """What a tenant holds and may hold."""

    def counts(self, group: int = 0) -> BlockCounts:
        """One group's blocks at this moment."""

    @property
    def geometry(self) -> Geometry:
        """What the model remembers."""

    @property
    def plan(self) -> PoolPlan:
        """How the pool was divided."""

    @property
    def threads(self) -> int:
        """That attention uses, the caller's own included."""

    def check_invariants(self) -> None:
        """
        Recounts everything; slow. CorruptError: names the first thing that disagrees.
        """

class Step:
    """
    One forward of a batch over an engine: where each sequence's new rows go, and which tokens ask. One thread at a time. What emblema.transformers is made with; its interface may change.
    """

    def __init__(self, engine: Engine) -> None: ...

    def begin(self, rows: _Sequence[tuple[Sequence, _Sequence[int], int]], columns: int) -> None:
        """
        rows: for each sequence of the batch (sequence, columns of its tokens, position of the first of them). Every token is committed or reserved. InvalidError else.
        """

    def write(self, layer: int, keys: Any, values: Any) -> None:
        """
        Stores new rows: keys [sequences][kv_heads][columns][key_dim], values alike; latents and rotary keys of a latent layer. float32, float16 or bfloat16, read in place; keys come rotated. Columns that are rows already, and padding, are left out.
        """

    def attend(self, layer: int, query: Any, out: Any, *, scale: float, softcap: float = 0.0, window: int = 0, sinks: Any | None = None, key_up: Any | None = None, value_up: Any | None = None) -> None:
        """
        query [sequences][query_heads][columns][key_dim], rotated -> out [same][value_dim], written in place, 0 in padding. Latent layers: absorbed queries and results, or with key_up [heads][content][latent] and value_up [heads][value][latent] expanded ones.
        """

    def prefers_absorbed(self, layer: int, content_dim: int, value_dim: int) -> bool:
        """Whether the absorbed form takes fewer multiplications for this step."""

def decode_attention(sequences: Sequence | Iterable[Sequence], layer: int, q: Any, *, first: int | Iterable[int] | None = None, queries: int | Iterable[int] | None = None, sinks: Any = None, scale: float | None = None, key_scale: float = 1.0, value_scale: float = 1.0, out: Any = None, lse: Any = None) -> tuple[Any, Any]:
    """
    Attention of a few queries over the committed and reserved rows of one sequence,
    or of each of a batch, straight from the blocks.

    q: float32 (tokens, query_heads, key_dim) in C order, of numpy or torch on the
    CPU, rotated at its positions; the queries of the sequences one after the other.
    queries: how many belong to each; None: as many to each. first: position of each
    sequence's first query; None: they are its last positions. A query sees
    positions up to its own, as the layer's window or chunk allows. sinks: float32
    (query_heads,) logits that join the softmax. scale: None is the layer's.
    key_scale, value_scale: of fp8 rows, as they were written.

    Gives (out, lse): float32 (tokens, query_heads, value_dim), of latents the
    latent's width, and (tokens, query_heads), natural logarithms of the sums of
    exponentials without the sink. Both are written to `out` and `lse` where given,
    else new and of the kind of q. Nothing is copied. Any thread, without the GIL;
    calls on one sequence take turns.

    InvalidError: names the argument, what it is and what is allowed.
    UnsupportedError: rows that no kernel here reads.
    """

def prefill_attention(sequences: Sequence | Iterable[Sequence], layer: int, q: Any, *, first: int | Iterable[int] | None = None, queries: int | Iterable[int] | None = None, sinks: Any = None, scale: float | None = None, key_scale: float = 1.0, value_scale: float = 1.0, out: Any = None, lse: Any = None, key_up: Any = None, value_up: Any = None) -> tuple[Any, Any]:
    """
    The same for many queries. With key_up, float32 (query_heads, content_dim,
    latent_dim), and value_up, (query_heads, v_dim, latent_dim), latents are
    expanded to keys and values for each head on the way, never into the cache: q is
    then (tokens, query_heads, content_dim + rotary_dim), and out (tokens,
    query_heads, v_dim).
    """
