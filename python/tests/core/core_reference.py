"""Attention in double precision, from its definition: softmax(scale q.k) v, causal."""

import numpy as np


def attention(q, keys, values, *, scale, first, window=0, softcap=0.0, sinks=None,
              key_positions=None):
    """(out, lse) of q [tokens][heads][key_dim] at positions first, first + 1, ...

    keys [rows][kv_heads][key_dim] and values [rows][kv_heads][value_dim] at positions 0, 1, ...
    or ``key_positions``. lse is without the sink.
    """
    heads, kv_heads = q.shape[1], keys.shape[1]
    keys = np.repeat(keys.astype(np.float64), heads // kv_heads, axis=1)
    values = np.repeat(values.astype(np.float64), heads // kv_heads, axis=1)
    logits = scale * np.einsum("thd,rhd->htr", q.astype(np.float64), keys)
    if softcap > 0:
        logits = softcap * np.tanh(logits / softcap)
    query = first + np.arange(len(q))[:, None]
    row = np.arange(len(keys))[None] if key_positions is None else key_positions[None]
    seen = row <= query
    if window > 0:
        seen &= query - row < window
    logits = np.where(seen[None], logits, -np.inf)
    peak = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - peak)
    sums = weights.sum(axis=-1, keepdims=True)
    lse = (np.log(sums) + peak)[..., 0].T
    out = np.einsum("htr,rhd->thd", weights / sums, values)
    if sinks is not None:
        out *= (1 / (1 + np.exp(sinks[None] - lse)))[..., None]
    return out, lse


def error(got, wanted):
    """|got - wanted| / |wanted| in norm."""
    return np.linalg.norm(got - wanted) / np.linalg.norm(wanted)


def bfloat16(numbers):
    """fp32 numbers rounded to bfloat16, ties to even."""
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)
