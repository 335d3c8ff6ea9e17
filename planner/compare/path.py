"""The releases that lie between two."""

from __future__ import annotations

from ..releases import SUPPORTED


def releases_between(first: str, last: str) -> tuple[str, ...]:
    """Supported releases from `first` to `last`, both included, in that direction; both must be supported."""
    start, end = SUPPORTED.index(first), SUPPORTED.index(last)
    if start <= end:
        return SUPPORTED[start : end + 1]
    return SUPPORTED[end : start + 1][::-1]


def newer(one: str, other: str) -> str:
    """The newer of two supported releases: the one that brought what differs between them."""
    return max(one, other, key=SUPPORTED.index)
