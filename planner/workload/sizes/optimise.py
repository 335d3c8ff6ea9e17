"""The best capture sizes for a histogram of batches: exact, for every number of sizes at once.

Given batch sizes s with weights w, choose at most k sizes c so that the sum of w x value(c(s)) is least, where c(s) is
the smallest chosen size that is not below s; a batch above all of them runs eager, at eager(s). `value` is what a step
of so many tokens costs: tokens by default, so that the cost beyond that of the batches themselves is the padding.

Only few sizes are worth looking at: the batch sizes, rounded up to the multiple, and the fixed sizes. Any other size
can move down to the next of these: the same batches run in it, and `value` does not grow. (Measured times may fall
from one size to the next. Then the choice is the best one of these candidates.) Call them c_1 < ... < c_n.

Let W_b be the weight of the batches not above c_b. The batches between two neighbours a < b of the choice cost
cost(a, b) = value(c_b) (W_b - W_a), so the least cost D_k(b) of all batches up to c_b with k sizes, the last of them
c_b, is

    D_k(b) = value(c_b) W_b + min over a < b of (D_{k-1}(a) - value(c_b) W_a).

The cost is Monge where `value` does not fall: for a <= a' <= b <= b',

    cost(a, b) + cost(a', b') - cost(a, b') - cost(a', b) = -(value(c_b') - value(c_b)) (W_a' - W_a) <= 0.

So the best a grows with b (divide and conquer would do), and the least cost is convex in k where no size is fixed and
every batch has a graph: each further size brings no more than the one before. Here more than that is used. For a fixed
a, what is minimised is a line in x = value(c_b) with slope -W_a, and the slopes fall as a grows. The lower envelope of
the lines is kept as a stack, each line is pushed and dropped at most once, and the best one at x is found by bisection:
n log n a layer, whether or not the values rise.

Fixed sizes are those that every choice has: no a before a fixed size is allowed for a b behind it, so that the stack is
emptied there. Whole weights and values are summed as Python's whole numbers, without any rounding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from ...errors import InputError
from ...resolve.padding import round_up

Cost = Callable[[int], float]
"""What a step of so many tokens costs."""

MOST_SIZES = 1 << 16


@dataclass(frozen=True)
class Demand:
    """Batch sizes, tokens, ascending, each once, and the weight of each, above 0."""

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def steps(self) -> float:
        return sum(self.weights)


@dataclass(frozen=True)
class Choice:
    """A set of capture sizes for a demand.

    Attributes:
        sizes: ascending.
        cost: of all steps, in what `value` counts.
        padding: tokens of padding in all steps.
        eager: weight of the batches above the largest size.
    """

    sizes: tuple[int, ...]
    cost: float
    padding: float
    eager: float


def demand_of(batches: Iterable[tuple[int, float]]) -> Demand:
    """A demand from (tokens, weight), in any order; weights of one size are added.

    Raises:
        InputError: CG903, a size or weight is not above 0, or there are none.
    """
    found: dict[int, float] = {}
    for tokens, weight in batches:
        if tokens < 1 or not 0 < weight < inf:
            raise _wrong(f"a batch of {tokens} tokens with weight {weight}")
        whole = int(weight) if weight == int(weight) else weight
        found[tokens] = found.get(tokens, 0) + whole
    if not 0 < len(found) <= MOST_SIZES:
        raise _wrong(f"{len(found)} batch sizes")
    sizes = tuple(sorted(found))
    return Demand(sizes, tuple(found[size] for size in sizes))


def curve(
    demand: Demand,
    most: int,
    *,
    fixed: Iterable[int] = (),
    multiple: int = 1,
    largest: int | None = None,
    value: Cost | None = None,
    eager: Cost | None = None,
) -> tuple[Choice, ...]:
    """The best choice of at most 1, 2, ... `most` sizes, as far as there are candidates; it begins with as many as the
    fixed sizes need. No size at all is a choice where eager runs are cheapest.

    Args:
        most: sizes at most.
        fixed: sizes that every choice has.
        multiple: every size is one of this, fixed sizes included.
        largest: no size is above it; None: the largest batch, rounded up.
        value: see above; None: tokens.
        eager: cost of a batch that runs eager, by its tokens. None: whatever can have a graph has one, and batches
            above `largest` cost what `value` gives for them.

    Raises:
        InputError: CG903, there are more fixed sizes than allowed, or with one for the largest batch; one is above the
            largest; or there is no size at all.
    """
    value = value or _tokens
    kept = sorted({round_up(size, multiple) for size in fixed})
    candidates = _candidates(demand, kept, multiple, largest)
    if kept and kept[0] < 1:
        raise _wrong(f"a fixed size of {kept[0]}")
    if not max(1, len(kept)) <= most:
        raise _wrong(f"{most} sizes at most, {len(kept)} of them fixed")
    if not candidates or (kept and kept[-1] > candidates[-1]):
        raise _wrong(f"no size for these batches up to {largest}")
    layers = _Layers(demand, candidates, frozenset(kept), value, eager)
    found: list[Choice] = []
    best = evaluate(demand, (), value=value, eager=eager) if eager is not None and not kept else None
    for count in range(1, min(most, len(candidates)) + 1):
        layers.add()
        last = layers.best_last()
        if last is not None:
            made = evaluate(demand, layers.chosen(count, last), value=value, eager=eager)
            # One more size may take batches away from an eager run that is cheaper.
            best = made if best is None or made.cost < best.cost else best
            found.append(best)
    if not found:
        raise _wrong(f"{most} sizes at most, {len(kept)} of them fixed, and a graph for every batch")
    return tuple(found)


def evaluate(demand: Demand, sizes: Sequence[int], *, value: Cost | None = None, eager: Cost | None = None) -> Choice:
    """What a set of sizes, ascending, costs; eager batches cost `value` where `eager` is None."""
    value = value or _tokens
    cost: float = 0
    padding: float = 0
    uncovered: float = 0
    for tokens, weight in zip(demand.sizes, demand.weights, strict=True):
        at = bisect_left(sizes, tokens)
        if at == len(sizes):
            cost += weight * (eager or value)(tokens)
            uncovered += weight
        else:
            cost += weight * value(sizes[at])
            padding += weight * (sizes[at] - tokens)
    return Choice(tuple(sizes), cost, padding, uncovered)


class _Layers:
    """D_1, D_2, ...: one layer a number of sizes, over the candidates 1 to n; 0 stands for no size."""

    def __init__(
        self, demand: Demand, candidates: list[int], fixed: frozenset[int], value: Cost, eager: Cost | None
    ) -> None:
        self._candidates = candidates
        self._values = [0.0, *(value(size) for size in candidates)]
        self._is_fixed = [False, *(size in fixed for size in candidates)]
        self._weights = weights_up_to(demand, candidates)
        self._tails = _tails(demand, candidates, eager)
        self._before: list[float | None] = [0, *([None] * len(candidates))]
        self._from: list[list[int]] = []

    def add(self) -> None:
        """The next layer."""
        values, weights, is_fixed, before = self._values, self._weights, self._is_fixed, self._before
        found: list[float | None] = [None] * len(values)
        origin = [0] * len(values)
        # The lower envelope: line i is base - slope x, with growing slopes.
        slopes: list[float] = []
        bases: list[float] = []
        lines: list[int] = []
        for b in range(1, len(values)):
            a = b - 1
            if is_fixed[a]:
                slopes, bases, lines = [], [], []
            base = before[a]
            if base is not None:
                slope = weights[a]
                if not slopes or slope > slopes[-1] or base < bases[-1]:
                    _push(slopes, bases, lines, slope, base, a)
            if not lines:
                continue
            x = values[b]
            low, high = 0, len(lines) - 1
            while low < high:
                middle = (low + high) // 2
                if bases[middle] - slopes[middle] * x <= bases[middle + 1] - slopes[middle + 1] * x:
                    high = middle
                else:
                    low = middle + 1
            found[b] = x * weights[b] + bases[low] - slopes[low] * x
            origin[b] = lines[low]
        self._before = found
        self._from.append(origin)

    def best_last(self) -> int | None:
        """The last size of the best choice of the newest layer; None: so few sizes cannot do."""
        best, cost = None, inf
        for b in range(len(self._before) - 1, 0, -1):
            base = self._before[b]
            if base is not None and base + self._tails[b] < cost:
                best, cost = b, base + self._tails[b]
            if self._is_fixed[b]:
                break
        return best

    def chosen(self, count: int, last: int) -> tuple[int, ...]:
        """The sizes of the best choice of `count` sizes that ends with candidate `last`."""
        found = []
        for layer in range(count - 1, -1, -1):
            found.append(self._candidates[last - 1])
            last = self._from[layer][last]
        return tuple(reversed(found))


def _push(slopes: list[float], bases: list[float], lines: list[int], slope: float, base: float, line: int) -> None:
    """Put a line on the stack, and drop those that are nowhere the lowest any more."""
    while slopes and slopes[-1] == slope:
        slopes.pop(), bases.pop(), lines.pop()
    while len(slopes) > 1 and (base - bases[-2]) * (slopes[-1] - slopes[-2]) <= (bases[-1] - bases[-2]) * (
        slope - slopes[-2]
    ):
        slopes.pop(), bases.pop(), lines.pop()
    slopes.append(slope)
    bases.append(base)
    lines.append(line)


def _candidates(demand: Demand, fixed: list[int], multiple: int, largest: int | None) -> list[int]:
    if multiple < 1:
        raise _wrong(f"multiples of {multiple}")
    top = largest if largest is not None else round_up(max(demand.sizes[-1], *fixed, 1), multiple)
    rounded = {round_up(size, multiple) for size in demand.sizes}
    return sorted(size for size in rounded.union(fixed) if size <= top)


def weights_up_to(demand: Demand, candidates: list[int]) -> list[float]:
    """Weight of the batches that are not above each candidate; 0 before the first. Whole weights stay whole numbers."""
    found: list[float] = [0]
    at, total = 0, 0.0 if any(isinstance(weight, float) for weight in demand.weights) else 0
    for size in candidates:
        while at < len(demand.sizes) and demand.sizes[at] <= size:
            total += demand.weights[at]
            at += 1
        found.append(total)
    return found


def _tails(demand: Demand, candidates: list[int], eager: Cost | None) -> list[float]:
    """Cost of the batches above each candidate but not above them all; infinite where they must have a graph."""
    found: list[float] = [0] * (len(candidates) + 1)
    at = bisect_left(demand.sizes, candidates[-1] + 1)
    for index in range(len(candidates) - 1, -1, -1):
        found[index] = found[index + 1]
        below = candidates[index - 1] if index else 0
        while at and demand.sizes[at - 1] > below:
            at -= 1
            found[index] += inf if eager is None else demand.weights[at] * eager(demand.sizes[at])
    return found


def _tokens(size: int) -> int:
    return size


def _wrong(message: str) -> InputError:
    return InputError(f"{message}: no sizes can be chosen", code="CG903", where="capture sizes", fix=None)
