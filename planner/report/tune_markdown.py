"""`cgplan tune` as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import as_fix
from ..workload.tune import Tuning
from . import tune_view as views
from .diff_markdown import cell
from .words import as_option, sentence


def page(tuning: Tuning, title: str, assumptions: Sequence[str] = ()) -> str:
    """The page, from its heading of level 1 on."""
    lines = [f"# Capture sizes: {cell(title)}", "", cell(views.title(tuning)), "", *views.verdict(tuning), ""]
    lines += _table(views.HEAD, views.rows(tuning))
    if tuning.chosen is not tuning.today:
        lines += ["", "```", tuning.flag, "```"]
    lines += ["", f"## {views.curve_title(tuning)}", ""]
    curve = [(bar.name, *_cells(bar.text), bar.mark) for bar in views.bars(tuning)]
    widest = max(len(row) for row in curve)
    if all(len(row) == widest for row in curve):
        lines += _table(("sizes", *_heads(tuning, widest - 2), ""), curve)
    lines += ["", *(f"- {cell(line)}" for line in views.sureness(tuning))]
    if tuning.chosen is not tuning.today:
        for head, rows in ((views.PARTS_HEAD, views.part_rows(tuning)), (views.SHIFTS_HEAD, views.shift_rows(tuning))):
            lines += ["", *_table(head, rows)] if rows else []
            lines += ["", f"{views.PARTS_WORDS}."] if rows and head is views.PARTS_HEAD else []
    for finding in tuning.findings:
        fix = f" Fix: {cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
        lines += ["", f"{finding.severity} {finding.code}: {cell(sentence(finding.message))}{fix}"]
    notes = views.all_notes(tuning, assumptions)
    if notes:
        lines += ["", "## Assumed and noted", "", *(f"- {cell(sentence(note))}" for note in notes)]
    return "\n".join(lines) + "\n"


def _cells(text: str) -> list[str]:
    return [part for part in text.split("  ") if part]


def _heads(tuning: Tuning, number: int) -> tuple[str, ...]:
    what = "time of a step" if tuning.prices.times else "padding"
    return (what, "graph memory", "KV cache, tokens")[:number]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    marks = ["---", *["---:"] * (len(head) - 1)]
    lines = [f"| {' | '.join(cell(text) for text in head)} |", f"|{'|'.join(marks)}|"]
    return lines + [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
