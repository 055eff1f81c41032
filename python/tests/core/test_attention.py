"""decode_attention and prefill_attention against double precision."""

import numpy as np
import pytest
from core_models import prompted, row_numbers, run, tiny, windowed
from core_reference import attention, bfloat16, error

import emblema

ALLOWED = 2e-6  # emblema/kernels/attention.h: sums in fp32


def random(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def written(engine, tokens, *, seed=1, tenant=""):
    """A sequence of so many tokens with random rows in every layer, and layer 0's rows."""
    sequence = engine.start(range(tokens), tenant=tenant)
    sequence.reserve(tokens)
    for layer in engine.geometry.layers:
        sequence.rows(layer.index).write(random((tokens, row_numbers(layer)), [seed, layer.index]))
    sequence.commit(range(tokens))
    return sequence, random((tokens, row_numbers(engine.geometry.layers[0])), [seed, 0])


def split(layer, rows):
    """Keys and values of grouped rows."""
    keys = rows[:, : layer.kv_heads * layer.key_dim]
    values = rows[:, layer.kv_heads * layer.key_dim:]
    return (keys.reshape(len(rows), layer.kv_heads, layer.key_dim),
            values.reshape(len(rows), layer.kv_heads, layer.value_dim))


@pytest.mark.parametrize("threads", [1, 2])
def test_grouped_heads_over_ragged_blocks(threads):
    engine = emblema.Engine(tiny(), "1MiB", threads=threads, isa="scalar")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 75)
    q = random((5, layer.query_heads, layer.key_dim), 2)
    out, lse = emblema.decode_attention(sequence, 0, q)
    wanted, wanted_lse = attention(q, *split(layer, rows), scale=16**-0.5, first=70)
    assert error(out, wanted) < ALLOWED
    assert np.abs(lse - wanted_lse).max() < ALLOWED * np.abs(wanted_lse).max()


def test_queries_of_reserved_tokens_see_their_own_rows():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 20)
    sequence.reserve(2)
    new = random((2, row_numbers(layer)), 3)
    sequence.rows(0).write(new)
    q = random((2, layer.query_heads, layer.key_dim), 4)
    out, _ = emblema.decode_attention(sequence, 0, q)
    wanted, _ = attention(q, *split(layer, np.concatenate([rows, new])), scale=0.25, first=20)
    assert error(out, wanted) < ALLOWED


def test_first_places_the_queries():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 40)
    q = random((3, layer.query_heads, layer.key_dim), 5)
    out, _ = emblema.decode_attention(sequence, 0, q, first=10)
    wanted, _ = attention(q, *split(layer, rows[:13]), scale=0.25, first=10)
    assert error(out, wanted) < ALLOWED


def test_a_window_hides_what_lies_behind_it():
    engine = emblema.Engine(windowed(24), "1MiB")
    layer = engine.geometry.layers[0]
    assert layer.window_tokens == 24
    sequence, rows = written(engine, 70)
    q = random((1, layer.query_heads, layer.key_dim), 6)
    out, lse = emblema.decode_attention(sequence, 0, q)
    wanted, wanted_lse = attention(q, *split(layer, rows), scale=0.25, first=69, window=24)
    assert error(out, wanted) < ALLOWED
    assert np.abs(lse - wanted_lse).max() < 1e-5


def test_a_batch_is_each_of_its_sequences():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    sequences, rows = zip(*(written(engine, n, seed=n, tenant=str(n)) for n in (5, 33, 64)),
                          strict=True)
    counts = [1, 3, 2]
    q = random((6, layer.query_heads, layer.key_dim), 7)
    out, lse = emblema.decode_attention(sequences, 0, q, queries=counts)
    begin = 0
    for sequence, own, count in zip(sequences, rows, counts, strict=True):
        part = slice(begin, begin + count)
        wanted, _ = attention(q[part], *split(layer, own), scale=0.25, first=len(own) - count)
        assert error(out[part], wanted) < ALLOWED
        alone, alone_lse = emblema.decode_attention(sequence, 0, q[part])
        assert np.array_equal(alone, out[part]) and np.array_equal(alone_lse, lse[part])
        begin += count


def test_sinks_join_the_softmax_and_not_lse():
    engine = emblema.Engine(emblema.Geometry("gpt-oss-20b", layers=1, kv_dtype="fp32"), "16MiB")
    layer = engine.geometry.layers[0]
    assert layer.has_sinks and layer.window_tokens == 128
    sequence, rows = written(engine, 150)
    q = random((1, layer.query_heads, layer.key_dim), 8)
    sinks = random(layer.query_heads, 9)
    out, lse = emblema.decode_attention(sequence, 0, q, sinks=sinks)
    wanted, wanted_lse = attention(q, *split(layer, rows), scale=layer.key_dim**-0.5, first=149,
                                   window=128, sinks=sinks)
    assert error(out, wanted) < ALLOWED
    assert np.abs(lse - wanted_lse).max() < 1e-5


def test_softcap_is_the_layers():
    engine = emblema.Engine(emblema.Geometry("gemma-2-2b", layers=2, kv_dtype="fp32"), "32MiB")
    layer = engine.geometry.layers[1]
    assert layer.softcap == 50.0
    sequence = engine.start(range(30))
    sequence.reserve(30)
    rows = random((30, row_numbers(layer)), 10)
    sequence.rows(1).write(rows)
    q = 20 * random((2, layer.query_heads, layer.key_dim), 11)
    out, _ = emblema.decode_attention(sequence, 1, q)
    wanted, _ = attention(q, *split(layer, rows), scale=256**-0.5, first=28, softcap=50.0)
    assert error(out, wanted) < 2e-5  # logits of up to 50: twice as large ones, twice the error


def test_scale_replaces_the_layers():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 20)
    q = random((1, layer.query_heads, layer.key_dim), 12)
    out, _ = emblema.decode_attention(sequence, 0, q, scale=0.5)
    wanted, _ = attention(q, *split(layer, rows), scale=0.5, first=19)
    assert error(out, wanted) < ALLOWED


def test_latents_serve_as_key_and_value_of_every_head():
    engine = emblema.Engine(emblema.Geometry("deepseek-v2-lite", layers=1, kv_dtype="fp32"),
                            "8MiB")
    layer = engine.geometry.layers[0]
    assert (layer.kind, layer.key_dim, layer.value_dim) == ("mla", 576, 512)
    sequence, rows = written(engine, 90)
    q = random((2, layer.query_heads, 576), 13)
    out, lse = emblema.decode_attention(sequence, 0, q)
    wanted, wanted_lse = attention(q, rows[:, None], rows[:, None, :512], scale=layer.scale,
                                   first=88)
    assert error(out, wanted) < ALLOWED
    assert np.abs(lse - wanted_lse).max() < 1e-5


def test_prefill_expands_latents_on_the_way():
    engine = emblema.Engine(emblema.Geometry("deepseek-v2-lite", layers=1, kv_dtype="fp32"),
                            "8MiB")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 20)
    key_up = random((layer.query_heads, 128, 512), 14) * 512**-0.5
    value_up = random((layer.query_heads, 128, 512), 15) * 512**-0.5
    q = random((20, layer.query_heads, 128 + 64), 16)
    out, _ = emblema.prefill_attention(sequence, 0, q, first=0, key_up=key_up, value_up=value_up)
    content = np.einsum("hdl,rl->rhd", key_up.astype(np.float64), rows[:, :512])
    rotary = np.broadcast_to(rows[:, None, 512:], (20, layer.query_heads, 64))
    values = np.einsum("hdl,rl->rhd", value_up.astype(np.float64), rows[:, :512])
    wanted, _ = attention(q, np.concatenate([content, rotary], axis=2), values, scale=layer.scale,
                          first=0)
    assert error(out, wanted) < 1e-5


def test_bf16_rows_are_what_bf16_rounds_to():
    engine = emblema.Engine(tiny("bf16"), "1MiB", isa="scalar")
    layer = engine.geometry.layers[0]
    sequence, rows = written(engine, 50)
    q = random((1, layer.query_heads, layer.key_dim), 17)
    out, _ = emblema.decode_attention(sequence, 0, q)
    wanted, _ = attention(q, *split(layer, bfloat16(rows)), scale=0.25, first=49)
    assert error(out, wanted) < ALLOWED


def test_fp8_rows_are_scaled_as_they_were_written():
    engine = emblema.Engine(tiny("fp8"), "1MiB", isa="scalar")
    layer = engine.geometry.layers[0]
    sequence = engine.start(range(16))
    sequence.reserve(16)
    numbers = np.random.default_rng(18).choice([-1.5, -0.5, 0.25, 1.0, 3.0], (16, 64))
    rows = numbers.astype(np.float32)
    sequence.rows(0).write(rows, key_scale=0.5, value_scale=0.25)  # exact: numbers of few bits
    q = random((1, layer.query_heads, layer.key_dim), 19)
    out, _ = emblema.decode_attention(sequence, 0, q, key_scale=0.5, value_scale=0.25)
    wanted, _ = attention(q, *split(layer, rows), scale=0.25, first=15)
    assert error(out, wanted) < ALLOWED


def test_results_go_where_they_are_asked_to():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    sequence, _ = written(engine, 20)
    q = random((2, layer.query_heads, layer.key_dim), 20)
    out = np.full((2, 4, 16), 7, dtype=np.float32)
    lse = np.full((2, 4), 7, dtype=np.float32)
    given = emblema.decode_attention(sequence, 0, q, out=out, lse=lse)
    assert given[0] is out and given[1] is lse
    again = emblema.decode_attention(sequence, 0, q)
    assert np.array_equal(out, again[0]) and np.array_equal(lse, again[1])


def test_an_attached_segment_is_read_at_its_new_position():
    engine = emblema.Engine(tiny(), "1MiB")
    layer = engine.geometry.layers[0]
    span = list(range(500, 520))
    builder = engine.segment(span)
    run(engine, builder.sequence, span)
    with builder.seal() as segment:
        sequence = prompted(engine, list(range(10)))
        assert sequence.attach(segment) == 0
    assert sequence.tokens == 30
    [own, attached] = [one for one in sequence.spans() if one.rows > 0][:2]
    assert (own.rows, attached.rows, attached.position, attached.delta) == (10, 20, 0, 10)
    stored = np.array([sequence.row(0, position) for position in range(30)])
    keys, values = split(layer, stored)
    keys = np.concatenate([keys[:10], rotated(keys[10:], 10)])  # R(10) k: stored at p, read at p+10
    q = random((1, layer.query_heads, layer.key_dim), 21)
    out, _ = emblema.decode_attention(sequence, 0, q)
    wanted, _ = attention(q, keys, values, scale=0.25, first=29)
    assert error(out, wanted) < 1e-5


def rotated(keys, by):
    """Rotary embedding of halves, base 10000: channel i turns with channel i + d/2."""
    half = keys.shape[-1] // 2
    angles = by * 10000.0 ** (-np.arange(half) / half)
    a, b = keys[..., :half].astype(np.float64), keys[..., half:].astype(np.float64)
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles),
                           b * np.cos(angles) + a * np.sin(angles)], axis=-1)


def test_the_same_bits_from_any_number_of_threads():
    results = []
    for threads in (1, 3):
        engine = emblema.Engine(tiny("bf16"), "1MiB", threads=threads)
        sequence, _ = written(engine, 200)
        q = random((7, 4, 16), 22)
        results.append(emblema.decode_attention(sequence, 1, q))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
