"""What `cgplan explain` answers words with: what `cgplan logs` reads in them first, then names, then words alone."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from cgplan.report import topics

if TYPE_CHECKING:
    from cgplan.report.topics import Found
    from cgplan.startup.record import Start

VAGUE = ("CG514", "CG820", "CG823")
"""Pages that say no more than that something failed: the words themselves say more."""
IMPLAUSIBLE = ("CG590", "CG592")
"""An estimate that is no estimate: whatever else the words hold comes of it."""
LONGEST = 4000
"""Characters that are read as lines of a log."""
_LIKE_A_LOG = re.compile(r"[=:(\[]|\d|\b(?:error|exceeds|divisible|failed|truncating|memory)\b", re.IGNORECASE)
_NEXT = re.compile(r"[,;/]\s+(?=[A-Z])")
"""Where people put two lines of a log on one."""
_ESTIMATE = re.compile(r"(Estimated CUDA graph memory: -?[\d.]+ GiB)(?! total)")
"""What people quote of the line of the estimate, which goes on with "total"."""


def found(question: str) -> Found | None:
    """The topics and rules that answer `question`, best first; None where nothing does."""
    best = topics.find(question)
    names = topics.names_of(question)
    if names:
        best = topics.with_names(best, names, alone=topics.is_names(question))
    lines = _ESTIMATE.sub(r"\1 total", _NEXT.sub("\n", question))
    read = _read(lines) or _read(question) if _LIKE_A_LOG.search(question) else None
    return best if read is None else topics.with_code(best, *read)


def _read(question: str) -> tuple[str, str] | None:
    """The code by which `cgplan logs` reads the words, and its fix with their numbers; None: it reads nothing there."""
    from cgplan.inputs.vllm_logs import read_log

    starts = read_log(io.StringIO(question[:LONGEST])).starts
    return next((read for start in starts if (read := _of_start(start, starts)) is not None), None)


def _of_start(start: Start, starts: tuple[Start, ...]) -> tuple[str, str] | None:
    from cgplan.startup.analysis import report_of

    report = report_of(start, 1, starts, None)
    odd = next((finding for finding in report.findings if finding.code in IMPLAUSIBLE), None)
    if odd is not None:
        return odd.code, f"{odd.message}; {odd.fix}"
    ended = report.diagnosis
    if ended is not None and ended.code not in VAGUE:
        return ended.code, f"{ended.what}; {ended.fix}" if ended.values else ""
    told = next((finding for finding in report.findings if finding.code not in VAGUE), None)
    return None if told is None else (told.code, "")
