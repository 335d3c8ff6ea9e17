"""Which part of a curve a chart shows: all of it from zero, or the part around marked points that lie too close."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import NamedTuple

from .blocks import Curves, Point

APART = 1 / 12
"""Share of the scale by which marked points have to differ, or they cannot be told apart."""
ABOVE, BELOW = 2.0, 0.5
"""Room above the highest marked point and below the lowest point, in distances between these two."""
LEAST_POINTS = 2


class Frame(NamedTuple):
    """What is drawn.

    Attributes:
        low, high: the scale on the left.
        ticks: round numbers on it.
        lines: the points of each line that are within it.
        note: what a reader has to know of it; "": the scale begins at zero and everything is there.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    lines: tuple[tuple[Point, ...], ...]
    note: str


def frame(chart: Curves) -> Frame:
    """The part of `chart` to draw."""
    lines = tuple(points for _, points in chart.lines)
    every = [point.y for points in lines for point in points]
    marked = [point.y for _, point in chart.marked]
    largest = max([*every, *marked], default=1) or 1
    whole = Frame(0, largest, _ticks(0, largest), lines, "")
    spread = max(marked) - min(marked) if marked else 0
    if not 0 < spread < largest * APART:
        return whole
    least, most = min([*every, *marked]), max(marked)
    distance = most - least
    step = _step(distance * (1 + ABOVE + BELOW))
    low = max(0, floor((least - BELOW * distance) / step) * step)
    high = ceil((most + ABOVE * distance) / step) * step
    if low <= 0 or high >= largest:
        high = largest
    shown = tuple(tuple(point for point in points if point.y <= high) for points in lines)
    if any(len(points) < min(len(all_of), LEAST_POINTS) for points, all_of in zip(shown, lines, strict=True)):
        return whole
    left = sum(map(len, lines)) - sum(map(len, shown))
    said = [f"The scale begins at {_short(low)} {chart.up}."] if low else []
    if left:
        said.append(f"What is above {_short(high)} {chart.up} is in the table alone.")
    return Frame(low, high, _ticks(low, high), shown, " ".join(said))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """About five round numbers."""
    step = _step(high - low)
    first = ceil(low / step - 1e-9)
    return tuple(round(step * at, 12) for at in range(first, floor(high / step + 1e-9) + 1))


def _step(length: float) -> float:
    power = 10.0 ** floor(log10(length / 4)) if length > 0 else 1.0
    return next((power * by for by in (1, 2, 5, 10) if length / (power * by) <= 5), power * 10)


def _short(value: float) -> str:
    return f"{round(value, 12):.12g}"
