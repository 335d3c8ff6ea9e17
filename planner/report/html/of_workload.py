"""The section on a workload: what its steps run in, by kind and by size, what is padding, and what missed."""

from __future__ import annotations

from collections.abc import Iterable

from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ...workload.gathered import Gathered
from ...workload.replay.tally import MODES, Tally
from ...workload.replay.words import number, numbers, percent, percents
from .. import workload_view as views
from ..bars import NAMES
from .blocks import Block, Figure, Findings, Heading, Items, Line, Piece, Section, Stacked, table
from .of_resolution import COLOUR

MOST_BARS = 24
UNKNOWN = "one or the other"


def workload(gathered: Gathered, found: Resolution) -> Section:
    """What the steps run in under `found`."""
    blocks: list[Block] = []
    for one in gathered.split():
        shown = views.view(one, found)
        blocks += [Line("No step was counted.")] if shown is None else _steps(shown)
        remarks = tuple(views.remarks(one))
        blocks += [Items(remarks)] if remarks else []
    return Section("workload", "Workload", tuple(blocks))


def _steps(shown: views.View) -> Iterable[Block]:
    yield Line(shown.title, faint=True)
    tallies: list[tuple[str, Tally]] = []
    if shown.tally is not None:
        tallies.append(("seen" if shown.is_seen else "all", shown.tally))
        yield Line(views.padding_line(shown.tally))
    if shown.made is not None:
        if shown.is_seen and shown.made.differences:
            tallies.append(("resolved", shown.made.total))
        kinds = shown.made.by_kind
        tallies += [(views.KIND_NAMES[kind], one) for kind, one in kinds.items() if len(kinds) > 1]
    if tallies:
        yield _modes(tallies)
        if shown.is_seen:
            yield Line("Seen: as the server counted it. The kinds of batches are as resolved.", faint=True)
    yield _sizes(shown)
    rows = views.tally_rows(shown)
    if rows:
        yield Heading("Padding by part")
        yield table("Padding by part", ("part", *views.TALLY_HEAD[1:]), rows, tuple(range(1, 7)))
    if shown.made is not None and shown.made.missed:
        title = "Steps that missed the graph wanted for them"
        yield Heading(title)
        yield table(title, views.MISSED_HEAD, views.missed_rows(shown.made), (2,))
        more = len(shown.made.missed) - views.MOST_MISSED
        if more > 0:
            yield Line(f"And {more} more reasons.", faint=True)
    if shown.findings:
        yield Findings(tuple(shown.findings))


def _modes(tallies: list[tuple[str, Tally]]) -> Figure:
    """Certain steps by mode, then those that may have run in one mode or another."""
    rows, cells = [], []
    for name, one in tallies:
        pieces = [
            Piece(
                COLOUR[mode], 100 * low, NAMES[mode], f"{name}: {NAMES[mode]} {percents(one.share(mode))} of the steps"
            )
            for mode in MODES
            if (low := one.share(mode).low) > 0
        ]
        rest = 100 - sum(piece.size for piece in pieces)
        if rest > 0.01:
            pieces.append(Piece("unknown", rest, UNKNOWN, f"{name}: {UNKNOWN}, {rest:.1f}% of the steps"))
        rows.append((name, tuple(pieces)))
        cells.append((name, number(one.steps), *(percents(one.share(mode)) for mode in MODES), numbers(one.padding)))
    whole = tallies[0][1]
    told = ", ".join(f"{NAMES[mode]} {percents(whole.share(mode))}" for mode in MODES)
    title = "Steps by mode"
    return Figure(
        title,
        f"Of all steps: {told}.",
        Stacked(tuple(rows), tuple((at, f"{at}%") for at in (0, 25, 50, 75, 100))),
        _legend(any(piece.colour == "unknown" for _, pieces in rows for piece in pieces)),
        table(title, ("steps", "count", *(NAMES[mode] for mode in MODES), "padding, tokens"), cells, (1, 2, 3, 4, 5)),
    )


def _sizes(shown: views.View) -> Figure:
    rows = views.size_rows(shown)
    whole = shown.workload.steps
    most = sorted(rows, key=lambda row: -row.steps)[:MOST_BARS]
    drawn = [row for row in rows if row in most]
    bars = tuple((row.name, tuple(_pieces(row, whole))) for row in drawn)
    longest = 100 * max(row.steps for row in rows) / whole
    step = next((step for step in (1, 2, 5, 10, 20) if longest / step <= 5), 25)
    cells = [(row.name, number(row.steps), percent(row.steps, whole), _ran(row)) for row in rows]
    title = "Steps by tokens of a batch"
    few = f"The {len(drawn)} sizes with most steps of {len(rows)}." if len(drawn) < len(rows) else "Share of all steps."
    return Figure(
        title,
        few,
        Stacked(bars, tuple((at, f"{at}%") for at in range(0, int(longest) + 1, step))),
        _legend(any(row.unknown for row in drawn)),
        table(title, ("tokens", "steps", "share", "ran in"), cells, (0, 1, 2), folded=True),
    )


def _pieces(row: views.SizeRow, whole: float) -> Iterable[Piece]:
    parts: list[tuple[CUDAGraphMode | None, float]] = [*row.modes.items(), (None, row.unknown)]
    for mode, steps in parts:
        if steps:
            name = UNKNOWN if mode is None else NAMES[mode]
            of = "token" if row.name == "1" else "tokens"
            many = "step" if number(steps) == "1" else "steps"
            told = f"{row.name} {of}, {name}: {number(steps)} {many}, {percent(steps, whole)}"
            yield Piece("unknown" if mode is None else COLOUR[mode], 100 * steps / whole, "", told)


def _ran(row: views.SizeRow) -> str:
    found = [NAMES[mode] for mode, steps in row.modes.items() if steps]
    return ", ".join([*found, UNKNOWN] if row.unknown else found)


def _legend(unknown: bool) -> tuple[tuple[str, str], ...]:
    known = tuple((COLOUR[mode], NAMES[mode]) for mode in MODES)
    return (*known, ("unknown", UNKNOWN)) if unknown else known
