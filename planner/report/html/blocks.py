"""What a page is made of: sections of blocks, without markup. A chart comes with the table of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from ...trace import Finding

Tone: TypeAlias = Literal["", "good", "warning", "error"]


class Line(NamedTuple):
    """A sentence of its own; `faint`: it says where the rest comes from."""

    text: str
    tone: Tone = ""
    faint: bool = False


class Heading(NamedTuple):
    """A heading within a section."""

    text: str


class Pairs(NamedTuple):
    """Names, and what they are."""

    pairs: tuple[tuple[str, str], ...]


class Items(NamedTuple):
    """A list of sentences."""

    texts: tuple[str, ...]


class Findings(NamedTuple):
    """Findings, most pressing first."""

    findings: tuple[Finding, ...]


class Table(NamedTuple):
    """A table.

    Attributes:
        name: what it is of, its accessible name.
        head, rows: texts.
        right: columns of numbers.
        folded: it is long, and opened by whoever wants it.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    folded: bool = False


class Piece(NamedTuple):
    """A part of a bar.

    Attributes:
        colour: a key of COLOURS.
        size: its length.
        name: stands in it where there is room.
        told: name and value, for whoever points at it.
    """

    colour: str
    size: float
    name: str
    told: str


class Stacked(NamedTuple):
    """Bars that lie, each of pieces.

    Attributes:
        rows: name and pieces, from the top.
        ticks: (place, text) under the bars.
    """

    rows: tuple[tuple[str, tuple[Piece, ...]], ...]
    ticks: tuple[tuple[float, str], ...]


class Grouped(NamedTuple):
    """Bars side by side.

    Attributes:
        names: of the groups.
        series: (colour, (value, told) or None by group).
        axis: the unit of the values.
    """

    names: tuple[str, ...]
    series: tuple[tuple[str, tuple[tuple[float, str] | None, ...]], ...]
    axis: str


class Point(NamedTuple):
    """A point of a curve."""

    x: float
    y: float
    told: str


class Curves(NamedTuple):
    """Lines over a common x.

    Attributes:
        lines: (colour, points by growing x).
        across, up: units of x and y.
        marked: points that stand out: (colour, point).
    """

    lines: tuple[tuple[str, tuple[Point, ...]], ...]
    across: str
    up: str
    marked: tuple[tuple[str, Point], ...] = ()


Chart: TypeAlias = Stacked | Grouped | Curves


class Figure(NamedTuple):
    """A chart with its numbers.

    Attributes:
        name: its heading and accessible name.
        summary: what is to be seen, in a sentence.
        chart: the picture.
        legend: (colour, name); (): the pieces say what they are.
        table: the same as numbers; None: a table of the section has them, with those of other charts.
    """

    name: str
    summary: str
    chart: Chart
    legend: tuple[tuple[str, str], ...]
    table: Table | None


Block: TypeAlias = Line | Heading | Pairs | Items | Findings | Table | Figure


class Section(NamedTuple):
    """A part of the page.

    Attributes:
        anchor: its id, letters and hyphens.
        title: its heading.
        blocks: what it says.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]


class Page(NamedTuple):
    """The whole.

    Attributes:
        title: the heading.
        about: what deployment it is of.
        verdict, tone: whether it starts.
        key: the few numbers that come first.
        sections: in order; one without blocks is left out.
        made_by: who made it.
    """

    title: str
    about: str
    verdict: str
    tone: Tone
    key: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    made_by: str


COLOURS = (
    "full", "piecewise", "eager", "unknown", "use", "weights", "activations", "outside", "buffers", "graphs", "cache",
    "free", "current", "best",
)  # fmt: skip
"""Names of the colours of style.css, which has one of each theme for them."""

MOST_ROWS = 400
"""Rows of a table; what is more is said, not shown."""
MOST_TEXT = 2000
"""Characters of one text."""


def table(
    name: str,
    head: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    right: tuple[int, ...] = (),
    folded: bool = False,
) -> Table:
    """A table of at most MOST_ROWS rows; the last one says how many are left out."""
    more = len(rows) - MOST_ROWS
    if more > 0:
        left = (f"and {more:,} more", *("" for _ in head[1:]))
        rows = (*rows[:MOST_ROWS], left)
    return Table(name, head, tuple(rows), right, folded)
