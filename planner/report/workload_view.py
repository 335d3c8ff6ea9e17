"""What the screen and the Markdown of steps show, as text and numbers without form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..resolve.resolution import Resolution
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from ..workload.gathered import Gathered, Part
from ..workload.histogram import Batches, Range, Workload
from ..workload.replay.outcomes import Outcomes
from ..workload.replay.replay import Counted, Replay, replay, seen_tally
from ..workload.replay.replay_findings import findings_of_parts
from ..workload.replay.tally import MODES, Bounds, Tally
from ..workload.replay.words import number, numbers, percent, percents
from .bars import NAMES
from .words import counted

MOST_SIZES = 20
MOST_MISSED = 8
NAMED_BATCHES = 4
TALLY_HEAD = ("", "steps", "FULL", "PIECEWISE", "eager", "padding", "share")
MISSED_HEAD = ("batches", "ran", "steps", "tokens of a batch", "why")


class SizeRow(NamedTuple):
    """Steps of a range of sizes, and what part of them ran in each mode; `unknown`: may be one or the other."""

    name: str
    steps: float
    modes: dict[CUDAGraphMode, float]
    unknown: float


@dataclass(frozen=True)
class View:
    """The steps of all engines.

    Attributes:
        title: what they are from.
        tally: what they ran in: as the source saw it, else as resolved; None: neither is known.
        is_seen: `tally` is what the source saw.
        made: held against the resolution, or None.
    """

    title: str
    workload: Workload
    tally: Tally | None
    is_seen: bool
    made: Replay | None
    gathered: Gathered
    findings: tuple[Finding, ...]


def view(gathered: Gathered, resolution: Resolution | None) -> View | None:
    """None: there are no steps."""
    workload = gathered.together()
    if workload is None:
        return None
    made = replay(workload, resolution) if resolution is not None else None
    seen = seen_tally(workload)
    tally = seen if seen is not None else made.total if made is not None else None
    findings = (*findings_of_parts(gathered, resolution), *(made.findings if made is not None else ()))
    return View(_title(gathered, workload), workload, tally, seen is not None, made, gathered, findings)


def mode_rows(tally: Tally) -> list[tuple[CUDAGraphMode, Bounds, str, str]]:
    """(mode, share, share as text, steps as text)."""
    return [(mode, tally.share(mode), percents(tally.share(mode)), numbers(tally.modes[mode])) for mode in MODES]


def padding_line(tally: Tally) -> str:
    """One sentence on padding."""
    if tally.padding.high == 0:
        return "No token is padding."
    return f"{numbers(tally.padding)} tokens of padding, {percents(tally.waste)} of all that is computed."


def tally_rows(shown: View) -> list[tuple[str, ...]]:
    """Rows under TALLY_HEAD: by kind where that is known, then by engine where there are several."""
    rows: list[tuple[str, ...]] = []
    if shown.made is not None:
        if shown.is_seen and shown.made.differences:
            rows.append(_row("resolved", shown.made.total))
        kinds = shown.made.by_kind
        if len(kinds) > 1:
            rows += [_row(KIND_NAMES[kind], found) for kind, found in kinds.items()]
    if len(shown.gathered.parts) > 1:
        parts = shown.gathered.parts
        several = len({part.settings for part in parts}) > 1
        rows += [_row(_name(part, several), found) for part in parts if (found := _of_part(part, shown.made))]
    return rows


KIND_NAMES = {"decode": "decode", "mixed": "prefill", "any": "either"}


def missed_rows(made: Replay) -> list[tuple[str, ...]]:
    """Rows under MISSED_HEAD."""
    rows: list[tuple[str, ...]] = []
    for one in made.missed[:MOST_MISSED]:
        steps = f"{numbers(one.steps)} ({percents(Bounds(*(s / made.total.steps for s in one.steps)))})"
        why = f"{one.reason.message} ({one.reason.code})"
        rows.append((KIND_NAMES[one.kind], NAMES[one.mode], steps, _sizes(one.batches), why))
    return rows


def size_rows(shown: View) -> list[SizeRow]:
    """The steps by size: the source's own buckets, or single sizes, or sizes between powers of two."""
    outcomes = Outcomes(shown.made.resolution) if shown.made is not None else None
    bins: dict[Range, SizeRow] = {}
    groups = _groups(shown.workload.batches)
    for item in shown.workload.batches:
        place = groups[item.tokens]
        row = bins.get(place) or SizeRow(str(place), 0.0, dict.fromkeys(MODES, 0.0), 0.0)
        modes, unknown = dict(row.modes), row.unknown
        mode = _mode(item, outcomes)
        if mode is None:
            unknown += item.count
        else:
            modes[mode] += item.count
        bins[place] = SizeRow(row.name, row.steps + item.count, modes, unknown)
    return [bins[place] for place in sorted(bins, key=lambda place: (place.low, place.high or 1 << 62))]


def remarks(gathered: Gathered) -> list[str]:
    """What the sources say beside the steps, and what was not counted."""
    found = [*_fact_lines(gathered), *gathered.remarks]
    lines = gathered.not_recognised
    if lines:
        were = "was" if lines == 1 else "were"
        found.append(f"{counted(lines, 'line')} of tables {were} not recognised, so not counted")
    return found


def _fact_lines(gathered: Gathered) -> list[str]:
    lines = []
    for part in gathered.parts:
        facts = part.facts
        found = [f"{number(facts['running'])} running now"] if "running" in facts else []
        if facts.get("steps") and "tokens" in facts:
            found.append(f"{facts['tokens'] / facts['steps']:.1f} tokens a step on average")
        if facts.get("drafts"):
            accepted = facts.get("accepted_tokens", 0) / facts["drafts"]
            found.append(f"{1 + accepted:.2f} tokens accepted a request and step")
        if found:
            lines.append(f"{part.name or 'the engine'}: {', '.join(found)}")
    return lines


def _title(gathered: Gathered, workload: Workload) -> str:
    engines = len({part.name for part in gathered.parts})
    several = f"{engines} engines · " if engines > 1 else ""
    tables = sum(part.tables for part in gathered.parts)
    source = f"{counted(tables, 'table')} of --cudagraph-metrics" if tables else workload.source
    return f"{several}{number(workload.steps)} steps · {source}"


def _row(name: str, found: Tally) -> tuple[str, ...]:
    shares = (percents(found.share(mode)) for mode in MODES)
    return (name, number(found.steps), *shares, numbers(found.padding), percents(found.waste))


def _name(part: Part, several_settings: bool) -> str:
    name = part.name or part.workload.source
    if part.settings is None or not several_settings:
        return name
    sizes = part.settings.sizes
    return f"{name}, {part.settings.mode}, {len(sizes)} sizes" + (f" to {sizes[-1]}" if sizes else "")


def _of_part(part: Part, made: Replay | None) -> Tally | None:
    seen = seen_tally(part.workload)
    return seen if seen is not None else replay(part.workload, made.resolution).total if made is not None else None


def _mode(item: Batches, outcomes: Outcomes | None) -> CUDAGraphMode | None:
    if item.seen is not None:
        return item.seen.mode
    modes = {one.mode for one in outcomes.of(item)} if outcomes is not None else set()
    return modes.pop() if len(modes) == 1 else None


def _groups(batches: Iterable[Batches]) -> dict[Range, Range]:
    """By range of the source, the range of the row that it is in."""
    own = {item.tokens for item in batches}
    if len(own) <= MOST_SIZES or not all(size.is_point for size in own):
        return {size: size for size in own}
    return {size: _between_powers(size.low) for size in own}


def _between_powers(size: int) -> Range:
    top = 1 << (size - 1).bit_length()
    return Range(top // 2 + 1 if top > 1 else 1, top)


def _sizes(batches: Sequence[Counted]) -> str:
    named = ", ".join(f"{one.tokens} ({number(one.steps)})" for one in batches[:NAMED_BATCHES])
    more = len(batches) - NAMED_BATCHES
    return f"{named} and {more} more" if more > 0 else named


def share_of(row: SizeRow, whole: float) -> str:
    return percent(row.steps, whole)
