"""What a list of capture sizes does: through `resolve` and the memory plan, and step by step through the dispatcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from ...deployment import Deployment
from ...errors import CgplanError, InputError
from ...memory.capacity_plan import capacity_in
from ...memory.capture_seconds import Seconds, capture_seconds
from ...memory.request import MemoryRequest, make_budget
from ...resolve import resolve
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from .prices import Prices
from .steps import Step


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

    def guarded(self, resolution: Resolution, cost: float | None = None) -> float:
        """The cost of a step of the traffic, `cost` where it is known, and the guard together."""
        if cost is None:
            cost = tally_of(self.steps, resolution, self.prices).cost
        if not self.guard:
            return cost
        weights = [sum(step.weight for step in part) for part in (self.steps, self.guard)]
        costs = (cost, tally_of(self.guard, resolution, self.prices).cost)
        return sum(weight * each for weight, each in zip(weights, costs, strict=True)) / sum(weights)

    def without_graphs(self) -> Point:
        """The deployment as it is, where it captures none: every step runs without padding, and no cost is known."""
        graph_bytes, kv_tokens = self._memory(self.deployment, self.resolution)
        tokens = sum(step.weight * step.batch.num_tokens for step in self.steps)
        tokens /= sum(step.weight for step in self.steps)
        none = capture_seconds(self.deployment, 0)
        return Point((), 0, inf, inf, tokens, 0.0, 1.0, graph_bytes or 0, kv_tokens, none)

    def _point(self, deployment: Deployment, resolution: Resolution) -> Point:
        told = tally_of(self.steps, resolution, self.prices)
        guarded = self.guarded(resolution, told.cost)
        graph_bytes, kv_tokens = self._memory(deployment, resolution)
        graphs = resolution.graph_count()
        return Point(
            resolution.capture_sizes, graphs, told.cost, guarded, told.tokens, told.waste, told.eager,
            graph_bytes, kv_tokens, capture_seconds(deployment, graphs),
        )  # fmt: skip

    def _memory(self, deployment: Deployment, resolution: Resolution) -> tuple[int | None, int | None]:
        """Bytes of the graphs, and tokens of the KV cache, whose layers do not depend on the sizes."""
        if self.request is None:
            return None, None
        budget, graphs = make_budget(deployment, resolution, self.request)
        taken = None if graphs is None else graphs.total.best
        if graphs is not None and self.request.known.graphs is not None:
            taken = round(budget.tightest.graphs.best)  # as measured, or for another list as far off as that was
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


class Run(NamedTuple):
    """What a step runs in, its computed tokens, and its cost."""

    mode: CUDAGraphMode
    tokens: int
    cost: float


def runs_of(steps: Sequence[Step], resolution: Resolution, prices: Prices) -> Iterator[Run]:
    """What each of `steps`, ascending by tokens, runs in under `resolution`.

    All batches of one sort up to the size of a graph run in it from the smallest on that does, so that not each is
    asked for.
    """
    last: dict[tuple[str, int, int], Run] = {}
    for step in steps:
        batch = step.batch
        sort = (step.kind, batch.max_query_len if step.kind == "decode" else 0, batch.num_active_loras)
        run = last.get(sort)
        if run is None or run.tokens < batch.num_tokens:
            found = resolution.dispatch_batch(batch)
            run = Run(found.mode, found.num_tokens, prices.of(found.mode, found.num_tokens))
            if run.mode is CUDAGraphMode.FULL or step.kind == "mixed":
                last[sort] = run
        yield run


def tally_of(steps: Sequence[Step], resolution: Resolution, prices: Prices) -> Told:
    """What `steps`, ascending by tokens, run in under `resolution`, and what that costs."""
    cost = tokens = padding = eager = whole = 0.0
    for step, run in zip(steps, runs_of(steps, resolution, prices), strict=True):
        weight = step.weight
        whole += weight
        cost += weight * run.cost
        tokens += weight * run.tokens
        padding += weight * (run.tokens - step.batch.num_tokens)
        if run.mode is CUDAGraphMode.NONE:
            eager += weight
    return Told(cost / whole, tokens / whole, padding / tokens, eager / whole)


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


def can_be_planned(deployment: Deployment, resolution: Resolution, request: MemoryRequest) -> str:
    """Why the memory cannot be planned; "": it can."""
    try:
        budget, _ = make_budget(deployment, resolution, request)
        capacity_in(deployment, resolution, [left.best for left in budget.kv_cache], request.auto_fit)
    except InputError as error:
        return error.message
    return ""
