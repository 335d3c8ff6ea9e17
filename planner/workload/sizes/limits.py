"""The choice among lists of sizes: what the operator allows, and where the curve bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...errors import InputError
from ..tune_rules import LIMITS_TOO_TIGHT
from .effect import Point

LEFT_OUT = 0.05
"""Sizes that save less than this part of what today's padding costs, all together, are left out of the list."""
SAME = 0.001
"""Costs that differ by a smaller share are the same."""
ROUNDING = 1e-9

Verdict = Literal["better", "fewer graphs", "best already", "within limits"]


@dataclass(frozen=True)
class Limits:
    """What the operator allows; None: as many graphs as today, else no limit.

    Attributes:
        graphs: number of graphs.
        graph_bytes: what capture takes of a GPU.
        capture_seconds: of the start.
    """

    graphs: int | None = None
    graph_bytes: int | None = None
    capture_seconds: float | None = None


def choose(
    points: Sequence[Point], today: Point, limits: Limits, fixed: Sequence[int], floor: float
) -> tuple[Point, Verdict]:
    """The fewest sizes that cost about as little as the least within the limits, the steps of any size counted in.

    Args:
        floor: the cost without any padding, steps of any size counted in.

    Where today's list keeps to the limits, the chosen one costs the traffic no more than that.
    """
    inside = [point for point in points if keeps(point, limits, today)]
    today_is_inside = keeps(today, limits, today)
    if not inside:
        if today_is_inside:
            return today, "best already"
        raise _too_tight(points, limits, fixed)
    if today_is_inside:
        inside = [point for point in inside if point.cost <= today.cost * (1 + ROUNDING)]
        if not inside:
            return today, "best already"
    enough = (min(point.guarded for point in inside) + slack_of(today, floor)) * (1 + ROUNDING)
    chosen = min((point for point in inside if point.guarded <= enough), key=lambda point: len(point.sizes))
    if chosen.cost < today.cost * (1 - SAME):
        return chosen, "better"
    if not today_is_inside:
        return chosen, "within limits"
    return (chosen, "fewer graphs") if chosen.graphs < today.graphs else (today, "best already")


def slack_of(today: Point, floor: float) -> float:
    """What a shorter list may cost more than the best one."""
    return LEFT_OUT * max(0.0, today.guarded - floor)


def keeps(point: Point, limits: Limits, today: Point) -> bool:
    """Within the limits; and it starts where today's list does."""
    if limits.graphs is not None and point.graphs > limits.graphs:
        return False
    if limits.graph_bytes is not None and (point.graph_bytes is None or point.graph_bytes > limits.graph_bytes):
        return False
    if limits.capture_seconds is not None and point.capture.best > limits.capture_seconds:
        return False
    return point.kv_tokens is not None or today.kv_tokens is None


def knee_of(points: Sequence[Point]) -> Point | None:
    """The point farthest below the line from the first point to the last, both axes from 0 to 1."""
    if len(points) < 3 or points[0].cost <= points[-1].cost:
        return None
    first, last = points[0], points[-1]
    wide, high = len(last.sizes) - len(first.sizes), first.cost - last.cost

    def below(point: Point) -> float:
        return (first.cost - point.cost) / high - (len(point.sizes) - len(first.sizes)) / wide

    return max(points, key=below)


def _too_tight(points: Sequence[Point], limits: Limits, fixed: Sequence[int]) -> InputError:
    """Which limits the shortest list breaks; where the first points were left out, that of those that vLLM keeps."""
    rule = LIMITS_TOO_TIGHT
    if not points:
        return InputError("vLLM would keep no list as it was chosen", code=rule.code, where="--max-graphs", fix=None)
    least = points[0]
    has = f"the shortest, of the sizes that are fixed ({', '.join(map(str, fixed))}), has"
    over = _over(limits, least)
    if not over:
        message = f"no list leaves as much for the KV cache as it takes to start: {has} {least.graphs} graphs"
        return InputError(message, code=rule.code, where="capture sizes", fix="free memory: see cgplan plan")
    flags = [flag for _, flag in over]
    return InputError(
        f"no list keeps to the limits: {has} {' and '.join(told for told, _ in over)}",
        code=rule.code, where=flags[0],
        fix=f"raise {' and '.join(flags)}, or fix fewer sizes: a lower --max-num-seqs, fewer of --must",
    )  # fmt: skip


def _over(limits: Limits, point: Point) -> list[tuple[str, str]]:
    """The limits that a list breaks: what it has, and the option."""
    found = []
    if limits.graphs is not None and point.graphs > limits.graphs:
        found.append((f"{point.graphs} graphs, not {limits.graphs}", "--max-graphs"))
    if limits.graph_bytes is not None:
        if point.graph_bytes is None:
            found.append(("graphs whose memory is not known", "--max-graph-memory"))
        elif point.graph_bytes > limits.graph_bytes:
            has = f"{point.graph_bytes / 2**20:.0f} MiB of graphs, not {limits.graph_bytes / 2**20:.0f}"
            found.append((has, "--max-graph-memory"))
    if limits.capture_seconds is not None and point.capture.best > limits.capture_seconds:
        found.append((f"{point.capture.best:g} s of capture, not {limits.capture_seconds:g}", "--max-startup"))
    return found
