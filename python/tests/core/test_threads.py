"""Python threads: work without the GIL, turns on one sequence, no lock that waits for another."""

import sys
import threading

import numpy as np
import pytest
from core_models import prompted, row_numbers, rows_of, run, tiny

import emblema

CALLS_MAX = 2000


@pytest.fixture
def long_switches():
    """The GIL goes from thread to thread only where it is given up: not after a while."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def other_thread_runs_within(call):
    """Whether another thread gets the GIL while this one does nothing but ``call``."""
    seen = threading.Event()
    waiting = threading.Event()

    def watch():
        waiting.set()
        started.wait()
        seen.set()

    started = threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    waiting.wait()
    started.set()
    for _ in range(CALLS_MAX):  # without the GIL the first few do; with it held, none ever
        if seen.is_set():
            break
        call()
    ran = seen.is_set()
    watcher.join()
    return ran


def test_the_watcher_sees_work_that_keeps_the_gil(long_switches):
    numbers = list(range(2000))
    assert not other_thread_runs_within(lambda: sorted(numbers, reverse=True))


def test_attention_works_without_the_gil(long_switches):
    engine = emblema.Engine(tiny(), "4MiB")
    sequence = prompted(engine, list(range(64)))
    q = np.ones((64, 4, 16), np.float32)
    out, lse = np.empty((64, 4, 16), np.float32), np.empty((64, 4), np.float32)
    assert other_thread_runs_within(
        lambda: emblema.decode_attention(sequence, 0, q, out=out, lse=lse))
    assert other_thread_runs_within(
        lambda: emblema.prefill_attention(sequence, 0, q, out=out, lse=lse))


def test_write_works_without_the_gil(long_switches):
    engine = emblema.Engine(tiny(), "4MiB")
    sequence = engine.start([])
    sequence.reserve(512)
    rows = sequence.rows(0)
    numbers = np.ones((512, 64), np.float32)
    assert other_thread_runs_within(lambda: rows.write(numbers))


def test_bookkeeping_works_without_the_gil(long_switches):
    engine = emblema.Engine(tiny(), "4MiB")
    sequence = engine.start([])
    ids = list(range(256))

    def step():
        sequence.reserve(256)
        sequence.commit(ids)
        sequence.truncate(0)

    assert other_thread_runs_within(step)
    assert other_thread_runs_within(engine.check_invariants)


def in_threads(count, work):
    """Runs work(index) in so many threads at once; raises what any of them raised."""
    failures = []
    barrier = threading.Barrier(count)

    def body(index):
        try:
            barrier.wait()
            work(index)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=body, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_one_sequence_may_be_used_by_several_threads():
    engine = emblema.Engine(tiny(), "4MiB")
    sequence = engine.start([])
    q = np.ones((1, 4, 16), np.float32)

    def work(index):
        for _ in range(50):
            sequence.reserve(1)
            assert sequence.tokens <= 200
            try:
                sequence.commit([index])
            except emblema.InvalidError as taken:  # by another thread's commit
                assert "allowed: up to" in str(taken)
            emblema.decode_attention(sequence, 0, q, first=0)

    in_threads(4, work)
    assert sequence.tokens + sequence.reserved_tokens == 200
    engine.check_invariants()


def test_many_sequences_of_one_engine_at_once():
    engine = emblema.Engine(tiny(), "8MiB", threads=2)
    shared = list(range(64))
    prompted(engine, shared).release()

    def work(index):
        for turn in range(10):
            ids = [*shared, index, turn, *range(20)]
            with prompted(engine, ids) as sequence:
                assert sequence.hit_tokens >= 48
                layer = engine.geometry.layers[1]
                wanted = rows_of(layer, ids)
                for position in (0, 63, 64, 85):
                    assert np.array_equal(sequence.row(1, position), wanted[position])
                emblema.decode_attention(sequence, 0, np.ones((1, 4, 16), np.float32))

    in_threads(4, work)
    engine.check_invariants()
    engine.evict_idle()
    assert engine.counts().free == engine.counts().capacity


def test_batches_in_any_order_take_their_locks_in_one():
    engine = emblema.Engine(tiny(), "4MiB")
    sequences = [prompted(engine, [index, *range(30)]) for index in range(4)]
    q = np.ones((5, 4, 16), np.float32)

    def work(index):
        order = sequences[index:] + sequences[:index]
        for _ in range(50):
            emblema.decode_attention([*order, order[0]], 0, q)  # one of them twice

    in_threads(4, work)


def test_release_while_others_use_it():
    engine = emblema.Engine(tiny(), "4MiB")
    for _ in range(20):
        sequence = prompted(engine, list(range(40)))
        q = np.ones((1, 4, 16), np.float32)

        def work(index, sequence=sequence, q=q):
            if index == 0:
                sequence.release()
                return
            try:
                for _ in range(10):
                    emblema.decode_attention(sequence, 0, q)
            except emblema.InvalidError as gone:
                assert "released" in str(gone)

        in_threads(3, work)
    engine.evict_idle()
    assert engine.counts().free == engine.counts().capacity


def test_a_commit_by_another_thread_ends_the_rows():
    engine = emblema.Engine(tiny(), "1MiB")
    sequence = engine.start([])
    sequence.reserve(16)
    rows = sequence.rows(0)
    array = rows[0]
    in_threads(1, lambda _: sequence.commit(range(16)))
    assert not array.flags.writeable
    with pytest.raises(emblema.InvalidError, match="ended"):
        rows.write(np.zeros((16, row_numbers(engine.geometry.layers[0])), np.float32))
    run(engine, sequence, [1])
