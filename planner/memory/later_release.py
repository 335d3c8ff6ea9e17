"""What the first release that takes the graphs' estimate off the KV cache makes of a plan for one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from ..deployment import Deployment
from ..releases import canonical, facts
from ..trace import Finding
from .budget.budget import Budget
from .budget.estimate_rules import LATER_DEDUCTED
from .estimates import GIB, Interval
from .kv.cache_plan import KVCachePlan
from .request import MemoryRequest
from .verdict import verdict_or_none

FIRST = "0.20.2"
"""The first known release that takes the estimate off by default."""
LEAST_CONCURRENCY = 1.1
"""Requests of the full length that fit at once; with fewer one more option may end the start."""


class Now(NamedTuple):
    """A plan by the older release: bytes of the KV cache by pipeline stage, and what they hold."""

    kv_bytes: tuple[int, ...]
    plan: KVCachePlan
    estimate: Interval


def later_release(
    deployment: Deployment,
    request: MemoryRequest,
    made: Budget,
    now: Now,
    hold: Callable[[list[int]], KVCachePlan | None],
) -> tuple[Finding, ...]:
    """One note: the KV cache and the requests at once of now, and those of a release that takes the estimate off.

    Args:
        hold: what so many bytes of each stage hold; None: not one request of the full length.

    A warning where hardly one request is left.
    """
    by_default = facts("memory", canonical(deployment.vllm))["graph_estimate"]["applied_by_default"]
    off, at_once = now.estimate.best, now.plan.max_concurrency
    if by_default or made.is_manual or made.deduction.deducted or off <= 0 or not at_once:
        return ()
    then = hold([size - off for size in now.kv_bytes])
    left = then.max_concurrency if then is not None else None
    text = (
        f"from {FIRST} on vLLM takes its estimate of the graphs, about {off / GIB:.2f} GiB, off the KV cache:"
        f" {min(now.kv_bytes) / GIB:.2f} GiB become {(min(now.kv_bytes) - off) / GIB:.2f}, and"
    )
    if left is None:
        text += f" a request of {now.plan.max_model_len} tokens no longer fits"
    else:
        text += f" {at_once:.2f} requests of the full length at once {left:.2f}"
    severity = "warning" if left is None or left < LEAST_CONCURRENCY else "info"
    return (Finding(LATER_DEDUCTED.code, severity, text, _kept(deployment, request, made, off), "--vllm"),)


def _kept(deployment: Deployment, request: MemoryRequest, made: Budget, off: int) -> str:
    """The share that keeps the KV cache as it is, if that release starts with it."""
    share = ceil((made.utilization + off / made.total.best) * 1000) / 1000
    if share < 1:
        higher = replace(request.as_typed, flags=replace(request.flags, utilization=share))
        found = verdict_or_none(deployment.model_copy(update={"vllm": FIRST}), higher)
        if found is not None and found.holds:
            sure = "" if found.starts == "yes" else ", by the best estimate,"
            return f"--gpu-memory-utilization {share:.3f}{sure} keeps it after the upgrade"
    return "no share is known to keep it after the upgrade: capture fewer sizes, or lower --max-model-len"
