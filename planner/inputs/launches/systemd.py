"""systemd units: the servers of ExecStart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from .joined import Joined
from .launch import EnvVariable, Launch, Reading, Remark, Source
from .lines import next_line
from .places import Places
from .shell.commands import Found, Word, in_words

MAX_SETTINGS = 5_000
MAX_WORDS = 6_000
MAX_COMMAND = 256 * 1024
"""Longest command that is read, in characters."""

_SETTING = re.compile(r"[ \t]*([A-Za-z]+)[ \t]*=[ \t]*")
_SECTION = re.compile(r"[ \t]*\[([^\]\n]*)\]")
_DOUBLE, _SINGLE = (rf"{quote}([^{quote}\\]*(?:\\.[^{quote}\\]*)*){quote}" for quote in "\"'")
_WORD = re.compile(rf"(?:{_DOUBLE}|{_SINGLE}|\\.|[^\s\"'\\]+)+", re.DOTALL)
_PART = re.compile(rf"{_DOUBLE}|{_SINGLE}|((?:\\.|[^\s\"'\\]+)+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "s": " "}
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}|%%|%[a-zA-Z]")
_PREFIXES = "@-:+!|"


class Setting(NamedTuple):
    """`Name=value` of a section, continued lines joined."""

    section: str
    name: str
    value: Joined


def launches(source: Source) -> Reading:
    """The servers that a unit starts."""
    started: list[Joined] = []
    env: list[EnvVariable] = []
    from_files = False
    remarks: list[Remark] = []
    for one in settings(source):
        if one.section != "Service":
            continue
        if one.name == "ExecStart":
            started = [*started, one.value] if one.value.text.strip() else []
        elif one.name == "Environment" and one.value.length > MAX_COMMAND:
            message = f"variables longer than {MAX_COMMAND // 1024} KiB are not read"
            remarks.append(Remark("not_read", message, one.value.span_of(0, 1)))
            from_files = True
        elif one.name == "Environment":
            env = [*env, *islice(_variables(one.value), MAX_WORDS - len(env))] if one.value.text.strip() else []
        elif one.name == "EnvironmentFile":
            from_files = True
    values = {variable.name: variable.value for variable in env}
    made: list[tuple[Found, Joined]] = []
    for value in started:
        if value.length > MAX_COMMAND:
            message = f"a command longer than {MAX_COMMAND // 1024} KiB is not read"
            remarks.append(Remark("not_read", message, value.span_of(0, 1)))
            continue
        unclosed = _unclosed(value.text)
        if unclosed is not None:
            span = value.span_of(unclosed, unclosed + 1)
            message = f"the quote {value.text[unclosed]} is not closed; systemd ignores the line"
            remarks.append(Remark("not_read", message, span, "close it"))
            continue
        for words in _commands(value, values, from_files):
            made.extend((found, value) for found in in_words(words, values))
    several = len(made) > 1
    return Reading(
        tuple(
            Launch(
                source, "systemd", f"line {value.span_of(0, 1).line}" if several else "", found.tokens,
                (*env, *found.env), hints=found.hints, remarks=found.remarks,
            )
            for found, value in made
        ),
        tuple(remarks),
    )  # fmt: skip


def settings(source: Source) -> Iterator[Setting]:
    """The settings of a unit."""
    text = source.text
    places = Places(source)
    section = ""
    at = 1 if text.startswith("\ufeff") else 0
    count = 0
    while at < len(text) and count < MAX_SETTINGS:
        end = next_line(text, at)
        line = text[at:end].strip()
        header = _SECTION.match(text, at, end)
        if not line or line[0] in "#;":
            at = end
        elif header is not None:
            section = header[1]
            at = end
        else:
            joined, at = _joined(text, at, places)
            name = _SETTING.match(joined.text)
            if name is not None:
                count += 1
                yield Setting(section, name[1], joined.part(name.end(), joined.length))


def _joined(text: str, at: int, places: Places) -> tuple[Joined, int]:
    """A line and those that continue it: a backslash at the end is a blank, comments between do not count."""
    joined = Joined(places)
    first = True
    while at < len(text):
        end = next_line(text, at)
        line = text[at:end].rstrip("\r\n")
        if not first and line.lstrip()[:1] in ("#", ";"):
            at = end
            continue
        first = False
        if not line.endswith("\\"):
            joined.add(at, at + len(line.rstrip()))
            return joined, end
        joined.add(at, at + len(line) - 1)
        joined.put(" ", at + len(line) - 1)
        at = end
    return joined, at


def _unclosed(text: str) -> int | None:
    """Where a quote opens that nothing closes, or None."""
    at = 0
    for found in _WORD.finditer(text):
        if (left := text[at : found.start()].strip()) != "":
            return text.index(left[0], at)
        at = found.end()
    left = text[at:].strip()
    return text.index(left[0], at) if left and left[0] in "\"'" else None


def _variables(value: Joined) -> Iterator[EnvVariable]:
    for found in _WORD.finditer(value.text):
        name, equals, text = _unquoted(found[0]).partition("=")
        if equals and name.isidentifier():
            known = None if re.search(r"(?<!%)%[a-zA-Z]", text) else text.replace("%%", "%")
            yield EnvVariable(name, known, value.span_of(*found.span()))


def _commands(value: Joined, env: Mapping[str, str | None], from_files: bool) -> Iterator[list[Word]]:
    """The commands of one ExecStart; `;` alone stands between them."""
    words: list[Word] = []
    for found in _WORD.finditer(value.text):
        if found[0] == ";":
            yield words
            words = []
            continue
        start = found.start()
        if not words:
            start += len(found[0]) - len(found[0].lstrip(_PREFIXES))
        if len(words) > MAX_WORDS:
            break
        words.extend(_word(value, start, found.end(), env, from_files))
    yield words


def _word(value: Joined, start: int, end: int, env: Mapping[str, str | None], from_files: bool) -> list[Word]:
    written = value.text[start:end]
    span = value.span_of(start, end)
    bare = re.fullmatch(r"\$([A-Za-z_]\w*)", written)
    if bare is not None:
        text = env.get(bare[1]) if bare[1] in env else None if from_files else ""
        if text is None:
            return [Word(written, span, "unit", False, unknown=(written,))]
        return [Word(part, span, "unit", False) for part in text.split()]
    text = _unquoted(written)
    unknown: list[str] = []
    left = MAX_COMMAND

    def put(found: re.Match[str]) -> str:
        nonlocal left
        if found[0] in ("$$", "%%"):
            return found[0][0]
        known = env.get(found[1]) if found[1] else None
        if known is None and found[1] and found[1] not in env and not from_files:
            return ""  # systemd puts in nothing for a variable that is not set
        if known is None or len(known) > left:
            unknown.append(found[0])
            return found[0]
        left -= len(known)
        return known

    put_in = _VARIABLE.sub(put, text)
    changed = put_in != text or bool(unknown)
    quoted = written[:1] in ("'", '"') and written[-1:] == written[:1] and "\\" not in written
    inside = value.part(start + 1, end - 1).span_of if quoted and not changed else None
    return [Word(put_in, span, "unit", not changed, "", inside, tuple(unknown))]


def _unquoted(written: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    parts = []
    for found in _PART.finditer(written):
        body = next((group for group in found.groups() if group is not None), "")
        parts.append(_ESCAPE.sub(plain, body))
    return "".join(parts)
