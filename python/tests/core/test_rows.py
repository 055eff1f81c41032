"""Rows: arrays over the blocks themselves, what they hold, and when they end."""

import gc
import weakref

import numpy as np
import pytest
from core_models import prompted, rows_of, tiny, windowed
from core_reference import bfloat16

import emblema


@pytest.fixture
def engine():
    return emblema.Engine(tiny(), "1MiB")


def reserved(engine, tokens):
    sequence = engine.start(range(tokens))
    sequence.reserve(tokens)
    return sequence


def test_chunks_are_the_blocks_that_the_tokens_touch(engine):
    rows = reserved(engine, 40).rows(0)
    assert [len(rows[i]) for i in range(len(rows))] == [16, 16, 8]
    assert [rows.first_token(i) for i in range(len(rows))] == [0, 16, 32]
    assert (rows.rows, rows.role) == (40, "kv")
    assert [chunk.shape for chunk in rows] == [(16, 64), (16, 64), (8, 64)]
    assert rows[-1].shape == (8, 64)
    with pytest.raises(IndexError):
        rows[3]


def test_an_array_is_the_memory_that_is_read(engine):
    sequence = reserved(engine, 3)
    rows = sequence.rows(1)
    rows[0][1, :] = np.arange(64)
    again = sequence.rows(1)[0]
    assert np.array_equal(again[1], np.arange(64)) and again.dtype == np.float32
    assert np.shares_memory(again, rows[0]) and rows[0].flags.writeable
    sequence.commit(range(3))
    assert np.array_equal(sequence.row(1, 1), np.arange(64))


@pytest.mark.parametrize(("kv_dtype", "dtype", "width"), [
    ("fp32", np.float32, 64), ("fp16", np.float16, 64), ("bf16", np.uint16, 64),
    ("fp8", np.uint8, 64), ("int8_per_token_head", np.uint8, 80)])
def test_numpy_sees_numbers_where_it_has_such(kv_dtype, dtype, width):
    engine = emblema.Engine(tiny(kv_dtype), "1MiB", metadata_only=False)
    chunk = reserved(engine, 4).rows(0)[0]
    assert chunk.dtype == dtype and chunk.shape == (4, width)


def test_write_joins_parts_of_any_float_and_strides(engine):
    sequence = reserved(engine, 20)
    rng = np.random.default_rng(1)
    keys = rng.standard_normal((2, 20, 16), dtype=np.float32).transpose(1, 0, 2)  # head first
    values = rng.standard_normal((20, 2, 16)).astype(np.float16)[:, ::-1]
    sequence.rows(0).write(keys, values)
    sequence.commit(range(20))
    for position in (0, 15, 16, 19):
        row = sequence.row(0, position)
        assert np.array_equal(row[:32].reshape(2, 16), keys[position])
        assert np.array_equal(row[32:].reshape(2, 16), values[position].astype(np.float32))


def test_write_rounds_to_bfloat16():
    engine = emblema.Engine(tiny("bf16"), "1MiB")
    sequence = reserved(engine, 5)
    numbers = np.random.default_rng(2).standard_normal((5, 64), dtype=np.float32)
    sequence.rows(0).write(numbers)
    bits = sequence.rows(0)[0].astype(np.uint32) << 16
    assert np.array_equal(bits.view(np.float32), bfloat16(numbers))


@pytest.mark.parametrize("change", [
    lambda s: s.commit(range(4)), lambda s: s.cancel(), lambda s: s.reserve(1),
    lambda s: s.truncate(0), lambda s: s.release()],
    ids=["commit", "cancel", "reserve", "truncate", "release"])
def test_rows_end_when_their_sequence_changes(engine, change):
    sequence = reserved(engine, 20)
    rows = sequence.rows(0)
    lent = [rows[0], rows[1]]
    tensor_maker = sequence.rows(1)
    change(sequence)
    for array in lent:
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    for use in (lambda: rows[0], lambda: rows.write(np.zeros((20, 64), np.float32)),
                lambda: tensor_maker.tensor(), lambda: rows.first_token()):
        with pytest.raises(emblema.InvalidError, match="these rows ended when their sequence"):
            use()


def test_a_refused_change_ends_nothing(engine):
    sequence = reserved(engine, 4)
    rows = sequence.rows(0)
    array = rows[0]
    with pytest.raises(emblema.InvalidError):
        sequence.commit(range(5))
    with pytest.raises(emblema.InvalidError):
        sequence.fork()
    array[0, 0] = 3
    assert rows[0][0, 0] == 3


def test_rows_of_a_part_of_the_reserved_tokens(engine):
    sequence = reserved(engine, 20)
    assert sequence.rows(0, first=14, count=4).rows == 4
    assert [len(chunk) for chunk in sequence.rows(0, "kv", 14, 4)] == [2, 2]
    assert sequence.rows(0, first=18).rows == 2
    assert sequence.rows(0, count=0).rows == 0


def test_row_is_a_copy_that_stays():
    engine = emblema.Engine(windowed(24), "1MiB")
    sequence = prompted(engine, list(range(64)))
    row = sequence.row(0, 63)
    wanted = rows_of(engine.geometry.layers[0], range(64))[63]
    sequence.release()
    engine.evict_idle()
    assert np.array_equal(row, wanted)


def test_memory_stays_while_an_array_is_there():
    engine = emblema.Engine(tiny(), "1MiB")
    sequence = reserved(engine, 16)
    rows = sequence.rows(0)
    rows.write(np.full((16, 64), 5, np.float32))
    array = rows[0]
    gone = weakref.ref(array)
    assert engine.counts().open == 1
    del sequence, rows
    gc.collect()
    assert engine.counts().open == 1, "the array holds the block"
    del engine
    gc.collect()
    assert array.sum() == 5 * 16 * 64
    array[:] = 6
    assert array.sum() == 6 * 16 * 64
    del array
    assert gone() is None


def test_dying_arrays_give_the_blocks_back():
    engine = emblema.Engine(tiny(), "1MiB")
    array = reserved(engine, 16).rows(0)[0]
    assert engine.counts().open == 1
    del array
    assert engine.counts().open == 0 and engine.counts().free == engine.counts().capacity


def test_a_dlpack_consumer_sees_the_same_memory(engine):
    rows = reserved(engine, 4).rows(0)
    consumer = np.from_dlpack(rows.tensor())
    rows[0][2, 3] = 9
    assert consumer[2, 3] == 9 and np.shares_memory(consumer, rows[0])
