"""An attention layer as vLLM's backend selector sees it, and the FlashAttention version it would run."""

from __future__ import annotations

from typing import NamedTuple

from ...releases import holds
from .facts import Capability

UNQUANTIZED_KV = frozenset({"auto", "float16", "bfloat16"})

FA4_HD256_PAGE_TOKENS = 128
"""FlashAttention 4's kernel for head size 256 reads pages of this many tokens (fa_utils.py:14), since 0.29.0."""


class Installed(NamedTuple):
    """What is installed beside vLLM, as far as backends ask."""

    flashinfer: bool
    cubins: bool
    flash_attn_3: bool
    flash_attn_4: bool
    deep_gemm: bool
    packages: tuple[str, ...]


class Layer(NamedTuple):
    """One kind of attention layer with everything its selection depends on.

    `release` is the vLLM release that asks. The other fields follow vllm/v1/attention/selector.py:23-43 and the parts
    of the configuration that backends read.
    Head counts are per tensor parallel rank; block_size is in tokens, None unless the user gave one.
    `kv_dtype` is the layer's KV cache dtype, `run_kv_dtype` that of the whole run. `unclamped_window`: some
    layer of the model has a sliding window that an image may look beyond. `fa_version` is
    attention_config.flash_attn_version. The MLA dimensions and index_topk are None where the model has none.
    """

    release: str
    capability: Capability
    installed: Installed
    head_size: int
    dtype: str
    kv_dtype: str
    run_kv_dtype: str
    block_size: int | None
    num_heads: int
    num_kv_heads: int
    attn_type: str
    mla: bool
    sparse: bool
    sinks: bool
    mm_prefix: bool
    sliding_window: bool
    unclamped_window: bool
    rswa: bool
    softcap: bool
    diffusion: bool
    non_causal: bool
    batch_invariant: bool
    kv_connector: bool
    pcp_size: int
    dcp_size: int
    adaptive_verification: bool
    speculative_tokens: int
    fa_version: int | None
    use_trtllm: bool | None
    kv_lora_rank: int | None
    qk_nope_head_dim: int | None
    qk_rope_head_dim: int | None
    v_head_dim: int | None
    index_topk: int | None
    imported_before_env: bool = False
    """The backend's module was imported before VLLM_BATCH_INVARIANT was set."""
    block_drafts: bool = False
    """A layer of a drafter that decodes a block of tokens at once without a causal mask."""

    def since(self, first: str) -> bool:
        """Whether vLLM is release `first` or newer."""
        return holds(self.release, first)


def is_quantized(layer: Layer, kv_dtype: str) -> bool:
    """Whether vLLM calls this KV cache dtype quantized. Until 0.32.0 it knew fewer (vllm/utils/torch_utils.py)."""
    if kv_dtype in UNQUANTIZED_KV:
        return False
    return layer.since("0.33.0") or kv_dtype.startswith(("fp8", "nvfp4")) or kv_dtype.endswith("per_token_head")


def fa_supported(layer: Layer, version: int) -> bool:
    """Whether this FlashAttention version is built and runs here (flash_attn_interface.py:48-104)."""
    if version == 2:
        return layer.capability >= (8, 0)
    if version == 3:
        return layer.installed.flash_attn_3 and layer.capability[0] == 9
    return layer.installed.flash_attn_4 and layer.capability[0] in (9, 10, 11)


def fa_version(
    layer: Layer,
    *,
    head_size: int | None = None,
    head_size_v: int | None = None,
    sinks: bool = False,
    block_size: int | None = None,
    supports_hd256: bool = False,
) -> int | None:
    """The FlashAttention version for a layer with these properties, None when there is none.

    Without properties it is the default that the support level looks at (fa_utils.py:74-221).
    """
    major = layer.capability[0]
    if major == 9 and fa_supported(layer, 3):
        version = 3
    elif major == 10 and fa_supported(layer, 4):
        version = 4
    else:
        version = 2
    if layer.fa_version is not None:
        version = layer.fa_version
    if major >= 10 and version == 3:
        version = 4 if fa_supported(layer, 4) else 2
    if version == 3 and major == 9 and fa_supported(layer, 4) and _beyond_fa3(layer, head_size, head_size_v, sinks):
        version = 4
    if version == 4:
        version = _fa4_or_2(layer, head_size, head_size_v, sinks, block_size, supports_hd256)
    return version if fa_supported(layer, version) else None


def _beyond_fa3(layer: Layer, head_size: int | None, head_size_v: int | None, sinks: bool) -> bool:
    """What FlashAttention 3 lacks and 4 has on compute capability 9.x (fa_utils.py:124-150)."""
    if head_size is not None:
        if head_size > 256 and layer.since("0.21.0"):
            return True
        if sinks and head_size_v not in (None, head_size) and layer.since("0.20.2"):
            return True
    return layer.diffusion and layer.since("0.24.0")


def _fa4_or_2(
    layer: Layer,
    head_size: int | None,
    head_size_v: int | None,
    sinks: bool,
    block_size: int | None,
    supports_hd256: bool,
) -> int:
    """FlashAttention 4 falls back to 2 for what its kernels lack (fa_utils.py:160-205)."""
    if layer.batch_invariant:
        return 2
    if uses_hd256_kernel(layer, head_size, head_size_v) and (
        not supports_hd256
        or sinks
        or layer.softcap
        or is_quantized(layer, layer.run_kv_dtype)
        or (block_size is not None and block_size % FA4_HD256_PAGE_TOKENS)
        or layer.mm_prefix
        or layer.rswa
        or layer.dcp_size > 1
    ):
        return 2
    if layer.capability[0] >= 10 and head_size is not None and head_size > 128:
        return 4 if _fa4_takes(layer, head_size, head_size_v) else 2
    return 4


def _fa4_takes(layer: Layer, head_size: int, head_size_v: int | None) -> bool:
    """Head sizes above 128 that FlashAttention 4 takes from compute capability 10.0 on.

    fa_utils.py:190-205 @ 0.33.0, :169-186 @ 0.28.0 (256 switched off), :235-250 @ 0.27.1, :195-210 @ 0.26.0.
    """
    if layer.since("0.29.0"):
        return (head_size == 256 and head_size_v in (None, 256)) or (head_size == 192 and head_size_v == 128)
    if layer.since("0.27.1"):
        return (head_size == 192 and head_size_v == 128) or (head_size == 256 and not layer.since("0.28.0"))
    return head_size == 192


def uses_hd256_kernel(layer: Layer, head_size: int | None, head_size_v: int | None = None) -> bool:
    """Whether FlashAttention 4 would run its own kernel for head size 256 (fa_utils.py:224-233), since 0.29.0."""
    return head_size == 256 and head_size_v in (None, 256) and layer.capability[0] in (10, 11) and layer.since("0.29.0")


def trtllm_kernels(layer: Layer) -> bool:
    """Whether FlashInfer's TRTLLM or XQA decode kernels exist here (vllm/utils/flashinfer.py:675-701).

    vLLM uses XQA on compute capability 9.0 since 0.25.1 and on 12.x since 0.28.0.
    """
    if layer.batch_invariant or not layer.installed.cubins:
        return False
    major = layer.capability[0]
    if major == 12:
        return layer.since("0.28.0")
    return major == 10 or (layer.capability == (9, 0) and layer.since("0.25.1"))


def trtllm_decode(layer: Layer) -> bool:
    """Whether they serve this layer's decodes (vllm/utils/flashinfer.py:713-721)."""
    return (
        layer.use_trtllm is not False
        and trtllm_kernels(layer)
        and layer.num_kv_heads > 0
        and layer.num_heads % layer.num_kv_heads == 0
    )
