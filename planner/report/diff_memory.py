"""The section "Memory" of `cgplan diff` in words, shared by the screen and by Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..memory.by_release import MemoryAtRelease, MemoryMoves
from ..memory.reach import MOST_SEQS
from ..trace import Finding
from .plan_words import gib

LABELS = {
    "starts": "start, by its memory",
    "kv_tokens": "KV tokens",
    "deducted_bytes": "graph estimate taken off",
    "block_size": "block size",
    "max_num_seqs_that_fits": "largest max_num_seqs",
    "codes": "findings",
}


class MemoryRow(NamedTuple):
    """One value that moved; `codes` are the findings that came or went where it says whether vLLM starts."""

    label: str
    before: str
    after: str
    releases: tuple[str, ...]
    codes: tuple[str, ...]


def rows(moves: MemoryMoves) -> list[MemoryRow]:
    """What differs between the ends."""
    moved = tuple(dict.fromkeys(found.code for found in (*moves.new, *moves.gone)))
    return [
        MemoryRow(
            LABELS[name],
            value(name, moves.first),
            value(name, moves.last),
            moves.releases(name),
            moved if name == "starts" else (),
        )
        for name in moves.changed
    ]


def value(name: str, side: MemoryAtRelease) -> str:
    """A value of one release, in short."""
    if name == "starts":
        return start(side)
    if name == "codes":
        return " ".join(side.codes) or "none"
    found = getattr(side, name)
    if found is None:
        return "-"
    if name == "deducted_bytes":
        return f"{gib(found)} GiB" if found else "0"
    if name == "max_num_seqs_that_fits" and not found:
        return "none starts"
    if name == "max_num_seqs_that_fits" and found >= MOST_SEQS:
        return f"{found:,} or more"
    return f"{found:,}"


def start(side: MemoryAtRelease) -> str:
    """Whether it starts, and how sure that is."""
    if side.starts == "unsure":
        return "starts by the best estimate" if side.fits else "does not start by the best estimate"
    return "starts" if side.starts == "yes" else "does not start"


def headline(moves: MemoryMoves) -> str:
    """What the plan of the memory adds to the first line; "" where nothing of it moves."""
    if not moves.changed:
        return ""
    if moves.first.fits and not moves.last.fits:
        codes = ", ".join(dict.fromkeys(found.code for found in moves.new if found.severity == "error"))
        return f"{moves.first.release} starts, {moves.last.release} does not" + (f": {codes}." if codes else ".")
    if moves.last.fits and not moves.first.fits:
        return f"{moves.first.release} does not start, {moves.last.release} does."
    return "The plan of its memory changes."


def told(moves: MemoryMoves) -> list[tuple[str, str, str]]:
    """Each finding that came, then each that went: its code, the word for it, and what it says."""
    return [*_told(moves.new, "new", fixes=True), *_told(moves.gone, "gone", fixes=False)]


def _told(findings: Iterable[Finding], happened: str, fixes: bool) -> list[tuple[str, str, str]]:
    return [
        (one.code, happened, f"{one.message}; fix: {one.fix}" if fixes and one.fix else one.message) for one in findings
    ]
