"""What graphs gain in time: t_step = max(t_gpu, K x t_launch), read off measured steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAST_GAIN = 1.05
"""An eager step that takes this many times a graph's is bound by its launches."""


class Times(NamedTuple):
    """Repeats of one step, seconds.

    Attributes:
        median, low, high: of the repeats; low and high are the quartiles.
        repeats: how many.
    """

    median: float
    low: float
    high: float
    repeats: int


class StepTimes(NamedTuple):
    """One batch size.

    Attributes:
        num_tokens: of the batch.
        eager: wall time of a step without graphs; None: not measured.
        submit: of it, the time that the CPU needs to launch the step.
        full, piecewise: of a step in a graph; None: there is none of this size.
        kernels: launches of an eager step; 0: not counted.
    """

    num_tokens: int
    eager: Times | None = None
    submit: Times | None = None
    full: Times | None = None
    piecewise: Times | None = None
    kernels: int = 0

    @property
    def launch_seconds(self) -> float | None:
        """CPU time of one launch."""
        return self.submit.median / self.kernels if self.submit is not None and self.kernels else None

    @property
    def is_launch_bound(self) -> bool | None:
        """The CPU launches more slowly than the GPU computes; None: not measured."""
        graph = self.full or self.piecewise
        if self.eager is None or graph is None:
            return None
        return self.eager.median > LEAST_GAIN * graph.median

    def gain(self, mode: str) -> float | None:
        """How many times faster than eager a step in a graph of `mode` ("full", "piecewise") is."""
        graph = self.full if mode == "full" else self.piecewise
        return self.eager.median / graph.median if self.eager is not None and graph is not None else None


def times_of(seconds: Sequence[float]) -> Times:
    """Median and quartiles.

    Raises:
        ValueError: there is no value.
    """
    if not seconds:
        raise ValueError("no repeats")
    ordered = sorted(seconds)
    return Times(_at(ordered, 0.5), _at(ordered, 0.25), _at(ordered, 0.75), len(ordered))


def _at(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def launch_bound_up_to(steps: Sequence[StepTimes]) -> int | None:
    """The largest batch up to which every measured one is bound by its launches; None: not even the smallest is."""
    found = None
    for step in sorted(steps, key=lambda one: one.num_tokens):
        if step.is_launch_bound is None:
            continue
        if not step.is_launch_bound:
            break
        found = step.num_tokens
    return found


def cost_table(steps: Sequence[StepTimes], mode: str = "full") -> Mapping[int, float]:
    """Seconds of a step by captured size, non-decreasing.

    Noise must not make padding look free of charge, so each value is the pool of its neighbours where they cross
    (isotonic regression by pooling adjacent violators).
    """
    points = []
    for step in sorted(steps, key=lambda one: one.num_tokens):
        graph = step.full if mode == "full" else step.piecewise
        if graph is not None:
            points.append((step.num_tokens, graph.median))
    pools: list[tuple[float, int]] = []
    for _, value in points:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (left, m), (right, n) = pools[-2:]
            pools[-2:] = [((left * m + right * n) / (m + n), m + n)]
    values = [value for value, count in pools for _ in range(count)]
    return {tokens: value for (tokens, _), value in zip(points, values, strict=True)}
