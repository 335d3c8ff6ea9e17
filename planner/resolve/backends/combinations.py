"""The last check of each backend: combinations of properties that it cannot serve (`supports_combination`).

Sources are the methods of that name in vllm/v1/attention/backends/ at 0.33.0; what older releases lack is asked with
`layer.since`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from .layer import UNQUANTIZED_KV, Layer, fa_supported, fa_version, is_quantized


class Reason(NamedTuple):
    """One reason against a backend. `kind` says which check; "raises:X": vLLM's check itself fails with X."""

    kind: str
    text: str


def no(condition: str) -> Reason:
    return Reason("combination", condition)


def listed(values: Iterable[object]) -> str:
    """The values for a message; a set in alphabetical order."""
    items = [str(value) for value in values]
    return ", ".join(sorted(items) if isinstance(values, frozenset) else items)


def fp8_kv(layer: Layer, version: int | None, head_size: int | None) -> bool:
    """Whether this FlashAttention version reads a quantized KV cache here.

    fa_utils.py:282-312; until 0.26.0 flash_attn_supports_fp8 and flash_attn.py:137-149.
    """
    if not layer.since("0.27.1"):
        return version == 3 and layer.capability[0] == 9
    if layer.kv_dtype == "fp8_e5m2":
        return False
    if layer.capability[0] == 9:
        return version == 3 or (version == 4 and head_size in (None, 512) and layer.since("0.31.0"))
    return version == 4 and layer.capability[0] == 10


def flash_attention_combination(layer: Layer, mm_prefix: bool) -> Reason | None:
    if layer.sinks and layer.capability < (9, 0):
        return no("attention sinks need compute capability 9.0 or newer")
    if not layer.since("0.24.0"):
        return None
    quantized = is_quantized(layer, layer.kv_dtype)
    if mm_prefix and quantized and layer.capability == (9, 0) and layer.since("0.31.0"):
        return no("multimodal prefixes over an FP8 KV cache need Triton on compute capability 9.0")
    version = partial(
        fa_version,
        layer,
        head_size=layer.head_size,
        sinks=layer.sinks,
        block_size=layer.block_size,
        supports_hd256=True,
    )
    checked = quantized and layer.since("0.27.1")
    if checked and not fp8_kv(layer, version(head_size_v=layer.head_size), layer.head_size):
        also = " (on 9.x with head size 512)" if layer.since("0.31.0") else ""
        return no(f"an FP8 KV cache needs FlashAttention 3 on 9.x, or 4 on 10.x{also}")
    if mm_prefix and version() != 4:
        return no("multimodal prefixes need FlashAttention 4, which does not serve this head size here")
    return None


def flashinfer(layer: Layer) -> Reason | None:
    if layer.kv_dtype.startswith("nvfp4") and layer.capability[0] in (8, 9, 12) and layer.since("0.32.0"):
        if layer.head_size == 64:
            return no("an NVFP4 KV cache with head size 64 is misread by its prefill kernel")
        if layer.sinks:
            return no("its prefill kernel for attention sinks cannot read an NVFP4 KV cache")
    return None


def b12x(layer: Layer) -> Reason | None:
    if layer.dtype != "bfloat16":
        return no("it takes bfloat16 queries only")
    if layer.kv_dtype == "float16":
        return no("it has no float16 KV cache")
    if is_quantized(layer, layer.kv_dtype) and layer.kv_dtype not in ("fp8", "fp8_e4m3"):
        return no("of the quantized KV caches it takes fp8 and fp8_e4m3 only")
    return None if "b12x" in layer.installed.packages else no("the package b12x is missing")


def fa_mla(layer: Layer) -> Reason | None:
    if fa_supported(layer, 3):
        return None
    return no("FlashAttention's MLA kernels need FlashAttention 3 on compute capability 9.x")


def flashmla(layer: Layer) -> Reason | None:
    majors = (9, 10) if layer.sparse else (9,)
    if layer.capability[0] in majors:
        return None
    kernels = "sparse kernels run on 9.x and 10.x" if layer.sparse else "dense kernels run on 9.x only"
    return no(f"FlashMLA's {kernels}")


def flashinfer_mla(layer: Layer) -> Reason | None:
    if layer.qk_nope_head_dim in (64, 128, 192):
        return None
    return no(f"qk_nope_head_dim {layer.qk_nope_head_dim}: it takes 64, 128, 192")


def tokenspeed(layer: Layer) -> Reason | None:
    if "tokenspeed_mla" not in layer.installed.packages:
        return no("the package tokenspeed-mla is missing")
    dims = (layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim)
    if dims == (128, 64, 128):
        return None
    return no(f"MLA dimensions (nope, rope, value) {dims}: it takes (128, 64, 128)")


def fa_mla_sparse(layer: Layer) -> Reason | None:
    if layer.kv_dtype not in UNQUANTIZED_KV:
        return no("it takes an unquantized KV cache only")
    if not fa_supported(layer, 3):
        return fa_mla(layer)
    if layer.dcp_size > 1:
        return no("no decode context parallelism")
    return None if layer.index_topk is not None else no("the model has no index_topk")


def fa_mla_sparse_fa4(layer: Layer) -> Reason | None:
    if not layer.installed.flashinfer:
        return no("its prefill runs on FlashInfer, which is not installed")
    if not fa_supported(layer, 4):
        return no("FlashAttention 4 is not available here")
    if layer.index_topk is None or layer.index_topk % 128:
        return no(f"index_topk {layer.index_topk}: it takes multiples of 128")
    if (layer.kv_lora_rank, layer.qk_rope_head_dim) != (512, 64):
        return no("it takes kv_lora_rank 512 with qk_rope_head_dim 64 only")
    heads = layer.num_heads * layer.dcp_size
    if heads not in ((8, 16, 32, 64) if layer.dcp_size > 1 else (8, 16, 32, 64, 128)):
        return no(f"{heads} query heads: it takes 8, 16, 32, 64 (128 without DCP)")
    return flashinfer_mla_sparse(layer)


def flashmla_sparse(layer: Layer) -> Reason | None:
    if layer.head_size == 512 and layer.since("0.31.0"):
        packed = layer.since("0.32.0")
        known = (*UNQUANTIZED_KV, "fp8_ds_mla") if packed else UNQUANTIZED_KV
        if layer.capability[0] != 9 or layer.kv_dtype not in known:
            kv = "bf16 or fp8_ds_mla" if packed else "bf16"
            return no(f"head size 512 needs compute capability 9.x and a {kv} KV cache")
        if layer.qk_rope_head_dim not in (0,):
            return no("head size 512 is for models without rotary part only")
    if layer.kv_dtype == "nvfp4_ds_mla" and layer.capability[0] != 10:
        return no("an nvfp4_ds_mla KV cache needs compute capability 10.x")
    return None


def flashinfer_mla_sparse(layer: Layer) -> Reason | None:
    no_rope = layer.since("0.30.0")
    if layer.pcp_size > 1 and layer.dcp_size > 1 and no_rope:
        return no("no prefill together with decode context parallelism; FLASHMLA_SPARSE has both")
    if layer.kv_dtype == "fp8_ds_mla" and layer.since("0.24.0"):
        return no("no fp8_ds_mla KV cache on compute capability 10.x")
    nope, rope, rank = layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.kv_lora_rank
    if no_rope and (nope is None or rope is None or rank is None):
        return Reason("raises:AttributeError", "the model's configuration has no MLA dimensions")
    if no_rope and rope == 0:
        if nope != 256 or rank != 512:
            return no("without rotary part it takes qk_nope_head_dim 256 with kv_lora_rank 512 only")
    elif nope not in (128, 192):
        return no(f"qk_nope_head_dim {nope}: it takes 128, 192")
    return None if layer.index_topk is not None else no("the model has no index_topk")


def flashinfer_mla_sparse_sm120(layer: Layer) -> Reason | None:
    if not layer.installed.flashinfer:
        return no("FlashInfer's sparse MLA decode is missing")
    if layer.dtype != "bfloat16":
        return no("it takes bfloat16 only")
    if layer.kv_dtype not in ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla"):
        return no(f"KV cache dtype {layer.kv_dtype}: not supported")
    return None if layer.index_topk == 2048 else no(f"index_topk {layer.index_topk}: it takes 2048")


def flashinfer_mla_sparse_sm90(layer: Layer) -> Reason | None:
    if not layer.installed.flashinfer:
        return no("FlashInfer's MLA kernels for compute capability 9.0 (0.6.18 or newer) are missing")
    if not layer.sparse:
        return no("it serves sparse attention only")
    if layer.kv_lora_rank != 512:
        return no(f"kv_lora_rank {layer.kv_lora_rank}: it takes 512")
    return None if layer.qk_rope_head_dim in (0, 64) else no("it takes qk_rope_head_dim 0 or 64 only")


def dsv4_flashinfer(layer: Layer) -> Reason | None:
    major = layer.capability[0]
    if major == 10:
        known: tuple[str, ...] = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    elif major == 12:
        known = ("fp8", "fp8_e4m3", "fp8_ds_mla")
    else:
        return no("it runs on compute capability 10.x and 12.x only")
    if layer.kv_dtype not in known:
        return no(f"KV cache dtype {layer.kv_dtype}: it takes {listed(known)} here")
    if major == 12 and not layer.installed.flashinfer:
        return no("FlashInfer's sparse MLA decode is missing")
    return None


def mega_attn(layer: Layer) -> Reason | None:
    return None if layer.capability[0] == 10 else no("its kernel is built for compute capability 10.x only")


def step5(layer: Layer) -> Reason | None:
    return flash_attention_combination(layer._replace(kv_dtype="auto"), layer.mm_prefix)
