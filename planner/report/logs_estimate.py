"""Why the graphs and the estimate of a log are as they are: what the backend supports, and vLLM's samples."""

from __future__ import annotations

from collections.abc import Sequence

from ..releases import SUPPORTED
from ..resolve.known_backend import fixed_level
from ..startup.analysis import StartReport
from ..startup.known import MIB, ROUNDING, gib, release_of
from ..startup.record import Start
from ..startup.requests import is_aligned
from ..vocabulary import AttentionCGSupport


def support_line(report: StartReport, backends: Sequence[str]) -> str:
    """Which FULL graphs the backend of the log supports; "": not known."""
    found = report.comparison.resolution if report.comparison is not None else None
    if found is None and len(backends) == 1 and not is_aligned(report.start):
        return _by_name(report.start, backends[0])
    if found is None or not found.requested_mode.has_full or found.backend.name not in backends:
        return ""
    least = min(found.backend.groups, key=lambda group: group.support, default=None)
    if least is None:
        return ""
    if least.support is AttentionCGSupport.ALWAYS:
        if not found.cudagraph_mode.has_full:
            return ""
        version, why = _version(report.start, least.name), _passed_over(report, least.name)
        return f"{least.name} supports ALWAYS{version}: {found.cudagraph_mode} stays as it is{why}"
    why = _passed_over(report, least.name)
    kept = f"{found.cudagraph_mode} keeps FULL graphs for decode" if found.cudagraph_mode.has_full else "no FULL graphs"
    return f"{least.name} supports {least.support.name}{_version(report.start, least.name)}: {kept}{why}"


def kernels_line(start: Start) -> str:
    """Which kernels FlashInfer runs decode with, and that they keep FULL graphs; "": the log does not say."""
    kernels = start.decode_kernels
    if kernels is None or (start.cudagraph_mode is not None and "FULL" not in start.cudagraph_mode):
        return ""
    if kernels == "xqa":
        return "XQA decode kernels: FULL graphs for decode stay"
    if kernels.startswith("trtllm"):
        return "TRT-LLM decode kernels: FULL graphs for decode stay, with drafts as well"
    return "FlashInfer's own decode kernels: FULL graphs for decode without drafts stay"


def _passed_over(report: StartReport, name: str) -> str:
    """Why the backends before it in vLLM's order were not taken; "": it is the first."""
    found = report.comparison.resolution if report.comparison is not None else None
    if found is None or found.backend.name != name or not found.backend.rejected:
        return ""
    lacks: dict[str, list[str]] = {}
    for other, reasons in found.backend.rejected[:MOST_PASSED_OVER]:
        if reasons:
            lacks.setdefault(reasons[0], []).append(other)
    said = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in lacks.items())
    return f". Not taken before it: {said}" if said else ""


MOST_PASSED_OVER = 3


def _by_name(start: Start, name: str) -> str:
    """The same without a plan, of a backend whose level does not depend on GPU and model; "": of others."""
    level = fixed_level(name, release_of(start) or SUPPORTED[-1])
    if name == "FLASH_ATTN" and start.flash_version in (2, 3):
        level = AttentionCGSupport.UNIFORM_BATCH if start.flash_version == 2 else AttentionCGSupport.ALWAYS
    return "" if level is None else f"{name} supports {level.name}{_version(start, name)}: {BY_LEVEL[level.name]}"


BY_LEVEL = {
    "ALWAYS": "FULL graphs of any batch",
    "UNIFORM_BATCH": "FULL graphs for decode, with drafts as well",
    "UNIFORM_SINGLE_TOKEN_DECODE": "FULL graphs for decode without drafts",
    "NEVER": "no FULL graphs",
}


def _version(start: Start, name: str) -> str:
    """The version of FlashAttention, on which the support depends."""
    return f" with FlashAttention {start.flash_version}" if name == "FLASH_ATTN" and start.flash_version else ""


def sample_rows(start: Start) -> list[tuple[str, str]]:
    """What vLLM measured for its estimate, of the first rank that prints it, at level DEBUG."""
    printed = [rank for rank in start.ranks if rank.samples]
    if not printed:
        return []
    rank = printed[0]
    whose = f" of {rank.name}" if len({one.samples for one in printed}) > 1 else ""
    rows = [
        (
            "" if at else "Estimate",
            f"{one.mode} {one.first_bytes / MIB:,.0f} MiB for the first graph, {one.per_graph_bytes / MIB:,.0f} MiB for"
            f" each of {one.graphs - 1} more{whose}",
        )
        for at, one in enumerate(rank.samples)
    ]
    first = max(one.first_bytes for one in rank.samples)
    more = [(one.graphs - 1) * one.per_graph_bytes for one in rank.samples]
    whole = first + sum(more)
    if rank.graph_estimate_bytes is not None and abs(whole - rank.graph_estimate_bytes) <= ROUNDING:
        terms = " + ".join(f"{size / MIB:,.0f}" for size in (first, *more))
        rows.append(("", f"{terms} = {whole / MIB:,.0f} MiB ({gib(whole)}): the larger first graph counts once"))
    return rows
