"""Steps as Markdown: a section of a page."""

from __future__ import annotations

from ..errors import as_fix
from ..resolve.resolution import Resolution
from ..workload.gathered import Gathered
from . import workload_view as views
from .bars import NAMES
from .markdown_table import cell, table
from .words import as_option, sentence


def section(gathered: Gathered, resolution: Resolution | None = None) -> str:
    """The sections, one a kind of source, each from its heading of level 2 on."""
    return "\n".join(_section(one, resolution) for one in gathered.split())


def _section(gathered: Gathered, resolution: Resolution | None) -> str:
    shown = views.view(gathered, resolution)
    lines = ["## Steps", ""]
    lines += ["No step was counted."] if shown is None else _steps(shown)
    remarks = views.remarks(gathered)
    if remarks:
        lines += ["", *(f"- {cell(sentence(item))}" for item in remarks)]
    return "\n".join(lines) + "\n"


def _steps(shown: views.View) -> list[str]:
    lines = [cell(shown.title)]
    if shown.tally is not None:
        rows = [(NAMES[mode], steps, share) for mode, _, share, steps in views.mode_rows(shown.tally)]
        how = "as the server saw it" if shown.is_seen else "as resolved"
        lines += ["", *table((f"ran in ({how})", "steps", "share"), rows, right=(1, 2))]
        lines += ["", views.padding_line(shown.tally)]
    whole = shown.workload.steps
    sizes = [(row.name, f"{row.steps:,.0f}", views.share_of(row, whole)) for row in views.size_rows(shown)]
    lines += ["", *table(("tokens of a batch", "steps", "share"), sizes, right=(0, 1, 2))]
    tallies = views.tally_rows(shown)
    if tallies:
        lines += ["", *table(views.TALLY_HEAD, tallies, right=range(1, 7))]
    if shown.made is not None and shown.made.missed:
        lines += ["", "### Missed the graph wanted for them", ""]
        lines += table(views.MISSED_HEAD, views.missed_rows(shown.made), right=(2,))
    for finding in shown.findings:
        fix = f" Fix: {cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
        lines += ["", f"{finding.severity} {finding.code}: {cell(sentence(finding.message))}{fix}"]
    return lines
