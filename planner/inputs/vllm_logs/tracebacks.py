"""Exceptions in a log: the line that names one, out of the lines around it, and which of several is the root."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

EXCEPTION = re.compile(
    r"(?:\[rank[0-9]+\]: ?)?(?P<line>(?P<kind>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}"
    r"(?:Error|Exception|Interrupt|Exit|Failed|Failure|ErrorGroup)|Exception|KeyboardInterrupt|SystemExit)"
    r"(?:: (?P<text>.*))?)"
)
"""The last line of a traceback. torch.distributed puts "[rank0]: " before it."""

_FRAME = re.compile(
    r"(?:\[rank[0-9]+\]: ?)?(?:\s|$|Traceback \(most recent call last\):|The above exception was the direct cause"
    r"|During handling of the above exception|\+-|\||File \"|\^)"
)

WRAPPERS = (
    "Engine core initialization failed",
    "Frontend process failed during engine core initialization",
    "WorkerProc initialization failed",
    "Worker failed with error",
    "Engine process failed to start",
    "EngineCore encountered an issue",
    "EngineCore died",
    "Executor failed",
    "cancelled",
)
"""What a process says when another one failed: never the root."""

EXPLAINS = ("CUDA out of memory occurred when warming up",)
"""vLLM's own words about the exception it caught: they say more than the exception does."""

MAX_CHAIN = 20
MAX_LINE = 4000


def is_frame(message: str) -> bool:
    """Whether a line is of the inside of a traceback: a frame, its source, a line between two exceptions."""
    return _FRAME.match(message) is not None


def exception(message: str) -> str | None:
    """The exception that a line names, as printed; None where it names none."""
    match = EXCEPTION.fullmatch(message[:MAX_LINE])
    return match["line"] if match else None


@dataclass
class Failure:
    """One exception, where it was first printed, and by which process."""

    line: str
    number: int
    process: str
    is_of_api_server: bool


@dataclass
class Failures:
    """The exceptions of one start, in the order printed. The same one printed again is one."""

    found: list[Failure] = field(default_factory=list)
    fatal: Failure | None = None

    def add(self, failure: Failure) -> None:
        if len(self.found) < MAX_CHAIN and all(failure.line != known.line for known in self.found):
            self.found.append(failure)

    def root(self) -> Failure | None:
        """The exception to tell: the first that no other process is only reporting, or vLLM's own words on it."""
        own = [failure for failure in self.found if not any(word in failure.line for word in WRAPPERS)]
        inner = [failure for failure in own if not failure.is_of_api_server] or own
        for failure in inner:
            if any(word in failure.line for word in EXPLAINS):
                return failure
        return next(iter([*inner, *self.found]), self.fatal)
