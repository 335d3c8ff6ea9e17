"""Sections on memory: the budget of a GPU as a bar and as a table, the KV cache, what graphs take and give back."""

from __future__ import annotations

from collections.abc import Sequence

from ...memory.capacity_plan import CapacityPlan
from ...memory.estimates import GIB
from ...memory.what_if import BuyBack
from .. import plan_graphs
from .. import plan_words as words
from ..plan_bar import FREE, IN_USE, parts_of
from .blocks import Block, Figure, Heading, Items, Line, Pairs, Piece, Section, Stacked, table

COLOUR = {
    IN_USE: "use",
    "weights": "weights",
    "activations": "activations",
    "outside torch": "outside",
    "buffers": "buffers",
    "CUDA graphs": "graphs",
    "KV cache": "cache",
    "left for the KV cache": "cache",
    FREE: "free",
}
_SHORT = {IN_USE: "in use", FREE: "free", "left for the KV cache": "left"}
_DOES = {"-": "less ", "=": "leaves: "}


def budget(made: CapacityPlan) -> Section:
    """Where the memory of one GPU goes. Without blocks where the bytes of the KV cache were given."""
    if made.budget is None:
        return Section("memory", "Memory of one GPU", ())
    stage = made.budget.tightest
    parts = parts_of(made.budget, stage, serves=made.best.plan is not None)
    pieces = tuple(
        Piece(COLOUR[part.name], part.size / GIB, _SHORT.get(part.name, part.name), f"{part.name} {_gib(part.size)}")
        for part in parts
    )
    whole = sum(part.size for part in parts)
    total = made.budget.total.best
    rows = [(part.name, words.gib(part.size), f"{part.size / whole:.1%}") for part in parts]
    if whole > total:
        summary = f"The parts take {_gib(whole)}, {_gib(whole - total)} more than the GPU has."
    else:
        free = sum(part.size for part in parts if part.name == FREE)
        summary = f"Of {_gib(total)}, {_gib(total - free)} are taken and {_gib(free)} stay free."
    picture = Figure(
        "Memory at the peak of a step",
        summary,
        Stacked((("", pieces),), _ticks(whole / GIB)),
        tuple((COLOUR[part.name], f"{part.name} {_gib(part.size)}") for part in parts),
        table("Memory at the peak of a step", ("part", "GiB", "share"), rows, (1, 2)),
    )
    head = ("GiB of one GPU", *words.BUDGET_HEAD[2:])
    lines = [(f"{_DOES.get(row.sign, '')}{row.name}", *row[2:]) for row in words.budget_rows(made)]
    title = "How vLLM counts"
    return Section("memory", "Memory of one GPU", (picture, Heading(title), table(title, head, lines, (1, 2, 3))))


def cache(made: CapacityPlan) -> Section:
    """What the KV cache holds."""
    blocks: list[Block] = []
    lines = tuple(words.cache_lines(made))
    if lines:
        blocks.append(Pairs(lines))
    lengths = words.lengths(made)
    if len(lengths) > 1:
        blocks.append(Heading("Requests of a length that fit at once"))
        blocks.append(
            table("Requests of a length that fit at once", ("tokens a request", "requests at once"), lengths, (0, 1))
        )
        blocks += [Line(words.FLAT, faint=True)] if words.are_flat(made) else []
    return Section("kv-cache", "KV cache", tuple(blocks))


def graphs(made: CapacityPlan, bought: Sequence[BuyBack]) -> Section:
    """What the graphs take of the memory and of the start, and what others would give back."""
    lines = tuple(plan_graphs.lines(made))
    blocks: list[Block] = [Items(lines)] if lines else []
    if bought:
        title = words.bought_title(made)
        head = (*words.BOUGHT_HEAD[:-1], "cost")
        blocks += [Heading(title), table(title, head, words.bought_rows(bought), (1, 2, 3, 4, 5))]
    return Section("graph-memory", "Memory and time of the graphs", tuple(blocks))


def _gib(size: float) -> str:
    return f"{words.gib(size)} GiB"


def _ticks(whole: float) -> tuple[tuple[float, str], ...]:
    step = next((step for step in (1, 2, 5, 10, 20, 50, 100) if whole / step <= 10), 200)
    return tuple((at, f"{at} GiB" if not at else str(at)) for at in range(0, int(whole) + 1, step))
