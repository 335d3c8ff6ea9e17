"""What changed between two releases, without a deployment: rules that came or went, and facts that differ."""

from __future__ import annotations

from itertools import pairwise

from .changes import Note
from .moves import moves
from .path import newer, releases_between


def release_notes(first: str, last: str) -> tuple[Note, ...]:
    """Every rule that differs between `first` and `last`, release by release in that direction, then by code."""
    path = releases_between(first, last)
    found = []
    for previous, following in pairwise(path):
        for code, move in sorted(moves(previous, following).items()):
            found.append(Note(newer(previous, following), code, move.kind, move.facts))
    return tuple(found)
