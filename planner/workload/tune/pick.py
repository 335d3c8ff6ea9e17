"""Which list is chosen: with the sizes near the traffic where that does not say how far it spreads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...resolve import resolve
from ...resolve.resolution import Resolution
from ..sizes.effect import Point, Setting, with_sizes
from ..sizes.frame import MOST_SIZES, Frame, Memo, lists, most_sizes
from ..sizes.limits import Limits, Verdict, choose, keeps
from ..sizes.neighbours import FRAGILE, Near, is_fragile, nears_of, why_narrow
from ..sizes.others import TrafficSteps
from ..sizes.robust import Shift, shifts


class Picked(NamedTuple):
    """A choice, the curve it is of, and the sizes near the traffic that it was made with.

    Attributes:
        frame: with the sizes near.
        dropped: lists that vLLM would not keep.
        tuned: the graphs with the chosen list.
        limits: that it was chosen within.
    """

    frame: Frame
    points: tuple[Point, ...]
    dropped: int
    chosen: Point
    verdict: Verdict
    tuned: Resolution
    shifts: tuple[Shift, ...]
    near: Near
    limits: Limits


def pick(
    setting: Setting, given: TrafficSteps, frame: Frame, today: Point, limits: Limits, memo: Memo, spread: float,
    *, may_grow: bool,
) -> Picked:  # fmt: skip
    """The choice; with the sizes near the traffic where that does not say how far it spreads, or where the list would
    be much worse than today's for half to twice as many requests. Without them where the limits leave no room, and
    where it is chosen for the traffic alone.
    """
    why = why_narrow(given) if spread else ""
    found = None if why else _picked(setting, frame, today, limits, memo, Near())
    if found is not None:
        if not spread or not is_fragile(found.shifts):
            return found
        why = FRAGILE
    for near in nears_of(given, frame, why):
        if (wider := _with_near(setting, frame, today, limits, memo, near, may_grow=may_grow)) is not None:
            return wider
    return (found or _picked(setting, frame, today, limits, memo, Near()))._replace(near=Near((), why))


def _with_near(
    setting: Setting, frame: Frame, today: Point, limits: Limits, memo: Memo, near: Near, *, may_grow: bool
) -> Picked | None:
    """None: the limits leave no room for the sizes near. The curve begins with shorter lists that lack them."""
    wider = frame.beside(near.sizes)
    if len(wider.fixed) > MOST_SIZES:
        return None
    least = setting.with_sizes(wider.fixed)
    if least is None:
        return None
    if may_grow and near.filled:
        limits = replace(limits, graphs=max(limits.graphs or 0, least.graphs))
    if not keeps(least, limits, today):
        return None
    found = _picked(setting, wider, today, limits, memo, near)
    shorter, dropped = _curve(setting, frame, len(wider.fixed) - 1, memo) if wider != frame else ((), 0)
    return found._replace(points=(*shorter, *found.points), dropped=found.dropped + dropped)


def _picked(setting: Setting, frame: Frame, today: Point, limits: Limits, memo: Memo, near: Near) -> Picked:
    points, dropped = _curve(setting, frame, most_sizes(limits, today), memo)
    chosen, verdict = choose(points, today, limits, frame.fixed, setting.guarded(frame.trial))
    tuned = setting.resolution
    if chosen is not today:
        tuned = resolve(with_sizes(setting.deployment, chosen.sizes))
    moved = shifts(setting.steps, setting.resolution, tuned, setting.prices)
    return Picked(frame, points, dropped, chosen, verdict, tuned, moved, near, limits)


def _curve(setting: Setting, frame: Frame, most: int, memo: Memo) -> tuple[tuple[Point, ...], int]:
    """The best list of each number of sizes, back through vLLM's rules, and how many it would not keep."""
    made = lists((*setting.steps, *setting.guard), frame, setting.prices, most, memo)
    found = [setting.with_sizes(sizes) for sizes in made if len(sizes) <= most]
    points = tuple(point for point in found if point is not None)
    return points, len(found) - len(points)
