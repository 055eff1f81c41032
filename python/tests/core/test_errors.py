"""Every type of error, provoked, with the library's own words; and a table of bad calls."""

import numpy as np
import pytest
from core_models import TINY, prompted, run, tiny

import emblema
from emblema import _core


@pytest.fixture
def engine():
    return emblema.Engine(tiny(), "1MiB", step_tokens=32)


def complaint(*arguments):
    """What the command line says."""
    _, _, line = _core.run_command(list(arguments))
    return line


def test_types_are_what_a_python_user_would_catch_too():
    bases = {emblema.NotFoundError: LookupError, emblema.OutOfBlocksError: MemoryError,
             emblema.IoError: OSError, emblema.InvalidError: ValueError,
             emblema.UnsupportedError: NotImplementedError, emblema.CorruptError: Exception}
    for error, base in bases.items():
        assert issubclass(error, emblema.EmblemaError) and issubclass(error, base)


def test_not_found():
    with pytest.raises(emblema.NotFoundError) as caught:
        emblema.ModelConfig.load("deepseek-v9")
    assert str(caught.value) == complaint("plan", "deepseek-v9")
    assert "close preset names" in str(caught.value)


def test_not_found_behind_a_window():
    engine = emblema.Engine(tiny(model_type="mistral", sliding_window=16), "1MiB", step_tokens=32)
    sequence = prompted(engine, list(range(32)))
    run(engine, sequence, list(range(32, 64)), past=list(range(32)))
    with pytest.raises(emblema.NotFoundError, match="row at position 3 lies behind its window"):
        sequence.row(0, 3)


def test_invalid():
    broken = TINY | {"num_key_value_heads": 3}
    with pytest.raises(emblema.InvalidError) as caught:
        emblema.ModelConfig.from_json(broken)
    with pytest.raises(emblema.InvalidError) as planned:
        emblema.plan(broken)
    assert "num_key_value_heads" in str(caught.value)
    assert str(caught.value).split("num_key")[1] == str(planned.value).split("num_key")[1]


def test_unsupported():
    with pytest.raises(emblema.UnsupportedError) as caught:
        emblema.Geometry("deepseek-v3", kv_dtype="int8_per_token_head")
    line = complaint("plan", "deepseek-v3", "--kv-dtype", "int8_per_token_head")
    assert line == f"deepseek-v3: {caught.value}"


def test_out_of_blocks():
    block_bytes = 2 * 16 * 64 * 4  # layers x tokens x numbers x fp32
    engine = emblema.Engine(tiny(), 3 * block_bytes)
    sequence = engine.start(range(40))
    sequence.reserve(40)
    other = engine.start([1])
    with pytest.raises(emblema.OutOfBlocksError, match="growing"):
        other.reserve(1)
    assert other.reserved_tokens == 0
    with pytest.raises(emblema.OutOfBlocksError) as caught:
        emblema.Engine(tiny(), 100)
    assert str(caught.value) == (
        f"pool_bytes is 100; allowed: at least {block_bytes}, which holds one block per group")


def test_io_of_a_file(tmp_path):
    loop = tmp_path / "config.json"
    loop.symlink_to(loop)
    with pytest.raises(emblema.IoError) as caught:
        emblema.ModelConfig.load(loop)
    assert str(caught.value) == complaint("plan", str(loop))


def test_io_of_memory():
    """More than a process can address, in blocks so large that there are few of them."""
    large = emblema.Geometry("deepseek-v3", block_tokens=4096)
    with pytest.raises(emblema.IoError, match="cannot map [0-9]* bytes of memory: "):
        emblema.Engine(large, "250TiB")


def test_corrupt():
    """Rows are written behind the engine's back, through a slice that was kept."""
    engine = emblema.Engine(tiny(), "1MiB")
    sequence = engine.start(range(16))
    sequence.reserve(16)
    rows = sequence.rows(0)
    kept = rows[0][:]
    rows.write(np.ones((16, 64), np.float32))
    sequence.commit(range(16))
    engine.check_invariants()
    kept[3, 3] = 2
    with pytest.raises(emblema.CorruptError) as caught:
        engine.check_invariants()
    assert "\n" not in str(caught.value)
    kept[3, 3] = 1
    engine.check_invariants()


U64 = 2**64 - 1
U32 = 2**32 - 1
Q = np.zeros((1, 4, 16), np.float32)

BAD_CALLS = [
    # Requests
    (lambda e, s: e.start([1, -1]), f"tokens[1] is -1; allowed: integers from 0 to {U32}"),
    (lambda e, s: e.start([2**32]), f"tokens[0] is 4294967296; allowed: integers from 0 to {U32}"),
    (lambda e, s: e.start(np.array([3, -7])),
     f"tokens[1] is -7; allowed: integers from 0 to {U32}"),
    (lambda e, s: e.start(np.array([2**40])),
     f"tokens[0] is 1099511627776; allowed: integers from 0 to {U32}"),
    (lambda e, s: e.start([1.5]), f"tokens[0] is 1.5; allowed: integers from 0 to {U32}"),
    (lambda e, s: e.start(np.zeros(3)),
     "tokens is an array of float64; allowed: integers of 8 to 64 bits"),
    (lambda e, s: e.start(np.zeros((2, 2), int)),
     "tokens is an array of 2 dimensions; allowed: 1"),
    (lambda e, s: e.start(7), "tokens is a int; allowed: integers in an array or an iterable"),
    (lambda e, s: e.start([1], tenant=3), "tenant is a int; allowed: str"),
    (lambda e, s: e.start([1], adapter=b"x"),
     "adapter has 1 bytes; allowed: 32, such as a SHA-256, or none"),
    (lambda e, s: e.start([1], adapter="x"), "adapter is a str; allowed: bytes"),
    (lambda e, s: e.start([1], extra=[3]), "extra[0] is 3; allowed: a pair (offset, digest)"),
    (lambda e, s: e.start([1], extra=[(1, bytes(32))]),
     "extra id 0 at offset 1; allowed: within the 1 tokens"),
    (lambda e, s: e.start([1, 2], extra=[(1, bytes(32)), (0, bytes(32))]),
     "extra id 1 at offset 0 behind one at 1; allowed: ascending"),
    (lambda e, s: e.start([1], recompute_last_block=1),
     "recompute_last_block is 1; allowed: True, False"),
    (lambda e, s: e.segment([]), "segment of 0 tokens; allowed: 1 and more"),
    (lambda e, s: e.counts(1), "group is 1; allowed: below 1"),
    (lambda e, s: e.seal_pending(-1),
     f"budget_blocks is -1; allowed: integers from 0 to {U64}"),
    # Sequences
    (lambda e, s: s.reserve(-1), f"tokens is -1; allowed: integers from 0 to {U64}"),
    (lambda e, s: s.reserve(31),
     "reserve of 31 tokens behind 2 reserved; allowed: step_tokens = 32 at once"),
    (lambda e, s: s.reserve(2**64), f"tokens is {2**64}; allowed: integers from 0 to {U64}"),
    (lambda e, s: s.commit([1, 2, 3]), "commit of 3 tokens; allowed: up to 2 reserved"),
    (lambda e, s: s.commit([99]), "commit of token 99 at position 4; the prompt has 4 there"),
    (lambda e, s: s.fork(), "fork with 2 tokens reserved; commit or cancel first"),
    (lambda e, s: s.truncate(9), "truncate to 9 tokens; allowed: up to 4"),
    (lambda e, s: s.spans(2), "group is 2; allowed: below 1"),
    (lambda e, s: s.held_blocks(2), "group is 2; allowed: below 1"),
    (lambda e, s: s.rows(2), "layer is 2; allowed: below 2"),
    (lambda e, s: s.rows(0, "latent"), "role of layer 0 is latent; allowed: kv"),
    (lambda e, s: s.rows(0, first=3),
     "rows of 3 tokens at position 3; allowed: reserved positions 4 to 6"),
    (lambda e, s: s.rows(0, first=5, count=2),
     "rows of 2 tokens at position 5; allowed: reserved positions 4 to 6"),
    (lambda e, s: s.row(0, 4), "row at position 4; allowed: below the 4 tokens committed"),
    (lambda e, s: s.rows(0).write(np.zeros((2, 63), np.float32)),
     "parts have 63 numbers a row; allowed: the 64 of these rows"),
    (lambda e, s: s.rows(0).write(), "parts have 0 numbers a row; allowed: the 64 of these rows"),
    (lambda e, s: s.rows(0).write(np.zeros((1, 64), np.float32)),
     "parts[0] has 1 rows; allowed: the 2 of these rows"),
    (lambda e, s: s.rows(0).write(np.zeros((2, 64))),
     "parts[0] is an array of float64; allowed: float32, float16, bfloat16"),
    (lambda e, s: s.rows(0).write("rows"),
     "parts[0] is a str; allowed: an array in CPU memory, of numpy or torch"),
    # Attention
    (lambda e, s: emblema.decode_attention([], 0, Q), "sequences is empty; allowed: 1 and more"),
    (lambda e, s: emblema.decode_attention(3, 0, Q),
     "sequences is a int; allowed: a Sequence or several"),
    (lambda e, s: emblema.decode_attention([s, 3], 0, Q),
     "sequences[1] is a int; allowed: a Sequence"),
    (lambda e, s: emblema.decode_attention([s, emblema.Engine(tiny(), "1MiB").start([1])], 0, Q),
     "sequences[1] is of another engine; allowed: that of sequences[0]"),
    (lambda e, s: emblema.decode_attention(s, 5, Q), "layer is 5; allowed: below 2"),
    (lambda e, s: emblema.decode_attention(s, 0, Q.astype(float)),
     "q is an array of float64; allowed: float32"),
    (lambda e, s: emblema.decode_attention(s, 0, Q[:, :, :8]),
     "q has the shape (1, 4, 8); allowed: (any, 4, 16)"),
    (lambda e, s: emblema.decode_attention(s, 0, np.zeros((1, 4, 32), np.float32)[:, :, ::2]),
     "q is not contiguous; allowed: C order, such as numpy.ascontiguousarray gives"),
    (lambda e, s: emblema.decode_attention(s, 0, "q"),
     "q is a str; allowed: an array in CPU memory, of numpy or torch"),
    (lambda e, s: emblema.decode_attention([s, s], 0, np.zeros((3, 4, 16), np.float32)),
     "q has 3 query rows for 2 sequences; allowed: a multiple, or queries=[...]"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, queries=[2]),
     "queries are not the 1 query rows of q; allowed: numbers that add up to them"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, first=[1, 2]),
     "first has 2 numbers; allowed: an integer, or one for each of the 1 sequences"),
    (lambda e, s: emblema.decode_attention(s, 0, np.zeros((9, 4, 16), np.float32)),
     "sequences[0] has 6 tokens for 9 query rows; allowed: up to so many, or first=..."),
    (lambda e, s: emblema.decode_attention(s, 0, Q, first=6),
     "1 queries of layer 0 at position 6; allowed: layers below 2, positions up to 6"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, sinks=np.zeros(3, np.float32)),
     "sinks has the shape (3,); allowed: (4,)"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, scale="x"),
     "scale is no number; allowed: float, None"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, out=np.zeros((1, 4, 8), np.float32)),
     "out has the shape (1, 4, 8); allowed: (1, 4, 16)"),
    (lambda e, s: emblema.decode_attention(s, 0, Q, out=np.broadcast_to(Q[0], (1, 4, 16))),
     "out is a ndarray; allowed: a writable array in CPU memory, of numpy or torch"),
    (lambda e, s: emblema.prefill_attention(s, 0, Q, key_up=Q),
     "key_up or value_up is None; allowed: both or none of them"),
    # Engines and models
    (lambda e, s: emblema.Engine(tiny(), "64X"),
     "pool_bytes: size '64X' is not a number of bytes; allowed: 4096, 40GiB, 80GB, 1.5TiB (below "
     "16 EiB)"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", threads=0), "threads is 0; allowed: 1 to 1024"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", kv_dtype="fp16"),
     "kv_dtype is fp16; allowed: None with a Geometry, which has its own"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", step_tokens=0),
     f"step_tokens is 0; allowed: 1 to {2**40}"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", seal="later"),
     "seal is later; allowed: inline, deferred"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", snapshots="some"),
     "snapshots is some; allowed: boundaries, full, periodic, zero"),
    (lambda e, s: emblema.Engine(tiny(), "1MiB", tenant_quotas=[1]),
     "tenant_quotas is no dict; allowed: {tenant: bytes}"),
    (lambda e, s: emblema.Engine(3, "1MiB"),
     "model is a int; allowed: a preset's name, a path, a dict, a ModelConfig"),
    (lambda e, s: emblema.Geometry(TINY, block_tokens=17),
     "block_tokens is 17; allowed: multiples of 16, the smallest common multiple of the strides "
     "and the kernel page of group 'growing'"),
    (lambda e, s: emblema.Geometry(TINY, layers=2**32),
     f"layers is 4294967296; allowed: integers from 0 to {U32}"),
    (lambda e, s: emblema.plan("-"),
     "model is -; allowed: a preset's name, a path, a dict, a ModelConfig"),
]


@pytest.mark.parametrize("number", range(len(BAD_CALLS)))
def test_a_bad_call_is_one_line_that_names_what_is_wrong(engine, number):
    call, message = BAD_CALLS[number]
    sequence = engine.start(range(20))
    sequence.reserve(6)
    sequence.commit(range(4))
    before = repr(engine.counts())
    with pytest.raises(emblema.InvalidError) as caught:
        call(engine, sequence)
    assert "\n" not in str(caught.value)
    assert str(caught.value) == message
    assert repr(engine.counts()) == before
    assert (sequence.tokens, sequence.reserved_tokens) == (4, 2)


def test_a_wrong_keyword_is_a_type_error(engine):
    with pytest.raises(TypeError, match="start.. got an unexpected keyword argument 'tenants'"):
        engine.start([1], tenants="a")
    with pytest.raises(TypeError, match="Engine.. got an unexpected keyword argument 'pool'"):
        emblema.Engine(tiny(), "1MiB", pool=3)


def test_a_segment_of_another_engine_is_refused(engine):
    other = emblema.Engine(tiny(), "1MiB")
    builder = other.segment([1, 2])
    run(other, builder.sequence, [1, 2])
    segment = builder.seal()
    sequence = prompted(engine, [5])
    with pytest.raises(emblema.InvalidError, match="engine"):
        sequence.attach(segment)
    assert sequence.tokens == 1


def test_seal_before_the_span_is_run(engine):
    builder = engine.segment([1, 2, 3])
    run(engine, builder.sequence, [1])
    with pytest.raises(emblema.InvalidError) as caught:
        builder.seal()
    assert str(caught.value) == "seal of a segment of 3 tokens with 1 committed and 0 reserved"
