"""The screen of `cgplan plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..errors import as_fix
from ..memory.capacity_plan import CapacityPlan
from ..memory.what_if import BuyBack, Outcome
from ..trace import Finding
from . import plan_answer, plan_graphs
from . import plan_what_if as variants
from . import plan_words as words
from .console import console
from .plan_bar import cells, parts_of
from .plan_compared import compared_rows
from .tables import show_columns, show_list, show_pairs
from .words import as_option

if TYPE_CHECKING:
    from rich.table import Table

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
    """A flag, what becomes of each of its values, and of the deployment as it was given."""

    flag: str
    outcomes: Sequence[Outcome]
    base: Outcome


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
    pressing = [finding for finding in made.findings if words.is_pressing(finding)]
    show_findings(out, pressing)
    limits = list(words.cache_lines(made))
    if limits:
        out.print()
        show_pairs(out, limits, style="key")
    _show_lengths(out, made)
    if made.budget is not None:
        out.print()
        _show_bar(out, made)
        out.print()
        _show_budget(out, made)
    show_list(out, "CUDA graphs", plan_graphs.lines(made))
    _show_bought(out, bought, words.bought_title(made))
    show_findings(out, [finding for finding in made.findings if not words.is_pressing(finding)])
    show_list(out, "Assumed", assumptions)
    show_list(out, "Not modelled", not_modelled)


def show_what_if(found: WhatIf, title: str, assumptions: Iterable[str] = (), out: Console | None = None) -> None:
    """The table of --what-if."""
    out = out or console()
    out.print(Text(title, style="head"))
    out.print(Text(found.flag, style="key"))
    out.print()
    shown = (found.base, *found.outcomes)
    head, rows = ("value", *variants.head(shown)), variants.rows(shown)
    kept = _columns_that_fit(head, rows, out.width, variants.least_told(head))
    if kept:
        table = _table([head[at] for at in kept], left=2)
        for one, cells_of in zip(shown, rows, strict=True):
            row = [Text(cells_of[at]) for at in kept]
            row[1].stylize(plan_answer.style(one))
            table.add_row(*row)
        out.print(table)
    else:
        _show_stacked(out, head, rows)
    show_list(out, "To know", variants.to_know(shown, found.outcomes))
    show_list(out, "Why not", variants.why_not(shown))
    show_list(out, "Assumed", assumptions)


def show_compared(
    first: CapacityPlan,
    second: CapacityPlan,
    titles: Sequence[Titles],
    of_record: Iterable[str] = (),
    out: Console | None = None,
) -> None:
    """Two deployments side by side; `of_record`: what is to be known of a measured record for the second."""
    out = out or console()
    for name, plan, title in zip(("A", "B"), (first, second), titles, strict=True):
        out.print(Text(f"{name}  {title.line(plan.resolution.vllm_version)}", style="head"))
    out.print()
    head, rows = ("", "A", "B", "B - A"), compared_rows(first, second)
    if _columns_that_fit(head, rows, out.width):
        table = _table(head, left=1)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        out.print(table)
    else:
        _show_stacked(out, head, rows)
    show_list(out, "The record, for B", of_record)
    for name, plan in zip(("A", "B"), (first, second), strict=True):
        if plan.findings:
            out.print()
            out.print(Text(f"Findings of {name}", style="key"))
            show_findings(out, plan.findings)


def _show_bar(out: Console, made: CapacityPlan) -> None:
    assert made.budget is not None
    parts = parts_of(made.budget, made.budget.tightest, serves=made.best.plan is not None)
    bar = Text()
    for part, text in cells(parts, out.width - 1):
        bar.append(text, style=part.style)
    out.print(bar, no_wrap=True, overflow="crop")
    line = Text()
    for part in parts:  # the table has the sizes
        named = f"{part.glyph} {part.name}"
        if line and len(line) + len(named) + 2 > out.width:
            out.print(line)
            line = Text()
        line.append("  " if line else "")
        line.append(named[0], style=part.style)
        line.append(named[1:])
    out.print(line)


def _show_budget(out: Console, made: CapacityPlan) -> None:
    """Low and high are left out where they do not fit, sources where the screen is not wide; numbers are never cut."""
    rows, heading = words.budget_rows(made), words.budget_head(made)
    shown: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    if out.width < WIDE:
        shown = _columns_that_fit(heading[:5], [row[:5] for row in rows], out.width) or (0, 1, 3)
    lines = [([row[at] for at in shown], "head" if row.sign == "=" else "") for row in rows]
    numbers = [place for place, at in enumerate(shown) if 2 <= at <= 4]
    sources = [place for place, at in enumerate(shown) if at == 5]
    show_columns(out, [heading[at] for at in shown], lines, right=numbers, faint=sources)


def _columns_that_fit(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, least_told: Sequence[int] = ()
) -> tuple[int, ...]:
    """The columns that stand side by side in `width`, without those of `least_told` that do not; (): they do not."""
    kept = list(range(len(head)))
    for at in (None, *least_told):
        if at is not None:
            kept.remove(at)
        room = sum(max(len(head[i]), *(len(row[i]) for row in rows)) + GAP for i in kept) - GAP
        if room <= width:
            return tuple(kept)
    return ()


def _show_stacked(out: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Each row as a line of its own, for screens that are narrower than the table."""
    for row in rows:
        said = [f"{name} {cell}".strip() for name, cell in zip(head[1:], row[1:], strict=True) if cell]
        out.print(Text(row[0], style="key"))
        out.print(Padding(Text(", ".join(said)), (0, 0, 0, 2)))


GAP = 2
"""Blanks between two columns."""


def _show_lengths(out: Console, made: CapacityPlan) -> None:
    found = words.lengths(made)
    if len(found) > 1:
        out.print()
        out.print(Text("Requests of a length that fit at once", style="key"))
        line = ""
        for length, requests in found:
            one = f"{requests} of {length}"
            if line and len(line) + len(one) + 3 > out.width:
                out.print(Text(line))
                line = ""
            line += f" · {one}" if line else one
        out.print(Text(line))
        if words.are_flat(made):
            out.print(Text(words.FLAT, style="faint"))


def _show_bought(out: Console, bought: Sequence[BuyBack], title: str) -> None:
    if not bought:
        return
    out.print()
    out.print(Text(title, style="key"))
    for change, graphs, taken, time, gained, tokens, cost in words.bought_rows(bought):
        out.print(Text(change))
        more = f", {tokens} tokens" if tokens else ""
        during = f" and {time} s" if time else ""
        then = f"{graphs} graphs take {taken} GiB{during}; " if graphs != "0" else ""
        out.print(Padding(Text(f"{gained}{more}; {then}{cost}"), (0, 0, 0, 2)))


def show_findings(out: Console, findings: Sequence[Finding]) -> None:
    """Each with its code, message and fix, a blank line before it."""
    for finding in findings:
        out.print()
        line = Text()
        line.append(finding.severity, style=finding.severity)
        line.append(f" {finding.code}", style="code")
        out.print(line)
        out.print(Padding(Text(finding.message), (0, 0, 0, 2)))
        if finding.fix:
            fix = Text()
            fix.append("fix: ", style="fix")
            fix.append(as_option(as_fix(finding.fix)))
            out.print(Padding(fix, (0, 0, 0, 2)))


def _table(head: Sequence[str], left: int) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for at, heading in enumerate(head):
        table.add_column(heading, justify="left" if at < left else "right", no_wrap=True)
    return table
