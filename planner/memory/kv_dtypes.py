"""Bytes of the types that a KV cache stores, and how each `--kv-cache-dtype` packs the keys and values of a token.

Sources: vllm/utils/torch_utils.py:40-66; vllm/v1/kv_cache_interface.py:41-165; the backends' customize_spec;
vllm/model_executor/layers/quantization/turboquant/config.py:124-175.
"""

from __future__ import annotations

from ..errors import InputError, shorten

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

_STORED = {
    "half": "float16",
    "float": "float32",
    "int8_per_token_head": "int8",
    "fp8_inc": "float8_e4m3fn",
}
"""Torch types of the names that are neither a torch type nor stored as bytes."""

_SCALE_BYTES = 4
"""Of the float32 scale that a per-token-head type keeps for each key and each value."""

DS_MLA_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes a token of the layouts that sparse MLA kernels read, V3.2's geometry (mla/flashmla_sparse.py)."""

DEEPSEEK_V4_BYTES = 584
"""448 without position, 128 with, 8 of scales (models/deepseek_v4/attention.py:880)."""

_TURBOQUANT_BITS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Bits of an element of a key and of a value; 8 is fp8, which needs no norm."""


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of the torch type named `dtype`.

    Raises:
        InputError: CG912, it is none that a cache stores: config.json may name any for the states of its layers.
    """
    found = _BYTES.get(dtype)
    if found is None:
        raise InputError(
            f"{shorten(dtype, 40)!r} is no type of a KV cache or a state",
            code="CG912",
            where="dtype",
            fix=f"types known: {', '.join(_BYTES)}",
        )
    return found


def torch_dtype(kv_dtype: str, model_dtype: str) -> str:
    """The torch type that a cache of `kv_dtype` stores."""
    if kv_dtype == "auto":
        return model_dtype
    if kv_dtype in _BYTES:
        return kv_dtype
    return _STORED.get(kv_dtype, "uint8")


def quant_mode(kv_dtype: str) -> str:
    """The name of vLLM's KVQuantMode."""
    if kv_dtype.endswith("_per_token_head") or kv_dtype.startswith(("turboquant_", "octave_")):
        return kv_dtype.upper()
    if kv_dtype in ("nvfp4_ds_mla", "ultraquant_4bit"):
        return kv_dtype.upper()
    if kv_dtype.startswith("nvfp4"):
        return "NVFP4"
    return "FP8_PER_TENSOR" if kv_dtype.startswith("fp8") else "NONE"


def is_quantized(kv_dtype: str) -> bool:
    return quant_mode(kv_dtype) != "NONE"


def is_turboquant(kv_dtype: str) -> bool:
    return kv_dtype in _TURBOQUANT_BITS


def packed_bytes(kv_dtype: str, head_size: int, head_size_v: int) -> int | None:
    """Bytes of one token's key and value of one head where they are packed; None: plain elements of the torch type.

    NVFP4 keeps key and value in slots of their own: these are the bytes of one slot.
    """
    if kv_dtype in _TURBOQUANT_BITS:
        return _turboquant_bytes(kv_dtype, head_size)
    if kv_dtype.endswith("_per_token_head"):
        if kv_dtype.startswith("int4"):
            head_size, head_size_v = head_size // 2, head_size_v // 2
        # MLA, which has no value, keeps two scales all the same.
        return head_size + head_size_v + 2 * _SCALE_BYTES
    if quant_mode(kv_dtype) == "NVFP4":
        return nvfp4_bytes(head_size)
    return None


def nvfp4_bytes(head_size: int) -> int:
    """Four bits an element and an fp8 scale for every 16 of them."""
    return head_size // 2 + head_size // 16


def _turboquant_bytes(kv_dtype: str, head_size: int) -> int:
    key_bits, value_bits = _TURBOQUANT_BITS[kv_dtype]
    key = head_size if key_bits == 8 else -(-head_size * key_bits // 8) + 2  # 2: the norm, float16
    value = -(-head_size * value_bits // 8) + 4  # 4: scale and zero, float16
    slot = key + value
    return slot + slot % 2
