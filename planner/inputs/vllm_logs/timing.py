"""Parts of the start whose seconds no line says: they are the time between two of them."""

from __future__ import annotations

from ...startup.times import GRAPH_ESTIMATE, KERNELS
from .clock import seconds_between
from .prefixes import Printed
from .shapes import Value
from .start_notes import MAX_RANKS, StartNotes, key_of

LEAST_GAP = 2.0
"""Seconds between two lines that are told: each has whole ones."""


def timed(notes: StartNotes, shape: str, values: dict[str, Value], printed: Printed) -> None:
    """Takes the time of a line that begins or ends such a part."""
    key = key_of(printed.process)
    if shape == "L6" and printed.time and len(notes.profiled_at) < MAX_RANKS:
        notes.profiled_at[key] = printed.time
    elif shape == "L7" and (taken := seconds_between(notes.profiled_at.get(key, ""), printed.time)):
        notes.phase(GRAPH_ESTIMATE, taken, printed.process)
    elif shape == "L5" and printed.time and len(notes.sized_at) < MAX_RANKS:
        notes.sized_at[key] = printed.time
    elif shape == "L10" and (taken := seconds_between(notes.sized_at.pop(key, ""), printed.time)):
        # The worker warms kernels up, and tunes them, when there is a KV cache; then it captures.
        if (rest := taken - float(values["seconds"])) >= LEAST_GAP:
            notes.phase(KERNELS, rest, printed.process)
    elif shape == "ready" and notes.seconds is None:
        notes.seconds = seconds_between(notes.began, printed.time)
