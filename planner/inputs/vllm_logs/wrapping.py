"""What stands around a server's own line: containers, collectors, units. Taken off, the line is as vLLM wrote it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[@-Z\\-_])")

_RFC3339 = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
CRI = re.compile(rf"{_RFC3339} (?P<stream>stdout|stderr) (?P<tag>[FP])(?::[A-Z])? ?")
DOCKER_TIME = re.compile(rf"\[?{_RFC3339}\]? ")
COMPOSE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]{0,120}) +\| ?")
KUBECTL = re.compile(r"\[(?P<name>[\w.-]{1,120}/[\w./-]{1,250})\] ")
STERN = re.compile(r"(?:\S{1,120} )?(?P<pod>[a-z0-9][a-z0-9.-]{2,120}) (?P<container>[a-z0-9][a-z0-9-]{0,62}) (?=\S)")
JOURNAL = re.compile(
    rf"(?:[A-Z][a-z]{{2}} [ 0-9][0-9] [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?|{_RFC3339}) "
    r"(?P<host>[\w.-]{1,100}) (?P<name>[\w.@/:-]{1,120}?)(?:\[(?P<pid>[0-9]{1,10})\])?: "
)
EXPORT = "MESSAGE="
RAY_REPEAT = re.compile(
    r"\s*\[repeated [0-9]+x across (?:all nodes|cluster)\](?: \(Ray deduplicates logs by default\..*\))?$"
)

SAYS = ("message", "msg", "log", "line", "MESSAGE", "text", "event", "body", "textPayload")
"""Keys under which a structured line holds vLLM's message, the first that is there."""
LEVELS = ("levelname", "level", "severity", "lvl", "log.level")
KNOWN_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

MAX_PARTS = 2**20
"""Characters of a line in parts that are put together."""
MAX_PARTIAL_SOURCES = 64
DEPTH = 4
"""Layers of wrapping taken off."""


@dataclass(frozen=True)
class Bare:
    """A line without its wrapping.

    Attributes:
        text: of one line.
        source: of the container, pod or unit, "" where there is one or none is named.
        level, process, pid: where a structured line says them beside the message.
    """

    text: str
    source: str = ""
    level: str = ""
    process: str = ""
    pid: int | None = None


@dataclass
class Unwrapper:
    """Takes wrapping off, and puts lines together that a container engine wrote in parts."""

    parts: dict[str, str] = field(default_factory=dict)

    def unwrap(self, text: str) -> list[Bare]:
        """The lines in `text`: none while a line is still in parts, several where a structured one holds them."""
        text = ANSI.sub("", text) if "\x1b" in text else text
        return [
            Bare(
                RAY_REPEAT.sub("", line) if "[repeated " in line else line,
                bare.source,
                bare.level,
                bare.process,
                bare.pid,
            )
            for bare in self._layers(Bare(text), DEPTH)
            for line in (bare.text.splitlines() if "\n" in bare.text or "\r" in bare.text else (bare.text,))
        ]

    def _layers(self, bare: Bare, depth: int) -> list[Bare]:
        text = bare.text
        if depth == 0:
            return [bare]
        if match := CRI.match(text):
            key = f"{bare.source} {match['stream']}"
            whole = self._joined(key, text[match.end() :], is_last=match["tag"] == "F")
            return [] if whole is None else self._layers(_as(bare, whole), depth - 1)
        if text.startswith("{"):
            return self._structured(bare, depth)
        if text.startswith(EXPORT):
            return [_as(bare, text[len(EXPORT) :])]
        for shape in (KUBECTL, COMPOSE):
            if (match := shape.match(text)) and not _is_own(match["name"]):
                return self._layers(_as(bare, text[match.end() :], match["name"]), depth - 1)
        if match := JOURNAL.match(text):
            return self._layers(_as(bare, text[match.end() :], match["name"]), depth - 1)
        if match := DOCKER_TIME.match(text):
            return self._layers(_as(bare, text[match.end() :]), depth - 1)
        if (match := STERN.match(text)) and _looks_own(text, match.end()):
            return self._layers(_as(bare, text[match.end() :], f"{match['pod']}/{match['container']}"), depth - 1)
        return [bare]

    def _structured(self, bare: Bare, depth: int) -> list[Bare]:
        try:
            line = json.loads(bare.text)
        except (ValueError, RecursionError):
            return [bare]
        if not isinstance(line, dict):
            return [bare]
        said = next((line[key] for key in SAYS if key in line), None)
        text = _text(said)
        if text is None:
            return [bare]
        source = bare.source or _source(line)
        if "log" in line and "stream" in line and isinstance(line["log"], str):
            whole = self._joined(f"{source} {line['stream']}", text.removesuffix("\n"), is_last=text.endswith("\n"))
            return [] if whole is None else self._layers(_as(bare, whole, source), depth - 1)
        level = next((str(line[key]).upper() for key in LEVELS if key in line), "")
        level = {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(level, level)
        pid = line.get("process")
        inner = Bare(
            text.rstrip("\r\n"),
            source,
            level if level in KNOWN_LEVELS else bare.level,
            str(line.get("processName") or bare.process)[:120],
            pid if isinstance(pid, int) and not isinstance(pid, bool) else bare.pid,
        )
        found = self._layers(inner, depth - 1)
        trace = line.get("exc_info") or line.get("exc_text")
        if isinstance(trace, str):
            found.append(Bare(trace, inner.source, "ERROR", inner.process, inner.pid))
        return found

    def _joined(self, key: str, text: str, is_last: bool) -> str | None:
        """The whole line, once its last part is there."""
        before = self.parts.pop(key, "")
        whole = before + text if len(before) < MAX_PARTS else before
        if is_last:
            return whole
        if len(self.parts) < MAX_PARTIAL_SOURCES:
            self.parts[key] = whole
        return None

    def rest(self) -> list[Bare]:
        """What is left of lines whose last part never came."""
        left = [Bare(text, key.rpartition(" ")[0]) for key, text in self.parts.items()]
        self.parts.clear()
        return left


def _as(bare: Bare, text: str, source: str = "") -> Bare:
    return Bare(text, bare.source or source, bare.level, bare.process, bare.pid)


def _text(said: Any) -> str | None:
    """A message as text; journald gives one that is no plain text as a list of bytes."""
    if isinstance(said, str):
        return said
    if isinstance(said, list) and said and all(type(item) is int and 0 <= item < 256 for item in said):
        return ANSI.sub("", bytes(said).decode("utf-8", "replace"))
    return None


def _source(line: dict[str, Any]) -> str:
    kubernetes = line.get("kubernetes")
    if isinstance(kubernetes, dict):
        pod, container = kubernetes.get("pod_name"), kubernetes.get("container_name")
        return "/".join(str(item) for item in (pod, container) if item)[:250]
    names = (line.get(key) for key in ("_SYSTEMD_UNIT", "CONTAINER_NAME", "pod", "container", "container_name"))
    return str(next((name for name in names if isinstance(name, str)), ""))[:250]


def _is_own(name: str) -> bool:
    """A word in front of a bar that is the line's own: a log level, a tag of a library."""
    return name in KNOWN_LEVELS


def _looks_own(text: str, at: int) -> bool:
    """stern puts no mark between its names and the line: only a line that is plainly vLLM's is taken as wrapped."""
    return text.startswith(("(", "Capturing ", *(f"{level} " for level in KNOWN_LEVELS)), at)
