"""Codes of `cgplan report`."""

from __future__ import annotations

from ...input_rules import OWN
from ...trace import Rule

NEEDS_EXTRA = Rule(
    "CG730",
    title="The HTML report needs the library that draws its charts.",
    why="Everything else of cgplan works without it, so it is not installed unasked.",
    example="`cgplan report ... --output report.html` where pygal is not installed.",
    instead="pip install 'cgplan[report]'; --markdown needs nothing.",
    source=OWN,
)
NO_TIMINGS = Rule(
    "CG731",
    title="The part `profile` of a record has another form than `cgplan profile` writes.",
    why="Times and answers that are half read would be half wrong.",
    example="A record whose ranks were edited by hand.",
    instead="Give the file as `cgplan profile --json FILE` wrote it.",
    source=OWN,
)
