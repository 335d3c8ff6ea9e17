"""`cgplan tune` as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import as_fix
from ..workload.tune.tune import Tuning
from . import tune_choices
from . import tune_view as views
from .markdown_table import cell, table
from .words import as_option, sentence


def page(tuning: Tuning, title: str, assumptions: Sequence[str] = ()) -> str:
    """The page, from its heading of level 1 on."""
    lines = [f"# Capture sizes: {cell(title)}", "", cell(views.title(tuning)), "", *views.verdict(tuning), ""]
    lines += table(views.HEAD, views.rows(tuning), range(1, len(views.HEAD)))
    if tuning.chosen is not tuning.today:
        lines += _flags(tuning.flag, tune_choices.replaced(tuning.replaces))
    lines += ["", f"## {views.curve_title(tuning)}", ""]
    curve = [(bar.name, *_cells(bar.text), bar.mark) for bar in views.bars(tuning)]
    widest = max(len(row) for row in curve)
    if all(len(row) == widest for row in curve):
        names = ("sizes", *_heads(tuning, widest - 2), "")
        lines += table(names, curve, range(1, len(names)))
    lines += ["", *(f"- {cell(line)}" for line in views.sureness(tuning))]
    if tuning.chosen is not tuning.today:
        for head, rows in ((views.PARTS_HEAD, views.part_rows(tuning)), (views.SHIFTS_HEAD, views.shift_rows(tuning))):
            lines += ["", *table(head, rows, range(1, len(head)))] if rows else []
            lines += ["", f"{views.PARTS_WORDS}."] if rows and head is views.PARTS_HEAD else []
    columns = views.densities_head(tuning)
    lines += [
        "",
        f"## {views.DENSITIES_TITLE}",
        "",
        *table(columns, views.density_rows(tuning), range(1, len(columns))),
    ]
    lines += ["", sentence(views.DENSITIES_WORDS)]
    lines += _choices(tuning)
    for finding in tuning.findings:
        fix = f" Fix: {cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
        lines += ["", f"{finding.severity} {finding.code}: {cell(sentence(finding.message))}{fix}"]
    notes = views.all_notes(tuning, assumptions)
    if notes:
        lines += ["", "## Assumed and noted", "", *(f"- {cell(sentence(note))}" for note in notes)]
    return "\n".join(lines) + "\n"


def _flags(flags: str, replaced: str) -> list[str]:
    return ["", "```", flags, "```", *(["", f"{cell(replaced)}."] if replaced else [])]


def _choices(tuning: Tuning) -> list[str]:
    lines = ["", f"## {tune_choices.TITLE}", "", tune_choices.INTRO]
    for one in tune_choices.choices(tuning):
        lines += ["", f"### {one.name}", "", *table(one.head, one.rows, range(1, len(one.head)))]
        lines += ["", *(f"- {cell(line)}" for line in one.told)]
        lines += _flags(one.flags, one.replaces) if one.flags else []
    return lines


def _cells(text: str) -> list[str]:
    return [part for part in text.split("  ") if part]


def _heads(tuning: Tuning, number: int) -> tuple[str, ...]:
    what = "time of a step" if tuning.prices.times else "padding"
    return (what, "graph memory", "KV tokens")[:number]
