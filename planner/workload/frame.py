"""What all lists of sizes have in common, and the best list of each number of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from ..deployment import Deployment
from ..errors import InputError, StartupError
from ..resolve import resolve
from ..resolve.padding import round_up
from ..resolve.resolution import Resolution
from ..vocabulary import CUDAGraphMode
from .effect import Point, with_sizes
from .limits import Limits
from .optimise import Cost, Demand, curve, demand_of
from .prices import Prices
from .steps import Group, Step
from .tune_rules import NOTHING_TO_CHOOSE
from .two_modes import curve_of_modes

MOST_SIZES = 256
"""Sizes of the longest list that is looked at."""


@dataclass(frozen=True)
class Frame:
    """What all lists have in common.

    `trial` has every size that a list may have: what a batch runs in there, it can run in.
    """

    fixed: tuple[int, ...]
    multiple: int
    largest: int
    trial: Resolution


def frame_of(deployment: Deployment, resolution: Resolution, must: Sequence[int]) -> Frame:
    if resolution.cudagraph_mode is CUDAGraphMode.NONE or not resolution.capture_sizes:
        raise nothing("the deployment captures no CUDA graphs")
    budget, today = resolution.max_num_batched_tokens, resolution.max_capture_size
    multiple = _multiple(deployment, resolution)
    largest = round_up(max(today, *must, 1), multiple)
    if largest > budget:
        largest = budget // multiple * multiple
    fullest = round_up(resolution.max_num_seqs * resolution.uniform_decode_query_len, multiple)
    if resolution.mixed_mode is CUDAGraphMode.NONE:
        # A size above the fullest decode batch would have no graph.
        largest = min(largest, fullest)
    for size in must:
        if not 1 <= size <= largest:
            raise InputError(
                f"a size of {size} cannot be captured", code="CG903", where="--must", fix=f"give 1 to {largest}"
            )
    wanted = {largest, *(round_up(size, multiple) for size in must)} | ({fullest} if fullest <= largest else set())
    trial = resolve(with_sizes(deployment, range(multiple, largest + 1, multiple)))
    return Frame(tuple(sorted(wanted)), multiple, largest, trial)


def _multiple(deployment: Deployment, resolution: Resolution) -> int:
    """What vLLM keeps sizes to: asked of its own rules with every size there may be, and whole decode requests."""
    every = range(1, resolution.max_capture_size + 1)
    try:
        kept = resolve(with_sizes(deployment, every)).capture_sizes
    except StartupError:
        kept = resolution.capture_sizes
    found = gcd(*kept) if kept else 1
    length = resolution.uniform_decode_query_len if resolution.decode_mode is CUDAGraphMode.FULL else 1
    return lcm(found, length)


def with_graph(groups: Sequence[Group], trial: Resolution) -> tuple[Group, ...]:
    """The steps that run in a graph where every size is captured."""
    found = (
        tuple(step for step in group if trial.dispatch_batch(step.batch).mode is not CUDAGraphMode.NONE)
        for group in groups
    )
    return tuple(group for group in found if group)


def most_sizes(limits: Limits, today: Point) -> int:
    """Sizes of the longest list: each is a graph at least."""
    most = max(limits.graphs or 0, len(today.sizes))
    return min(most, MOST_SIZES)


def lists(steps: Sequence[Step], frame: Frame, prices: Prices, most: int) -> list[tuple[int, ...]]:
    """The best list of each number of sizes."""
    most = max(most, len(frame.fixed))
    demands = _demands(steps, frame.trial, by_mode=bool(prices.times))
    if len(demands) == 1:
        ((mode, demand),) = demands.items()
        found = curve(
            demand, most, fixed=frame.fixed, multiple=frame.multiple, largest=frame.largest,
            value=None if not prices.times else lambda size: prices.of(mode, size),
        )  # fmt: skip
        made = [choice.sizes for choice in found]
    else:
        one, other = ((demand, _price(prices, mode)) for mode, demand in demands.items())
        made = list(curve_of_modes((one, other), most, fixed=frame.fixed, multiple=frame.multiple))
    return list(dict.fromkeys(made))


def _demands(steps: Sequence[Step], trial: Resolution, by_mode: bool) -> dict[CUDAGraphMode, Demand]:
    """Sizes and weights by the mode that the batches run in; one for all where the mode makes no difference."""
    found: dict[CUDAGraphMode, list[tuple[int, float]]] = {}
    for step in steps:
        mode = trial.dispatch_batch(step.batch).mode if by_mode else CUDAGraphMode.FULL
        found.setdefault(mode, []).append((step.batch.num_tokens, step.weight))
    return {mode: demand_of(batches) for mode, batches in found.items()}


def _price(prices: Prices, mode: CUDAGraphMode) -> Cost:
    return lambda size: prices.of(mode, size)


def nothing(message: str) -> InputError:
    return InputError(message, code=NOTHING_TO_CHOOSE.code, where="capture sizes", fix=NOTHING_TO_CHOOSE.instead)
