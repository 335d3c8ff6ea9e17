"""What changed between two releases, without a deployment: rules that came or went, and facts that differ."""

from __future__ import annotations

from dataclasses import dataclass

from .changes import FactChange
from .moves import moves
from .path import newer, releases_between


@dataclass(frozen=True)
class Note:
    """One rule that a release changed.

    Attributes:
        release: the release that brought it; on a downgrade, that takes it away again.
        code: the rule.
        kind: "new", "gone" or "fact".
        facts: facts that the rule goes by and that differ.
    """

    release: str
    code: str
    kind: str
    facts: tuple[FactChange, ...] = ()


def release_notes(first: str, last: str) -> tuple[Note, ...]:
    """Every rule that differs between `first` and `last`, release by release in that direction, then by code."""
    path = releases_between(first, last)
    found = []
    for previous, following in zip(path, path[1:], strict=False):
        for code, move in sorted(moves(previous, following).items()):
            found.append(Note(newer(previous, following), code, move.kind, move.facts))
    return tuple(found)
