"""Emblema: a KV-cache engine for LLM serving."""

from emblema._core import (
    CorruptError,
    EmblemaError,
    InvalidError,
    IoError,
    NotFoundError,
    OutOfBlocksError,
    UnsupportedError,
)

__all__ = [
    "CorruptError",
    "EmblemaError",
    "InvalidError",
    "IoError",
    "NotFoundError",
    "OutOfBlocksError",
    "UnsupportedError",
]
