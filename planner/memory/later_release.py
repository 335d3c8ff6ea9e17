"""What the first release that takes the graphs' estimate off the KV cache makes of a deployment of an older one.

It is planned by that release's own rules, as `cgplan plan --vllm` of it and `cgplan diff` do: its estimate is another,
too.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Protocol

from ..deployment import Deployment
from ..errors import CgplanError
from ..releases import canonical, facts
from ..trace import Finding
from .budget.estimate_rules import LATER_DEDUCTED
from .capacity_plan import CapacityPlan
from .estimates import GIB, MIB
from .request import MemoryRequest, make_budget
from .verdict import verdict_of

FIRST = "0.20.2"
"""The first known release that takes the estimate off by default."""
LEAST_CONCURRENCY = 1.1
"""Requests of the full length that fit at once; with fewer one more option may end the start."""
MOST_STEPS = 4
"""Thousandths of a share that are tried beyond what the difference is worth."""


def only_prints(release: str) -> bool:
    """Whether a release prints its estimate of the graphs, and leaves the KV cache as it is."""
    return not facts("memory", canonical(release))["graph_estimate"]["applied_by_default"]


class PlanOf(Protocol):
    """`plan.plan_of`, which calls what stands here."""

    def __call__(self, deployment: Deployment, request: MemoryRequest, *, advise: bool) -> CapacityPlan:
        """The plan of a deployment."""


def planned_by_first(made: CapacityPlan, plan_of: PlanOf, utilization: float | None = None) -> CapacityPlan | None:
    """The same deployment by the rules of FIRST; None: it refuses before it looks at memory.

    Args:
        plan_of: makes a plan.
        utilization: the share; None: the one that was asked for, or the default of FIRST.
    """
    request = made.request
    if utilization is not None:
        request = replace(request, flags=replace(request.flags, utilization=utilization))
    try:
        return plan_of(made.deployment.model_copy(update={"vllm": FIRST}), request, advise=False)
    except CgplanError:
        return None


def later_release(made: CapacityPlan, plan_of: PlanOf) -> tuple[Finding, ...]:
    """One note: the KV cache and the requests at once of now, and those of FIRST. A warning where hardly one is left.

    () where the release takes the estimate off, where none is made, and where FIRST leaves the KV cache as it is.
    """
    plan, budget = made.best.plan, made.budget
    if budget is None or not made.fits or plan is None or not plan.max_concurrency:
        return ()
    if not only_prints(made.deployment.vllm) or budget.is_manual or budget.deduction.deducted:
        return ()
    then = planned_by_first(made, plan_of)
    if then is None or then.budget is None:
        return ()
    off = then.budget.tightest.deducted.best
    now_bytes, then_bytes = min(made.best.kv_bytes), min(then.best.kv_bytes)
    if off <= 0 or now_bytes == then_bytes:
        return ()
    left = then.best.plan.max_concurrency if then.best.plan is not None else None
    text = f"from {FIRST} on vLLM takes its estimate of the graphs, {off / GIB:.2f} GiB there, off the KV cache"
    if budget.utilization != then.budget.utilization:
        text += f", and asks for {then.budget.utilization:g} of the GPU by default"
    text += f": {now_bytes / GIB:.2f} GiB become {then_bytes / GIB:.2f}, and"
    if left is None:
        text += f" a request of {plan.max_model_len} tokens no longer fits"
    else:
        text += f" {plan.max_concurrency:.2f} requests of the full length at once {left:.2f}"
    severity = "warning" if left is None or left < LEAST_CONCURRENCY else "info"
    fix = _kept(made, then) if then_bytes < now_bytes - MIB or left is None else None
    return (Finding(LATER_DEDUCTED.code, severity, text, fix, "--vllm"),)


def _kept(made: CapacityPlan, then: CapacityPlan) -> str:
    """The least share, in thousandths, that keeps the KV cache as it is, if FIRST starts with it."""
    assert then.budget is not None
    wanted, whole = min(made.best.kv_bytes), then.budget.total.best
    step = ceil((then.budget.utilization + (wanted - min(then.best.kv_bytes)) / whole) * 1000)
    for thousandths in range(step, min(step + MOST_STEPS, 1000)):
        request = replace(made.request.as_typed, flags=replace(made.request.flags, utilization=thousandths / 1000))
        try:
            found = verdict_of(then.deployment, request)
        except CgplanError:
            break
        if not found.holds:
            break
        if _kv_bytes(then, request) >= wanted:
            sure = "" if found.starts == "yes" else ", by the best estimate,"
            return f"--gpu-memory-utilization {thousandths / 1000:.3f}{sure} keeps it after the upgrade"
    return "no share is known to keep it after the upgrade: capture fewer sizes, or lower --max-model-len"


def _kv_bytes(then: CapacityPlan, request: MemoryRequest) -> int:
    budget, _ = make_budget(then.deployment, then.resolution, request)
    return budget.tightest.held.best
