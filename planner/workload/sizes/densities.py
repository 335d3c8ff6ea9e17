"""Lists of sizes by how dense they are: what each costs and saves, beside the one that was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...resolve.padding import round_up
from .effect import Point, Setting
from .frame import MOST_SIZES, Frame

STEPS = (64, 32, 16, 8, 4, 2, 1)


class Density(NamedTuple):
    """A list by its rule.

    Attributes:
        name: the rule, in words; "every 64" has the powers of two up to that.
        point: the list and what it does to the traffic and the GPU.
        is_beaten: another of the lists has no more graphs and costs no more, and is better in one of the two.
    """

    name: str
    point: Point
    is_beaten: bool


def densities(setting: Setting, frame: Frame, today: Point, chosen: Point) -> tuple[Density, ...]:
    """Powers of two, then every 64th size and denser ones, today's list and the chosen one, by number of graphs.

    Lists that vLLM would not keep, and longer ones than MOST_SIZES, are left out.
    """
    found: dict[tuple[int, ...], tuple[str, Point]] = {}
    for name, sizes in _lists(frame):
        kept = tuple(sorted({size for size in sizes if size <= frame.largest} | set(frame.fixed)))
        if len(kept) <= MOST_SIZES and kept not in found and (point := setting.with_sizes(kept)) is not None:
            found[kept] = (name, point)
    found[today.sizes] = ("today's list", today)
    if chosen is not today:
        found[chosen.sizes] = ("the chosen list", chosen)
    points = [point for _, point in found.values()]
    made = [Density(name, point, any(_beats(one, point) for one in points)) for name, point in found.values()]
    return tuple(sorted(made, key=lambda one: (one.point.graphs, one.point.cost)))


def _lists(frame: Frame) -> Iterator[tuple[str, set[int]]]:
    each = frame.multiple
    powers = _powers(frame.largest)
    yield "powers of two", _whole(powers, each)
    for step in STEPS:
        if step > frame.largest:
            continue
        name = "every size" if step == 1 else f"every {step}"
        small = (size for size in powers if size <= step)
        yield name, _whole((*small, *range(step, frame.largest + 1, step)), each)


def _powers(largest: int) -> list[int]:
    return [1 << bit for bit in range(largest.bit_length()) if 1 << bit <= largest]


def _whole(sizes: Iterable[int], each: int) -> set[int]:
    return {round_up(size, each) for size in sizes}


def _beats(one: Point, other: Point) -> bool:
    no_worse = one.graphs <= other.graphs and one.cost <= other.cost
    return no_worse and (one.graphs < other.graphs or one.cost < other.cost)
