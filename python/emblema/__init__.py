"""Emblema: a KV-cache engine for LLM serving.

    plan = emblema.plan("deepseek-v3", gpu="h200", gpus=8)      # capacity, before memory
    engine = emblema.Engine("qwen3-32b", "4GiB")                # a cache
    with engine.start(prompt, tenant="a") as sequence:
        sequence.reserve(n)
        sequence.rows(layer).write(keys, values)                # of every layer
        out, lse = emblema.decode_attention(sequence, layer, q)
        sequence.commit(ids)                                    # now others can find it

Errors are EmblemaError, one type for each code of the C++ library, with its message. Only numpy is
imported; torch tensors on the CPU are read and written through DLPack.
"""

from emblema._core import (
    CorruptError,
    EmblemaError,
    Engine,
    EngineStats,
    Geometry,
    InvalidError,
    IoError,
    ModelConfig,
    NotFoundError,
    OutOfBlocksError,
    Pin,
    Rows,
    Segment,
    SegmentBuilder,
    Sequence,
    UnsupportedError,
    WhyReport,
    decode_attention,
    prefill_attention,
    presets,
)
from emblema.planning import Plan, plan

__all__ = [
    "CorruptError",
    "EmblemaError",
    "Engine",
    "EngineStats",
    "Geometry",
    "InvalidError",
    "IoError",
    "ModelConfig",
    "NotFoundError",
    "OutOfBlocksError",
    "Pin",
    "Plan",
    "Rows",
    "Segment",
    "SegmentBuilder",
    "Sequence",
    "UnsupportedError",
    "WhyReport",
    "decode_attention",
    "plan",
    "prefill_attention",
    "presets",
]
