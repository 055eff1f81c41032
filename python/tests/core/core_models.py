"""Small models, and rows that a token's place in its sequence decides."""

import numpy as np

import emblema

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


def tiny(kv_dtype="fp32", **fields):
    """Two layers of 4 query heads and 2 KV heads of 16: a row is 64 numbers; blocks of 16."""
    return emblema.Geometry(TINY | fields, kv_dtype=kv_dtype)


def windowed(window=24, kv_dtype="fp32"):
    """The same with a sliding window in every layer."""
    return tiny(kv_dtype, model_type="mistral", architectures=["MistralForCausalLM"],
                sliding_window=window)


def row_numbers(layer):
    """Numbers of one row of a LayerGeometry."""
    if layer.streams[0].role == "latent":
        return layer.key_dim
    return layer.kv_heads * (layer.key_dim + layer.value_dim)


def rows_of(layer, ids, seed=0):
    """A row for each token of ``ids``, decided by all tokens up to it, as a model's would be."""
    rows = []
    state = seed
    for token in ids:
        state = (state * 1_000_003 + int(token) + 1) % (1 << 61)
        rng = np.random.default_rng([layer.index, state])
        rows.append(rng.standard_normal(row_numbers(layer), dtype=np.float32))
    return np.array(rows, dtype=np.float32).reshape(len(ids), row_numbers(layer))


def run(engine, sequence, ids, past=()):
    """Reserves, writes every layer's rows and commits ``ids`` behind ``past``."""
    if len(ids) == 0:
        return
    sequence.reserve(len(ids))
    for layer in engine.geometry.layers:
        wanted = rows_of(layer, [*past, *ids])[len(past):]
        sequence.rows(layer.index).write(wanted)
    sequence.commit(ids)


def prompted(engine, ids, **request):
    """A sequence of ``ids``, run from where the cache ends."""
    sequence = engine.start(ids, **request)
    hit = sequence.hit_tokens
    run(engine, sequence, ids[hit:], past=ids[:hit])
    return sequence
