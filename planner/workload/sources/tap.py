"""Listens for steps while a log is read: the log's bytes pass through, once, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...inputs.vllm_logs.wrapping import Unwrapper
from ..gathered import Gathered, joined
from .iterations import MARK, IterationReader
from .tables import OPEN_SETTINGS, ROWS_BEGIN, TableReader

LONGEST = 2**20
"""Longest line that is looked at, bytes."""
PATIENCE = 5000
"""Lines without a row after which a table has ended."""

NEAR = 2**16
"""Bytes before a table in which the line of its engine stands."""

MOST_ENGINES = 16
"""Of these lines, how many are read: those of processes that print at the same time."""

_HEADS = (OPEN_SETTINGS.encode(), b"Unpadded Tokens")
_HEAD = re.compile(b"|".join(_HEADS))
_ENGINE_LINE = b"Avg prompt throughput"


@dataclass
class StepTap:
    """Give it a log piece by piece with `feed`, or let the pieces pass `through`; then ask with `finish`."""

    _tables: TableReader = field(default_factory=TableReader)
    _iterations: IterationReader = field(default_factory=IterationReader)
    _unwrapper: Unwrapper = field(default_factory=Unwrapper)
    _rest: bytes = b""
    _before: bytes = b""
    _skipping: bool = False
    _idle: int = 0

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces, listened to."""
        for piece in pieces:
            self.feed(piece)
            yield piece

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the log: UTF-8 text, cut anywhere."""
        if self._skipping:
            _, mark, piece = piece.partition(b"\n")
            if not mark:
                return
            self._skipping = False
        end = piece.rfind(b"\n") + 1
        if not end:
            self._keep(self._rest + piece)
            return
        whole = self._rest + piece[:end]
        self._rest = b""
        self._keep(piece[end:])
        self._lines(whole)

    def _keep(self, rest: bytes) -> None:
        self._rest = rest
        if len(rest) > LONGEST:
            self._rest, self._skipping = b"", True

    def finish(self) -> Gathered | None:
        """The steps of the whole log; None: it tells of none."""
        if self._rest:
            self._lines(self._rest + b"\n")
            self._rest = b""
        tables, iterations = self._tables.gathered(), self._iterations.gathered()
        found = joined(tables, iterations)
        return found if found.parts or found.not_recognised else None

    def _lines(self, data: bytes) -> None:
        """Take whole lines; those without a table are only searched."""
        if MARK in data:
            self._iterations.feed(data)
        at = 0 if self._tables.is_open or any(head in data for head in _HEADS) else len(data)
        while at < len(data):
            if not self._tables.is_open:
                at = self._next_table(data, at)
            elif at < len(data):
                end = data.find(b"\n", at) + 1 or len(data)
                self._line(data[at:end])
                at = end
        # The engine's name stands in a line before its table, which may be of the piece before.
        last = data.rfind(_ENGINE_LINE)
        if last >= 0:
            self._before = data[max(0, last - NEAR) : last + 2**14]

    def _next_table(self, data: bytes, at: int) -> int:
        """Take the first lines of the next table, or all of it; where to go on."""
        found = _HEAD.search(data, at)
        if found is None:
            return len(data)
        start = data.rfind(b"\n", at, found.start()) + 1 or at
        self._engines(data[max(at, start - NEAR) : start])
        end = data.find(b"\n", start) + 1 or len(data)
        line = data[start:end]
        self._line(line)
        prefix, mark, _ = line.partition(b"**" + OPEN_SETTINGS.encode())
        if not mark:
            return end
        after, bodies = end, []
        while data.startswith(prefix, after):
            stop = data.find(b"\n", after) + 1 or len(data)
            bodies.append(data[after + len(prefix) : stop].rstrip(b"\r\n"))
            after = stop
            if len(bodies) > ROWS_BEGIN and bodies[-1][:1] != b"|":
                break
        return after if self._tables.feed_whole(bodies, goes_on=after == len(data)) else end

    def _engines(self, near: bytes) -> None:
        before, self._before = self._before, b""
        for line in (*_engine_lines(before), *_engine_lines(near)):
            self._line(line)

    def _line(self, line: bytes) -> None:
        if len(line) > LONGEST:
            return
        if _ENGINE_LINE in line:
            self._before = b""
        was_of_table = False
        for bare in self._unwrapper.unwrap(line.decode("utf-8", "replace")):
            source = f"{bare.source} {bare.process} {bare.pid or ''}".strip()
            was_of_table |= self._tables.feed(bare.text, source)
        self._idle = 0 if was_of_table else self._idle + 1
        if self._idle > PATIENCE:
            self._tables.close()


def _engine_lines(data: bytes) -> list[bytes]:
    """The last lines in `data` that name an engine, in their order."""
    found: list[bytes] = []
    at = data.rfind(_ENGINE_LINE)
    while at >= 0 and len(found) < MOST_ENGINES:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        found.append(data[start : end if end >= 0 else len(data)])
        at = data.rfind(_ENGINE_LINE, 0, start)
    return found[::-1]
