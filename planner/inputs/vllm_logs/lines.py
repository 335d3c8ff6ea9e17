"""From bytes to the lines worth reading. Most lines of a long log are of requests: they are turned away undecoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import bars
from .quoted import MOST_BYTES

LIMIT = 2**20
"""Longest line that is read, bytes; the rest of a longer one is skipped."""

WANTED = re.compile(
    # Words that begin with a letter that is seldom in running text: most of the time of a long log is spent here.
    # Severity, and the ends of tracebacks.
    rb"WARNING|ERROR|CRITICAL|FATAL|Traceback|Error\b|Exception\b|Interrupt\b|Exit\b"
    # Of their inside: the step, the function, and what pydantic wraps.
    rb'|File "[^"]{1,400}", line [0-9]+, in \w*(?:kv_cache|_memory|_config|_model|profile_run|_dummy_)'
    rb'|File "[^"]{0,300}vllm/[^"]{1,200}", line [0-9]+, in '
    rb"|Value error, |Assertion failed, |\[type=\w+, input_value="
    # The banner's blocks, as such and as JSON writes them; a server without the banner; arguments; engines.
    rb"|\xe2\x96|\\u25[89]|LLM (?:API )?server|LLM \(v|-default args|V[01] LLM engine|Resolved arch"
    rb"|Using (?:max|[A-Z]|\w+ (?:attention )?backend)|_num_batched_tokens|Defaulting|resolved query"
    # Memory, graphs, the KV cache.
    rb"|GiB|Free memory|Memory profiling|Requested memory|Total non"
    rb"|CUDA ?[Gg]raph|Capturing|Graph capturing|KV cache (?:size|layout|memory)|Maximum concurrency"
    rb"|_gpu_blocks|Auto-fit|Setting |Padding mamba"
    # Times and the end of the start.
    rb"|Loading weights|Model loading|Compiling a|Initial (?:profiling|free)"
    rb"|\.compile (?:took|takes|and)|\(profile, create"
    rb"|Dynamo bytecode|Directly load|Application startup|Starting vLLM|Uvicorn running"
    rb"|EngineCore (?:failed|enc)|WorkerProc failed"
    # The platform, and the end of a server.
    rb"|Platform plugin|Shutting down|\[shutdown\]"
)
"""A line without any of these says nothing of a start."""

STRUCTURED = (b'"warning"', b'"error"', b'"MESSAGE":[', b'"MESSAGE" : [', b'"MESSAGE": [')
"""What else makes a structured line worth reading: its level; a message that journald gives as numbers of bytes."""

TURNED_AWAY = re.compile(
    rb'(?:\{"log":"|[0-9T:.Z+-]{20,35} std(?:out|err) F )?'
    rb"(?:\([^()]{1,80}\) )*"
    rb"(?:INFO:? +(?:[0-9]{2}-[0-9]{2} [0-9:]{8} \[[^\]]{1,120}\] )?)"
    rb"(?:Engine [0-9]{3}: Avg|Received request|Added request|Finished request|Aborted request|Generated response"
    rb"|\[?[0-9a-fA-F.:]{3,45}\]?:[0-9]+ - \\?\")"
)
"""The commonest lines of a running server, by their beginning; a prompt in them may hold any word."""


def _is_wanted(data: bytes) -> bool:
    if WANTED.search(data) or _is_part(data):
        return True
    return data.startswith(b"{") and any(word in data for word in STRUCTURED)


_REST = re.compile(rb"[0-9][0-9,.]{0,20}")
"""The rest of a number that a line feed tore."""
_RETURNS = re.compile(rb"\r+")


def _is_part(data: bytes) -> bool:
    """A line that a container engine wrote in parts: Docker's without its newline, CRI's with the tag P."""
    if data.startswith(b'{"log":"'):
        return b'\\n","stream"' not in data
    return b" P " in data[:60]


@dataclass
class Counts:
    """What was met on the way.

    Attributes:
        lines: read, wanted or not.
        cut: lines longer than LIMIT.
        first_is_binary: the first piece holds NUL bytes.
    """

    lines: int = 0
    cut: int = 0
    nul_bytes: int = 0
    bytes: int = 0
    first_is_binary: bool = False


@dataclass
class Line:
    """A piece of a log between two line ends or carriage returns.

    Attributes:
        number: of the line, from 1.
        data: without line end.
        lead: what stood before the first carriage return of the line: the process that draws a bar.
        is_cut: the line was too long, or the log ends in it; a number at its end may lack digits.
        is_of_request: one of a running server. Of those that follow each other only the first is read, for what it is.
    """

    number: int
    data: bytes
    lead: bytes = b""
    is_cut: bool = False
    is_of_request: bool = False


@dataclass
class Splitter:
    """Cuts pieces into lines, and lines into states of progress bars.

    Attributes:
        everything: while set, no line is turned away: a line in parts is being put together.
        requests: lines of a running server so far.
        head: the first bytes, which are all of a short text.
    """

    counts: Counts = field(default_factory=Counts)
    everything: bool = False
    requests: int = 0
    head: bytes = b""

    def beginning(self) -> str:
        """All of a short text, or "": it is longer, or binary."""
        if self.counts.bytes > MOST_BYTES or self.counts.nul_bytes:
            return ""
        return self.head.decode("utf-8", "replace")

    def lines(self, pieces: Iterator[bytes]) -> Iterator[Line]:
        """The lines worth reading; of states of one bar that follow each other, on one line or on many, the last."""
        held: Line | None = None
        name = b""
        for line in self._wanted(pieces):
            bar = bars.BAR_ONLY.fullmatch(line.data) if b"%|" in line.data else None
            if held is not None and (bar is None or bar["name"] != name or line.lead != held.lead):
                yield held
            held = None
            if bar is None:
                yield line
            else:
                held, name = line, bar["name"]
        if held is not None:
            yield held

    def _wanted(self, pieces: Iterator[bytes]) -> Iterator[Line]:
        """The lines worth reading, each with whether the next one goes on with the number at its end."""
        held: Line | None = None
        for line in self._read(pieces):
            if held is not None:
                held.is_cut = held.is_cut or (line.number == held.number + 1 and _REST.fullmatch(line.data) is not None)
                yield held
                held = None
            if line.data[-1:].isdigit():
                held = line
            else:
                yield line
        if held is not None:
            yield held

    def _read(self, pieces: Iterator[bytes]) -> Iterator[Line]:
        counts = self.counts
        ends_in_number = False
        rest, lead, skipping = b"", b"", False
        number = 1
        told = -1
        for piece in pieces:
            self._look(piece)
            counts.bytes += len(piece)
            if skipping:
                at = _first_end(piece)
                if at < 0:
                    continue
                # A carriage return ends the long piece, not the line.
                piece, skipping = piece[at:], False
            whole = (rest + piece).split(b"\n")
            rest = whole.pop()
            for data in whole:
                if not self.everything and TURNED_AWAY.match(data) and not (data[:1] == b"{" and _is_part(data)):
                    if told != self.requests:
                        yield Line(number, data, is_of_request=True)
                    self.requests += 1
                    told = self.requests
                elif b"\r" in data:
                    yield from self._states(number, data, lead)
                elif self.everything or _is_wanted(data):
                    told = -1
                    yield Line(number, data, lead)
                    ends_in_number = data[-1:].isdigit()
                elif ends_in_number:
                    ends_in_number = False
                    if _REST.fullmatch(data):
                        yield Line(number, data, lead)
                number += 1
                lead = b""
            if len(rest) > LIMIT:
                done, mark, tail = rest.rpartition(b"\r")
                if mark:
                    lead = lead or done.split(b"\r", 1)[0][:200]
                    yield from self._states(number, done, lead)
                    rest = tail
                if len(rest) > LIMIT:
                    counts.cut += 1
                    if self.everything or WANTED.search(rest, 0, LIMIT):
                        yield Line(number, rest[:LIMIT], lead, is_cut=True)
                    rest, skipping = b"", True
        counts.lines = number - 1
        if rest or skipping:
            counts.lines = number
            for state in self._states(number, rest, lead):
                state.is_cut = not rest.endswith(b"\r")
                yield state

    def _look(self, piece: bytes) -> None:
        nul = piece.count(0)
        if nul and not self.counts.bytes:
            self.counts.first_is_binary = True
        if len(self.head) < MOST_BYTES:
            self.head += piece[: MOST_BYTES - len(self.head)]
        self.counts.nul_bytes += nul

    def _states(self, number: int, data: bytes, lead: bytes) -> Iterator[Line]:
        """What stands between carriage returns."""
        states = (_RETURNS.sub(b"\r", data) if b"\r\r" in data else data).split(b"\r")
        lead = lead or (states[0][:200] if len(states) > 1 else b"")
        for state in states:
            if state and (self.everything or WANTED.search(state)):
                yield Line(number, state, lead)


def _first_end(piece: bytes) -> int:
    """Where the first line end or carriage return is; -1: nowhere."""
    newline, back = piece.find(b"\n"), piece.find(b"\r")
    if newline < 0 or back < 0:
        return max(newline, back)
    return min(newline, back)
