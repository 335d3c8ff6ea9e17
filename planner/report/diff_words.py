"""The words of `cgplan diff`, shared by the screen and by Markdown: values, facts, counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..compare.changes import Cause, Change, Comparison, FactChange, Note
from ..compare.document import added_and_removed
from ..compare.restore import restores
from ..compare.snapshot import Snapshot
from ..trace import RULES
from ..vocabulary import CUDAGraphMode
from .folding import fold

if TYPE_CHECKING:
    from ..memory.by_release import MemoryMoves
    from .diff_memory import MemoryRow

LONGEST_FACT = 160
LONGEST_LIST = 40
NAMES = {"architecture_releases.first": "architectures"}
KINDS = {"new": "new", "gone": "gone", "fact": "changed", "input": "applied"}
MODE_NAMES = {"FULL": "FULL", "PIECEWISE": "PIECEWISE", "NONE": "eager"}


def value(field: str, found: Any) -> str:
    """A value of a field, in short."""
    if field == "startup":
        return "starts" if found is None else f"refuses to start: {found['message']}"
    if field == "graph_memory_deducted":
        return "real, off the KV cache" if found else "0"
    if field.startswith("first_cliff"):
        return "none" if found is None else str(found)
    if field.startswith("coverage."):
        return "; ".join(stretch(part) for part in found or ()) or "none"
    if found is None:
        return "off" if field.startswith("config.pass_config.") else "-"
    if isinstance(found, bool):
        return "on" if found else "off"
    if isinstance(found, list):
        return counted(field, found)
    return str(found)


def stretch(part: Mapping[str, Any]) -> str:
    """FULL 1–512."""
    sizes = str(part["from"]) if part["from"] == part["to"] else f"{part['from']}–{part['to']}"
    return f"{MODE_NAMES[part['mode']]} {sizes}"


def counted(field: str, items: list[Any]) -> str:
    """A list by its length where that is long."""
    if field == "capture_sizes":
        return _number(len(items), "size")
    if field.startswith("finding."):
        return "; ".join(items)
    words = " ".join(_plain(item) for item in items)
    return (words or "none") if len(words) <= LONGEST_LIST else _number(len(items), "item")


def details(change: Change) -> list[str]:
    """What a list gained and lost, a line each."""
    if change.field.startswith(("coverage.", "finding.")) or not isinstance(change.after, list):
        return []
    if not re.fullmatch(r"\d+ (items?|sizes?)", counted(change.field, change.after)):
        return []
    added, removed = added_and_removed(change.before, change.after)
    lines = []
    for sign, items in (("added", added), ("removed", removed)):
        if items:
            numbers = all(isinstance(item, int) for item in items)
            lines.append(f"{sign} {fold(items) if numbers else ', '.join(str(item) for item in items)}")
    return lines


def fact(change: FactChange) -> str:
    """grid.platform_cap.sm10: 512 → 1024."""
    name = NAMES.get(change.path) or change.path.removeprefix("pipeline.")
    if isinstance(change.before, Mapping) or isinstance(change.after, Mapping):
        told = "gone" if change.after is None else "new" if change.before is None else "changed"
    elif isinstance(change.before, list) or isinstance(change.after, list):
        before, after = _listed(change.before), _listed(change.after)
        parts = [f"+ {_plain(item)}" for item in after if item not in before]
        parts += [f"- {_plain(item)}" for item in before if item not in after]
        told = "; ".join(parts) or "in another order"
    else:
        told = f"{_plain(change.before)} → {_plain(change.after)}"
    line = f"{name}: {told}"
    return line if len(line) <= LONGEST_FACT else f"{line[: LONGEST_FACT - 1]}…"


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _plain(found: Any) -> str:
    if found is None:
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in found.items() if key not in ("since", "until"))
    if isinstance(found, list):
        return " ".join(_plain(item) for item in found)
    return str(found).removeprefix("vllm::")


def headline(comparison: Comparison, memory: MemoryMoves | None = None) -> str:
    """How much changes, in one line."""
    of_memory = ""
    if memory is not None:
        from .diff_memory import headline as of_plans

        of_memory = of_plans(memory)
    of_plan = memory_rows(memory)
    count = len(comparison.changes) + len(of_plan)
    refused = _refused(comparison)
    if refused:
        return refused
    if not count:
        nothing = "Nothing changes for this deployment."
        if memory is not None and memory.ends_both and not memory.changed:
            return f"{nothing} {of_memory}"
        return of_memory or nothing
    rows = [(row.releases, row.codes) for row in comparison.changes]
    rows += [(row.releases, row.codes) for row in of_plan]
    releases = {release for found, _ in rows for release in found}
    codes = {code for _, found in rows for code in found if code in RULES}
    by = f", by {_number(len(codes), 'rule')}" if codes else ""
    verb = "changes" if count == 1 else "change"
    said = f"{_number(count, 'value')} {verb}, in {_number(len(releases), 'release')}{by}."
    return f"{said} {of_memory}".rstrip()


def _refused(comparison: Comparison) -> str:
    """Both ends refuse, each for a reason of its own; "" where one starts."""
    first, last = comparison.first, comparison.last
    if first.error is None or last.error is None:
        return ""
    codes = f"{first.release} refuses by {first.error.code}, {last.release} by {last.error.code}"
    return f"Starts in neither: {codes}. Nothing else is compared, nor its memory."


def graphs_line(comparison: Comparison) -> str:
    """Mode, graphs and runner of both ends, also where nothing of them changes; "" where an end refuses."""
    ends = [_graphs(side) for side in (comparison.first, comparison.last)]
    if None in ends:
        return ""
    both = f"{ends[0]} in both" if ends[0] == ends[1] else f"{ends[0]} → {ends[1]}"
    return f"CUDA graphs: {both}."


def _graphs(side: Snapshot) -> str | None:
    made = side.resolution
    if made is None:
        return None
    if made.cudagraph_mode is CUDAGraphMode.NONE:
        codes = [d.code for d in side.decisions if d.field == "cudagraph_mode" and d.after == CUDAGraphMode.NONE.value]
        return f"none ({codes[-1]})" if codes else "none"
    return f"{made.cudagraph_mode.value}, {_number(made.graph_count(), 'graph')} on runner {made.runner.value}"


def memory_rows(memory: MemoryMoves | None) -> list[MemoryRow]:
    """The rows of the section "Memory"; planning is imported only where there was something to plan."""
    if memory is None:
        return []
    from .diff_memory import rows

    return rows(memory)


def _number(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


def kept(
    comparison: Comparison, memory: MemoryMoves | None = None
) -> tuple[dict[str, tuple[list[str], str]], list[str]]:
    """Settings that keep what was, with the labels of what each keeps and its note; and the labels of the rest.

    What is computed from other fields comes back with them and is not told.
    """
    found: dict[str, tuple[list[str], str]] = {}
    lost = []
    for field, restore in restores(comparison).items():
        change = comparison.change(field)
        assert change is not None
        if restore.setting is not None:
            found.setdefault(restore.setting, ([], restore.note))[0].append(change.label)
        elif field == "startup" or not all(step.follows for step in change.steps):
            lost.append(f"{change.label}: {restore.note}")
    if memory is not None and memory.keeps is not None:
        note = f"The default is {memory.last.gpu_memory_utilization:g} in {memory.last.release}."
        found[memory.keeps] = (["the memory asked for"], note)
    if memory is not None:
        from .diff_memory import not_restored

        undone = [change.codes for change in comparison.changes if _restored(change, found)]
        lost += not_restored(memory, [code for codes in undone for code in codes])
    return found, lost


def _restored(change: Change, found: Mapping[str, tuple[list[str], str]]) -> bool:
    return any(change.label in labels for labels, _ in found.values())


def has_restores(comparison: Comparison, memory: MemoryMoves | None) -> bool:
    """Whether something is to be kept, or cannot be."""
    return any(kept(comparison, memory))


def effects(comparison: Comparison) -> dict[str, dict[str, tuple[list[Change], list[Change]]]]:
    """By release, then by rule: changes that the rule made itself, and those that came with them.

    Where several rules made a change together, it stands with the first.
    """
    found: dict[str, dict[str, tuple[list[Change], list[Change]]]] = {s.release: {} for s in comparison.snapshots}
    for change in comparison.changes:
        for step in change.steps:
            for cause in step.causes:
                found[step.release].setdefault(cause.code, ([], []))
            own, further = found[step.release][step.causes[0].code]
            (further if step.follows else own).append(change)
    return {release: by_code for release, by_code in found.items() if by_code}


def before_and_after(change: Change, release: str) -> tuple[str, str]:
    """The value around the step in `release`."""
    step = next(step for step in change.steps if step.release == release)
    return value(change.field, step.before), value(change.field, step.after)


class NoteLine(NamedTuple):
    """A note in words; `happened` is new, gone or changed."""

    release: str
    code: str
    happened: str
    title: str
    facts: tuple[str, ...]


def note_lines(notes: Iterable[Note]) -> list[NoteLine]:
    """Each note in words."""
    return [
        NoteLine(n.release, n.code, KINDS[n.kind], RULES[n.code].title, tuple(fact(f) for f in n.facts)) for n in notes
    ]


def cause_of(comparison: Comparison, release: str, code: str) -> Cause:
    """The cause of that code in that release."""
    return next(
        cause
        for change in comparison.changes
        for step in change.steps
        for cause in step.causes
        if (step.release, cause.code) == (release, code)
    )
