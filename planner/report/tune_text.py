"""The screen of `cgplan tune`: today's list beside the chosen one, the curve, the flag, and how sure the gain is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..errors import as_fix
from ..workload.tune.tune import Tuning
from . import tune_choices
from . import tune_view as views
from .console import console
from .tables import show_columns, show_list, show_pairs
from .words import as_option, sentence

WIDEST_BAR = 40
NARROWEST_BAR = 8


def show(tuning: Tuning, title: str, assumptions: Sequence[str] = (), out: Console | None = None) -> None:
    """Print the choice.

    Args:
        title: of the deployment.
        assumptions: what was not said of it.
    """
    out = out or console()
    out.print(Text(views.printable(title), style="head"))
    out.print(Text(views.printable(views.title(tuning)), style="faint"))
    out.print()
    for line in views.verdict(tuning):
        out.print(Text(line))
    out.print()
    show_table(out, views.HEAD, views.rows(tuning))
    out.print()
    _show_curve(out, tuning)
    if tuning.chosen is not tuning.today:
        out.print()
        _show_flags(out, tuning.flag, tune_choices.replaced(tuning.replaces))
    _show_sureness(out, tuning)
    out.print()
    out.print(Text(views.DENSITIES_TITLE, style="head"))
    show_table(out, views.densities_head(tuning), views.density_rows(tuning))
    out.print(Text(sentence(views.DENSITIES_WORDS), style="faint"))
    _show_choices(out, tuning)
    for finding in tuning.findings:
        out.print()
        head = Text(f"{finding.severity} {finding.code}", style=finding.severity)
        out.print(head + Text(f"  {sentence(finding.message)}"))
        if finding.fix:
            show_pairs(out, [("  fix", as_option(as_fix(finding.fix)))], style="fix")
    show_list(out, "Assumed and noted", views.all_notes(tuning, assumptions))


def _show_curve(out: Console, tuning: Tuning) -> None:
    bars = views.bars(tuning)
    out.print(Text(views.curve_title(tuning), style="key"))
    most = max(bar.value for bar in bars) or 1.0
    names = max(len(bar.name) for bar in bars)
    marks = max(len(bar.mark) for bar in bars)

    def room() -> int:
        return out.width - names - max(len(bar.text) for bar in bars) - marks - 5

    if room() < NARROWEST_BAR:
        # Memory and tokens of each list are in --json and --markdown.
        bars = [bar._replace(text=bar.text.partition("  ")[0]) for bar in bars]
    texts = max(len(bar.text) for bar in bars)
    width = max(0, min(WIDEST_BAR, room()))
    for bar in bars:
        style = "full" if bar.is_chosen else "eager" if bar.is_today else "piecewise"
        cells = round(width * bar.value / most)
        line = Text(f"{bar.name:>{names}} ")
        line.append(("░" if bar.is_today else "█") * cells, style=style)
        line.append(" " * (width - cells) + f" {bar.text:<{texts}}  ")
        line.append(bar.mark, style="key" if bar.is_chosen else "faint")
        out.print(line, no_wrap=True, overflow="crop")


def show_table(out: Console, head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    """A table of numbers; where the window is too narrow for it, each row under its name."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    if sum(widths) + 2 * (len(widths) - 1) <= out.width:
        show_columns(out, head, [(row, "") for row in rows], right=range(1, len(head)))
        return
    for name, *cells in rows:
        out.print(Text(f"{head[0]} {name}".strip(), style="key"))
        show_pairs(out, [(f"  {what}", cell) for what, cell in zip(head[1:], cells, strict=True)])


def _show_flags(out: Console, flags: str, replaced: str) -> None:
    # On one line, however long: it is there to be copied.
    out.print(Text(flags, style="fix"), soft_wrap=True)
    if replaced:
        out.print(Text(replaced, style="faint"))


def _show_choices(out: Console, tuning: Tuning) -> None:
    out.print()
    out.print(Text(tune_choices.TITLE, style="head"))
    out.print(Text(tune_choices.INTRO, style="faint"))
    for one in tune_choices.choices(tuning):
        out.print()
        show_table(out, one.head, one.rows)
        for at, line in enumerate(one.told):
            out.print(Text(views.printable(line), style="faint" if at else ""))
        if one.flags:
            _show_flags(out, one.flags, one.replaces)


def _show_sureness(out: Console, tuning: Tuning) -> None:
    out.print()
    for line in views.sureness(tuning):
        out.print(Text(line))
    for head, rows in ((views.PARTS_HEAD, views.part_rows(tuning)), (views.SHIFTS_HEAD, views.shift_rows(tuning))):
        if rows and tuning.chosen is not tuning.today:
            out.print()
            show_table(out, head, [tuple(views.printable(cell) for cell in row) for row in rows])
            if head is views.PARTS_HEAD:
                out.print(Text(views.PARTS_WORDS, style="faint"))
