"""The capacity of a deployment: the memory of each rank, the KV cache in what is left of it, and whether it starts.

`budget` says where the memory goes, `graph_memory` what CUDA graphs take, `kv_cache` what the rest holds. This module
puts them together, for the best value and for both ends of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..deployment import Deployment
from ..errors import CgplanError, InputError, StartupError
from ..resolve import NONE as NO_OVERRIDES
from ..resolve import Overrides, Resolution, resolve
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .budget import Budget, Measured, MemoryFlags, estimate_budget
from .estimates import exactly
from .graph_memory import GraphMemory, predict_graph_memory
from .kv_cache import kv_cache
from .kv_capacity import KVCacheTooSmall
from .kv_plan import KVCachePlan

NO_GRAPHS = exactly(0, "no CUDA graphs")


@dataclass(frozen=True)
class Capacity:
    """The KV cache in a given memory, or why there is none.

    Attributes:
        kv_bytes: by pipeline stage, of one rank.
        plan: None where vLLM refuses.
        refusal: why, or None.
    """

    kv_bytes: tuple[int, ...]
    plan: KVCachePlan | None
    refusal: StartupError | None = None


@dataclass(frozen=True)
class CapacityPlan:
    """What a deployment needs, holds, and whether it starts.

    Attributes:
        deployment: what was asked.
        resolution: its CUDA graphs.
        budget: memory of each rank; None where the bytes of the KV cache were given.
        graphs: what capture takes and what vLLM estimates for it; None like the budget.
        low, best, high: the KV cache at both ends of the interval and in between.
        max_model_len_that_fits: the longest request, tokens; 0: none; None: not known.
        findings: what the operator should know, most pressing first.
        not_modelled: what the plan leaves out.
    """

    deployment: Deployment
    resolution: Resolution
    budget: Budget | None
    graphs: GraphMemory | None
    low: Capacity
    best: Capacity
    high: Capacity
    max_model_len_that_fits: int | None
    findings: tuple[Finding, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it starts, by the best values."""
        return self.best.plan is not None and not any(found.severity == "error" for found in self.findings)


def plan(
    deployment: Deployment,
    flags: MemoryFlags | None = None,
    *,
    known: Measured | None = None,
    kv_bytes: int | None = None,
    auto_fit: bool = False,
    overrides: Overrides = NO_OVERRIDES,
) -> CapacityPlan:
    """Plan the memory of `deployment`.

    Args:
        flags: of memory; None: vLLM's defaults.
        known: measured values, which take the place of estimates; bytes of one rank.
        kv_bytes: the bytes of the KV cache of one rank; the budget is then left out.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
        overrides: of `resolve`.

    Raises:
        InputError: something of the model is not known that the plan needs.
        StartupError: vLLM would refuse before it looks at memory.
    """
    resolution = resolve(deployment, overrides)
    if kv_bytes is not None:
        capacity = capacity_in(deployment, resolution, (kv_bytes,), auto_fit)
        longest = _longest(deployment, resolution, capacity, auto_fit)
        findings = (*_of_capacity(capacity), *_of_states(deployment, capacity))
        return CapacityPlan(deployment, resolution, None, None, capacity, capacity, capacity, longest, findings)
    graphs = _graphs(deployment, resolution)
    taken = graphs.total if graphs is not None else NO_GRAPHS
    estimate = graphs.estimate if graphs is not None and graphs.estimate is not None else NO_GRAPHS
    budget = estimate_budget(deployment, resolution, flags, known=known, graphs=taken, graph_estimate=estimate)
    low, best, high = (
        capacity_in(deployment, resolution, [max(0, getattr(left, end)) for left in budget.kv_cache], auto_fit)
        for end in ("low", "best", "high")
    )
    longest = _longest(deployment, resolution, best, auto_fit)
    findings = (*budget.findings, *_of_capacity(best), *_of_states(deployment, best), *_of_doubt(low, best))
    return CapacityPlan(
        deployment, resolution, budget, graphs, low, best, high, longest, findings, resolution.not_modelled
    )


def capacity_in(
    deployment: Deployment, resolution: Resolution, kv_bytes: list[int] | tuple[int, ...], auto_fit: bool = False
) -> Capacity:
    """The KV cache in that many bytes of each rank, by pipeline stage; one number stands for all stages."""
    stages = deployment.pipeline_parallel_size
    every = tuple(kv_bytes) * (stages if len(kv_bytes) == 1 else 1)
    try:
        found = kv_cache(deployment, resolution, every, auto_fit=auto_fit).plan
    except StartupError as error:
        return Capacity(every, None, error)
    return Capacity(every, None if found.refusal is not None else found, found.refusal)


def _graphs(deployment: Deployment, resolution: Resolution) -> GraphMemory | None:
    if resolution.cudagraph_mode is CUDAGraphMode.NONE:
        return None
    return predict_graph_memory(deployment, resolution)


def _longest(deployment: Deployment, resolution: Resolution, capacity: Capacity, auto_fit: bool) -> int | None:
    """The longest request that fits, by vLLM's own search."""
    if isinstance(capacity.refusal, KVCacheTooSmall):
        return capacity.refusal.estimated_max_model_len
    if capacity.plan is None:
        return 0 if capacity.refusal is not None else None
    if auto_fit or capacity.plan.tokens is None:
        return capacity.plan.max_model_len
    whole = deployment.model_copy(update={"max_model_len": None})
    try:
        wide = replace(resolution, max_model_len=resolve(whole).max_model_len)
    except CgplanError:
        return capacity.plan.max_model_len
    fitted = capacity_in(whole, wide, capacity.kv_bytes, auto_fit=True)
    return fitted.plan.max_model_len if fitted.plan is not None else capacity.plan.max_model_len


def _of_capacity(capacity: Capacity) -> tuple[Finding, ...]:
    if capacity.refusal is not None:
        error = capacity.refusal
        return (Finding(error.code, "error", error.message, error.fix, error.where),)
    return capacity.plan.warnings if capacity.plan is not None else ()


def _of_states(deployment: Deployment, capacity: Capacity) -> tuple[Finding, ...]:
    """Models with states need a block for each request of a FULL graph: asked again, now that the blocks are known."""
    if capacity.plan is None or deployment.num_gpu_blocks is not None:
        return ()
    counted = deployment.model_copy(update={"num_gpu_blocks": capacity.plan.num_blocks})
    try:
        resolve(counted)
    except StartupError as error:
        return (Finding(error.code, "error", error.message, error.fix, error.where),)
    except InputError:
        return ()
    return ()


def _of_doubt(low: Capacity, best: Capacity) -> tuple[Finding, ...]:
    if low.refusal is None or best.refusal is not None:
        return ()
    error = low.refusal
    message = f"at the low end of the estimate it does not start: {error.message}"
    return (Finding(error.code, "warning", message, error.fix, error.where),)
