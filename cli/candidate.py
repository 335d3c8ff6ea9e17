"""What completion is asked by, and what it offers."""

from __future__ import annotations

from typing import NamedTuple

VARIABLE = "_CGPLAN_COMPLETE"
"""The environment variable by which a shell asks; its value is the shell's name."""


class Candidate(NamedTuple):
    """One word to offer, and what it is."""

    word: str
    text: str = ""
