"""What a deployment needs and holds: the type of a plan, and what follows from it. `plan` makes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError, StartupError
from ..light_dataclass import dataclass
from ..releases import table
from ..resolve import Resolution
from ..trace import Finding
from .budget.budget import Budget
from .budget.rules import WEIGHTS
from .capture_seconds import capture_seconds
from .estimates import Interval, exactly
from .graphs.memory import GraphMemory
from .kv.cache import keeps_windows, kv_cache
from .kv.cache_plan import KVCachePlan
from .levers import LEAST_LENGTH
from .limits import RequestsOfLength, least_utilization, requests_by_length
from .reach import longest_model_len, most_requests
from .request import MemoryRequest
from .verdict import surely_starts


@dataclass(frozen=True)
class Capacity:
    """The KV cache in a given memory, or why there is none.

    Attributes:
        kv_bytes: by pipeline stage, of one rank; with --num-gpu-blocks-override what its blocks take.
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
        ends: codes of the findings that end the start by the best values; () where it starts by them.
        is_older: it is meant for a release that is older than all that are known.
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
    ends: tuple[str, ...] = ()
    is_older: bool = False

    @cached_property
    def _typed(self) -> MemoryRequest:
        return self.request.as_typed

    @cached_property
    def max_model_len_that_fits(self) -> int:
        """The longest max_model_len that starts by the best values, tokens; 0: none, or none that is of use.

        The budget is that of the length found, whose buffers differ from those of the length asked for.
        """
        return self._longest(surely=False)

    @cached_property
    def max_model_len_that_surely_starts(self) -> int:
        """The longest max_model_len that starts within the bounds of every estimate, tokens; 0: none."""
        return self._longest(surely=True)

    def _longest(self, surely: bool) -> int:
        if self.request.auto_fit:
            plan = (self.low if surely else self.best).plan
            return plan.max_model_len if plan is not None and (self.starts == "yes" if surely else self.fits) else 0
        model = self.deployment.model
        limit = model.longest_model_len or model.max_model_len
        if self.resolution.max_model_len >= limit and (self.starts == "yes" if surely else self.fits):
            return self.resolution.max_model_len
        found = longest_model_len(self.deployment, self._typed, surely=surely)
        return found if found >= min(LEAST_LENGTH, self.resolution.max_model_len) else 0

    @cached_property
    def max_num_seqs_that_fits(self) -> int:
        """The largest max_num_seqs that starts, by the best values; 0: none. At most MOST_SEQS are looked for."""
        return most_requests(self.deployment, self._typed)

    @cached_property
    def max_num_seqs_that_surely_starts(self) -> int:
        """The largest max_num_seqs that starts within the bounds of every estimate; 0: none."""
        return most_requests(self.deployment, self._typed, surely=True)

    @cached_property
    def least_utilization(self) -> float | None:
        """The least --gpu-memory-utilization that surely starts; None: none does, or it does not size the KV cache."""
        if self.budget is None or self.budget.is_manual or self.deployment.num_gpu_blocks_override is not None:
            return None
        if any(found.code == WEIGHTS.code for found in self.findings):
            return None
        found = least_utilization(self.deployment, self.resolution, self.budget)
        if found is None or self.starts == "yes":
            return found
        flags = replace(self.request.flags, utilization=found)
        return found if surely_starts(self.deployment, replace(self.request, flags=flags)) else None

    @cached_property
    def hybrid_manager(self) -> bool | None:
        """Whether layers with a window keep that alone, see `keeps_windows`; None: the model has none beside others."""
        try:
            return keeps_windows(self.deployment, self.resolution)
        except CgplanError:
            return None

    @cached_property
    def requests_by_length(self) -> tuple[RequestsOfLength, ...]:
        """How many requests of each length fit at once; () where there is no KV cache."""
        if self.best.plan is None or self.best.plan.tokens is None:
            return ()
        fitted = replace(self.resolution, max_model_len=self.best.plan.max_model_len)
        return requests_by_length(self.deployment, fitted, self.best.kv_bytes)


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
    if deployment.num_gpu_blocks_override is not None and found.groups:
        every = tuple(found.num_blocks * size for size in found.bytes_per_block)
    return Capacity(every, None if found.refusal is not None else found, found.refusal)


def vllm_estimate(made: CapacityPlan) -> Interval | None:
    """What vLLM will estimate for the CUDA graphs, measured or worked out; None: it estimates nothing."""
    known = made.request.measured_of(made.deployment)
    if known.graph_estimate is not None:
        return exactly(known.graph_estimate, known.source_of("graph_estimate"))
    return made.graphs.estimate if made.graphs is not None else None


class CaptureTime(NamedTuple):
    """How long the capture of all graphs takes, as it took elsewhere, or as it was measured.

    Attributes:
        low, best, high: seconds.
        share: of the engine's start, low, best and high; None: that is not known.
        basis: what it is from.
    """

    low: float
    best: float
    high: float
    share: tuple[float, float, float] | None
    basis: str


def capture_time(made: CapacityPlan) -> CaptureTime | None:
    """How long capture takes; None: there are no graphs."""
    graphs = made.resolution.graph_count()
    if not graphs:
        return None
    known_of = made.request.measured_of(made.deployment)
    if known_of.capture_seconds is not None:
        seconds = round(known_of.capture_seconds, 1)
        return CaptureTime(seconds, seconds, seconds, None, known_of.source)
    known = table("capture_time")
    low, best, high = capture_seconds(made.deployment, graphs, is_older=made.is_older)
    least, middle, most = known["share_of_start"]
    return CaptureTime(low, best, high, (least, middle, most), known["basis"])
