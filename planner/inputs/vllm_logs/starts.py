"""Which start a line belongs to, where one log holds several: restarts of a container, servers side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...startup.record import Start
from . import names
from .prefixes import Printed, Process
from .start_notes import Key, StartNotes, key_of

FIRST_KEPT = 20
LAST_KEPT = 180
"""Of a crash loop without end, so many starts at its beginning and its end are kept."""

LOGO = r"[▀▄█▌▐ ]{8,80}"
VERSION = re.compile(rf"{LOGO} version +(?P<version>[0-9A-Za-z.+_-]{{1,80}}) *")
MODEL = re.compile(rf"{LOGO} model +(?P<model>\S.{{0,400}})")


@dataclass
class Stream:
    """The starts of one source: of one container, or of a log that names none."""

    source: str
    current: StartNotes | None = None
    by_process: dict[Key, StartNotes] = field(default_factory=dict)

    def of(self, process: Process | None) -> StartNotes | None:
        """The start that a process belongs to: the one it printed in before, else the latest."""
        key = key_of(process)
        if key is None:
            return self.current
        notes = self.by_process.get(key)
        if notes is None and self.current is not None and len(self.by_process) < 100_000:
            notes = self.by_process[key] = self.current
        return notes


@dataclass
class Starts:
    """All starts of a log, in the order in which they began."""

    streams: dict[str, Stream] = field(default_factory=dict)
    kept: list[StartNotes] = field(default_factory=list)
    dropped: int = 0

    def of(self, printed: Printed, number: int) -> StartNotes:
        """The start of a line; the first line of a source begins one."""
        stream = self._stream(printed.source)
        notes = stream.of(printed.process)
        return self._begin(stream, printed.process, number) if notes is None else notes

    def latest(self, printed: Printed) -> StartNotes | None:
        """The start of a line, where one is known; none is begun."""
        return self._stream(printed.source).of(printed.process)

    def opened(self, printed: Printed, number: int, what: str) -> StartNotes:
        """The start of a line that every start has once: `what` is "banner", "arguments" or "engine".

        It begins a new one where the start that it would belong to has had that line, or is past it.
        """
        stream = self._stream(printed.source)
        notes = stream.of(printed.process)
        latest = stream.current
        if notes is not None and notes is not latest and latest is not None and not _is_past(latest, what, printed):
            # A number that an earlier start used as well, in a container that was started again.
            notes = stream.by_process[key_of(printed.process)] = latest
        if notes is None or _is_past(notes, what, printed):
            notes = self._begin(stream, printed.process, number)
        notes.openings[what] = _said(printed)
        return notes

    def _stream(self, source: str) -> Stream:
        if source not in self.streams and len(self.streams) >= 10_000:
            source = ""
        return self.streams.setdefault(source, Stream(source))

    def _begin(self, stream: Stream, process: Process | None, number: int) -> StartNotes:
        key, before = key_of(process), stream.current
        if before is not None and (key in stream.by_process or key is None or before.failures.found):
            # Numbers of processes that are gone may come again.
            stream.by_process.clear()
        notes = StartNotes(number, stream.source)
        stream.current = notes
        if key is not None:
            stream.by_process[key] = notes
        self.kept.append(notes)
        if len(self.kept) > FIRST_KEPT + LAST_KEPT:
            del self.kept[FIRST_KEPT]
            self.dropped += 1
        return notes

    def built(self, lines: int) -> tuple[Start, ...]:
        """Starts that say anything; of each, the last line before the next one of its source."""
        told = [notes for notes in self.kept if notes.has_values or notes.messages or notes.failures.found]
        ends: dict[str, int] = {}
        built = []
        for notes in reversed(told):
            built.append(notes.built(max(notes.last_line, ends.get(notes.source, lines + 1) - 1)))
            ends[notes.source] = notes.first_line
        return tuple(reversed(built))


def _is_past(notes: StartNotes, what: str, printed: Printed) -> bool:
    """Whether a start has had this line, or one that comes after it. A line that is written twice is one line."""
    if printed.time and notes.openings.get(what) == _said(printed):
        return False
    if notes.serving.is_serving and (what != "engine" or not notes.is_opened):
        return True
    if what == "engine":
        label = names.label(printed.process)
        said = (key_of(printed.process), f"{printed.time} {printed.message}")
        # A line that two handlers write is one line.
        return label in notes.engines and notes.engines[label] != said
    if what == "arguments":
        return notes.has_arguments or bool(notes.engines or notes.ranks or notes.kv)
    return notes.has_banner or notes.has_arguments or bool(notes.engines or notes.ranks or notes.kv)


def _said(printed: Printed) -> tuple[Key, str]:
    return key_of(printed.process), f"{printed.time} {printed.message}"
