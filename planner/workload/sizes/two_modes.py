"""The best capture sizes where batches of several sorts share them, each with costs of its own.

One list serves decode batches, which run FULL, and mixed ones, which run PIECEWISE. With v_m the cost of a step of
sort m and W_m the weight of its batches up to a candidate, the batches between two neighbours a < b cost

    cost(a, b) = sum over all m of v_m(c_b) (W_m(b) - W_m(a)).

A sort is a mode with its times. Decode graphs that are made from a size by rounding it up to whole requests of q
tokens are one, too: v(c) is the cost at c rounded up, and a batch of t tokens runs in what is made of t - q + 1 on.

Each term is Monge where v_m does not fall (see `optimise`), and so is the sum. Therefore the best neighbour below b
grows with b, and a layer takes n log n by divide and conquer. Forbidding a below the last fixed size under b keeps
this: the bound grows with b as well, so that where a pair on the left of the inequality is forbidden, one on the right
is. The largest candidate is a fixed size, so that every batch has a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from ...errors import InputError
from ...resolve.padding import round_up
from .optimise import Cost, Demand, weights_up_to

Priced = tuple[Demand, Cost]
"""Batches of one mode, and what a step of it costs by size."""


def curve_of_modes(
    modes: Sequence[Priced], most: int, *, fixed: Iterable[int], multiple: int = 1
) -> tuple[tuple[int, ...], ...]:
    """The best lists of at most 1, 2, ... `most` sizes; it begins with as many as the fixed sizes need.

    Args:
        modes: no batch is above the largest fixed size.
        fixed: sizes that every list has, one at least.
        multiple: every size is one of this.

    Raises:
        InputError: CG903, there are more fixed sizes than allowed.
    """
    kept = sorted({round_up(size, multiple) for size in fixed})
    if not kept or len(kept) > most:
        raise InputError(
            f"{len(kept)} fixed sizes do not fit into a list of {most}",
            code="CG903",
            where="capture sizes",
            fix="allow more sizes, or fix fewer",
        )
    rounded = {round_up(size, multiple) for demand, _ in modes for size in demand.sizes}
    candidates = sorted(rounded.union(kept))
    solver = _Layers(modes, candidates, frozenset(kept))
    found = []
    for count in range(1, min(most, len(candidates)) + 1):
        solver.add()
        if solver.reaches_all:
            found.append(solver.chosen(count))
    return tuple(found)


class _Layers:
    """Layer k: the least cost of all batches up to each candidate, with k sizes, the last of them that candidate."""

    def __init__(self, modes: Sequence[Priced], candidates: list[int], fixed: frozenset[int]) -> None:
        self._candidates = candidates
        self._values = [[0.0, *(value(size) for size in candidates)] for _, value in modes]
        self._weights = [weights_up_to(demand, candidates) for demand, _ in modes]
        self._first = self._lowest(fixed)
        self._before = [0.0] + [inf] * len(candidates)
        self._from: list[list[int]] = []

    def _lowest(self, fixed: frozenset[int]) -> list[int]:
        """For each candidate the last fixed one below it; 0: none."""
        found, last = [0], 0
        for at, size in enumerate(self._candidates, 1):
            found.append(last)
            last = at if size in fixed else last
        return found

    @property
    def reaches_all(self) -> bool:
        return self._before[-1] < inf

    def add(self) -> None:
        """The next layer."""
        count = len(self._candidates)
        found, origin = [inf] * (count + 1), [0] * (count + 1)
        waiting = [(1, count, 0, count - 1)]
        while waiting:
            low, high, least, most = waiting.pop()
            if low > high:
                continue
            b = (low + high) // 2
            first = max(least, self._first[b])
            best, cost = self._best(first, min(most, b - 1), b)
            found[b], origin[b] = cost, best
            # Where nothing is allowed, nothing is known of the neighbours.
            waiting.append((low, b - 1, least, best if cost < inf else most))
            waiting.append((b + 1, high, best if cost < inf else least, most))
        self._before = found
        self._from.append(origin)

    def _best(self, first: int, last: int, b: int) -> tuple[int, float]:
        """The best neighbour below b, from `first` to `last`, and the cost with it."""
        costs, behind = self._before[first : last + 1], 0.0
        for values, weights in zip(self._values, self._weights, strict=True):
            value = values[b]
            costs = [cost - value * weight for cost, weight in zip(costs, weights[first : last + 1], strict=True)]
            behind += value * weights[b]
        least = min(costs, default=inf)
        return (first + costs.index(least), least + behind) if costs else (first, inf)

    def chosen(self, count: int) -> tuple[int, ...]:
        """The list of `count` sizes behind the last candidate's cost."""
        at, found = len(self._candidates), []
        for layer in range(count - 1, -1, -1):
            found.append(self._candidates[at - 1])
            at = self._from[layer][at]
        return tuple(reversed(found))
