"""What a deployment asks of the backend selection, after the settings that vLLM makes for the architecture.

Sources: vllm/config/attention.py:164-230, vllm/engine/arg_utils.py:2726-2767 and
vllm/model_executor/models/config.py:73-140,298-428.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...deployment import Deployment
from ...env_switches import int_switch
from ...errors import InputError, StartupError, did_you_mean, shorten
from ...model_shape import ModelShape
from ...releases import holds
from ...trace import Rule, Trace
from .facts import Catalogue
from .layer import Installed, Layer, fa_supported

UNKNOWN_NAME = Rule(
    code="CG305",
    title="The name of an attention backend must be one that vLLM knows.",
    why="vLLM upper-cases the name and looks it up; older spellings are no aliases.",
    example="--attention-backend XFORMERS: refused.",
    instead="Use a known name, or auto.",
    source="vllm/v1/attention/backends/registry.py:18-31",
)
KV_DTYPE_OF_MODEL = Rule(
    code="CG306",
    title="The KV cache dtype is changed for this architecture.",
    why="Its kernels were validated with another dtype than the one asked for.",
    example="GLM-5 on a B200 with --kv-cache-dtype auto: fp8_e4m3.",
    instead="Give --kv-cache-dtype bfloat16 to keep an unquantized cache where the model has one.",
    source="vllm/model_executor/models/config.py:73-140",
)
BACKEND_OF_MODEL = Rule(
    code="CG307",
    title="The attention settings are changed for this architecture.",
    why="Layers with different head sizes, or with causal and bidirectional attention in one batch, do not "
    "run in every backend.",
    example="Gemma 4 on an A100: TRITON_ATTN; on an H100: FlashAttention 4 for all layers.",
    instead="Give --attention-backend to choose yourself.",
    source="vllm/model_executor/models/config.py:298-428",
)
BACKEND_PER_KIND = Rule(
    code="CG309",
    title="attention_config.backend_per_kind gives groups of layers a backend of their own.",
    why="A model may mix attention kinds, and each can run in another backend.",
    example='{"sliding_window": "TRITON_ATTN"}: the sliding layers of Gemma 3 run in Triton.',
    instead="Leave the map out: every group then follows --attention-backend or the automatic selection.",
    source="vllm/v1/attention/selector.py:182-192",
    since="0.26.0",
)
RSWA_BACKEND = Rule(
    code="CG344",
    title="A model with a reference sliding window runs in FlashAttention 4, Triton or FlexAttention.",
    why="Its mask keeps the prompt visible beside a window of what was generated; other kernels cannot express it.",
    example="Unlimited-OCR on an A100: TRITON_ATTN; on an H100: FLASH_ATTN with version 4.",
    instead="Give one of the three with --attention-backend.",
    source="vllm/model_executor/models/config.py:160-265",
    since="0.25.1",
)

AUTO_ALIASES = frozenset({"CUTLASS_MSA", "TRITON_MSA"})
"""They set MiniMax M3's decode kernel and leave the selection automatic (config/attention.py:164-172), since 0.27.1."""

MOST_NAMES = 6
"""Backends that an error names."""

KINDS = (
    "full_attention",
    "mla_attention",
    "sliding_window",
    "sliding_window_mla",
    "mamba",
    "chunked_local_attention",
    "sink_full_attention",
    "encoder_only_attention",
    "cross_attention",
    "unknown",
)
"""Keys of backend_per_kind (vllm/v1/kv_cache_interface.py:183-193)."""


class Request(NamedTuple):
    """The selection's settings. `backend` None: automatic."""

    backend: str | None
    per_kind: Mapping[str, str]
    kv_dtype: str
    fa_version: int | None
    non_causal: bool
    imported_before_env: bool = False

    def for_kind(self, kind: str) -> str | None:
        return self.per_kind.get(kind, self.backend) if self.per_kind else self.backend


def request_of(deployment: Deployment, facts: Catalogue, trace: Trace) -> Request:
    """The settings of `deployment`.

    Raises:
        InputError: an unknown backend name or kind.
        StartupError: vLLM refuses the backend for this architecture.
    """
    options = deployment.attention_config
    asked = deployment.attention_backend if deployment.attention_backend is not None else options.backend
    backend = backend_name(asked, facts, "--attention-backend") if asked is not None else None
    per_kind = _per_kind(options.backend_per_kind, facts) if options.backend_per_kind else {}
    kv_dtype = effective_kv_cache_dtype(deployment, facts, trace)
    version: int | None = options.flash_attn_version
    if kv_dtype.startswith(("turboquant_", "ultraquant_")) and version != 2:
        version = 2
    non_causal = options.use_non_causal
    if facts.release == "0.20.2":
        # Then the drafter's method decided, for all layers (vllm/v1/attention/selector.py:85-88 @ 0.20.2).
        spec = deployment.speculative_config
        non_causal = spec is not None and spec.method == "dflash"
    request = Request(backend, per_kind, kv_dtype, version, non_causal)
    if deployment.model.architecture in facts.settings["rswa"]:
        return _reference_window(deployment, request, facts, trace)
    if deployment.model.architecture in facts.settings["mixed_head_sizes"]:
        return _mixed_head_sizes(deployment, request, facts, trace)
    return request


def backend_name(text: str, facts: Catalogue, where: str) -> str | None:
    """The enum name that `text` means, or None for automatic.

    Raises:
        InputError: no such backend.
    """
    name = text.upper()
    if name == "AUTO" or (name in AUTO_ALIASES and name in facts.backends):
        return None
    return _known_name(name, text, facts, where)


def _known_name(name: str, text: str, facts: Catalogue, where: str) -> str:
    if name in facts.backends:
        return name
    raise InputError(
        f"unknown attention backend {shorten(text)!r}",
        code="CG305",
        where=where,
        fix=did_you_mean(text, facts.backends) or f"give {', '.join(_common(facts))}, ...; `cgplan backends` lists all",
    )


def _common(facts: Catalogue) -> list[str]:
    """The first few backends of CUDA; the list of all is for a page of its own."""
    return [name for name, backend in facts.backends.items() if backend.platform == "cuda"][:MOST_NAMES]


def _per_kind(given: Mapping[str, str], facts: Catalogue) -> dict[str, str]:
    names: dict[str, str] = {}
    for kind, text in given.items():
        where = f"attention_config.backend_per_kind.{shorten(kind, 40)}"
        if kind not in KINDS:
            fix = did_you_mean(kind, KINDS) or f"give one of {', '.join(KINDS)}"
            message = f"unknown KV cache group kind {shorten(kind)}"
            raise InputError(message, code="CG309", where=where, fix=fix)
        # "auto" means nothing here: the map is looked up in the enum without that exception.
        names[kind] = _known_name(text.upper(), text, facts, where)
    return names


def effective_kv_cache_dtype(deployment: Deployment, facts: Catalogue, trace: Trace) -> str:
    """The KV cache dtype of the run: what was asked, else what the checkpoint asks for, else auto."""
    model = deployment.model
    asked = deployment.kv_cache_dtype
    kv_dtype = asked if asked != "auto" or model.kv_cache_dtype is None else model.kv_cache_dtype
    settings = facts.settings
    sm10 = deployment.gpu.platform == "cuda" and deployment.gpu.major == 10
    architecture = model.architecture
    changed = kv_dtype
    if kv_dtype == "bfloat16" and architecture in settings["bfloat16_kv_is_auto"]:
        changed = "auto"
    elif kv_dtype == "auto" and sm10 and architecture in settings["sm10_kv_fp8_e4m3"]:
        changed = "fp8_e4m3"
    elif kv_dtype == "auto" and sm10 and architecture in settings["sm10_sparse_kv_fp8"] and model.index_topk:
        changed = "fp8"
    if changed != kv_dtype:
        trace.decide(KV_DTYPE_OF_MODEL, "kv_cache_dtype", kv_dtype, changed)
    return changed


def _reference_window(deployment: Deployment, request: Request, facts: Catalogue, trace: Trace) -> Request:
    """Unlimited-OCR's mask, in FlashAttention only with version 4."""
    probe = layer_of(deployment, deployment.model, request, dtype="bfloat16", facts=facts)
    has_fa4 = fa_supported(probe, 4) and deployment.gpu.platform == "cuda"
    backend = request.backend or ("FLASH_ATTN" if has_fa4 else "TRITON_ATTN")
    if backend not in ("FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION") or (backend == "FLASH_ATTN" and not has_fa4):
        known = backend == "FLASH_ATTN"
        raise StartupError(
            f"{backend} cannot serve a reference sliding window" + (" without FlashAttention 4" if known else ""),
            code=RSWA_BACKEND.code,
            raised_as="RuntimeError" if known else "ValidationError",
            where="--attention-backend",
            fix=f"use {'' if has_fa4 is False else 'FLASH_ATTN, '}TRITON_ATTN or FLEX_ATTENTION",
        )
    if backend != request.backend:
        trace.decide(RSWA_BACKEND, "attention_backend", None, backend)
    version = 4 if backend == "FLASH_ATTN" else request.fa_version
    return request._replace(backend=backend, fa_version=version)


def _mixed_head_sizes(deployment: Deployment, request: Request, facts: Catalogue, trace: Trace) -> Request:
    """Gemma 4 and its kin have layers of several head sizes."""
    architecture = deployment.model.architecture
    backend, version, non_causal = request.backend, request.fa_version, request.non_causal
    trace.assume(f"{architecture}: sliding and full attention layers have different head sizes, at most 512")
    probe = layer_of(deployment, deployment.model, request, dtype="bfloat16", facts=facts)
    platform = deployment.gpu.platform
    if fa_supported(probe, 4) and platform == "cuda" and probe.since("0.24.0"):
        fp8 = request.kv_dtype.startswith("fp8") and probe.since("0.31.0")
        per_layer = deployment.gpu.major == 9 and fp8
        if version is None and backend in (None, "FLASH_ATTN") and not per_layer:
            version = 4
            trace.decide(BACKEND_OF_MODEL, "attention_config.flash_attn_version", None, 4)
    elif backend is None and (platform != "xpu" or not probe.since("0.33.0")):
        backend = "TRITON_ATTN"
    if architecture in facts.settings["triton_by_default"] and backend is None:
        backend = "TRITON_ATTN"
    if architecture in facts.settings["diffusion"]:
        if backend == "FLASHINFER":
            raise StartupError(
                "FLASHINFER cannot mix causal and bidirectional attention in one batch, as this model does",
                code="CG307",
                where="--attention-backend",
                fix="use FLASH_ATTN or TRITON_ATTN",
            )
        non_causal = non_causal or backend is None
    if backend != request.backend:
        trace.decide(BACKEND_OF_MODEL, "attention_backend", request.backend, backend)
    return request._replace(backend=backend, fa_version=version, non_causal=non_causal)


def layer_of(
    deployment: Deployment,
    model: ModelShape,
    request: Request,
    *,
    dtype: str,
    facts: Catalogue,
    attn_type: str = "decoder",
    sliding_window: bool = False,
    tensor_parallel_size: int | None = None,
) -> Layer:
    """A layer of `model` in this deployment. `dtype` is the activation dtype."""
    software = deployment.software
    tp = tensor_parallel_size or deployment.tensor_parallel_size
    spec = deployment.speculative_config
    transfer = deployment.kv_transfer_config
    settings = facts.settings
    return Layer(
        release=facts.release,
        capability=deployment.gpu.capability,
        installed=Installed(
            software.flashinfer,
            software.flashinfer_cubins,
            software.flash_attn_3,
            software.flash_attn_4,
            software.deep_gemm,
            software.packages,
        ),
        head_size=model.head_size,
        dtype=dtype,
        kv_dtype=request.kv_dtype,
        run_kv_dtype=request.kv_dtype,
        block_size=deployment.block_size,
        num_heads=model.num_attention_heads // tp,
        num_kv_heads=1 if model.use_mla else max(1, model.num_kv_heads // tp),
        attn_type=attn_type,
        mla=model.use_mla,
        sparse=model.use_mla and model.index_topk is not None,
        sinks=model.has_sinks,
        mm_prefix=_sees_prefix(deployment, facts.release),
        sliding_window=sliding_window,
        unclamped_window=model.sliding_window is not None and model.architecture not in settings["mixed_head_sizes"],
        rswa=model.architecture in settings["rswa"],
        softcap=model.architecture in settings["softcap"],
        diffusion=model.is_diffusion,
        non_causal=request.non_causal,
        batch_invariant=is_batch_invariant(deployment),
        kv_connector=transfer is not None and None not in (transfer.kv_connector, transfer.kv_role),
        pcp_size=deployment.prefill_context_parallel_size,
        dcp_size=deployment.decode_context_parallel_size,
        adaptive_verification=spec is not None and spec.enable_adaptive_verification,
        speculative_tokens=(spec.num_speculative_tokens or 0) if spec is not None else 0,
        fa_version=request.fa_version,
        use_trtllm=deployment.attention_config.use_trtllm_attention,
        kv_lora_rank=model.kv_lora_rank,
        qk_nope_head_dim=model.qk_nope_head_dim,
        qk_rope_head_dim=model.qk_rope_head_dim,
        v_head_dim=model.v_head_dim,
        index_topk=model.index_topk,
        imported_before_env=request.imported_before_env,
    )


def is_batch_invariant(deployment: Deployment) -> bool:
    """VLLM_BATCH_INVARIANT, read as vLLM reads it: as a whole number."""
    return bool(int_switch(deployment.env, "VLLM_BATCH_INVARIANT"))


_PREFIX_OF_TEXT = ("Gemma4", "DiffusionGemma", "DeepseekV4")
"""Classes whose text configuration says that images are seen both ways."""


def _sees_prefix(deployment: Deployment, release: str) -> bool:
    """Whether the attention layers are asked for multimodal prefixes.

    From 0.20.2 to 0.24.0 they ask the configuration of the text model, which does not know it; since 0.27 nothing is
    asked where only text is served (transformers_utils/model_arch_config_convertor.py, is_mm_prefix_lm).
    """
    model = deployment.model
    if not model.is_mm_prefix_lm:
        return False
    if model.is_multimodal_model and holds(release, "0.20.2", "0.24.0"):
        return (model.architecture or "").startswith(_PREFIX_OF_TEXT)
    return not (holds(release, "0.27.1") and _is_text_alone(deployment))


def _is_text_alone(deployment: Deployment) -> bool:
    """No image, video or sound is allowed, vllm/multimodal/registry.py, supports_multimodal_inputs."""
    if deployment.language_model_only:
        return True
    weights = deployment.model.weights
    kinds = weights.vision.modalities if weights is not None and weights.vision is not None else ("image", "video")
    given = deployment.limit_mm_per_prompt or {}
    counts = [given.get(kind) for kind in kinds]
    return all((count.get("count") if isinstance(count, dict) else count) == 0 for count in counts)
