"""cgplan's answer against vLLM's, by the same comparison that replays golden records."""

from __future__ import annotations

import re

import parity

from oracle.records import Record, harness_error

LONGEST_KIND = 120


def difference(record: Record) -> str | None:
    """The first difference, or None. An exception of cgplan is a difference too."""
    unanswered = harness_error(record)
    if unanswered is not None:
        return f"the oracle failed: {unanswered}"
    try:
        found: str | None = parity.compare(record)
    except Exception as error:
        return f"cgplan raised {type(error).__name__}: {error}"
    return found


def kind(text: str) -> str:
    """A difference without its numbers and levels: differences of one kind have one cause, mostly."""
    text = re.sub(r"resolve\.[A-Z_]+", "resolve", text)
    text = re.sub(r"(?<!CG)(?<!\d)\d+", "#", text)
    text = re.sub(r"#(, #)+", "#", text)
    return re.sub(r"\s+", " ", text)[:LONGEST_KIND]
