"""How a backend packs the page of an attention layer: slots of a block and bytes of one slot and state.

Sources: customize_spec of vllm/v1/attention/backends/{triton_attn,flashinfer,turboquant_attn}.py and of
vllm/model_executor/layers/attention/mla_attention.py:1600; real_page_size_bytes of the classes up to 0.27.
"""

from __future__ import annotations

from typing import NamedTuple

from ..kv_dtypes import is_turboquant, packed_bytes, quant_mode

_PER_TOKEN_HEAD_BACKENDS = ("TRITON_ATTN", "TRITON_FLASH_ATTN", "TRITON_FLASHINFER")


class Packing(NamedTuple):
    """`slots` and `content_bytes` as in AttentionSpec; None: one slot a head, plain elements."""

    slots: int | None = None
    content_bytes: int | None = None


def packing(kv_dtype: str, head_size: int, head_size_v: int, num_kv_heads: int, backend: str) -> Packing:
    """How `backend` packs a layer, from 0.28 on."""
    content = packed_bytes(kv_dtype, head_size, head_size_v)
    if content is None:
        return Packing()
    if is_turboquant(kv_dtype):
        return Packing(None, content) if backend == "TURBOQUANT" else Packing()
    if quant_mode(kv_dtype) == "NVFP4":
        return Packing(2 * num_kv_heads, content) if backend == "FLASHINFER" else Packing()
    return Packing(None, content) if backend in _PER_TOKEN_HEAD_BACKENDS or head_size_v == 0 else Packing()


def packing_by_class(kv_dtype: str, head_size: int, head_size_v: int, *, sliding: bool, full: bool) -> Packing:
    """How the spec classes pack a layer, up to 0.27: by the dtype alone, and int4 or TurboQuant not if it slides."""
    content = packed_bytes(kv_dtype, head_size, head_size_v)
    if content is None or (is_turboquant(kv_dtype) and not full):
        return Packing()
    if quant_mode(kv_dtype) == "NVFP4":
        return Packing(None, content + (packed_bytes(kv_dtype, head_size_v, head_size_v) or 0))
    if kv_dtype.startswith("int4") and sliding:
        return Packing(None, packed_bytes("int8_per_token_head", head_size, head_size_v))
    return Packing(None, content)
