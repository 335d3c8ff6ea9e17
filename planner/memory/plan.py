"""The capacity of a deployment: the memory of each rank, the KV cache in what is left of it, and whether it starts.

`budget` says where the memory goes, `graph_memory` what CUDA graphs take, `kv_cache` what the rest holds, `limits` why
it would not start. This module puts them together, for the best value and for both ends of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from ..deployment import Deployment
from ..errors import StartupError
from ..releases import table
from ..resolve import Overrides, Resolution, resolve
from ..resolve.overrides import NONE as NO_OVERRIDES
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .budget.budget import Budget, Measured, MemoryFlags, estimate_budget
from .budget.estimate_findings import estimate_findings
from .budget.rules import NOT_THE_MODELS
from .budget.weights import Weights
from .estimates import Interval, exactly
from .graphs.memory import GraphMemory, predict_graph_memory
from .kv.cache import kv_cache
from .kv.cache_plan import KVCachePlan
from .kv.capacity import OVERRIDE
from .limits import (
    MOST_SEQS,
    RequestsOfLength,
    check_start,
    constraints,
    largest_model_len,
    largest_num_seqs,
    least_utilization,
    requests_by_length,
)

NO_GRAPHS = exactly(0, "no CUDA graphs")
LOADING_FAILS = ("CG615",)
"""Findings of `resolve` that end the start: the configuration passes, and the worker raises."""


@dataclass(frozen=True)
class MemoryRequest:
    """What is asked and known of the memory beside a Deployment.

    Attributes:
        flags: of memory.
        known: measured values, which take the place of estimates; bytes of one rank.
        weights: counted from files, by pipeline stage; None: estimated from the model's shape.
        kv_bytes: of the KV cache of one rank; the budget is then left out.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
    """

    flags: MemoryFlags = field(default_factory=MemoryFlags)
    known: Measured = field(default_factory=Measured)
    weights: Weights | None = None
    kv_bytes: int | None = None
    auto_fit: bool = False


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
        request: what was asked of the memory, and what is known of it.
        resolution: its CUDA graphs.
        budget: memory of each rank; None where the bytes of the KV cache were given.
        graphs: what capture takes and what vLLM estimates for it; None like the budget, or where there are none.
        low, best, high: the KV cache at both ends of the interval and in between.
        starts: "yes" and "no" hold at both ends of the interval; "unsure": they differ.
        fits: whether it starts, by the best values.
        findings: what the operator should know, most pressing first.
        not_modelled: what the plan leaves out.
    """

    deployment: Deployment
    request: MemoryRequest
    resolution: Resolution
    budget: Budget | None
    graphs: GraphMemory | None
    low: Capacity
    best: Capacity
    high: Capacity
    starts: Literal["yes", "no", "unsure"]
    fits: bool
    findings: tuple[Finding, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @cached_property
    def max_model_len_that_fits(self) -> int:
        """The longest max_model_len that starts by the best values, tokens; 0: none.

        It is what vLLM's own search finds, but that buffers of longer requests take memory themselves.
        """
        found = self._longest_in(self.best.kv_bytes)
        if self.budget is None or self.request.auto_fit or found in (0, self.resolution.max_model_len):
            return found
        again = self._longest_beside(found)
        if again <= found:
            return again
        return again if self._longest_beside(again) >= again else found

    def _longest_in(self, kv_bytes: Sequence[int]) -> int:
        return largest_model_len(self.deployment, self.resolution, kv_bytes)

    def _longest_beside(self, length: int) -> int:
        """The longest that fits in what the budget leaves with a max_model_len of `length`."""
        deployment = self.deployment.model_copy(update={"max_model_len": length})
        budget, _ = make_budget(deployment, resolve(deployment), self.request)
        return self._longest_in([left.best for left in budget.kv_cache])

    @cached_property
    def max_num_seqs_that_fits(self) -> int:
        """The largest max_num_seqs that starts, by the best values; 0: none. At most MOST_SEQS are looked for."""

        def left(deployment: Deployment, resolution: Resolution) -> Budget | Sequence[int]:
            if self.request.kv_bytes is not None:
                return self.best.kv_bytes
            return make_budget(deployment, resolution, self.request)[0]

        return largest_num_seqs(self.deployment, left, auto_fit=self.request.auto_fit, most=MOST_SEQS)

    @cached_property
    def least_utilization(self) -> float | None:
        """The least --gpu-memory-utilization that starts; None: none does, or the budget was not looked at."""
        if self.budget is None or self.budget.is_manual:
            return None
        if any(found.code == OVERRIDE.code and found.severity == "error" for found in self.findings):
            return None
        return least_utilization(self.deployment, self.resolution, self.budget)

    @cached_property
    def requests_by_length(self) -> tuple[RequestsOfLength, ...]:
        """How many requests of each length fit at once; () where there is no KV cache."""
        if self.best.plan is None or self.best.plan.tokens is None:
            return ()
        fitted = replace(self.resolution, max_model_len=self.best.plan.max_model_len)
        return requests_by_length(self.deployment, fitted, self.best.kv_bytes)


def plan(
    deployment: Deployment,
    flags: MemoryFlags | None = None,
    *,
    known: Measured | None = None,
    weights: Weights | None = None,
    kv_bytes: int | None = None,
    auto_fit: bool = False,
    overrides: Overrides = NO_OVERRIDES,
) -> CapacityPlan:
    """Plan the memory of `deployment`.

    Args:
        flags: of memory; None: vLLM's defaults.
        known: measured values, which take the place of estimates; bytes of one rank.
        weights: counted from files, by pipeline stage; None: estimated from the model's shape.
        kv_bytes: the bytes of the KV cache of one rank; the budget is then left out.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
        overrides: of `resolve`.

    Raises:
        InputError: something of the model is not known that the plan needs.
        StartupError: vLLM would refuse before it looks at memory.
    """
    request = MemoryRequest(flags or MemoryFlags(), known or Measured(), weights, kv_bytes, auto_fit)
    return plan_of(deployment, request, overrides)


def plan_of(deployment: Deployment, request: MemoryRequest, overrides: Overrides = NO_OVERRIDES) -> CapacityPlan:
    """The same, of a MemoryRequest."""
    resolution = resolve(deployment, overrides)
    if request.kv_bytes is not None:
        return _in_given_bytes(deployment, request, resolution, request.kv_bytes)
    budget, graphs = make_budget(deployment, resolution, request)
    low, best, high = (
        capacity_in(deployment, resolution, [getattr(left, end) for left in budget.kv_cache], request.auto_fit)
        for end in ("low", "best", "high")
    )
    verdict = check_start(deployment, resolution, budget, auto_fit=request.auto_fit)
    said = {finding.code for finding in verdict.findings}
    notes = [note for note in best.plan.warnings if note.code not in said] if best.plan is not None else []
    fails = [finding for finding in resolution.findings if finding.code in LOADING_FAILS]
    made = CapacityPlan(
        deployment, request, resolution, budget, graphs, low, best, high, "no" if fails else verdict.starts,
        verdict.holds and not fails, (), resolution.not_modelled,
    )  # fmt: skip
    measured = request.known.graph_estimate is not None
    own = estimate_findings(deployment, resolution, budget, vllm_estimate(made), measured)
    return replace(made, findings=_pressing([*fails, *verdict.findings, *notes, *own, *_of_files(request)]))


def _of_files(request: MemoryRequest) -> list[Finding]:
    doubt = request.weights.doubt if request.weights is not None else ""
    return [Finding(NOT_THE_MODELS.code, "warning", doubt, NOT_THE_MODELS.instead, "--weights")] if doubt else []


def make_budget(
    deployment: Deployment, resolution: Resolution, request: MemoryRequest
) -> tuple[Budget, GraphMemory | None]:
    """The memory of each rank, and that of the CUDA graphs within it.

    Raises:
        InputError: something of the model is not known that the budget needs.
    """
    graphs = graph_memory(deployment, resolution)
    taken, estimate = (graphs.total, graphs.estimate) if graphs is not None else (NO_GRAPHS, None)
    budget = estimate_budget(
        deployment, resolution, request.flags,
        known=request.known, weights=request.weights, graphs=taken, graph_estimate=estimate or NO_GRAPHS,
    )  # fmt: skip
    return budget, graphs


def graph_memory(deployment: Deployment, resolution: Resolution) -> GraphMemory | None:
    """What the CUDA graphs take, and what vLLM estimates for them; None: there are none."""
    if resolution.cudagraph_mode is CUDAGraphMode.NONE:
        return None
    return predict_graph_memory(deployment, resolution)


def capacity_in(
    deployment: Deployment, resolution: Resolution, kv_bytes: Sequence[int], auto_fit: bool = False
) -> Capacity:
    """The KV cache in that many bytes of each rank, by pipeline stage; one number stands for all stages."""
    stages = deployment.pipeline_parallel_size
    every = tuple(kv_bytes) * (stages if len(kv_bytes) == 1 else 1)
    try:
        found = kv_cache(deployment, resolution, every, auto_fit=auto_fit).plan
    except StartupError as error:
        return Capacity(every, None, error)
    return Capacity(every, None if found.refusal is not None else found, found.refusal)


def vllm_estimate(made: CapacityPlan) -> Interval | None:
    """What vLLM will estimate for the CUDA graphs, measured or worked out; None: it estimates nothing."""
    if made.request.known.graph_estimate is not None:
        return exactly(made.request.known.graph_estimate, made.request.known.source)
    return made.graphs.estimate if made.graphs is not None else None


class CaptureTime(NamedTuple):
    """How long the capture of all graphs takes, as it took elsewhere.

    Attributes:
        low, best, high: seconds.
        share: of the engine's start, low, best and high.
        basis: what it is from.
    """

    low: float
    best: float
    high: float
    share: tuple[float, float, float]
    basis: str


def capture_time(made: CapacityPlan) -> CaptureTime | None:
    """How long capture takes; None: there are no graphs."""
    graphs = made.resolution.graph_count()
    if not graphs:
        return None
    known = table("capture_time")
    low, best, high = (round(graphs * seconds, 1) for seconds in known["seconds_a_graph"])
    least, middle, most = known["share_of_start"]
    return CaptureTime(low, best, high, (least, middle, most), known["basis"])


def _in_given_bytes(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, kv_bytes: int
) -> CapacityPlan:
    capacity = capacity_in(deployment, resolution, (kv_bytes,), request.auto_fit)
    fails = [finding for finding in resolution.findings if finding.code in LOADING_FAILS]
    broken = [*fails, *constraints(deployment, resolution, capacity.kv_bytes, request.auto_fit).broken]
    notes = capacity.plan.warnings if capacity.plan is not None else ()
    return CapacityPlan(
        deployment, request, resolution, None, None, capacity, capacity, capacity,
        "no" if broken else "yes", not broken, _pressing([*broken, *notes]), resolution.not_modelled,
    )  # fmt: skip


def _pressing(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The most pressing first; each once."""
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: order[finding.severity]))
