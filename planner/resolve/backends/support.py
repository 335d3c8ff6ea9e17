"""How much of a forward pass a CUDA graph may hold with a backend: its support level, and what decided it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...trace import Rule
from ...vocabulary import AttentionCGSupport
from .facts import Backend
from .layer import Layer, fa_version, trtllm_decode

ALWAYS = AttentionCGSupport.ALWAYS
UNIFORM_BATCH = AttentionCGSupport.UNIFORM_BATCH
SINGLE_TOKEN = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
NEVER = AttentionCGSupport.NEVER

FIXED_LEVEL = Rule(
    code="CG320",
    title="The attention backend declares one fixed support level.",
    why="Its kernels plan work on the host from the batch's shape, so a recorded graph replays only batches "
    "of the shapes that this level allows.",
    example="TRITON_MLA on an A100: UNIFORM_BATCH, so FULL becomes FULL_AND_PIECEWISE.",
    instead="Choose a backend with a higher level through --attention-backend, where one is valid.",
    source="vllm/v1/attention/backend.py:593-632",
)
FLASH_ATTENTION_LEVEL = Rule(
    code="CG321",
    title="FlashAttention supports any batch in a graph with version 3 or 4, uniform batches with version 2.",
    why="FlashAttention 2 packs grouped queries in another way when every query has one token, so a graph "
    "recorded for such a batch cannot replay mixed batches.",
    example="Llama on an A100 or an RTX 5090: version 2, UNIFORM_BATCH; on an H100: version 3, ALWAYS.",
    instead="Use a GPU for which the wheel has version 3 or 4, or TRITON_ATTN, which is ALWAYS.",
    source="vllm/v1/attention/backends/flash_attn.py:619-632",
    since="0.33.0",
)
FLASH_ATTENTION_3_LEVEL = Rule(
    code="CG340",
    title="FlashAttention supports any batch in a graph with version 3, uniform batches with 2 and 4.",
    why="Version 4 had not been tried with mixed batches in a graph; version 2 packs grouped queries in another "
    "way when every query has one token.",
    example="Llama on a B200 with FLASH_ATTN, which is version 4 there: UNIFORM_BATCH.",
    instead="Upgrade to 0.33.0 or use TRITON_ATTN, which is ALWAYS.",
    source="vllm/v1/attention/backends/flash_attn.py:614-618",
    until="0.32.0",
    release="0.32.0",
)
FLASHINFER_LEVEL = Rule(
    code="CG322",
    title="FlashInfer supports uniform batches where its decode kernels take several tokens a request.",
    why="The TRTLLM and XQA kernels (9.0, 10.x, 12.x) and the FlashAttention 2 kernels (8.x) take them; its "
    "other decode kernels take one token a request, and none of them mixes prefills into a graph.",
    example="An H100 that cannot reach NVIDIA's artifact store: UNIFORM_SINGLE_TOKEN_DECODE.",
    instead="Install flashinfer-cubin, or choose FLASH_ATTN.",
    source="vllm/v1/attention/backends/flashinfer.py:1174-1226",
    since="0.33.0",
)
FLASHINFER_XQA_LEVEL = Rule(
    code="CG341",
    title="FlashInfer supports uniform batches with its TRTLLM and XQA decode kernels only.",
    why="They exist for compute capability 9.0, 10.x and 12.x and take several tokens a request; the decode "
    "kernels elsewhere take one, and decode context parallelism has none that takes more.",
    example="FlashInfer on an A100: UNIFORM_SINGLE_TOKEN_DECODE.",
    instead="Upgrade to 0.33.0 on compute capability 8.x, or choose FLASH_ATTN.",
    source="vllm/v1/attention/backends/flashinfer.py:1036-1084",
    since="0.30.0",
    until="0.32.0",
    release="0.32.0",
)
FLASHINFER_TRTLLM_LEVEL = Rule(
    code="CG342",
    title="FlashInfer supports uniform batches on 10.x with TRTLLM kernels, since 0.28.0 on 12.x with XQA.",
    why="Other decode kernels take one token a request; on 9.0 vLLM did not use XQA for more than one.",
    example="FlashInfer on an H100: UNIFORM_SINGLE_TOKEN_DECODE.",
    instead="Upgrade to 0.30.0 on an H100, or choose FLASH_ATTN.",
    source="vllm/v1/attention/backends/flashinfer.py:974-1014",
    until="0.29.0",
    release="0.29.0",
)
COMPOSITE_LEVEL = Rule(
    code="CG323",
    title="A composite backend is bound by its routing.",
    why="It runs one of two backends by what the batch holds; a graph must not change its choice on replay.",
    example="Gemma 4 with images on an H100: UNIFORM_SINGLE_TOKEN_DECODE.",
    instead="--attention-backend TRITON_ATTN, at the price of slower causal attention.",
    source="vllm/v1/attention/backends/composite.py:104-111,300-307",
    since="0.30.0",
)
SPEC_DECODE_LEVEL = Rule(
    code="CG324",
    title="The backend supports uniform batches only when speculative decoding is configured.",
    why="Without drafts it reserves its decode kernel for one token a request.",
    example="HPC_ATTN on an H20 without speculative decoding: UNIFORM_SINGLE_TOKEN_DECODE.",
    instead="Nothing is lost for decoding: without drafts every decode has one token.",
    source="vllm/v1/attention/backends/hpc_attn.py:168-182",
    since="0.25.1",
)
INDEXER_LEVEL = Rule(
    code="CG325",
    title="The sparse indexer takes any batch on 10.x or with flattened queries, else uniform batches.",
    why="On 10.x DeepGEMM's kernel takes queries of different lengths; elsewhere the queries are flattened "
    "to one row each, which also takes any batch, or the kernel wants the same number for each request.",
    example="DeepSeek V3.2 on an H200 without drafts: UNIFORM_BATCH.",
    instead="Nothing to set: the sparse attention itself is UNIFORM_BATCH.",
    source="vllm/v1/attention/backends/mla/indexer.py:930-999",
    since="0.29.0",
)
UNIFORM_INDEXER_LEVEL = Rule(
    code="CG343",
    title="The sparse indexer takes uniform batches, since 0.28.0 on 10.x with DeepGEMM any batch.",
    why="Its kernel wants the same number of queries for each request; DeepGEMM's for 10.x does not.",
    example="DeepSeek V3.2 on an H200: UNIFORM_BATCH, whatever the drafts.",
    instead="Nothing to set: the sparse attention itself is UNIFORM_BATCH.",
    source="vllm/v1/attention/backends/mla/indexer.py:511-526",
    until="0.28.0",
    release="0.28.0",
)
CHUNKED_LOCAL_LEVEL = Rule(
    code="CG326",
    title="Chunked local attention is never part of a graph.",
    why="It cuts each request into virtual ones on the host for every batch.",
    example="Llama 4: no full graphs, whatever the backend; piecewise graphs remain.",
    instead="Keep cudagraph_mode PIECEWISE; nothing lifts the limit.",
    source="vllm/model_executor/layers/attention/chunked_local_attention.py:39-48",
)

MULTI_TOKEN_KERNEL_HEADS = range(16, 257, 16)
"""Head sizes of FlashInfer's XQA kernel (flashinfer.py:761-762)."""


class Level(NamedTuple):
    """A support level, the condition that decided it (one phrase) and the rule behind it."""

    support: AttentionCGSupport
    condition: str
    rule: Rule


def level(backend: Backend, layer: Layer) -> Level:
    """The level that the backend's metadata builder claims for `layer`."""
    return named_level(backend.level, layer, backend.source)


def named_level(name: str, layer: Layer | None, source: str) -> Level:
    """The level called `name` in backends.toml: a support level, or a rule about `layer`."""
    rule = _RULES.get(name)
    if rule is not None and layer is not None:
        return rule(layer, source)
    return Level(AttentionCGSupport[name], f"fixed in its metadata builder ({source})", FIXED_LEVEL)


def _flash_attention(layer: Layer, source: str) -> Level:
    # A class attribute: decided once, when the module is imported.
    version = fa_version(layer._replace(batch_invariant=False) if layer.imported_before_env else layer)
    rule = FLASH_ATTENTION_LEVEL if layer.since("0.33.0") else FLASH_ATTENTION_3_LEVEL
    support = ALWAYS if version == 3 or (version == 4 and layer.since("0.33.0")) else UNIFORM_BATCH
    running = f"FlashAttention {version}" if version else "no usable FlashAttention version"
    return Level(support, f"{running} ({source})", rule)


def _flashinfer(layer: Layer, source: str) -> Level:
    if not layer.since("0.30.0"):
        rule = FLASHINFER_TRTLLM_LEVEL
        support, condition = _flashinfer_trtllm(layer)
    else:
        rule = FLASHINFER_LEVEL if layer.since("0.33.0") else FLASHINFER_XQA_LEVEL
        support, condition = _flashinfer_condition(layer)
    return Level(support, f"{condition} ({source})", rule)


def _flashinfer_trtllm(layer: Layer) -> tuple[AttentionCGSupport, str]:
    """flashinfer.py:974-1014 @ 0.29.0; non-causal layers counted since 0.26.0, 12.x since 0.28.0."""
    major = layer.capability[0]
    if layer.capability == (9, 0):
        return SINGLE_TOKEN, "one token a request on compute capability 9.0"
    if major == 12 and layer.dcp_size > 1:
        return SINGLE_TOKEN, "decode context parallelism on compute capability 12.x"
    if not trtllm_decode(layer):
        return SINGLE_TOKEN, f"TRTLLM and XQA decode kernels not usable: {_why_no_trtllm(layer)}"
    if layer.non_causal and major != 12 and layer.since("0.26.0"):
        return SINGLE_TOKEN, "non-causal attention"
    return UNIFORM_BATCH, "XQA decode kernels" if major == 12 else "TRTLLM decode kernels"


def _flashinfer_condition(layer: Layer) -> tuple[AttentionCGSupport, str]:
    if layer.dcp_size > 1:
        return SINGLE_TOKEN, "decode context parallelism"
    if layer.capability < (9, 0) and layer.since("0.33.0"):
        if layer.non_causal:
            return SINGLE_TOKEN, "non-causal attention before compute capability 9.0"
        return UNIFORM_BATCH, "FlashAttention 2 decode kernels before compute capability 9.0"
    if not trtllm_decode(layer):
        return SINGLE_TOKEN, f"TRTLLM and XQA decode kernels not usable: {_why_no_trtllm(layer)}"
    xqa = layer.capability == (9, 0) or layer.capability[0] == 12
    if xqa and layer.head_size not in MULTI_TOKEN_KERNEL_HEADS:
        return SINGLE_TOKEN, f"the XQA kernel does not take head size {layer.head_size}"
    nvfp4 = layer.kv_dtype in ("nvfp4", "nvfp4_4over6")
    if xqa and layer.capability[0] == 9 and nvfp4 and layer.since("0.32.0"):
        return SINGLE_TOKEN, "the XQA kernel does not read an NVFP4 KV cache on compute capability 9.0"
    if layer.non_causal and not xqa:
        return SINGLE_TOKEN, "non-causal attention on compute capability 10.x"
    return UNIFORM_BATCH, "XQA decode kernels" if xqa else "TRTLLM decode kernels"


def _why_no_trtllm(layer: Layer) -> str:
    if layer.use_trtllm is False:
        return "attention_config.use_trtllm_attention is false"
    if layer.batch_invariant:
        return "VLLM_BATCH_INVARIANT is set"
    if not layer.installed.cubins:
        return "FlashInfer's cubins are neither installed nor reachable"
    if layer.num_kv_heads <= 0 or layer.num_heads % layer.num_kv_heads == 0:
        return f"none for compute capability {layer.capability[0]}.{layer.capability[1]}"
    return f"{layer.num_heads} query heads are no multiple of {layer.num_kv_heads} KV heads"


def _composite(layer: Layer, source: str) -> Level:
    # Both halves are at least SINGLE_TOKEN, so the routing decides; it looks at all layers of the model.
    if layer.unclamped_window:
        return Level(NEVER, f"a sliding window that images may look beyond ({source})", COMPOSITE_LEVEL)
    return Level(SINGLE_TOKEN, f"routing between image masks and causal batches ({source})", COMPOSITE_LEVEL)


def _spec_decode(layer: Layer, source: str) -> Level:
    if layer.speculative_tokens > 0:
        return Level(UNIFORM_BATCH, f"speculative decoding is configured ({source})", SPEC_DECODE_LEVEL)
    return Level(SINGLE_TOKEN, f"no speculative decoding ({source})", SPEC_DECODE_LEVEL)


def _indexer(layer: Layer, source: str) -> Level:
    major = layer.capability[0]
    queries = 1 + layer.speculative_tokens
    deep_gemm = layer.installed.deep_gemm
    rule = INDEXER_LEVEL if layer.since("0.29.0") else UNIFORM_INDEXER_LEVEL
    source = rule.source
    if major == 10 and deep_gemm and layer.since("0.28.0"):
        return Level(ALWAYS, f"DeepGEMM scores queries of any length ({source})", rule)
    if rule is UNIFORM_INDEXER_LEVEL:
        return Level(UNIFORM_BATCH, f"the same number of queries for each request ({source})", rule)
    native = queries in (1, 2, 4) if major == 9 and deep_gemm else queries in (1, 2)
    if not native:
        return Level(ALWAYS, f"{queries} queries a request are flattened ({source})", rule)
    if layer.adaptive_verification and major == 9 and deep_gemm:
        return Level(ALWAYS, f"adaptive verification flattens the queries ({source})", rule)
    return Level(UNIFORM_BATCH, f"{queries} queries for each request ({source})", rule)


def _block_drafts(layer: Layer, source: str) -> Level:
    """vllm/v1/attention/backends/mla/triton_mla.py:66-87 @ 0.29.0."""
    support = UNIFORM_BATCH if layer.block_drafts else SINGLE_TOKEN
    condition = "drafts of a block of tokens" if layer.block_drafts else "one token a request"
    return Level(support, f"{condition} ({source})", FIXED_LEVEL)


def _flashmla_window(layer: Layer, source: str) -> Level:
    """DeepSeek V4's sliding window follows its attention: FlashInfer on 12.x, FlashMLA elsewhere."""
    if layer.capability[0] == 12:
        return Level(UNIFORM_BATCH, f"sliding window beside FlashInfer ({source})", FIXED_LEVEL)
    return Level(ALWAYS, f"sliding window beside FlashMLA ({source})", FIXED_LEVEL)


_RULES: dict[str, Callable[[Layer, str], Level]] = {
    "flash_attn": _flash_attention,
    "flashinfer": _flashinfer,
    "composite": _composite,
    "spec_decode": _spec_decode,
    "indexer": _indexer,
    "block_drafts": _block_drafts,
    "flashmla_window": _flashmla_window,
}
