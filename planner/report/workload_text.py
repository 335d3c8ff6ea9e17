"""The screen of steps: what they ran in, how large their batches were, and what missed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import as_fix
from ..resolve.resolution import Resolution
from ..vocabulary import CUDAGraphMode
from ..workload.gathered import Gathered
from ..workload.replay.tally import MODES
from . import workload_view as views
from .bars import GLYPHS, NAMES, STYLES
from .console import console
from .tables import show_list, show_pairs
from .words import as_option, sentence

NARROWEST_BAR = 10
WIDEST_BAR = 60
UNKNOWN = "–"
"""A mode that is one or the other."""


def show(gathered: Gathered, resolution: Resolution | None = None, out: Console | None = None) -> None:
    """Print the steps, one block a kind of source; nothing but remarks where there are none."""
    out = out or console()
    for number, one in enumerate(gathered.split()):
        if number:
            out.print()
        _show_source(out, one, resolution)


def _show_source(out: Console, gathered: Gathered, resolution: Resolution | None) -> None:
    shown = views.view(gathered, resolution)
    out.print(Text("Steps", style="head"))
    if shown is None:
        out.print(Text("No step was counted.", style="faint"))
    else:
        _show_steps(out, shown)
    remarks = views.remarks(gathered)
    show_list(out, "Noted", remarks)


def _show_steps(out: Console, shown: views.View) -> None:
    out.print(Text(_printable(shown.title), style="faint"))
    out.print()
    if shown.tally is not None:
        _show_modes(out, shown)
        out.print(Text(views.padding_line(shown.tally)))
        out.print()
    _show_sizes(out, shown)
    rows = views.tally_rows(shown)
    if rows:
        out.print()
        out.print(_table(views.TALLY_HEAD, rows, left=(0,)))
    if shown.made is not None and shown.made.missed:
        out.print()
        out.print(Text("Missed the graph wanted for them", style="key"))
        out.print(_table(views.MISSED_HEAD, views.missed_rows(shown.made), left=(0, 1, 3, 4)))
        more = len(shown.made.missed) - views.MOST_MISSED
        if more > 0:
            out.print(Text(f"and {more} more", style="faint"))
    _show_findings(out, shown)


def _show_modes(out: Console, shown: views.View) -> None:
    assert shown.tally is not None
    rows = views.mode_rows(shown.tally)
    width = _bar_width(out, 14 + max(len(percent) + len(steps) for _, _, percent, steps in rows))
    for mode, share, percent, steps in rows:
        certain = round(share.low * width)
        perhaps = max(0, round(share.high * width) - certain)
        certain = max(certain, 1) if share.low > 0 else certain
        line = Text(NAMES[mode].ljust(10), style=f"{STYLES[mode]}.name")
        line.append(GLYPHS[mode] * certain, style=STYLES[mode])
        line.append(UNKNOWN * perhaps, style="faint")
        line.append(" " * max(1, width + 1 - certain - perhaps))
        line.append(f"{percent}  {steps}")
        out.print(line, no_wrap=True, overflow="crop")
    out.print(Text("as the server saw it" if shown.is_seen else "as resolved", style="faint"))


def _show_sizes(out: Console, shown: views.View) -> None:
    rows = views.size_rows(shown)
    most = max(row.steps for row in rows)
    whole = shown.workload.steps
    names = max(6, *(len(row.name) for row in rows))
    width = _bar_width(out, names + 12)
    out.print(Text("tokens".rjust(names) + "  steps", style="key"))
    for row in rows:
        line = Text(f"{row.name:>{names}}  ")
        length = max(1, round(width * row.steps / most))
        for glyph, style, cells in _stacked(row, length):
            line.append(glyph * cells, style=style)
        line.append(f" {views.share_of(row, whole)}")
        out.print(line, no_wrap=True, overflow="crop")


def _stacked(row: views.SizeRow, length: int) -> list[tuple[str, str, int]]:
    """(glyph, style, cells) by mode, `length` cells in all."""
    parts: list[tuple[CUDAGraphMode | None, float]] = [(mode, row.modes[mode]) for mode in MODES]
    parts.append((None, row.unknown))
    found, drawn, done = [], 0, 0.0
    for mode, steps in parts:
        done += steps
        end = round(length * done / row.steps)
        if end > drawn:
            glyph, style = (UNKNOWN, "faint") if mode is None else (GLYPHS[mode], STYLES[mode])
            found.append((glyph, style, end - drawn))
            drawn = end
    return found


def _show_findings(out: Console, shown: views.View) -> None:
    for finding in shown.findings:
        out.print()
        line = Text()
        line.append(f"{finding.severity} {finding.code}", style=finding.severity)
        line.append(f"  {sentence(finding.message)}")
        out.print(line)
        if finding.fix:
            show_pairs(out, [("  fix", as_option(as_fix(finding.fix)))], style="fix")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for at, heading in enumerate(head):
        table.add_column(heading, justify="left" if at in left else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _bar_width(out: Console, beside: int) -> int:
    return max(NARROWEST_BAR, min(WIDEST_BAR, out.width - beside))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
