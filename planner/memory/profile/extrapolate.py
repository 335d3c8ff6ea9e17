"""From the graphs that were captured to what all of them would take.

Three answers stand side by side: vLLM's rule over the two largest of each mode, a model over a few, and the sum.

The model: all graphs share one pool, which grows only when a graph needs more than what is free in it. Captured from
the largest to the smallest, what the pool grew by over some of the graphs is what it grows by over all of them. The
driver's memory is different: each graph has its own, by the number of its nodes, so that of the captured ones is scaled
to all. As free memory changes by 2 MiB at a time, only their sum is known well, not each. Memory that goes neither to a
capture nor back (library workspaces of the first run) is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...vocabulary import CUDAGraphMode
from ..estimates import MIB, Interval, between, exactly
from ..graphs.estimate import Samples, estimate_v1
from .descriptors import Descriptor, by_mode

GRAIN = 2 * MIB
"""Steps in which free memory is seen to change."""

SHARE_OFF = 0.1
"""How far the driver's memory for a node may differ between the captured graphs and the others."""


class Captured(NamedTuple):
    """What one capture took.

    Attributes:
        descriptor: the graph, or the pieces of a PIECEWISE one.
        taken_bytes: free memory before it less free memory after.
        pool_bytes: what torch's allocator reserved more after it than before.
        seconds: capture and instantiation.
        graphs: torch graphs: 1, or the pieces.
        nodes: kernel nodes in them; 0: not counted.
        instantiate_seconds: of `seconds`, what it took to make them runnable; None: not told apart.
    """

    descriptor: Descriptor
    taken_bytes: int
    pool_bytes: int
    seconds: float
    graphs: int = 1
    nodes: int = 0
    instantiate_seconds: float | None = None

    @property
    def driver_bytes(self) -> int:
        """What the driver took beside the pool."""
        return self.taken_bytes - self.pool_bytes


def two_sample(captured: Sequence[Captured], every: Sequence[Descriptor]) -> int:
    """vLLM's rule: of each mode the first capture and, for each further graph, the second, at least 1 MiB."""
    counts = {mode: len(graphs) for mode, graphs in by_mode(every).items()}
    samples: dict[CUDAGraphMode, Samples] = {}
    for mode, count in counts.items():
        largest = [one.taken_bytes for one in captured if one.descriptor.mode is mode][:2]
        if largest:
            samples[mode] = Samples(largest[0], largest[1] if len(largest) > 1 else 0, count)
    return estimate_v1(samples)


def from_few(captured: Sequence[Captured], every: Sequence[Descriptor], setup_bytes: int = 0) -> Interval:
    """What all graphs take, from some of them.

    Args:
        captured: in the order of capture; the largest of each mode is among them.
        every: all graphs.
        setup_bytes: what stayed of the run outside the captures.
    """
    pool = sum(one.pool_bytes for one in captured)
    driver = sum(one.driver_bytes for one in captured)
    unseen_bytes = spread = 0.0
    for mode, graphs in by_mode(every).items():
        seen = [one for one in captured if one.descriptor.mode is mode]
        if not seen:
            continue
        unseen = set(graphs) - {one.descriptor for one in seen}
        later = seen[1:] or seen  # the first of a mode also pays for what the mode loads
        share = _weight(unseen, seen) / sum(one.graphs + one.nodes for one in later)
        unseen_bytes += share * sum(one.driver_bytes for one in later)
        spread += (share * GRAIN) ** 2
    best = setup_bytes + pool + driver + unseen_bytes
    if len(captured) == len(every):
        return exactly(round(best), "all graphs captured")
    slack = math.sqrt(spread + (SHARE_OFF * unseen_bytes) ** 2) + GRAIN
    return between(best - slack, best, best + slack, f"{len(captured)} of {len(every)} graphs captured")


def _weight(unseen: Iterable[Descriptor], seen: Sequence[Captured]) -> float:
    """Torch graphs and nodes of the graphs that were not captured: straight lines between those that were."""
    points = sorted((one.descriptor.num_tokens, float(one.graphs + one.nodes)) for one in seen)
    return sum(_between(points, graph.num_tokens) for graph in unseen)


def whole(captured: Sequence[Captured], setup_bytes: int = 0) -> int:
    """What the captured graphs took together, and what stayed outside them."""
    return setup_bytes + sum(one.taken_bytes for one in captured)


def _between(points: Sequence[tuple[int, float]], tokens: int) -> float:
    """The value at `tokens` on the straight lines between the points; outside them the nearest point's."""
    if tokens <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if tokens <= right:
            return low + (high - low) * (tokens - left) / (right - left)
    return points[-1][1]
