"""Time between two lines, by vLLM's own stamps: month, day and second, without a year."""

from __future__ import annotations

from datetime import datetime

LONGEST = 24 * 3600
"""Seconds; what is said to have taken longer is of another start, or a clock that was set."""
LEAP_YEAR = 2000


def seconds_between(first: str, last: str) -> float | None:
    """Seconds from one stamp ("04-22 00:03:35") to another; None: they are no times, or not of one start."""
    try:
        begin, end = (datetime.strptime(f"{LEAP_YEAR}-{text}", "%Y-%m-%d %H:%M:%S") for text in (first, last))
    except ValueError:
        return None
    if (begin.month, end.month) == (12, 1):
        end = end.replace(year=LEAP_YEAR + 1)
    taken = (end - begin).total_seconds()
    return taken if 0 <= taken <= LONGEST else None
