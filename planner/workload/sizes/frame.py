"""What all lists of sizes have in common, and the best list of each number of sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import NamedTuple

from ...deployment import Deployment
from ...errors import InputError, StartupError
from ...resolve import resolve
from ...resolve.graphs import Dispatch
from ...resolve.padding import round_up
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..tune_rules import NOTHING_TO_CHOOSE
from .effect import Point, with_sizes
from .limits import Limits
from .optimise import Cost, Demand, curve, demand_of
from .prices import Prices
from .steps import Group, Step
from .two_modes import curve_of_modes

MOST_SIZES = 256
"""Sizes of the longest list that is looked at."""


Memo = dict[Hashable, list[tuple[int, ...]]]
"""Lists by what they were asked for."""


@dataclass(frozen=True)
class Frame:
    """What all lists have in common.

    `trial` has every size that a list may have: what a batch runs in there, it can run in. `rounded` are the query
    lengths whose FULL decode graphs vLLM makes from each size, rounded up to whole requests, while the size itself
    stays as it is (runner V2 since 0.25.1).
    """

    fixed: tuple[int, ...]
    multiple: int
    largest: int
    trial: Resolution
    rounded: frozenset[int] = frozenset()

    def beside(self, sizes: Iterable[int]) -> Frame:
        """The same where every list has these sizes too, rounded up and up to the largest."""
        more = {round_up(size, self.multiple) for size in sizes}
        return replace(self, fixed=tuple(sorted({*self.fixed, *(size for size in more if size <= self.largest)})))

    def rounds_to(self, found: Dispatch) -> int:
        """What the graph of a batch is a multiple of, where sizes are not."""
        each = found.graph.uniform_query_len if found.graph is not None else None
        return each if each in self.rounded else 1


def frame_of(deployment: Deployment, resolution: Resolution, must: Sequence[int]) -> Frame:
    today = _largest_graph(resolution)
    if resolution.cudagraph_mode is CUDAGraphMode.NONE or not today:
        raise nothing("the deployment captures no CUDA graphs")
    multiple = _multiple(deployment, resolution)
    largest = max(today // multiple * multiple, multiple)
    if largest > resolution.max_num_batched_tokens:
        raise nothing(f"the least size that vLLM keeps, {largest}, is above max_num_batched_tokens")
    fullest = round_up(resolution.max_num_seqs * resolution.uniform_decode_query_len, multiple)
    if resolution.mixed_mode is CUDAGraphMode.NONE:
        # A size above the fullest decode batch would have no graph.
        largest = min(largest, fullest)
    for size in must:
        if not 1 <= size <= largest:
            raise InputError(
                f"a size of {size} cannot be captured, or is above the largest of today", code="CG903", where="--must",
                fix=f"give 1 to {largest}; --max-cudagraph-capture-size and --cudagraph-capture-sizes set the largest",
            )  # fmt: skip
    trial = resolve(with_sizes(deployment, range(multiple, largest + 1, multiple)))
    wanted = {largest, *(round_up(size, multiple) for size in must), *_fullest_decodes(trial)}
    if fullest <= largest:
        wanted.add(fullest)
    return Frame(tuple(sorted(wanted)), multiple, largest, trial, _rounded(trial, multiple))


def _largest_graph(resolution: Resolution) -> int:
    """Tokens of the largest graph; 0: there are none."""
    return max((graph.num_tokens for graphs in resolution.captures.values() for graph in graphs), default=0)


def _multiple(deployment: Deployment, resolution: Resolution) -> int:
    """What vLLM keeps sizes to: asked of its own rules with every size there may be.

    Mixed batches have a graph of each size as it was kept, where they have graphs. Decode graphs alone are of whole
    requests, so that other sizes would only be rounded up.
    """
    every = range(1, resolution.max_capture_size + 1)
    try:
        kept = resolve(with_sizes(deployment, every))
    except StartupError:
        kept = resolution
    graphs = kept.captures.get(kept.mixed_mode) or kept.captures.get(CUDAGraphMode.FULL) or ()
    return lcm(gcd(*kept.capture_sizes) or 1, gcd(*(graph.num_tokens for graph in graphs)) or 1)


def _fullest_decodes(trial: Resolution) -> set[int]:
    """The largest FULL graph that a decode batch runs in, of each query length."""
    found: dict[int, int] = {}
    for one in trial.uniform_decode_coverage().ranges:
        if one.mode is CUDAGraphMode.FULL and one.padded is not None and one.padded <= trial.max_capture_size:
            found[one.query_len] = one.padded
    return set(found.values()) if trial.cudagraph_mode.separate_routine else set()


def _rounded(trial: Resolution, multiple: int) -> frozenset[int]:
    """Query lengths whose decode graphs are all of whole requests, though sizes are not."""
    found: dict[int, bool] = {}
    for graph in trial.captures.get(CUDAGraphMode.FULL, ()):
        each = graph.uniform_query_len or 1
        found[each] = found.get(each, True) and graph.num_tokens % each == 0
    return frozenset(each for each, whole in found.items() if whole and multiple % each)


def with_graph(groups: Iterable[Group], *trials: Resolution) -> tuple[Group, ...]:
    """The steps that run in a graph in one of the trials at least, where every size is captured."""

    def has_graph(step: Step) -> bool:
        return any(trial.dispatch_batch(step.batch).mode is not CUDAGraphMode.NONE for trial in trials)

    found = (tuple(step for step in group if has_graph(step)) for group in groups)
    return tuple(group for group in found if group)


def most_sizes(limits: Limits, today: Point) -> int:
    """Sizes of the longest list: each is a graph at least."""
    most = max(limits.graphs or 0, len(today.sizes))
    return min(most, MOST_SIZES)


def lists(
    steps: Sequence[Step], frame: Frame, prices: Prices, most: int, memo: Memo | None = None
) -> list[tuple[int, ...]]:
    """The best list of each number of sizes.

    Args:
        memo: lists that were found before with the same prices, which are added to.
    """
    most = max(most, len(frame.fixed))
    demands = _demands(steps, frame, by_mode=bool(prices.times))
    key = (tuple(demands.items()), frame.fixed, frame.multiple, frame.largest, most)
    if memo is None:
        return _lists(demands, frame, prices, most)
    if key not in memo:
        memo[key] = _lists(demands, frame, prices, most)
    return memo[key]


def _lists(demands: Mapping[Sort, Demand], frame: Frame, prices: Prices, most: int) -> list[tuple[int, ...]]:
    if len(demands) == 1 and next(iter(demands)).multiple == 1:
        ((sort, demand),) = demands.items()
        found = curve(
            demand, most, fixed=frame.fixed, multiple=frame.multiple, largest=frame.largest,
            value=None if not prices.times else lambda size: prices.of(sort.mode, size),
        )  # fmt: skip
        return list(dict.fromkeys(choice.sizes for choice in found))
    priced = [(demand, _price(prices, sort)) for sort, demand in demands.items()]
    made = curve_of_modes(priced, most, fixed=frame.fixed, multiple=frame.multiple)
    return list(dict.fromkeys(_whole_requests(sizes, demands, frame) for sizes in made))


class Sort(NamedTuple):
    """Batches that cost the same at a size: the mode that they run in, and what their graphs are rounded up to."""

    mode: CUDAGraphMode
    multiple: int


def _demands(steps: Sequence[Step], frame: Frame, by_mode: bool) -> dict[Sort, Demand]:
    """Sizes and weights by what the batches run in; one for all where the mode makes no difference.

    Where the graph of t tokens is made from each size of the t - multiple + 1 to t, the least of these is asked for.
    """
    found: dict[Sort, list[tuple[int, float]]] = {}
    for step in steps:
        there = frame.trial.dispatch_batch(step.batch)
        multiple = frame.rounds_to(there)
        sort = Sort(there.mode if by_mode else CUDAGraphMode.FULL, multiple)
        least = round_up(step.batch.num_tokens, multiple) - multiple + 1
        found.setdefault(sort, []).append((least, step.weight))
    return {sort: demand_of(batches) for sort, batches in found.items()}


def _price(prices: Prices, sort: Sort) -> Cost:
    return lambda size: prices.of(sort.mode, round_up(size, sort.multiple))


def _whole_requests(sizes: tuple[int, ...], demands: Mapping[Sort, Demand], frame: Frame) -> tuple[int, ...]:
    """The same list, with sizes of whole requests where that costs nothing: no other batch runs in that size."""
    multiples = {sort.multiple for sort in demands} - {1}
    if len(multiples) != 1:
        return sizes
    (multiple,) = multiples
    others = sorted(size for sort, demand in demands.items() if sort.multiple == 1 for size in demand.sizes)
    found: list[int] = []
    for at, size in enumerate(sizes):
        before, up = found[-1] if found else 0, round_up(size, multiple)
        is_free = bisect_right(others, before) == bisect_right(others, size)
        fits = at + 1 < len(sizes) and up < sizes[at + 1]
        found.append(up if is_free and fits and size not in frame.fixed else size)
    return tuple(found)


def nothing(message: str) -> InputError:
    return InputError(message, code=NOTHING_TO_CHOOSE.code, where="capture sizes", fix=NOTHING_TO_CHOOSE.instead)
