"""`cgplan diff --markdown`: the same as the screen, for a pull request or a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..compare.changes import Comparison, Note
from ..compare.fields import SECTIONS
from ..trace import RULES
from . import diff_words as words
from .markdown_table import cell


def comparison_page(comparison: Comparison, model: str, gpu: str, assumptions: Iterable[str] = ()) -> str:
    """What changes for one deployment."""
    lines = [
        f"# vLLM {comparison.first.release} → {comparison.last.release}",
        "",
        f"{cell(gpu)}, {cell(model or 'a dense 8B decoder')}. {words.headline(comparison)}",
    ]
    if comparison.changes:
        lines += ["", *_table(comparison), *_causes(comparison), *_restores(comparison)]
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
    lines = [f"# vLLM {first} → {last}: rules that changed"]
    if not notes:
        lines += ["", "Nothing that cgplan knows of."]
    release = ""
    for line in words.note_lines(notes):
        if line.release != release:
            release = line.release
            lines += ["", f"## {release}", ""]
        lines.append(_item(line.code, line.happened, line.title, line.facts))
    return "\n".join(lines) + "\n"


def _table(comparison: Comparison) -> list[str]:
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
    return lines


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


def _restores(comparison: Comparison) -> list[str]:
    found, lost = words.kept(comparison)
    lines = ["", f"## To keep what {comparison.first.release} did", ""]
    for setting, (labels, note) in found.items():
        lines.append(f"- `{setting}` keeps: {cell(', '.join(labels))}" + (f". {cell(note)}" if note else ""))
    return lines + [f"- {cell(line)}" for line in lost]


def _item(code: str, happened: str, title: str, further: Iterable[str]) -> str:
    first = f"- **{code}** ({happened}) {cell(title)}"
    return "\n".join([first, *(f"  - {cell(line)}" for line in further)])
