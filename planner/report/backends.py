"""The screen of `cgplan backends`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..resolve.backends.documented import Difference
from ..resolve.backends.groups import AttentionGroup
from ..resolve.support_table import FOLDER, Row, SupportTable
from ..vocabulary import AttentionCGSupport
from .console import console
from .tables import show_list

STYLES = {
    AttentionCGSupport.ALWAYS: "full",
    AttentionCGSupport.UNIFORM_BATCH: "piecewise",
    AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE: "eager",
    AttentionCGSupport.NEVER: "error",
}
MEANING = {
    AttentionCGSupport.ALWAYS: "a graph may hold any batch",
    AttentionCGSupport.UNIFORM_BATCH: "batches whose requests all have the same number of tokens",
    AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE: "batches whose requests all have one token",
    AttentionCGSupport.NEVER: "no batch",
}
SHORT = {
    "it serves MLA models only": "MLA only",
    "it serves sparse attention only": "sparse only",
    "the model uses MLA": "no MLA",
    "the model uses sparse attention": "not sparse",
    "fixed in its metadata builder": "fixed",
}
"""Phrases that stand in many rows."""

KINDS = (("attention", "Other attention backends"), ("mla", "MLA backends"), ("sparse", "Sparse attention backends"))

WIDE = 110
"""Columns from which on the reasons stand beside the level, not below it."""


def show(table: SupportTable, model: str, gpu: str, out: Console | None = None) -> None:
    """Print the screen."""
    out = out or console()
    title = f"vLLM {table.vllm_version} · {gpu} · {model or 'a dense 8B decoder'}"
    out.print(Text("".join(c if c.isprintable() else "?" for c in title), style="head"))
    out.print()
    out.print(_choice(table))
    rest = [row for row in table.rows if row.kind != "mamba" and row.platform == "cuda" and row.priority is None]
    tried = "not used, since one was asked for" if table.asked else "the first that fits is taken"
    _section(out, "Order of the automatic selection", tried, table.order)
    asked = [row for row in rest if row.fits or row.chosen]
    _section(out, "Outside the automatic selection", "they fit with --attention-backend NAME", asked)
    others = [row for row in rest if row not in asked]
    for kind, heading in KINDS:
        _section(out, heading, "", [row for row in others if row.kind == kind and row.support is not None])
    _section(out, "Names that nobody can select", "", [row for row in others if row.support is None])
    _section(out, "State space and linear attention layers", "", [row for row in table.rows if row.kind == "mamba"])
    _show_elsewhere(out, [row for row in table.rows if row.platform != "cuda"])
    out.print()
    out.print(_legend(table.vllm_version))
    _show_differences(out, table.differences)
    show_list(out, "Assumed", table.assumptions)
    show_list(out, "Not modelled", table.not_modelled)


def _text(*parts: tuple[str, str]) -> Text:
    """Text of (words, style) parts."""
    line = Text()
    for words, style in parts:
        line.append(words, style=style or None)
    return line


def _choice(table: SupportTable) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="key", no_wrap=True)
    grid.add_column(overflow="fold")
    if table.refused is not None:
        grid.add_row("Refused", Text(table.refused.message, style="error"))
        if table.refused.fix:
            grid.add_row("", _text(("fix: ", "fix"), (table.refused.fix, "")))
    if table.choice is None:
        return grid
    choice = table.choice
    grid.add_row("Chosen", _text((choice.name, "head"), (f"  {table.why}", "")))
    support = choice.support
    grid.add_row("CUDA graphs", _text((support.name, STYLES[support]), (f"  {MEANING[support]}", "")))
    if len(choice.groups) > 1:
        for index, group in enumerate(choice.groups):
            grid.add_row("" if index else "Layers", _group(group))
    return grid


def _group(group: AttentionGroup) -> Text:
    condition = group.condition.partition(" (vllm/")[0]
    condition = SHORT.get(condition, condition)
    return _text(
        (group.kind.replace("_", " "), ""),
        (f"  {group.name}  ", "head"),
        (group.support.name, STYLES[group.support]),
        (f"  {condition}", "faint"),
    )


def _section(out: Console, title: str, note: str, rows: Iterable[Row]) -> None:
    """A row a backend; what speaks against all of them stands in the heading."""
    rows = list(rows)
    if not rows:
        return
    shared = _shared(rows)
    note = "; ".join(SHORT.get(reason, reason) for reason in shared) or note
    out.print()
    out.print(_text((title, "key"), (f"  {note}" if note else "", "faint")))
    wide = out.width >= WIDE
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True, width=2)
    grid.add_column(no_wrap=True, min_width=28)
    grid.add_column(no_wrap=True, min_width=27)
    if wide:
        grid.add_column(overflow="fold")
    for row in rows:
        place = ("→" if row.chosen else "") + (str(row.priority) if row.priority is not None else "")
        name = Text(row.name, style="head" if row.chosen or row.fits else "")
        here = _here(row, shared)
        if wide:
            grid.add_row(place, name, _level(row), here)
            continue
        grid.add_row(place, name, _level(row))
        out.print(grid)
        out.print(Padding(here, (0, 0, 0, 6)))
        grid = _emptied(grid)
    if wide:
        out.print(grid)


def _emptied(grid: Table) -> Table:
    """A grid with the columns of `grid`."""
    empty = Table.grid(padding=(0, 2, 0, 0))
    for column in grid.columns:
        empty.add_column(justify=column.justify, no_wrap=True, width=column.width, min_width=column.min_width)
    return empty


def _shared(rows: list[Row]) -> tuple[str, ...]:
    """Reasons against every row of several."""
    if len(rows) < 2:
        return ()
    return tuple(reason for reason in rows[0].reasons if all(reason in row.reasons for row in rows))


def _level(row: Row) -> Text:
    return Text(row.support.name, style=STYLES[row.support]) if row.support is not None else Text("–", style="faint")


def _here(row: Row, shared: tuple[str, ...]) -> Text:
    """What speaks against the backend, or that it fits; then what decides its level, and where."""
    parts = []
    if row.reasons:
        if row.chosen:
            parts.append(Text("chosen all the same", style="warning"))
        parts += [Text(SHORT.get(reason, reason)) for reason in row.reasons if reason not in shared]
    elif row.kind == "mamba":
        parts.append(Text("layers of this model", style="fix"))
    else:
        parts.append(Text("chosen", style="fix") if row.chosen else Text("fits"))
    line = Text("; ").join(parts)
    if row.source:
        condition = f"{SHORT.get(row.condition, row.condition)}, {_short(row.source)}"
        line.append(" · " if parts else "", style="faint")
        line.append(condition, style="faint")
    return line


def _short(source: str) -> str:
    return source.removeprefix(FOLDER)


def _show_elsewhere(out: Console, rows: list[Row]) -> None:
    """Backends of other platforms, a line a platform; none of them runs here."""
    if not rows:
        return
    out.print()
    out.print(Text("Backends of other platforms", style="key"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, justify="right", width=4)
    grid.add_column(overflow="fold")
    for platform, found in groupby(sorted(rows, key=lambda row: row.platform), key=lambda row: row.platform):
        line = Text()
        for index, row in enumerate(found):
            line.append(" · " if index else "", style="faint")
            line.append(row.name)
            if row.support is not None:
                line.append(f" {row.support.name}", style=STYLES[row.support])
        grid.add_row(platform, line)
    out.print(grid)


def _legend(release: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for support in sorted(MEANING, reverse=True):
        grid.add_row(Text(support.name, style=STYLES[support]), Text(MEANING[support], style="faint"))
    grid.add_row(Text("sources", style="faint"), Text(f"in {FOLDER} of vLLM {release}", style="faint"))
    return grid


def _show_differences(out: Console, found: tuple[Difference, ...]) -> None:
    if not found:
        return
    out.print()
    out.print(Text("Where vLLM's own documentation differs from its code", style="key"))
    listed = [d for d in found if d.row is not None or not d.levels]
    for (says, does, page), same in groupby(listed, key=lambda d: (d.says, _does(d), d.page)):
        group = list(same)
        out.print(Padding(Text(", ".join(d.backend for d in group), style="head"), (0, 0, 0, 2)))
        sources = ", ".join(dict.fromkeys(_short(d.source) for d in group))
        lines = _grid()
        lines.add_row("page", _text((says, ""), (f"  {page}", "faint")))
        lines.add_row("code", _text((does, ""), (f"  {sources}", "faint")))
        out.print(Padding(lines, (0, 0, 0, 6)))
    unlisted = sorted((d for d in found if d.row is None and d.levels), key=_level_of)
    if not unlisted:
        return
    heading = _text(("not in the page's table, which means NEVER", "head"), (f"  {unlisted[0].page}", "faint"))
    out.print(Padding(heading, (0, 0, 0, 2)))
    for level, same in groupby(unlisted, key=_level_of):
        names = ", ".join(_unlisted(d) for d in same)
        lines = _grid()
        lines.add_row("code", _text((level, STYLES[AttentionCGSupport[level]]), (f"  {names}", "")))
        out.print(Padding(lines, (0, 0, 0, 6)))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="faint", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _does(difference: Difference) -> str:
    """What the code does; that a level is fixed goes without saying."""
    return difference.does.removesuffix(": fixed in its metadata builder")


def _unlisted(difference: Difference) -> str:
    """The backend; of FlashAttention also the version, since the page lists others."""
    version = difference.says.partition(" is not listed")
    return f"{difference.backend} ({version[0]})" if version[1] else difference.backend


def _level_of(difference: Difference) -> str:
    return difference.does.partition(":")[0]
