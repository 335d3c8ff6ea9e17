"""The words and rows of what `cgplan tune` says beside the sizes, for the screen, Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..memory.estimates import MIB
from ..workload.choices.candidate import Candidate
from ..workload.choices.graph_modes import GraphModes, ModeRow
from ..workload.choices.largest_size import LargestSize
from ..workload.choices.request_limit import RequestLimit
from ..workload.sizes.flags import Flags
from ..workload.tune.tuning import Tuning
from .tune_view import NOTHING, percent
from .words import counted, sentence

TITLE = "Other choices"
INTRO = "Each by itself, with the best list that it has under the same limits; the first row is the list above."


class Choice(NamedTuple):
    """One flag: its values as a table, and what to do.

    Attributes:
        name: of the flag.
        head, rows: of the table; the first row is the first answer. All columns but the first are numbers.
        told: sentences, the first of them is the answer.
        flags: what to add to the launch; "": the value stays.
        replaces: what of the launch these replace.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    told: tuple[str, ...]
    flags: str
    replaces: str


def choices(tuning: Tuning) -> tuple[Choice, ...]:
    found = tuning.others
    return (_modes(tuning, found.modes), _requests(tuning, found.requests), _largest(tuning, found.largest))


def replaced(names: Sequence[str]) -> str:
    """What to take out of the launch; "": nothing."""
    return f"in the place of {' and '.join(names)}" if names else ""


def _modes(tuning: Tuning, found: GraphModes) -> Choice:
    head = ("graph mode", "run in, %", *_head(tuning))
    rows = [(str(found.today), _shares(found.first), *_cells(tuning, found.first))]
    rows += [(str(one.asked), _shares(one.found), *_cells(tuning, one.found)) for one in found.rows if one.found]
    told = [found.reason, "Run in: FULL/PIECEWISE/no graph, of the steps that have a graph in one of the modes."]
    told += [sentence(f"{one.asked}: {one.why_not}") for one in found.rows if one.why_not]
    told += _unpriced(found.rows)
    return _choice("cudagraph_mode", head, rows, told, found.flags)


def _unpriced(rows: Sequence[ModeRow]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.found is not None and row.found.unpriced:
            reasons.setdefault(row.found.unpriced, []).append(str(row.asked))
    return [sentence(f"{', '.join(modes)}: no cost, {why}") for why, modes in reasons.items()]


def _requests(tuning: Tuning, found: RequestLimit) -> Choice:
    head = ("max_num_seqs", *_head(tuning))
    rows = [(str(found.today), *_cells(tuning, found.first))]
    rows += [(str(one.max_num_seqs), *_cells(tuning, one.found)) for one in found.rows if one.found]
    told = [found.reason, *(sentence(f"{one.max_num_seqs}: {one.why_not}") for one in found.rows if one.why_not)]
    return _choice("max_num_seqs", head, rows, told, found.flags)


def _largest(tuning: Tuning, found: LargestSize) -> Choice:
    head = ("largest size", "above", *_head(tuning))
    rows = [(str(found.today), percent(found.above), *_cells(tuning, found.first))]
    rows += [
        (str(one.largest), NOTHING if one.above is None else percent(one.above), *_cells(tuning, one.found))
        for one in found.rows
        if one.found
    ]
    told = [found.reason, _above(found)]
    told += [sentence(f"{one.largest}: {one.why_not}") for one in found.rows if one.why_not]
    return _choice("max_cudagraph_capture_size", head, rows, told, found.flags)


def _above(found: LargestSize) -> str:
    ends = f"The list ends at {found.today} and so sets max_cudagraph_capture_size"
    if not found.above:
        return f"{ends}; the widest step that was seen has {counted(found.widest, 'token')}."
    return (
        f"{ends}: steps above run without a graph, {percent(found.decode_above)} of all as decode steps and "
        f"{percent(found.mixed_above)} with a prefill."
    )


def _choice(
    name: str, head: tuple[str, ...], rows: list[tuple[str, ...]], told: Sequence[str], flags: Flags | None
) -> Choice:
    line, names = ("", "") if flags is None else (flags.line, replaced(flags.replaces))
    return Choice(name, head, tuple(rows), tuple(told), line, names)


def _head(tuning: Tuning) -> tuple[str, ...]:
    return ("ms" if tuning.prices.times else "tokens", "sizes", "graphs", "MiB", "KV tokens", "capture, s")


def _cells(tuning: Tuning, one: Candidate) -> tuple[str, ...]:
    point = one.point
    cost = NOTHING
    if one.cost is not None:
        cost = f"{1000 * one.cost:.3f}" if tuning.prices.times else f"{one.cost:.1f}"
    return (
        cost,
        str(len(point.sizes)),
        str(point.graphs),
        NOTHING if point.graph_bytes is None else f"{point.graph_bytes / MIB:,.0f}",
        NOTHING if point.kv_tokens is None else f"{point.kv_tokens:,}",
        f"{point.capture.best:.1f}",
    )


def _shares(one: Candidate) -> str:
    return "/".join(_share(share) for share in one.shares)


def _share(share: float) -> str:
    """Whole per cent; what is not quite 0 or all is not rounded to it."""
    if 0 < share < 0.005:
        return "<1"
    if 0.995 <= share < 1 - 1e-9:
        return ">99"
    return f"{100 * share:.0f}"
