"""Why the graphs and the estimate of a log are as they are: what the backend supports, and vLLM's samples."""

from __future__ import annotations

from collections.abc import Sequence

from ..startup.analysis import StartReport
from ..startup.known import MIB, ROUNDING, gib
from ..startup.record import Start
from ..vocabulary import AttentionCGSupport


def support_line(report: StartReport, backends: Sequence[str]) -> str:
    """Which FULL graphs the backend of the log supports, where that is less than all; "": all, or not known."""
    found = report.comparison.resolution if report.comparison is not None else None
    if found is None or not found.requested_mode.has_full or found.backend.name not in backends:
        return ""
    least = min(found.backend.groups, key=lambda group: group.support, default=None)
    if least is None or least.support is AttentionCGSupport.ALWAYS:
        return ""
    kept = f"{found.cudagraph_mode} keeps FULL graphs for decode" if found.cudagraph_mode.has_full else "no FULL graphs"
    return f"{least.name} supports {least.support.name}: {kept}"


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
