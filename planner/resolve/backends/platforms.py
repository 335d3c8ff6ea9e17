"""Selection of a backend where the platform is not CUDA: vllm/platforms/{rocm,xpu,cpu}.py at 0.33.0.

What older releases did not have yet is asked with `layer.since`. Only what the deployment tells is used; what AITER or
the CPU can do is assumed and said so.
"""

from __future__ import annotations

from ...deployment import Deployment
from ...errors import InputError, StartupError
from ...trace import Trace
from .checks import reasons
from .combinations import Reason
from .facts import Catalogue
from .layer import Layer
from .selection import AUTOMATIC, Selected
from .support import (
    ALWAYS,
    FIXED_LEVEL,
    FLASH_ATTENTION_3_LEVEL,
    FLASH_ATTENTION_LEVEL,
    SINGLE_TOKEN,
    UNIFORM_BATCH,
    Level,
)


def choose_elsewhere(
    deployment: Deployment, layer: Layer, name: str | None, facts: Catalogue, trace: Trace
) -> Selected:
    """The backend of `layer` on ROCm, XPU or the CPU.

    Raises:
        InputError: the platform is not modelled.
        StartupError: vLLM refuses.
    """
    platform = deployment.gpu.platform
    if platform == "rocm":
        selected = _rocm(deployment, layer, name, facts, trace)
    elif platform == "xpu":
        selected = _xpu(layer, name, facts)
    elif platform == "cpu":
        selected = _cpu(deployment, layer, name, facts, trace)
    else:
        raise InputError(
            f"attention backends of platform {platform} are not modelled",
            code="CG329",
            where="gpu.platform",
            fix="use cuda, rocm, xpu or cpu",
        )
    if name != selected.backend.enum:
        why = f"selection of platform {platform}"
        trace.decide(AUTOMATIC, "attention_backend", name, selected.backend.enum, why)
    return selected


def _refused(name: str, why: str, raised_as: str = "ValueError") -> StartupError:
    return StartupError(
        f"attention backend {name} does not fit: {why}",
        code="CG302",
        stage="attn_backend_selection",
        raised_as=raised_as,
        raised_in="attention selector",
        where="--attention-backend",
        fix="leave the backend out",
    )


def _rocm(deployment: Deployment, layer: Layer, name: str | None, facts: Catalogue, trace: Trace) -> Selected:
    """vllm/platforms/rocm.py:531-569,774-830."""
    if name is not None:
        against = reasons(facts.backends[name], layer)
        if against:
            raise _refused(name, "; ".join(reason.text for reason in against))
        return Selected(facts.backends[name])
    order = [name for name in _rocm_order(deployment, layer, trace) if name in facts.backends]
    rejected: list[tuple[str, tuple[Reason, ...]]] = []
    for candidate in order:
        against = reasons(facts.backends[candidate], layer)
        if not against:
            return Selected(facts.backends[candidate], tuple(rejected))
        rejected.append((candidate, against))
    raise StartupError(
        "no attention backend fits this model on ROCm",
        code="CG303",
        stage="attn_backend_selection",
        raised_as="ValueError",
        raised_in="attention selector",
        where="--attention-backend",
        fix="; ".join(f"{candidate}: {against[0].text}" for candidate, against in rejected),
    )


def _rocm_order(deployment: Deployment, layer: Layer, trace: Trace) -> list[str]:
    env = deployment.env
    found = "aiter" in deployment.software.packages
    trace.assume(f"AITER is {'' if found else 'not '}installed (software.packages) and the GPU is of the CDNA family")
    enabled = found and env.get("VLLM_ROCM_USE_AITER", "0").lower() in ("1", "true")

    def switched_on(flag: str) -> bool:
        return enabled and env.get(flag, "1").lower() in ("1", "true")

    if layer.sparse:
        return ["ROCM_AITER_MLA_SPARSE"]
    if layer.mla:
        if switched_on("VLLM_ROCM_USE_AITER_MLA"):
            return ["ROCM_AITER_MLA", "TRITON_MLA", "ROCM_AITER_TRITON_MLA"]
        return ["TRITON_MLA"]
    no_connector = layer.kv_connector and layer.since("0.23.0")
    no_cross = deployment.model.is_encoder_decoder and layer.since("0.26.0")
    order = [] if no_connector or no_cross else ["ROCM_ATTN"]
    if switched_on("VLLM_ROCM_USE_AITER_MHA"):
        order.append("ROCM_AITER_FA")
    if found:
        order.append("ROCM_AITER_UNIFIED_ATTN")
    return [*order, "TRITON_ATTN", "TURBOQUANT", "ROCM_OCTAVE", "ULTRAQUANT"]


def _xpu(layer: Layer, name: str | None, facts: Catalogue) -> Selected:
    """vllm/platforms/xpu.py:144-265."""
    backends = facts.backends
    triton = Selected(backends["TRITON_ATTN"])
    flash = Selected(backends["FLASH_ATTN"], level=_xpu_flash_level(layer))
    if layer.kv_dtype.startswith("turboquant_") and layer.since("0.20.2"):
        return Selected(backends["TURBOQUANT"])
    if layer.sparse:
        return Selected(backends["XPU_MLA_SPARSE"])
    if layer.mla:
        return _xpu_mla(layer, name, facts)
    if name == "TRITON_ATTN":
        return triton
    if layer.batch_invariant and layer.since("0.31.0"):
        return flash if name == "FLASH_ATTN" else triton
    if layer.mm_prefix and layer.since("0.25.1"):
        if name == "FLASH_ATTN" and layer.since("0.26.0"):
            return flash
        return _xpu_composite(layer, name, facts) or triton
    if layer.dtype == "float32":
        return triton
    if name not in (None, "FLASH_ATTN"):
        raise _refused(name or "", "XPU runs FLASH_ATTN and TRITON_ATTN")
    return flash


def _xpu_composite(layer: Layer, name: str | None, facts: Catalogue) -> Selected | None:
    """Triton for image masks, FlashAttention for the rest, since 0.33.0."""
    if not layer.since("0.33.0") or name not in (None, "TRITON_FLASH_ATTN") or layer.dtype == "float32":
        return None
    composite = facts.backends["TRITON_FLASH_ATTN"]
    return Selected(composite) if layer.head_size in composite.heads else None


def _xpu_flash_level(layer: Layer) -> Level:
    """FlashAttention 2 with an exception, from 0.22.1 to 0.24.0 and since 0.33.0 (flash_attn.py:619-632)."""
    always = layer.since("0.33.0") or (layer.since("0.22.1") and not layer.since("0.25.1"))
    rule = FLASH_ATTENTION_LEVEL if layer.since("0.33.0") else FLASH_ATTENTION_3_LEVEL
    return Level(ALWAYS if always else UNIFORM_BATCH, f"XPU ({rule.source})", rule)


def _xpu_mla(layer: Layer, name: str | None, facts: Catalogue) -> Selected:
    triton = Selected(facts.backends["TRITON_MLA"])
    if not layer.since("0.32.0"):
        return triton
    if name not in (None, "TRITON_MLA", "FLASH_ATTN_MLA"):
        raise _refused(name or "", "XPU runs FLASH_ATTN_MLA and TRITON_MLA for MLA models")
    unquantized = layer.kv_dtype in facts.backends["FLASH_ATTN_MLA"].kv
    fits = layer.head_size == 576 and layer.dtype != "float32" and unquantized
    if name == "TRITON_MLA" or not (fits or name == "FLASH_ATTN_MLA"):
        return triton
    if not fits:
        raise _refused("FLASH_ATTN_MLA", "on XPU it takes head size 576 and an unquantized KV cache")
    decided = Level(SINGLE_TOKEN, "XPU (vllm/v1/attention/backends/mla/flashattn_mla.py:279)", FIXED_LEVEL)
    return Selected(facts.backends["FLASH_ATTN_MLA"], level=decided, override="XPUFlashAttnMLABackend")


def _cpu(deployment: Deployment, layer: Layer, name: str | None, facts: Catalogue, trace: Trace) -> Selected:
    """vllm/platforms/cpu.py:148-197. Another backend that is asked for is ignored with a log line."""
    if layer.sparse:
        raise _refused("for sparse attention", "the CPU has none", "NotImplementedError")
    if layer.mla:
        if not layer.since("0.28.0"):
            raise _refused("for MLA", "the CPU has none before 0.28.0", "NotImplementedError")
        if not layer.since("0.29.0"):
            return Selected(facts.backends["CPU_MLA"])
        amx = "amx" in deployment.software.packages
        trace.assume(f"the CPU has {'' if amx else 'no '}AMX tiles (software.packages)")
        return Selected(facts.backends["AMX_MLA" if amx and name != "CPU_MLA" else "CPU_MLA"])
    cpu = facts.backends["CPU_ATTN"]
    if layer.kv_dtype not in (*cpu.kv, "bfloat16", "float16") and layer.since("0.33.0"):
        raise _refused("CPU_ATTN", f"KV cache dtype {layer.kv_dtype}")
    return Selected(cpu)
