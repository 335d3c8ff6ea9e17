"""Why a backend cannot serve a layer: vLLM's checks in vLLM's order (vllm/v1/attention/backend.py:279-366).

Most checks compare the layer with the data of backends.toml. Some backends have checks of their own: a
subclass of `_Checks` where several differ, a function of backend_combinations.py where only the last does.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import shorten
from . import combinations
from .combinations import Reason, flash_attention_combination, fp8_kv, listed, no
from .facts import Backend
from .layer import (
    FA4_HD256_PAGE_TOKENS,
    UNQUANTIZED_KV,
    Layer,
    fa_supported,
    fa_version,
    trtllm_decode,
    trtllm_kernels,
    uses_hd256_kernel,
)


def reasons(backend: Backend, layer: Layer) -> tuple[Reason, ...]:
    """All reasons why `backend` cannot serve `layer`, in vLLM's order; empty: it can."""
    if backend.unavailable is not None:
        return (Reason("unavailable", backend.unavailable),)
    if backend.imports == "flashinfer" and not layer.installed.flashinfer:
        return (Reason("unavailable", "FlashInfer is not installed"),)
    checks = _CHECKS.get(backend.rule, _PLAIN)
    found = checks.basic(backend, layer)
    combination = checks.combination(backend, layer)
    if combination is not None:
        if combination.kind != "combination":
            return (combination,)
        found.append(combination)
    return tuple(found)


class _Checks:
    """The checks that every backend has; subclasses replace what differs."""

    def __init__(self, combination: Callable[[Layer], Reason | None] | None = None) -> None:
        self._combination = combination

    def basic(self, backend: Backend, layer: Layer) -> list[Reason]:
        found: list[Reason] = []
        if not self.head_size(backend, layer):
            found.append(Reason("head_size", self.head_size_text(backend, layer)))
        if layer.dtype not in backend.dtypes:
            found.append(Reason("dtype", f"dtype {shorten(layer.dtype, 40)}: it takes {listed(backend.dtypes)}"))
        if not self.kv_dtype(backend, layer):
            found.append(Reason("kv_cache_dtype", f"KV cache dtype {shorten(layer.kv_dtype, 40)}: not supported here"))
        if layer.block_size is not None and not self.block_size(backend, layer, layer.block_size):
            found.append(Reason("block_size", f"--block-size {layer.block_size} does not fit its kernels"))
        traits = backend.traits
        if layer.mm_prefix and not self.mm_prefix(backend, layer):
            found.append(Reason("mm_prefix", "no bidirectional attention over multimodal prefixes"))
        if layer.mla != ("mla" in traits):
            found.append(Reason("mla", "the model uses MLA" if layer.mla else "it serves MLA models only"))
        if layer.sinks and not self.sinks(backend, layer):
            found.append(Reason("sinks", "no attention sinks"))
        if layer.sparse != ("sparse" in traits):
            text = "the model uses sparse attention" if layer.sparse else "it serves sparse attention only"
            found.append(Reason("sparse", text))
        if not backend.runs_on(layer.capability):
            major, minor = layer.capability
            text = f"compute capability {major}.{minor}: it needs {backend.capability_text}"
            found.append(Reason("capability", text))
        if layer.attn_type not in backend.attn_types:
            found.append(Reason("attn_type", f"no {layer.attn_type} attention"))
        self.features(backend, layer, found)
        return found

    def features(self, backend: Backend, layer: Layer, found: list[Reason]) -> None:
        """The checks of what few deployments ask for."""
        traits = backend.traits
        if layer.sliding_window and "sliding_window" not in traits:
            found.append(Reason("sliding_window", "no sliding window"))
        if layer.rswa and "rswa" not in traits:
            found.append(Reason("rswa", "no reference sliding window"))
        if layer.non_causal and "non_causal" not in traits:
            found.append(Reason("non_causal", "no non-causal attention"))
        if layer.mla and layer.non_causal and layer.dcp_size > 1 and "non_causal_dcp" not in traits:
            found.append(Reason("non_causal_dcp", "no non-causal MLA with decode context parallelism"))
        if layer.batch_invariant and "batch_invariance" not in traits:
            found.append(Reason("batch_invariance", "no batch invariance (VLLM_BATCH_INVARIANT)"))
        if layer.kv_connector and "no_kv_connector" in traits:
            found.append(Reason("kv_connector", "no KV connector (--kv-transfer-config)"))
        if layer.pcp_size > 1 and "pcp" not in traits:
            found.append(Reason("pcp", "no prefill context parallelism"))
        if layer.dcp_size > 1 and "dcp" not in traits:
            found.append(Reason("dcp", "no decode context parallelism"))
        if layer.adaptive_verification and not self.adaptive_verification(backend, layer):
            found.append(Reason("adaptive_verification", "no adaptive verification of drafts"))

    def head_size(self, backend: Backend, layer: Layer) -> bool:
        return layer.head_size >= backend.head_min and (not backend.heads or layer.head_size in backend.heads)

    def head_size_text(self, backend: Backend, layer: Layer) -> str:
        allowed = listed(backend.heads) if backend.heads else f"{backend.head_min} or more"
        return f"head size {layer.head_size}: it takes {allowed}"

    def kv_dtype(self, backend: Backend, layer: Layer) -> bool:
        return layer.kv_dtype in backend.kv

    def block_size(self, backend: Backend, layer: Layer, block_size: int) -> bool:
        return backend.takes_block_size(block_size)

    def mm_prefix(self, backend: Backend, layer: Layer) -> bool:
        return "mm_prefix" in backend.traits

    def sinks(self, backend: Backend, layer: Layer) -> bool:
        return "sinks" in backend.traits

    def adaptive_verification(self, backend: Backend, layer: Layer) -> bool:
        return "no_adaptive_verification" not in backend.traits

    def combination(self, backend: Backend, layer: Layer) -> Reason | None:
        return self._combination(layer) if self._combination is not None else None


class _FlashAttention(_Checks):
    """flash_attn.py:107-513. `head_size_v`: what the class claims, for the page size of its kernel."""

    def __init__(self, head_size_v: int | None = None) -> None:
        super().__init__()
        self._head_size_v = head_size_v

    def head_size(self, backend: Backend, layer: Layer) -> bool:
        return layer.head_size % 8 == 0 and layer.head_size <= self._largest_head(layer)

    def head_size_text(self, backend: Backend, layer: Layer) -> str:
        return f"head size {layer.head_size}: it takes multiples of 8 up to {self._largest_head(layer)}"

    @staticmethod
    def _largest_head(layer: Layer) -> int:
        return 512 if fa_supported(layer, 4) and layer.since("0.20.2") else 256

    def kv_dtype(self, backend: Backend, layer: Layer) -> bool:
        if layer.kv_dtype not in backend.kv:
            return False
        return layer.kv_dtype in UNQUANTIZED_KV or fp8_kv(layer, fa_version(layer), None)

    def block_size(self, backend: Backend, layer: Layer, block_size: int) -> bool:
        return block_size % (self.page_tokens(layer) or 16) == 0

    def page_tokens(self, layer: Layer) -> int | None:
        """The fixed page that a FlashAttention 4 kernel wants, tokens."""
        head_size = layer.head_size
        fp8 = layer.run_kv_dtype in ("fp8", "fp8_e4m3")
        sm90_page = layer.capability[0] == 9 and fp8 and head_size == 512 and layer.since("0.31.0")
        if sm90_page and fa_version(layer, head_size=head_size) == 4:
            return 64
        head_size_v = self._head_size_v
        if uses_hd256_kernel(layer, head_size, head_size_v) and (
            fa_version(layer, head_size=head_size, head_size_v=head_size_v, supports_hd256=True) == 4
        ):
            return FA4_HD256_PAGE_TOKENS
        return None

    def mm_prefix(self, backend: Backend, layer: Layer) -> bool:
        return fa_supported(layer, 4) and layer.since("0.24.0")

    def sinks(self, backend: Backend, layer: Layer) -> bool:
        return fa_version(layer) in ((3, 4) if layer.since("0.20.2") else (3,))

    def combination(self, backend: Backend, layer: Layer) -> Reason | None:
        return flash_attention_combination(layer, layer.mm_prefix)


class _TritonFlashAttention(_FlashAttention):
    """triton_flash_attn.py:19-62: Triton for image masks, FlashAttention for causal batches."""

    def head_size(self, backend: Backend, layer: Layer) -> bool:
        return layer.head_size in backend.heads and super().head_size(backend, layer)

    head_size_text = _Checks.head_size_text
    mm_prefix = _Checks.mm_prefix
    sinks = _Checks.sinks

    def combination(self, backend: Backend, layer: Layer) -> Reason | None:
        reason = flash_attention_combination(layer, mm_prefix=False)
        if reason is not None:
            return reason
        version = fa_version(
            layer,
            head_size=layer.head_size,
            sinks=layer.sinks,
            block_size=layer.block_size,
            supports_hd256=True,
        )
        if layer.since("0.31.0"):
            return None if version in (3, 4) else no("its causal half needs FlashAttention 3 or 4")
        return None if version == 4 else no("its causal half needs FlashAttention 4")


class _FlashInfer(_Checks):
    """flashinfer.py:554-738."""

    def kv_dtype(self, backend: Backend, layer: Layer) -> bool:
        # Until 0.24.0 nothing but the list was asked; NVFP4 without TRTLLM came with 0.32.0.
        if not layer.kv_dtype.startswith("nvfp4") or not layer.since("0.25.1"):
            return layer.kv_dtype in backend.kv
        major = layer.capability[0]
        if major in (8, 9, 12) and layer.since("0.32.0"):
            return layer.kv_dtype == "nvfp4"
        return major == 10 and trtllm_kernels(layer)

    def sinks(self, backend: Backend, layer: Layer) -> bool:
        # On compute capability 9.0 since 0.30.0, though the decode kernel is older.
        if layer.use_trtllm is False or not trtllm_kernels(layer):
            return False
        return layer.capability[0] != 9 or layer.since("0.30.0")

    def adaptive_verification(self, backend: Backend, layer: Layer) -> bool:
        if not layer.since("0.29.0"):
            return False
        return layer.capability[0] == 10 and layer.dcp_size == 1 and trtllm_decode(layer)


class _ExactBlocks(_Checks):
    """b12x.py:194, mla/cpu_mla.py:71: one of its block sizes, not a multiple of one."""

    def block_size(self, backend: Backend, layer: Layer, block_size: int) -> bool:
        return block_size in backend.blocks


class _BlocksByCapability(_Checks):
    """vllm/models/deepseek_v41/sparse_mla.py:115: smaller pages on compute capability 9.x."""

    def block_size(self, backend: Backend, layer: Layer, block_size: int) -> bool:
        return block_size % (64 if layer.capability[0] == 9 else 128) == 0


class _OnlyDtype(_Checks):
    """turboquant_attn.py:184: any dtype of the family."""

    def kv_dtype(self, backend: Backend, layer: Layer) -> bool:
        return layer.kv_dtype.startswith("turboquant_")


_PLAIN = _Checks()

_CHECKS: dict[str, _Checks] = {
    "flash_attn": _FlashAttention(),
    "flash_attn_diffkv": _FlashAttention(head_size_v=128),
    "triton_flash_attn": _TritonFlashAttention(),
    "flashinfer": _FlashInfer(combinations.flashinfer),
    "triton_flashinfer": _Checks(combinations.flashinfer),
    "b12x": _ExactBlocks(combinations.b12x),
    "cpu_mla": _ExactBlocks(),
    "turboquant": _OnlyDtype(),
    "flash_attn_mla": _Checks(combinations.fa_mla),
    "flashmla": _Checks(combinations.flashmla),
    "flashinfer_mla": _Checks(combinations.flashinfer_mla),
    "tokenspeed_mla": _Checks(combinations.tokenspeed),
    "flash_attn_mla_sparse": _Checks(combinations.fa_mla_sparse),
    "flash_attn_mla_sparse_fa4": _Checks(combinations.fa_mla_sparse_fa4),
    "flashmla_sparse": _Checks(combinations.flashmla_sparse),
    "flashinfer_mla_sparse": _Checks(combinations.flashinfer_mla_sparse),
    "flashinfer_mla_sparse_sm120": _Checks(combinations.flashinfer_mla_sparse_sm120),
    "flashinfer_mla_sparse_sm90": _Checks(combinations.flashinfer_mla_sparse_sm90),
    "step5_dsa": _Checks(combinations.step5),
    "dsv41_flashmla": _BlocksByCapability(),
    "mega_attn": _Checks(combinations.mega_attn),
    "dsv4_flashinfer": _Checks(combinations.dsv4_flashinfer),
}


def block_size_fits(backend: Backend, layer: Layer, block_size: int) -> bool:
    """Whether `backend` serves blocks of `block_size` tokens (supports_block_size)."""
    return _CHECKS.get(backend.rule, _PLAIN).block_size(backend, layer, block_size)


def fixed_page_tokens(backend: Backend, layer: Layer) -> int | None:
    """The one block size, tokens, that `backend`'s kernel takes for this layer; None: it is not bound to one."""
    checks = _CHECKS.get(backend.rule, _PLAIN)
    return checks.page_tokens(layer) if isinstance(checks, _FlashAttention) else None
