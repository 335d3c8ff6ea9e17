"""A deployment of a kind that no measured capture stands behind, and the margin that it is better started with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..deployment import Deployment
from ..resolve import Resolution
from ..trace import Finding
from .budget.budget import Budget
from .budget.estimate_rules import UNMEASURED
from .estimates import GIB
from .graphs.workspace import UNDERSTOOD
from .request import MemoryRequest
from .verdict import verdict_or_none

SEEN = ((8, 9), (9, 0), (12, 0), (12, 1))
"""Compute capabilities of which a capture, or vLLM's own figure of one, was seen."""
MARGIN = 3 * GIB
"""The least by which reports of such stacks had more than was estimated."""


def unmeasured(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, made: Budget
) -> Iterator[Finding]:
    """What is to be done where nothing was measured of the attention, the GPU's family or the layout of the ranks."""
    measured = request.measured_of(deployment)
    kinds = list(_kinds(deployment, resolution))
    if not kinds or not resolution.graph_count() or measured.graphs is not None:
        return
    graphs = made.tightest.graphs
    text = (
        f"no capture was measured {' or '.join(kinds)}: the graphs' {graphs.best / GIB:.2f} GiB"
        f" ({graphs.low / GIB:.2f} to {graphs.high / GIB:.2f}) may be too low by GiB, as memory that such a stack sets"
        " up after vLLM's profile run is not known; one report has 3 to 15 GiB"
    )
    yield Finding(UNMEASURED.code, "info", text, _fix(deployment, request, made), "--gpu-memory-utilization")


def _kinds(deployment: Deployment, resolution: Resolution) -> Iterator[str]:
    names = sorted({group.name for group in resolution.backend.groups} - set(UNDERSTOOD))
    if names:
        yield f"with {', '.join(names)}"
    if deployment.gpu.capability not in SEEN:
        yield f"on GPUs of capability {deployment.gpu.major}.{deployment.gpu.capability[1]}"
    if deployment.data_parallel_size > 1 or deployment.enable_expert_parallel:
        yield "with data or expert parallelism"
    if deployment.decode_context_parallel_size > 1 or deployment.prefill_context_parallel_size > 1:
        yield "with context parallelism"


def _fix(deployment: Deployment, request: MemoryRequest, made: Budget) -> str:
    measure = "measure it: `cgplan profile` there, or `cgplan logs --save` of the first start's log"
    share = int((made.utilization - MARGIN / made.total.best) * 100 + 1e-9) / 100
    if made.is_manual or share <= 0:
        return measure
    lower = replace(request, flags=replace(request.flags, utilization=share))
    found = verdict_or_none(deployment, lower)
    if found is None or not found.holds:
        return measure
    sure = "" if found.starts == "yes" else ", by the best estimate,"
    room = f"leaves {MARGIN // GIB} GiB more for the first start"
    return f"--gpu-memory-utilization {share:.2f}{sure} {room}; then {measure}"
