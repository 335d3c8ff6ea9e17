"""`cgplan diff --markdown`: the same as the screen, for a pull request or a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..compare.changes import Comparison, Note
from ..compare.fields import SECTIONS
from ..trace import RULES
from . import diff_words as words
from .markdown_table import cell

if TYPE_CHECKING:
    from ..memory.by_release import MemoryMoves


def comparison_page(
    comparison: Comparison,
    model: str,
    gpu: str,
    assumptions: Iterable[str] = (),
    memory: MemoryMoves | None = None,
) -> str:
    """What changes for one deployment. `memory`: what its plans say; None: they are not known."""
    lines = [
        f"# Releases: vLLM {comparison.first.release} → {comparison.last.release}",
        "",
        f"{cell(gpu)}, {cell(model or 'a dense 8B decoder')}. {words.headline(comparison, memory)}",
    ]
    graphs = words.graphs_line(comparison)
    if graphs:
        lines[-1] += f" {graphs}"
    if comparison.changes or (memory is not None and memory.changed):
        lines += ["", *_table(comparison, memory)]
    if memory is not None:
        lines += _memory(memory)
    lines += _causes(comparison)
    if words.has_restores(comparison, memory):
        lines += _restores(comparison, memory)
    quiet = words.note_lines(comparison.without_effect)
    if quiet:
        lines += ["", "## Changed too, without effect on this deployment", ""]
        lines += [_item(n.code, n.happened, f"{n.release}: {n.title}", n.facts) for n in quiet]
    assumed = [f"- {cell(line)}" for line in assumptions]
    if assumed:
        lines += ["", "## Assumed", "", *assumed]
    return "\n".join(lines) + "\n"


def notes_page(first: str, last: str, notes: Sequence[Note]) -> str:
    """The rules and facts that changed, without a deployment."""
    lines = [f"# Rules that changed: vLLM {first} → {last}"]
    if not notes:
        lines += ["", "Nothing that cgplan knows of."]
    release = ""
    for line in words.note_lines(notes):
        if line.release != release:
            release = line.release
            lines += ["", f"## {release}", ""]
        lines.append(_item(line.code, line.happened, line.title, line.facts))
    return "\n".join(lines) + "\n"


def _table(comparison: Comparison, memory: MemoryMoves | None) -> list[str]:
    lines = [f"| | {comparison.first.release} | {comparison.last.release} | in | rules |", "|---|---|---|---|---|"]
    section = ""
    for change in comparison.changes:
        if change.section != section:
            section = change.section
            lines.append(f"| **{SECTIONS[section]}** | | | | |")
        after = words.value(change.field, change.after)
        details = "; ".join(words.details(change))
        cells = (
            change.label,
            words.value(change.field, change.before),
            f"{after}: {details}" if details else after,
            ", ".join(dict.fromkeys(change.releases)),
            ", ".join(change.codes),
        )
        lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
    of_memory = words.memory_rows(memory)
    if of_memory:
        lines.append("| **Memory** | | | | |")
    for row in of_memory:
        cells = (row.label, row.before, row.after, ", ".join(row.releases), ", ".join(row.codes))
        lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
    return lines


def _memory(memory: MemoryMoves) -> list[str]:
    from .diff_memory import parts, told

    found, moved = told(memory), parts(memory)
    lines = ["", "## What moves the KV cache", ""] if moved else []
    for release, codes, by, why in moved:
        lines.append(f"- {release}, **{codes}**: {by + ', ' if by else ''}{cell(why)}")
    if not found:
        return lines
    lines += ["", f"## Memory, planned at {memory.first.release} and {memory.last.release}", ""]
    return lines + [_item(code, happened, text, ()) for code, happened, text in found]


def _causes(comparison: Comparison) -> list[str]:
    lines = []
    for release, by_code in words.effects(comparison).items():
        lines += ["", f"## In {release}", ""]
        for code, (own, further) in by_code.items():
            cause = words.cause_of(comparison, release, code)
            told = [words.fact(f) for f in cause.facts]
            if cause.why != RULES[code].title:
                told.append(cause.why)
            for change in own:
                before, after = words.before_and_after(change, release)
                told.append(f"{change.label}: {before} → {after}")
            if further:
                told.append(f"so also: {', '.join(change.label for change in further)}")
            lines.append(_item(code, words.KINDS[cause.kind], RULES[code].title, told))
    return lines


def _restores(comparison: Comparison, memory: MemoryMoves | None) -> list[str]:
    found, lost = words.kept(comparison, memory)
    lines = ["", f"## To keep what {comparison.first.release} did", ""]
    for setting, (labels, note) in found.items():
        lines.append(f"- `{setting}` keeps: {cell(', '.join(labels))}" + (f". {cell(note)}" if note else ""))
    return lines + [f"- {cell(line)}" for line in lost]


def _item(code: str, happened: str, title: str, further: Iterable[str]) -> str:
    first = f"- **{code}** ({happened}) {cell(title)}"
    return "\n".join([first, *(f"  - {cell(line)}" for line in further)])
