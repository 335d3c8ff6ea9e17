"""What a list of capture sizes does: through `resolve` and the memory plan, and step by step through the dispatcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError, InputError
from ..memory.plan import capacity_in
from ..memory.request import MemoryRequest, make_budget
from ..releases import table
from ..resolve import resolve
from ..resolve.resolution import Resolution
from ..vocabulary import CUDAGraphMode
from .prices import Prices
from .steps import Step


class Seconds(NamedTuple):
    """How long the capture takes, as it took elsewhere."""

    low: float
    best: float
    high: float


@dataclass(frozen=True)
class Point:
    """A list of sizes and what it does to the traffic, per step on average, and to the GPU.

    Attributes:
        sizes: ascending.
        graphs: of the target model, number of.
        cost: of a step, in tokens or seconds.
        guarded: the same with the steps of any size that lists are chosen for beside the traffic.
        tokens: computed in a step, padding included.
        waste: padding as a share of the computed tokens.
        eager: share of the steps that run without a graph.
        graph_bytes: what capture takes of a GPU; None: not known.
        kv_tokens: of the KV cache; None: not known, or it does not start.
        capture: seconds.
    """

    sizes: tuple[int, ...]
    graphs: int
    cost: float
    guarded: float
    tokens: float
    waste: float
    eager: float
    graph_bytes: int | None
    kv_tokens: int | None
    capture: Seconds


@dataclass(frozen=True)
class Setting:
    """What all lists are held against.

    Attributes:
        deployment, resolution: as they are today.
        steps: of the traffic, those that may have a graph.
        guard: steps of any size, which lists are chosen for as well.
        prices: of a step.
        request: of the memory; None: it cannot be planned.
    """

    deployment: Deployment
    resolution: Resolution
    steps: tuple[Step, ...]
    guard: tuple[Step, ...]
    prices: Prices
    request: MemoryRequest | None

    def today(self) -> Point:
        """The list of today."""
        return self._point(self.deployment, self.resolution)

    def with_sizes(self, sizes: Sequence[int]) -> Point | None:
        """The list `sizes`; None: vLLM would not keep it as it is, or lower the mode."""
        deployment = with_sizes(self.deployment, sizes)
        try:
            resolution = resolve(deployment)
        except CgplanError:
            return None
        if resolution.capture_sizes != tuple(sizes) or resolution.cudagraph_mode is not self.resolution.cudagraph_mode:
            return None
        return self._point(deployment, resolution)

    def _point(self, deployment: Deployment, resolution: Resolution) -> Point:
        told = tally_of(self.steps, resolution, self.prices)
        guarded = tally_of((*self.steps, *self.guard), resolution, self.prices).cost
        graph_bytes, kv_tokens = self._memory(deployment, resolution)
        graphs = resolution.graph_count()
        return Point(
            resolution.capture_sizes, graphs, told.cost, guarded, told.tokens, told.waste, told.eager,
            graph_bytes, kv_tokens, capture_seconds(graphs),
        )  # fmt: skip

    def _memory(self, deployment: Deployment, resolution: Resolution) -> tuple[int | None, int | None]:
        """Bytes of the graphs, and tokens of the KV cache, whose layers do not depend on the sizes."""
        if self.request is None:
            return None, None
        budget, graphs = make_budget(deployment, resolution, self.request)
        taken = None if graphs is None else graphs.total.best
        kv_bytes = [left.best for left in budget.kv_cache]
        if self.request.kv_bytes is not None:
            kv_bytes = [self.request.kv_bytes]
        held = capacity_in(self.deployment, self.resolution, kv_bytes, self.request.auto_fit)
        return taken, None if held.plan is None else held.plan.tokens


class Told(NamedTuple):
    """Of a step on average: its cost, its computed tokens; and shares: padding of the tokens, eager of the steps."""

    cost: float
    tokens: float
    waste: float
    eager: float


def tally_of(steps: Sequence[Step], resolution: Resolution, prices: Prices) -> Told:
    """What `steps` run in under `resolution`, and what that costs."""
    cost, computed, padding, eager = [], [], [], []
    for step in steps:
        found = resolution.dispatch_batch(step.batch)
        cost.append(step.weight * prices.of(found.mode, found.num_tokens))
        computed.append(step.weight * found.num_tokens)
        padding.append(step.weight * (found.num_tokens - step.batch.num_tokens))
        if found.mode is CUDAGraphMode.NONE:
            eager.append(step.weight)
    whole, tokens = fsum(step.weight for step in steps), fsum(computed)
    return Told(fsum(cost) / whole, tokens / whole, fsum(padding) / tokens, fsum(eager) / whole)


def with_sizes(deployment: Deployment, sizes: Sequence[int]) -> Deployment:
    """The deployment with these sizes in the place of all that it says of sizes."""
    options = deployment.compilation_config.model_copy(
        update={"cudagraph_capture_sizes": None, "max_cudagraph_capture_size": None}
    )
    update: dict[str, Any] = {
        "cudagraph_capture_sizes": tuple(sizes),
        "max_cudagraph_capture_size": None,
        "compilation_config": options,
    }
    return deployment.model_copy(update=update)


def capture_seconds(graphs: int) -> Seconds:
    """How long so many graphs take."""
    low, best, high = table("capture_time")["seconds_a_graph"]
    return Seconds(round(graphs * low, 1), round(graphs * best, 1), round(graphs * high, 1))


def can_be_planned(deployment: Deployment, resolution: Resolution, request: MemoryRequest) -> str:
    """Why the memory cannot be planned; "": it can."""
    try:
        budget, _ = make_budget(deployment, resolution, request)
        capacity_in(deployment, resolution, [left.best for left in budget.kv_cache], request.auto_fit)
    except InputError as error:
        return error.message
    return ""
