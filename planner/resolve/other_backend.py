"""What keeps graphs that are lost: another attention backend, or another mode. Each is tried by resolving with it."""

from __future__ import annotations

from collections.abc import Callable

from ..deployment import Deployment
from ..errors import CgplanError
from ..trace import Finding, Rule
from ..vocabulary import CUDAGraphMode
from .backends.facts import catalogue
from .pipeline import resolve
from .resolution import Resolution

PIECEWISE_ASKED = Rule(
    "CG243",
    title="PIECEWISE is asked for where FULL graphs for decode are possible.",
    why="A PIECEWISE graph leaves attention out: the CPU launches it layer by layer in every decode step. What FULL"
    " graphs gain depends on the model and the load.",
    example="Qwen2.5-1.5B-Instruct at 1 to 100 requests a second: 8 to 15% less time between tokens with FULL decode"
    " graphs (vllm-project/vllm#20059).",
    instead="Set -cc.cudagraph_mode=FULL_AND_PIECEWISE.",
    source="vllm/config/compilation.py:1395-1482",
)
LOWERED = ("CG330", "CG332", "CG333")
"""Codes of a mode that the attention backend's support lowers."""
PREFERRED = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
"""Order among backends that keep equally much: compiled kernels before generated ones."""

Try = Callable[[Deployment], "Resolution | None"]


def best_backend(deployment: Deployment, now: Resolution, attempt: Try | None = None) -> tuple[str, Resolution] | None:
    """The backend that keeps most of the mode asked for, and what vLLM makes of the deployment with it.

    None where no other backend of the release keeps more than the chosen one.

    Args:
        attempt: resolves a deployment; None of one that does not start.
    """
    if deployment.attention_support is not None:
        return None
    attempt = attempt or resolved
    asked = now.requested_mode
    best: tuple[tuple[int, ...], str, Resolution] | None = None
    section = deployment.attention_config.model_copy(update={"backend": None})
    names = list(catalogue(deployment.vllm).backends)
    for name in sorted(names, key=lambda name: (_rank(name), name)):
        changes = {"attention_backend": name, "attention_config": section}
        found = attempt(deployment.model_copy(update=changes))
        # A request that the worker only refuses later is no remedy.
        if found is None or found.backend.name != name or any(f.severity == "error" for f in found.noted):
            continue
        score = _kept(found, asked)
        if score > _kept(now, asked) and (best is None or score > best[0]):
            best = score, name, found
    return None if best is None else best[1:]


def with_plain_cache(deployment: Deployment, now: Resolution, attempt: Try | None = None) -> str | None:
    """The remedy where a quantised KV cache excludes every backend that keeps the graphs."""
    if deployment.kv_cache_dtype == "auto":
        return None
    section = deployment.attention_config.model_copy(update={"backend": None})
    changes = {"kv_cache_dtype": "auto", "attention_backend": None, "attention_config": section}
    found = (attempt or resolved)(deployment.model_copy(update=changes))
    if found is None or found.cudagraph_mode is not now.requested_mode:
        return None
    return f"leave --kv-cache-dtype out: {found.backend.name} then keeps {found.cudagraph_mode}"


def remedy(deployment: Deployment, now: Resolution) -> str | None:
    """What keeps the graphs that the backend loses, in words; None: it loses none, as far as its support decides."""
    code = next((finding.code for finding in now.findings if finding.code in LOWERED), None)
    if code is None:
        return None
    written = f"write what runs, -cc.cudagraph_mode={now.cudagraph_mode}"
    better = best_backend(deployment, now)
    if better is None:
        none = written if code == "CG330" else f"no other backend of {deployment.vllm} keeps it here"
        return with_plain_cache(deployment, now) or none
    name, found = better
    fix = f"use --attention-backend {name}, which gives {found.cudagraph_mode}"
    return f"{fix}, or {written}" if code == "CG330" else fix


def full_for_decode(deployment: Deployment, now: Resolution, attempt: Try | None = None) -> Finding | None:
    """That FULL decode graphs are possible where PIECEWISE was asked for by name; None: they are not, or it was not.

    Args:
        attempt: resolves a deployment; None of one that does not start.
    """
    options = deployment.compilation_config
    if deployment.enforce_eager or options.cudagraph_mode is not CUDAGraphMode.PIECEWISE:
        return None
    if now.cudagraph_mode is not CUDAGraphMode.PIECEWISE:
        return None
    both = options.model_copy(update={"cudagraph_mode": CUDAGraphMode.FULL_AND_PIECEWISE})
    found = (attempt or resolved)(deployment.model_copy(update={"compilation_config": both}))
    if found is None or found.decode_mode is not CUDAGraphMode.FULL or any(f.severity == "error" for f in found.noted):
        return None
    message = (
        f"decode batches launch attention from the CPU and could run in FULL graphs: {found.graph_count()} graphs"
        f" instead of {now.graph_count()}; measured elsewhere: 8 to 15% less time between tokens"
        " (Qwen2.5-1.5B-Instruct, vllm-project/vllm#20059)"
    )
    fix = f"-cc.cudagraph_mode={found.cudagraph_mode}"
    return Finding(PIECEWISE_ASKED.code, "info", message, fix, "-cc.cudagraph_mode")


def resolved(deployment: Deployment) -> Resolution | None:
    """None where vLLM would not start."""
    try:
        return resolve(deployment)
    except CgplanError:
        return None


def _rank(name: str) -> int:
    return PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)


def _kept(found: Resolution, asked: CUDAGraphMode) -> tuple[int, ...]:
    """How much of the mode asked for is there: FULL decode graphs first."""
    full = CUDAGraphMode.FULL
    decode = int(found.decode_mode is full or asked.decode_mode is not full)
    mixed = int(found.mixed_mode is asked.mixed_mode)
    return decode, mixed, int(found.cudagraph_mode is not CUDAGraphMode.NONE)
