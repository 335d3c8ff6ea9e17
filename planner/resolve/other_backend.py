"""What keeps graphs that are lost: another attention backend, or another mode. Each is tried by resolving with it."""

from __future__ import annotations

from collections.abc import Callable

from ..deployment import Deployment
from ..errors import CgplanError
from ..trace import Finding, Rule
from ..vocabulary import CUDAGraphMode
from . import graph_gains
from .backends.facts import catalogue
from .mode import ENFORCE_EAGER
from .pipeline import resolve
from .resolution import Resolution

NONE_ASKED = Rule(
    "CG244",
    title="A mode without CUDA graphs is asked for where graphs are possible.",
    why="The CPU then launches each kernel of every step. What graphs gain depends on the model and the load: most with"
    " few requests and few active experts, next to nothing where full batches keep the GPU busy.",
    example="-cc.cudagraph_mode=NONE with Qwen3-8B: the finding quotes what graphs gained others.",
    instead="Leave the mode out; to save memory or start-up time capture a few small sizes instead.",
    source="vllm/config/compilation.py:1395-1482",
)
PIECEWISE_ASKED = Rule(
    "CG243",
    title="PIECEWISE is asked for where FULL graphs for decode are possible.",
    why="A PIECEWISE graph leaves attention out: the CPU launches it layer by layer in every decode step. What FULL"
    " graphs gain depends on the model and the load.",
    example="Qwen2.5-1.5B-Instruct with -cc.cudagraph_mode=PIECEWISE: the finding quotes what FULL decode graphs gained"
    " others.",
    instead="Set -cc.cudagraph_mode=FULL_AND_PIECEWISE.",
    source="vllm/config/compilation.py:1395-1482",
)
DRAFTS_NEED = Rule(
    "CG246",
    title="Speculative decoding keeps its FULL decode graphs with the backend that is chosen, and not with every one.",
    why="Each request of a decode batch then has several tokens, which takes a backend of UNIFORM_BATCH or ALWAYS. The"
    " choice rests on the GPU, the KV cache's type and the release, and so may change without a word of the line.",
    example="Qwen3.6-27B with MTP on an H100: FLASH_ATTN keeps FULL, FLASHINFER would lose it.",
    instead="Name the backend that keeps them with --attention-backend, and look for the mode in vLLM's log.",
    source="vllm/config/compilation.py:1460-1482",
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
        # A request that the worker only refuses later is no remedy; what is refused already is not the backend's doing.
        if found is None or found.backend.name != name or _refused(found) - _refused(now):
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
    if found is None or found.decode_mode is not CUDAGraphMode.FULL or _refused(found) - _refused(now):
        return None
    message = (
        f"decode batches launch attention from the CPU and could run in FULL graphs: {found.graph_count()} graphs"
        f" instead of {now.graph_count()}; {graph_gains.quotation(deployment, graph_gains.FULL)}"
    )
    fix = f"-cc.cudagraph_mode={found.cudagraph_mode}"
    return Finding(PIECEWISE_ASKED.code, "info", message, fix, "-cc.cudagraph_mode")


def graphs_at_all(deployment: Deployment, now: Resolution, attempt: Try | None = None) -> Finding | None:
    """That graphs are possible where NONE or --enforce-eager was asked for; None: they are not, or it was not."""
    if now.requested_mode is not CUDAGraphMode.NONE:
        return None
    options = deployment.compilation_config.model_copy(update={"cudagraph_mode": CUDAGraphMode.FULL_AND_PIECEWISE})
    changes = {"compilation_config": options, "enforce_eager": False}
    found = (attempt or resolved)(deployment.model_copy(update=changes))
    if found is None or found.cudagraph_mode is CUDAGraphMode.NONE or _refused(found) - _refused(now):
        return None
    message = f"every step launches its kernels from the CPU; {graph_gains.quotation(deployment, graph_gains.ALL)}"
    eager = deployment.enforce_eager
    code, where = (ENFORCE_EAGER.code, "--enforce-eager") if eager else (NONE_ASKED.code, "-cc.cudagraph_mode")
    off = "drop --enforce-eager" if eager else "leave the mode out"
    fix = f"{off}; a short --cudagraph-capture-sizes saves memory and start-up time too"
    return Finding(code, "info", message, fix, where)


def drafts_need(deployment: Deployment, now: Resolution, attempt: Try | None = None) -> Finding | None:
    """Which backends that fit would lose the FULL graphs that drafts have; None: there are none, or it is no choice."""
    if deployment.speculative_config is None or now.decode_mode is not CUDAGraphMode.FULL:
        return None
    if deployment.attention_support is not None or deployment.attention_backend or deployment.attention_config.backend:
        return None
    losing = []
    # Composites for image prefixes are no choice of a model without them.
    orders = [order for order in catalogue(deployment.vllm).orders if not order.mm_prefix]
    for name in dict.fromkeys(name for order in orders for name in order.names):
        found = (attempt or resolved)(deployment.model_copy(update={"attention_backend": name}))
        if found is None or found.backend.name != name or _refused(found) - _refused(now):
            continue
        if found.decode_mode is not CUDAGraphMode.FULL:
            losing.append(name)
    if not losing:
        return None
    message = (
        f"drafts keep the FULL decode graphs with {now.backend.name}; {_either(losing)} would lose them here;"
        f" {graph_gains.quotation(deployment, graph_gains.DRAFTS)}"
    )
    fix = f"--attention-backend {now.backend.name} holds the choice; a backend of a plugin is not known here"
    return Finding(DRAFTS_NEED.code, "info", message, fix, "--speculative-config")


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def notes(deployment: Deployment, now: Resolution) -> list[Finding]:
    """What is to be said of the mode that was asked for, and of the backend that keeps it."""
    found = [tell(deployment, now) for tell in (full_for_decode, graphs_at_all, drafts_need)]
    return [one for one in found if one is not None]


def cost_of_lower_mode(deployment: Deployment, now: Resolution) -> str:
    """What others measured of the mode that runs in the place of the one asked for; "": nothing is lost."""
    what = graph_gains.lost(now)
    return graph_gains.quotation(deployment, what) if what is not None else ""


def resolved(deployment: Deployment) -> Resolution | None:
    """None where vLLM would not start."""
    try:
        return resolve(deployment)
    except CgplanError:
        return None


def _refused(found: Resolution) -> set[str]:
    """Codes of what the worker refuses later."""
    return {finding.code for finding in found.noted if finding.severity == "error"}


def _rank(name: str) -> int:
    return PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)


def _kept(found: Resolution, asked: CUDAGraphMode) -> tuple[int, ...]:
    """How much of the mode asked for is there: FULL decode graphs first."""
    full = CUDAGraphMode.FULL
    decode = int(found.decode_mode is full or asked.decode_mode is not full)
    mixed = int(found.mixed_mode is asked.mixed_mode)
    return decode, mixed, int(found.cudagraph_mode is not CUDAGraphMode.NONE)
