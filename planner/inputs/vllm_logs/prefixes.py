"""vLLM's own prefix of a line: process, level, time, file. What follows is the message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .wrapping import Bare

PROCESS = re.compile(
    r"\((?P<name>[A-Za-z_][\w.-]{0,119})(?: rank=(?P<rank>[0-9]{1,6}))? pid=(?P<pid>[0-9]{1,10})"
    r"(?:, ip=(?P<ip>[0-9a-fA-F.:]{3,45}))?(?:, actor_id=\w{1,64})?\) ?"
)
"""Put by the process on all it prints; in 0.33 by the logger, on its lines alone. Older: (VllmWorker rank=0 pid=1)."""

HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:(?P<time>[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}) \[?(?P<file>[\w./<>-]{1,160})|\[\w{1,80}\.py)"
    r":(?P<line>[0-9]{1,6})\] ?"
)
"""The same in all releases since 0.5; before 0.8 without the first bracket. A quoted line may lack its date."""

ANY_LEVEL = re.compile(r"(?:^|[\s\[|])(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:[\]:|,\s]|$)")
GENERIC = ("Worker", "VllmWorker", "RayWorkerWrapper", "RayWorkerProc", "MainProcess", "pid")


@dataclass(frozen=True)
class Process:
    """A process as a prefix names it; `node` tells apart equal numbers of several machines."""

    name: str
    pid: int
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True)
class Printed:
    """One line of vLLM, or of what runs inside it.

    Attributes:
        process: None where no prefix names one.
        level: "" where none is printed.
        time: as printed, "04-22 00:03:35".
        message: the rest, its leading blanks kept.
        has_head: level, time and file are there in vLLM's own form.
        is_torn: two workers' names stand before it: which of them printed it cannot be told.
    """

    message: str
    process: Process | None = None
    level: str = ""
    time: str = ""
    has_head: bool = False
    source: str = ""
    is_torn: bool = False


def split(bare: Bare, lead: str = "") -> Iterator[Printed]:
    """The messages in a line: one, or several where processes wrote over each other without a line end.

    Args:
        lead: what stood before the line's first carriage return; its process is taken where the line names none.
    """
    text = bare.text
    outer = _of_structure(bare) or _last_process(lead)
    heads = list(HEAD.finditer(text)) if "] " in text or text.endswith("]") else []
    if not heads:
        process, rest = _leading(text)
        level = bare.level or (found["level"] if (found := ANY_LEVEL.search(rest[:160])) else "")
        yield Printed(
            rest, process or outer, level, source=bare.source, is_torn=_is_torn(text[: len(text) - len(rest)])
        )
        return
    starts = [
        _start_of(text, head.start(), end)
        for head, end in zip(heads, [0, *(head.end() for head in heads)], strict=False)
    ]
    first = text[: starts[0]]
    if "%|" in first:
        process, rest = _leading(first)
        yield Printed(rest.rstrip(), process or outer, source=bare.source)
        first = ""
    # A first head may have words of VLLM_LOGGING_PREFIX before it, a later one only a process: else it is a quotation.
    kept = [0, *(at for at in range(1, len(heads)) if starts[at] != heads[at].start())]
    for index, following in zip(kept, [*kept[1:], None], strict=True):
        head = heads[index]
        end = len(text) if following is None else starts[following]
        before = (first if index == 0 else "") + text[starts[index] : head.start()]
        process = _last_process(before[-400:]) or outer
        message, torn = text[head.end() : end], _is_torn(before[-400:])
        yield Printed(message, process, head["level"], head["time"] or "", True, bare.source, torn)


def _start_of(text: str, head: int, floor: int) -> int:
    """Where the prefixes of processes right before a head begin: they touch it, and each other."""
    at = head
    for match in reversed(list(PROCESS.finditer(text, max(floor, head - 400), head))):
        if text[match.end() : at].strip():
            break
        at = match.start()
    return at


def _leading(text: str) -> tuple[Process | None, str]:
    """The last of the processes that a line begins with, and the line without them."""
    process, at = None, 0
    while match := PROCESS.match(text, at):
        process, at = _better(process, _process(match)), match.end()
    return process, text[at:]


def _last_process(text: str) -> Process | None:
    process = None
    for match in PROCESS.finditer(text):
        process = _better(process, _process(match))
    return process


def _is_torn(text: str) -> bool:
    """Whether two processes of one kind name themselves: one wrote into the line of the other."""
    if text.count(" pid=") < 2:
        return False
    found = [match for match in PROCESS.finditer(text) if match["name"] not in GENERIC or match["rank"]]
    workers = {(match["name"], match["rank"], match["pid"]) for match in found if _is_worker(match)}
    return len(workers) > 1


def _is_worker(match: re.Match[str]) -> bool:
    return match["rank"] is not None or match["name"].startswith(("Worker_", "VllmWorker_"))


def _better(first: Process | None, second: Process) -> Process:
    """Of two that one line names: the later, unless it says less. Ray names its actor, vLLM within it the worker."""
    if first is None:
        return second
    if second.name in GENERIC and first.name not in GENERIC:
        return first
    return Process(second.name, second.pid, second.rank, second.node or first.node)


def _process(match: re.Match[str]) -> Process:
    return Process(match["name"], int(match["pid"]), int(match["rank"]) if match["rank"] else None, match["ip"] or "")


def _of_structure(bare: Bare) -> Process | None:
    if not bare.process and bare.pid is None:
        return None
    return Process(bare.process or "pid", bare.pid or 0)
