"""A server at work, and how it ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...startup.crashes import classify
from .tracebacks import MAX_CHAIN, SERVING, Failure, Failures

_STOPPING = re.compile(r"(?:INFO: {1,8})?Shutting down|\[shutdown\] MPClient: start")
"""Of uvicorn and of vLLM: the server was told to end, and what its processes say of each other then is no crash."""
DEAD = ("EngineDeadError", "EngineCore encountered an issue")
"""What the API server says when its engine is gone."""
OUTLIVED = 1000
"""So many lines of requests after an exception, and it was not the end of the engine."""
OUTLIVED_MEMORY = 100
"""The same of memory that ran out, where no line says that the engine is gone."""


@dataclass
class Serving:
    """What of a start tells that it serves.

    Attributes:
        is_serving: it answered a request, or printed statistics of its steps.
        is_stopping: it was told to end.
        pending: exceptions of engines and workers while it served, and after how many lines of requests: they may be
            its end.
    """

    is_serving: bool = False
    is_stopping: bool = False
    pending: list[tuple[int, Failure]] = field(default_factory=list)

    def stops(self, message: str, died: bool) -> None:
        """Takes any line of the start: the one with which a server that nothing ended begins to stop.

        Args:
            died: its engine has ended.
        """
        if not died and not self.pending and _STOPPING.match(message.strip()):
            self.is_stopping = True

    def failed(self, failure: Failure, failures: Failures, requests: int) -> None:
        """Takes an exception of an engine or a worker of a server that is up."""
        failures.framed(failure)
        self.pending = [one for one in self.pending if requests - one[0] < OUTLIVED][: MAX_CHAIN - 1]
        self.pending.append((requests, failure))

    def ended(self, failures: Failures, requests: int) -> None:
        """Its engine is gone: what its processes said just before is of its end."""
        for at, failure in self.pending:
            if requests - at < OUTLIVED:
                failures.add(failure)
        self.pending = []

    def of_memory(self, requests: int) -> Failure | None:
        """Memory that ran out, and nothing shows that the server went on; None: none did."""
        near = (failure for at, failure in self.pending if requests - at < OUTLIVED_MEMORY)
        return next((failure for failure in near if is_of_memory(failure)), None)


def is_of_memory(failure: Failure) -> bool:
    """Whether an exception is of memory that ran out: in a step no engine outlives one, and a log that was filtered
    has no other line of its end."""
    return classify(failure.line)[0] == "out_of_memory"


def is_dead(line: str) -> bool:
    """Whether an exception says that the engine is gone."""
    return any(word in line for word in DEAD)


def is_of_a_step(failure: Failure) -> bool:
    """Whether an exception is of a step of serving: no engine outlives one."""
    return failure.step == SERVING
