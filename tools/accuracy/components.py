"""Predicted against measured, by component of the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runs import Run

from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.budget.measured import Measured
from cgplan.memory.capacity_plan import CapacityPlan, vllm_estimate
from cgplan.memory.estimates import GIB, Interval
from cgplan.memory.graphs.memory import predict_graph_memory
from cgplan.memory.plan import plan


class Error(NamedTuple):
    """One prediction: its relative error, and whether low..high holds the measured value."""

    run: Run
    error: float
    covered: bool


class Logged(NamedTuple):
    """What a public log says of its graphs beside the plan's interval.

    Attributes:
        what: "estimate" or "capture".
        gib: as logged.
    """

    run: Run
    what: str
    gib: float
    predicted: Interval

    @property
    def is_inside(self) -> bool:
        return self.predicted.low / GIB - 0.005 <= self.gib <= self.predicted.high / GIB + 0.005


def logged(runs: Iterable[Run]) -> list[Logged]:
    """Every figure of `graph_logs.jsonl`."""
    found = []
    for run in runs:
        made = predict_graph_memory(run.deployment, run.resolution)
        sides = (("estimate", "graph_estimate_gib", made.estimate), ("capture", "graphs_gib", made.total))
        for what, key, predicted in sides:
            if run.record[key] is not None and predicted is not None:
                found.append(Logged(run, what, run.record[key], predicted))
    return found


class Component(NamedTuple):
    """A component: its name, what it is measured by, and how it is predicted."""

    name: str
    key: str
    predicted: Callable[[CapacityPlan], Interval | None]
    known: tuple[str, ...] = ()


COMPONENTS = (
    Component("weights", "weights", lambda made: made.budget and made.budget.tightest.weights),
    Component("activation peak", "activation", lambda made: made.budget and made.budget.tightest.activation),
    Component("outside torch", "non_torch", lambda made: made.budget and made.budget.tightest.non_torch),
    Component("CUDA graphs, what capture takes", "graphs", lambda made: made.graphs and made.graphs.total),
    Component("CUDA graphs, vLLM's estimate", "graph_estimate", vllm_estimate),
    Component("KV cache", "kv_cache", lambda made: made.budget and made.budget.tightest.kv_cache),
    Component(
        "KV cache, weights of the row", "kv_cache", lambda made: made.budget and made.budget.tightest.kv_cache,
        ("weights",),
    ),
)  # fmt: skip


def errors(component: Component, runs: Iterable[Run]) -> list[Error]:
    """Of every run that measured the component and did not find nothing."""
    found = []
    for run in runs:
        measured = run.record.get(component.key)
        if not measured or run.deployment.pipeline_parallel_size > 1:
            continue
        known = Measured(**{key: run.record[key] for key in component.known})
        utilization = run.record.get("utilization", 0.9)
        made = plan(run.deployment, MemoryFlags(utilization=utilization), known=known)
        predicted = component.predicted(made)
        if predicted is None:
            continue
        slack = run.record.get("rounded_to", 0) // 2
        covered = predicted.low - slack <= measured <= predicted.high + slack
        found.append(Error(run, predicted.best / measured - 1, covered))
    return found


def quantile(found: Iterable[Error], share: float) -> float:
    """Of the absolute errors."""
    ordered = sorted(abs(one.error) for one in found)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
