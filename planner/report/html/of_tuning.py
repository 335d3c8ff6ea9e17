"""The section on capture sizes: what each number of them costs for the workload, and the best list."""

from __future__ import annotations

from collections.abc import Iterable

from ...memory.estimates import MIB
from ...workload.sizes.effect import Point
from ...workload.tune.tune_findings import OF_THE_TRAFFIC
from ...workload.tune.tuning import Tuning
from .. import tune_choices
from .. import tune_view as views
from ..words import counted
from .blocks import Block, Curves, Figure, Findings, Heading, Items, Line, Section, Table, table
from .blocks import Point as Dot

TITLE = "Capture sizes for the workload"


def tuning(found: Tuning) -> Section:
    """Today's list beside the best one, and the curve that it is a point of."""
    blocks: list[Block] = [Line(f"For {views.title(found)}.", faint=True)]
    blocks += [Line(text) for text in views.verdict(found)]
    blocks.append(table("Today's list and the chosen one", views.HEAD, views.rows(found), (1, 2, 3)))
    if found.chosen is not found.today:
        blocks += _flags(found.flag, tune_choices.replaced(found.replaces))
    if found.points:
        blocks += _curves(found)
    blocks.append(Items(tuple(views.sureness(found))))
    if found.chosen is not found.today:
        for title, head, rows in (
            ("If there were more or fewer requests", views.SHIFTS_HEAD, views.shift_rows(found)),
            ("Parts of the traffic", views.PARTS_HEAD, views.part_rows(found)),
        ):
            blocks += [Heading(title), table(title, head, rows, tuple(range(1, len(head))))] if rows else []
    blocks += _choices(found)
    # What a replay says of the traffic stands in the section on the workload.
    findings = tuple(one for one in found.findings if one.code not in OF_THE_TRAFFIC)
    if findings:
        blocks.append(Findings(findings))
    notes = tuple(views.all_notes(found, ()))
    blocks += [Items(notes)] if notes else []
    return Section("capture-sizes", TITLE, tuple(blocks))


def no_tuning(why: str) -> Section:
    """Why there is no list."""
    return Section("capture-sizes", TITLE, (Line(f"No list is chosen: {why}", "warning"),))


def _flags(flags: str, replaced: str) -> Iterable[Block]:
    yield Line(f"`{flags}`")
    if replaced:
        yield Line(f"{replaced}.", faint=True)


def _choices(found: Tuning) -> Iterable[Block]:
    yield Heading(tune_choices.TITLE)
    yield Line(tune_choices.INTRO, faint=True)
    for one in tune_choices.choices(found):
        yield table(one.name, one.head, one.rows, tuple(range(1, len(one.head))))
        yield Items(one.told)
        yield from _flags(one.flags, one.replaces) if one.flags else ()


def _curves(found: Tuning) -> Iterable[Block]:
    every = (*found.points, found.today)
    padding = [views.percent(point.waste) for point in every]
    yield _curve(found, "Padding by number of sizes", "%", [100 * point.waste for point in every], padding)
    if found.prices.times:
        costs = [views.cost(found, point.cost) for point in every]
        yield _curve(found, "Time of a step by number of sizes", "ms", [1000 * point.cost for point in every], costs)
    if all(point.graph_bytes is not None for point in every):
        taken = [(point.graph_bytes or 0) / MIB for point in every]
        yield _curve(
            found,
            "Graph memory by number of sizes",
            "MiB",
            taken,
            [views.mib(point) for point in every],
        )
    yield _table(found)


def _curve(found: Tuning, title: str, unit: str, values: list[float], told: list[str]) -> Figure:
    """The lists of each number of sizes as a line, and today's, the last of the values, and the chosen one as dots.

    `_table` has the numbers of all curves.
    """
    numbers = [len(point.sizes) for point in (*found.points, found.today)]
    named = [f"{counted(number, 'size')}: {text}" for number, text in zip(numbers, told, strict=True)]
    every = [Dot(*one) for one in zip(numbers, values, named, strict=True)]
    marked = [("current", every[-1]._replace(told=f"today, {named[-1]}"))]
    legend = [("best", "the best list of so many sizes"), ("current", "today's list")]
    summary = f"Today's {counted(numbers[-1], 'size')}: {told[-1]}."
    at = next((at for at, point in enumerate(found.points) if point is found.chosen), None)
    if at is not None:
        marked.append(("cache", every[at]._replace(told=f"chosen, {named[at]}")))
        legend.append(("cache", "the chosen list"))
        summary += f" The chosen {numbers[at]}: {told[at]}."
    return Figure(
        title,
        summary,
        Curves((("best", tuple(every[:-1])),), "sizes", unit, tuple(marked)),
        tuple(legend),
        None,
    )


def _table(found: Tuning) -> Table:
    head = ["sizes", "graphs", "padding", "cost of a step", "graph memory", "KV tokens", "capture, s", ""]
    rows = [_row(found, point) for point in found.points]
    rows.append(_row(found, found.today))
    return table("Lists by number of sizes", tuple(head), rows, tuple(range(7)), folded=True)


def _row(found: Tuning, point: Point) -> tuple[str, ...]:
    return (
        str(len(point.sizes)),
        str(point.graphs),
        views.percent(point.waste),
        views.cost(found, point.cost),
        views.mib(point),
        views.NOTHING if point.kv_tokens is None else f"{point.kv_tokens:,}",
        f"{point.capture.best:.1f}",
        _marks(found, point),
    )


def _marks(found: Tuning, point: Point) -> str:
    marks = (("today", found.today), ("chosen", found.chosen), ("knee", found.knee))
    return ", ".join(name for name, one in marks if one is point)
