"""Sequences: hits, forks, truncation, segments, replay; all rows checked against a model's."""

import numpy as np
import pytest
from core_models import TINY, prompted, rows_of, run, tiny, windowed

import emblema


@pytest.fixture
def engine():
    return emblema.Engine(tiny(), "2MiB")


def assert_rows(engine, sequence, ids, seed=0):
    """Every layer's row of every position is that of these tokens."""
    for layer in engine.geometry.layers:
        wanted = rows_of(layer, ids, seed)
        got = np.array([sequence.row(layer.index, position) for position in range(len(ids))])
        assert np.array_equal(got, wanted)


def test_a_second_prompt_finds_the_first_ones_blocks(engine):
    prompt = list(range(50))
    with prompted(engine, prompt) as sequence:
        assert (sequence.tokens, sequence.hit_tokens, sequence.reserved_tokens) == (50, 0, 0)
    again = engine.start(prompt)
    assert (again.hit_tokens, again.tokens) == (48, 48)  # whole blocks of 16, at most all but one
    assert_rows(engine, again, prompt[:48])
    assert engine.start(prompt[:48]).hit_tokens == 32
    assert engine.start(prompt, recompute_last_block=True).hit_tokens == 32
    assert engine.stats().blocks.prefix_hit_tokens == 48 + 32 + 32


def test_a_fork_copies_the_last_block_when_it_writes(engine):
    parent = prompted(engine, list(range(20)))
    child = parent.fork()
    assert child.held_blocks() == parent.held_blocks()
    run(engine, child, [100, 101], past=list(range(20)))
    run(engine, parent, [200], past=list(range(20)))
    assert child.held_blocks()[0] == parent.held_blocks()[0]
    assert child.held_blocks()[1] != parent.held_blocks()[1]
    assert_rows(engine, parent, [*range(20), 200])
    assert_rows(engine, child, [*range(20), 100, 101])
    assert engine.stats().blocks.copied_blocks == 1


def test_truncate_takes_tokens_back(engine):
    sequence = prompted(engine, list(range(40)))
    assert sequence.truncate(21) == (21, 0)
    assert sequence.tokens == 21
    run(engine, sequence, [7, 8], past=list(range(21)))
    assert_rows(engine, sequence, [*range(21), 7, 8])


def test_truncate_behind_a_window_says_what_to_run_again():
    engine = emblema.Engine(windowed(24), "2MiB")
    sequence = prompted(engine, list(range(80)))
    first, count = sequence.truncate(20)
    assert first + count == 20 and first % 16 == 0 and count > 0
    assert sequence.tokens == first
    with pytest.raises(emblema.InvalidError, match="commit of token"):
        sequence.reserve(1)
        sequence.commit([999])
    sequence.cancel()
    run(engine, sequence, list(range(first, 20)), past=list(range(first)))
    assert sequence.tokens == 20


def test_cancel_and_drafts(engine):
    sequence = engine.start([])
    sequence.reserve(5)
    sequence.commit([1, 2])
    assert (sequence.tokens, sequence.reserved_tokens) == (2, 3)
    sequence.cancel()
    assert (sequence.tokens, sequence.reserved_tokens) == (2, 0)
    assert engine.counts().open == 1


def test_a_segment_is_encoded_once_and_attached_twice(engine):
    span = list(range(300, 340))
    builder = engine.segment(span, tenant="a")
    assert isinstance(builder, emblema.SegmentBuilder)
    run(engine, builder.sequence, span)
    segment = builder.seal()
    assert segment.tokens == 40
    assert isinstance(engine.segment(span, tenant="a"), emblema.Segment)
    one = prompted(engine, [1, 2, 3], tenant="a")
    two = prompted(engine, [4], tenant="a")
    for sequence in (one, two):
        assert sequence.attach(segment, following=[9, 10]) == 0
    run(engine, one, [9, 10], past=[1, 2, 3, *span])
    assert (one.tokens, two.tokens) == (45, 41)
    spans = [(part.position, part.delta, part.rows) for part in one.spans()]
    assert spans == [(0, 0, 3), (0, 3, 40), (43, 0, 2)]
    own = rows_of(engine.geometry.layers[0], span)
    assert np.array_equal(one.row(0, 3), own[0]) and np.array_equal(two.row(0, 40), own[39])


def test_what_was_stored_behind_a_segment_is_found_there(engine):
    span = list(range(300, 316))
    following = list(range(40))
    builder = engine.segment(span)
    run(engine, builder.sequence, span)
    segment = builder.seal()
    first = prompted(engine, [1])
    first.attach(segment, following)
    run(engine, first, following, past=[1, *span])
    second = prompted(engine, [1])
    assert second.attach(segment, following) == 32
    assert second.tokens == 1 + 16 + 32


def test_a_segment_goes_with_its_last_holder(engine):
    span = list(range(300, 310))
    builder = engine.segment(span)
    run(engine, builder.sequence, span)
    segment = builder.seal()
    builder.release()
    engine.evict_idle()
    assert engine.counts().referenced == 1
    segment.release()
    segment.release()
    engine.evict_idle()
    assert engine.counts().free == engine.counts().capacity
    with pytest.raises(emblema.InvalidError, match="the segment was released"):
        segment.tokens  # noqa: B018


def test_recurrent_state_is_replayed_from_the_last_snapshot():
    mamba = TINY | {
        "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "mamba_d_ssm": 64,
        "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 16,
        "mamba_d_conv": 4}
    engine = emblema.Engine(emblema.Geometry(mamba, kv_dtype="fp32"), "4MiB",
                            snapshots="periodic", snapshot_period_tokens=64)
    assert engine.geometry.has_arena
    prompt = list(range(100))
    writer = engine.start(prompt)
    for first in (0, 64):
        step = prompt[first:first + 64]
        writer.reserve(len(step))
        for layer in engine.geometry.layers:
            writer.rows(layer.index, "kv").write(rows_of(layer, prompt)[first:first + 64])
            for chunk in writer.rows(layer.index, "state", first + len(step) - 1, 1):
                chunk[:] = layer.index + 1
        writer.commit(step)
    assert writer.next_snapshot == 128
    reader = engine.start(prompt)
    assert reader.hit_tokens == 96 and reader.replay == (64, 32)
    with pytest.raises(emblema.InvalidError, match="finish_replay at token 64 of 64 to 96"):
        reader.finish_replay()
    reader.reserve(20)
    reader.commit(prompt[64:84])
    reader.reserve(12)
    assert reader.rows(0, "state", first=95).rows == 1
    reader.commit(prompt[84:96])
    reader.finish_replay()
    assert reader.replay == (0, 0)
    reader.reserve(4)
    reader.commit(prompt[96:])
    assert reader.tokens == 100


def test_a_released_sequence_is_refused_everywhere(engine):
    sequence = prompted(engine, [1, 2, 3])
    sequence.release()
    sequence.release()
    q = np.zeros((1, 4, 16), np.float32)
    for use in (lambda: sequence.tokens, lambda: sequence.reserve(1), lambda: sequence.fork(),
                lambda: sequence.rows(0), lambda: sequence.row(0, 0), lambda: sequence.commit([]),
                lambda: sequence.cancel(), lambda: sequence.truncate(0), lambda: sequence.spans(),
                lambda: sequence.replay, lambda: emblema.decode_attention(sequence, 0, q)):
        with pytest.raises(emblema.InvalidError, match="the sequence was released; allowed: one "):
            use()
    engine.evict_idle()
    assert engine.counts().free == engine.counts().capacity
