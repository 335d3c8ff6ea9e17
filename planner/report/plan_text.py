"""The screen of `cgplan plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import as_fix
from ..memory.plan import CapacityPlan
from ..memory.what_if import BuyBack, Outcome
from ..trace import Finding
from . import plan_words as words
from .console import console
from .plan_bar import cells, parts_of
from .tables import show_list, show_pairs
from .words import as_option

WIDE = 100
"""Columns from which on sources stand in the table; below they are listed under it."""


class Titles(NamedTuple):
    """How the screen names what was asked: model, GPU and layout ("tp 2", or "")."""

    model: str
    gpu: str
    layout: str = ""

    def line(self, release: str) -> str:
        parts = [f"vLLM {release}", self.gpu, self.layout, self.model or "a dense 8B decoder"]
        text = " · ".join(part for part in parts if part)
        return "".join(c if c.isprintable() else "?" for c in text)


class WhatIf(NamedTuple):
    """A flag, and what becomes of each of its values."""

    flag: str
    outcomes: Sequence[Outcome]


def show(
    made: CapacityPlan,
    titles: Titles,
    *,
    bought: Sequence[BuyBack] = (),
    assumptions: Iterable[str] = (),
    not_modelled: Iterable[str] = (),
    out: Console | None = None,
) -> None:
    """Print the screen of one deployment."""
    out = out or console()
    out.print(Text(titles.line(made.resolution.vllm_version), style="head"))
    sentence, style = words.headline(made)
    out.print(Text(sentence, style=style))
    if made.budget is not None:
        out.print()
        _show_bar(out, made)
        out.print()
        _show_budget(out, made)
    out.print()
    show_pairs(out, words.cache_lines(made), style="key")
    _show_lengths(out, made)
    lines = [line for line in (*words.graph_lines(made), words.time_line(made)) if line]
    if lines:
        show_list(out, "CUDA graphs", lines)
    _show_bought(out, bought)
    _show_findings(out, made.findings)
    show_list(out, "Assumed", assumptions)
    show_list(out, "Not modelled", not_modelled)


def show_what_if(found: WhatIf, title: str, assumptions: Iterable[str] = (), out: Console | None = None) -> None:
    """The table of --what-if."""
    out = out or console()
    out.print(Text(title, style="head"))
    table = _table((found.flag, *words.OUTCOME_HEAD), left=2)
    for one in found.outcomes:
        row = [Text(cell) for cell in words.outcome_row(one.name, one)]
        row[1].stylize("" if one.fits else "error")
        table.add_row(*row)
    out.print()
    out.print(table)
    reasons = {one.why_not for one in found.outcomes if one.why_not[0]}
    show_list(out, "Why not", [f"{code}: {message}" for code, message in sorted(reasons)[:MOST_REASONS]])
    show_list(out, "Assumed", assumptions)


MOST_REASONS = 8


def show_compared(
    first: CapacityPlan, second: CapacityPlan, titles: Sequence[Titles], out: Console | None = None
) -> None:
    """Two deployments side by side."""
    out = out or console()
    for name, plan, title in zip(("A", "B"), (first, second), titles, strict=True):
        out.print(Text(f"{name}  {title.line(plan.resolution.vllm_version)}", style="head"))
    out.print()
    table = _table(("", "A", "B", "B - A"), left=1)
    for row in words.compared_rows(first, second):
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
    for name, plan in zip(("A", "B"), (first, second), strict=True):
        if plan.findings:
            out.print()
            out.print(Text(f"Findings of {name}", style="key"))
            _show_findings(out, plan.findings)


def _show_bar(out: Console, made: CapacityPlan) -> None:
    assert made.budget is not None
    parts = parts_of(made.budget, made.budget.tightest)
    bar = Text()
    for part, text in cells(parts, out.width - 1):
        bar.append(text, style=part.style)
    out.print(bar, no_wrap=True, overflow="crop")
    line = Text()
    for part in parts:
        named = f"{part.glyph} {part.name} {words.gib(part.size)}"
        if line and len(line) + len(named) + 2 > out.width:
            out.print(line)
            line = Text()
        line.append("  " if line else "")
        line.append(named[0], style=part.style)
        line.append(named[1:])
    out.print(line)


def _show_budget(out: Console, made: CapacityPlan) -> None:
    rows = words.budget_rows(made)
    wide = out.width >= WIDE
    head = words.BUDGET_HEAD if wide else words.BUDGET_HEAD[:-1]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for at, heading in enumerate(head):
        table.add_column(heading, justify="right" if 2 <= at <= 4 else "left", no_wrap=at != 5)
    for row in rows:
        style = "head" if row.sign == "=" else ""
        table.add_row(*(Text(cell, style=style if at < 5 else "faint") for at, cell in enumerate(row[: len(head)])))
    out.print(table)
    if not wide:
        sources = [f"{row.name}: {row.source}" for row in rows if row.source]
        show_list(out, "From", sources)


def _show_lengths(out: Console, made: CapacityPlan) -> None:
    found = words.lengths(made)
    if len(found) > 1:
        out.print()
        out.print(Text("Requests of a length that fit at once", style="key"))
        out.print(Text(" · ".join(f"{requests} of {length}" for length, requests in found)))


def _show_bought(out: Console, bought: Sequence[BuyBack]) -> None:
    if not bought:
        return
    out.print()
    out.print(Text("What other CUDA graphs give the KV cache", style="key"))
    for change, graphs, taken, gained, tokens, cost in words.bought_rows(bought):
        out.print(Text(change))
        more = f", {tokens} tokens" if tokens else ""
        out.print(Padding(Text(f"{gained}{more}; {graphs} graphs take {taken} GiB; {cost}"), (0, 0, 0, 2)))


def _show_findings(out: Console, findings: Sequence[Finding]) -> None:
    for finding in findings:
        out.print()
        line = Text()
        line.append("note" if finding.severity == "info" else finding.severity, style=finding.severity)
        line.append(f" {finding.code}", style="code")
        out.print(line)
        out.print(Padding(Text(finding.message), (0, 0, 0, 2)))
        if finding.fix:
            fix = Text()
            fix.append("fix: ", style="fix")
            fix.append(as_option(as_fix(finding.fix)))
            out.print(Padding(fix, (0, 0, 0, 2)))


def _table(head: Sequence[str], left: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for at, heading in enumerate(head):
        table.add_column(heading, justify="left" if at < left else "right", overflow="fold")
    return table
