"""Bytes of the types that a KV cache stores, and how each `--kv-cache-dtype` packs a head."""

from __future__ import annotations

_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of the torch type named `dtype`."""
    return _BYTES[dtype]
