"""The screen of `cgplan diff`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..compare.changes import Change, Comparison, Note
from ..compare.fields import SECTIONS
from ..trace import RULES
from . import diff_words as words
from .console import console
from .tables import show_list

if TYPE_CHECKING:
    from ..memory.by_release import MemoryMoves

MODE_STYLES = {"FULL": "full", "PIECEWISE": "piecewise", "NONE": "eager"}
KIND_STYLES = {"new": "full", "gone": "eager", "changed": "piecewise", "applied": "faint", "both": "eager"}
NARROW = 100
"""Below it the releases and rules of a change stand under one another."""
VERY_NARROW = 60
"""Below it the names of what changed are folded, too."""


def show(
    comparison: Comparison,
    model: str,
    gpu: str,
    assumptions: Iterable[str] = (),
    out: Console | None = None,
    memory: MemoryMoves | None = None,
) -> None:
    """Print what changes for one deployment. `memory`: what its plans say; None: they are not known."""
    out = out or console()
    title = f"vLLM {comparison.first.release} → {comparison.last.release} · {gpu} · {model or 'a dense 8B decoder'}"
    out.print(Text("".join(c if c.isprintable() else "?" for c in title), style="head"))
    out.print(Text(words.headline(comparison, memory)))
    graphs = words.graphs_line(comparison)
    if graphs:
        out.print(Text(graphs))
    if comparison.changes or (memory is not None and memory.changed):
        out.print()
        out.print(_table(comparison, out.width, memory))
    if memory is not None:
        _show_memory(out, memory)
    if comparison.changes:
        _show_causes(out, comparison)
    if words.has_restores(comparison, memory):
        _show_restores(out, comparison, memory)
    _show_quiet(out, comparison)
    show_list(out, "Assumed", assumptions)


def show_notes(first: str, last: str, notes: Sequence[Note], out: Console | None = None) -> None:
    """Print the rules and facts that changed, without a deployment."""
    out = out or console()
    out.print(Text(f"vLLM {first} → {last} · rules that changed", style="head"))
    if not notes:
        out.print(Text("Nothing that cgplan knows of."))
    release = ""
    for line in words.note_lines(notes):
        if line.release != release:
            release = line.release
            out.print()
            out.print(Text(release, style="key"))
        _show_rule(out, line.code, line.happened, line.title, _faint(line.facts))


def _table(comparison: Comparison, width: int, memory: MemoryMoves | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False, expand=False)
    table.add_column("What", no_wrap=width >= VERY_NARROW, overflow="fold")
    table.add_column(comparison.first.release, overflow="fold")
    table.add_column(comparison.last.release, overflow="fold")
    table.add_column("In", overflow="fold", min_width=6)
    table.add_column("Rules", style="code", overflow="fold", min_width=5)
    section = ""
    apart = "\n" if width < NARROW else " "
    for change in comparison.changes:
        if change.section != section:
            section = change.section
            table.add_row(Text(SECTIONS[section], style="key"))
        table.add_row(
            Text(f"  {change.label}"),
            _value(change, after=False),
            _value(change, after=True),
            apart.join(dict.fromkeys(change.releases)),
            apart.join(change.codes),
        )
        for line in words.details(change):
            table.add_row("", "", Text(line, style="faint"))
    of_memory = words.memory_rows(memory)
    if of_memory:
        table.add_row(Text("Memory", style="key"))
    for row in of_memory:
        after = Text(row.after, style="head")
        table.add_row(Text(f"  {row.label}"), row.before, after, apart.join(row.releases), apart.join(row.codes))
    return table


def _show_memory(out: Console, memory: MemoryMoves) -> None:
    """What the plan of one release finds and that of the other does not."""
    from .diff_memory import parts, told

    lines, moved = told(memory), parts(memory)
    if moved:
        out.print()
        out.print(Text("What moves the KV cache", style="key"))
        table = Table.grid(padding=(0, 2, 0, 0))
        for style in ("", "code", "", ""):
            table.add_column(style=style, no_wrap=not table.columns, overflow="fold")
        shown = ""
        for release, codes, by, why in moved:
            table.add_row("" if release == shown else release, codes, Text(by, justify="right"), why)
            shown = release
        out.print(Padding(table, (0, 0, 0, 2)))
    if not lines:
        return
    out.print()
    out.print(Text(f"Memory, planned at {memory.first.release} and {memory.last.release}", style="key"))
    for code, happened, text in lines:
        _show_rule(out, code, happened, "", [Text(text)])


def _value(change: Change, *, after: bool) -> RenderableType:
    found = change.after if after else change.before
    if change.field.startswith("coverage.") and found:
        line = Text()
        for index, part in enumerate(found):
            line.append("\n" if index else "")
            line.append(words.stretch(part), style=MODE_STYLES[part["mode"]])
        return line
    return Text(words.value(change.field, found), style="head" if after else "")


def _show_causes(out: Console, comparison: Comparison) -> None:
    told: set[str] = set()
    for release, by_code in words.effects(comparison).items():
        out.print()
        out.print(Text(f"In {release}", style="key"))
        for code, (own, further) in by_code.items():
            cause = words.cause_of(comparison, release, code)
            title = "" if code in told else RULES[code].title
            told.add(code)
            lines: list[Text] = [Text(words.fact(f), style="faint") for f in cause.facts]
            if cause.why != RULES[code].title:
                lines.append(Text(cause.why))
            lines += [_effect(change, release) for change in own]
            if further:
                lines.append(Text(f"so also: {', '.join(change.label for change in further)}", style="faint"))
            _show_rule(out, code, words.KINDS[cause.kind], title, lines)


def _effect(change: Change, release: str) -> Text:
    before, after = words.before_and_after(change, release)
    line = Text(f"{change.label}: ")
    line.append(f"{before} → ", style="faint")
    line.append(after, style="head")
    return line


def _show_rule(out: Console, code: str, kind: str, title: str, lines: Iterable[Text]) -> None:
    head = Text()
    head.append(code, style="code")
    head.append(f"  {kind:7}", style=KIND_STYLES[kind])
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    body = [Text(title)] if title else []
    grid.add_row(head, Text("\n").join([*body, *lines]))
    out.print(Padding(grid, (0, 0, 0, 2)))


def _show_restores(out: Console, comparison: Comparison, memory: MemoryMoves | None) -> None:
    found, lost = words.kept(comparison, memory)
    out.print()
    out.print(Text(f"To keep what {comparison.first.release} did", style="key"))
    for setting, (labels, note) in found.items():
        out.print(Padding(Text(setting, style="fix"), (0, 0, 0, 2)))
        out.print(Padding(Text(f"keeps: {', '.join(labels)}" + (f". {note}" if note else "")), (0, 0, 0, 4)))
    for line in lost:
        out.print(Padding(Text(line, style="faint"), (0, 0, 0, 2)))


def _show_quiet(out: Console, comparison: Comparison) -> None:
    lines = words.note_lines(comparison.without_effect)
    if not lines:
        return
    out.print()
    out.print(Text("Changed too, without effect on this deployment", style="key"))
    told: set[str] = set()
    for line in lines:
        title = line.release if line.code in told else f"{line.release}: {line.title}"
        told.add(line.code)
        _show_rule(out, line.code, line.happened, title, _faint(line.facts))


def _faint(lines: Iterable[str]) -> list[Text]:
    return [Text(line, style="faint") for line in lines]
