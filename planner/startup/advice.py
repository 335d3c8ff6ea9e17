"""vLLM's advice on --gpu-memory-utilization, held against what capture took and what is free."""

from __future__ import annotations

from ..trace import Finding
from .known import GIB, deducts, gib, is_manual, total_of
from .record import Rank, Start
from .rules import ADVICE
from .scene import LEAST_OUTSIDE, LEAST_SHARE, down

FAR = 1.5
LEAST_OFF = 160 << 20


BEYOND = "CG523"
"""The rule of `check` for the same advice before the start."""


def finding_of(start: Start, rank: Rank, fix: str | None = None, free: float | None = None) -> Finding | None:
    """What is wrong with it; None: nothing, or the log has none.

    Args:
        fix: what keeps the KV cache at its size whatever the estimate is, where it is known.
        free: share of the GPU that is free before the start by the plan, where the log does not say.
    """
    raised = rank.raised_utilization
    if raised is None or is_manual(start, rank):
        return None
    return _beyond_what_is_free(start, rank, raised, fix, free) or _too_high(start, rank, raised, fix)


def _beyond_what_is_free(
    start: Start, rank: Rank, raised: float, fix: str | None, planned: float | None
) -> Finding | None:
    """A share that vLLM refuses, or that leaves nothing outside the budget."""
    total, free, by = total_of(start, rank), rank.free_bytes, ""
    if free is None and total is not None and planned is not None:
        free = round(planned * total)
    if total is None:
        if raised <= 1 - LEAST_SHARE:
            return None
        left = f"{100 * max(0.0, 1 - raised):.2f}% of the GPU"
        most = down(1 - LEAST_SHARE)
    else:
        there = free if free is not None else total
        margin = LEAST_OUTSIDE
        if there - raised * total >= margin - 0.005 * GIB:
            return None
        left = gib(max(0.0, there - raised * total))
        by = " by what the plan has as free" if free is not None and rank.free_bytes is None else ""
        most = down((there - margin) / total)
    text = (
        f"vLLM advises --gpu-memory-utilization {raised:g}, which leaves {left} outside the budget{by}: half a GiB"
        " has to stay free there, and more than is free does not start (CG504)"
    )
    own = rank.utilization
    higher = f"at most {most:g}" if own is None or most > own else f"{own:g} as it is: there is no room above it"
    more = f", and for a larger KV cache fewer --cudagraph-capture-sizes{f' or {fix}' if fix else ''}"
    return Finding(BEYOND, "warning", text, f"--gpu-memory-utilization {higher}{more}", rank.name)


def _too_high(start: Start, rank: Rank, raised: float, fix: str | None) -> Finding | None:
    """An advice by an estimate that is far above what capture took."""
    estimate, actual, own = rank.graph_estimate_bytes, rank.graph_actual_bytes, rank.utilization
    total = total_of(start, rank)
    if estimate is None or actual is None or own is None or not total or actual <= 0:
        return None
    if estimate < FAR * actual or estimate - actual < LEAST_OFF:
        return None
    enough = own + actual / total
    text = (
        f"vLLM advises --gpu-memory-utilization {raised:g} by its estimate of {gib(estimate)}; capture took"
        f" {gib(actual)}, with which {enough:.4f} holds the same KV cache and the graphs"
    )
    if deducts(start, rank):
        right = fix or "--kv-cache-memory-bytes with the KV cache of before: the estimate is taken off at any share"
    else:
        right = (
            f"leave it at {own:g}: here nothing is taken off for the graphs, and beside the budget {enough - own:.4f}"
            " of the GPU has to be free for them"
        )
    return Finding(ADVICE.code, "info", text, right, rank.name)
