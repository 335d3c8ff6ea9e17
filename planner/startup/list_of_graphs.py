"""Graphs of a log that come of another list of sizes than the plan has, whatever the requests are."""

from __future__ import annotations

from ..resolve import Resolution
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .deployment import Served
from .record import Start
from .rules import DIFFERENT_GRAPHS, OTHER_REQUESTS
from .solved import KINDS, Counted, counted_in, graphs_text


def finding_of(start: Start, served: Served, resolution: Resolution) -> Finding | None:
    """That estimate and capture of the two do not compare; None: they do, or the requests explain the difference."""
    counted = counted_in(start)
    if any(kind not in counted for kind in KINDS) or served.is_solved or start.capture_sizes is not None:
        return None
    if any(finding.code == OTHER_REQUESTS.code for finding in served.findings):
        return None
    planned = {kind: resolution.graph_count(CUDAGraphMode(kind)) for kind in KINDS}
    if not all(planned.values()) or all(counted[kind].number == planned[kind] for kind in KINDS):
        return None
    text = (
        f"{graphs_text(counted)} come of another list of sizes than the {planned['PIECEWISE']} PIECEWISE and"
        f" {planned['FULL']} FULL ones planned: estimate and capture are not held against it"
    )
    sizes = _doubled(counted)
    fix = "--cudagraph-capture-sizes, or the other options that make the list, as the server was started"
    if sizes:
        fix = (
            f"--cudagraph-capture-sizes {' '.join(map(str, sizes))}, which gives so many, if the server was started so"
        )
    return Finding(DIFFERENT_GRAPHS.code, "warning", text, fix, "--cudagraph-capture-sizes")


MOST_DOUBLED = 20
"""Sizes; the largest of so many is above any number of batched tokens."""


def _doubled(counted: Counted) -> list[int]:
    """1 2 4 8 up to the largest, where that gives the numbers of both kinds; []: it does not, or no size is known."""
    for graphs in counted.values():
        if graphs.largest is None or not 0 < graphs.number <= MOST_DOUBLED:
            return []
        if graphs.largest != 1 << (graphs.number - 1):
            return []
    largest = counted["PIECEWISE"].largest or 0
    return [1 << at for at in range(largest.bit_length())]
