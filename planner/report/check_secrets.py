"""Keys and passwords that stand in a file: found by name and by shape, and never shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..inputs.launches.launch import EnvVariable, Launch, LaunchToken, Source
from ..inputs.launches.secret_names import is_secret_name
from ..inputs.secret_shapes import HIDDEN, REFERENCE, hidden, shapes

CUT = "…"
LONG = 6
"""Letters from which a secret is hidden wherever it stands; a shorter one may be any word."""
MOST_JSON = 64 * 1024
"""Longest JSON that is looked into for secrets, characters."""
_OPTION = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=|[ \t]+|$)")

_SETTING = re.compile(r"^([ ]*)[\"']?(?:api[-_]key|hf[-_]token)[\"']?[ ]*:(.*(?:\n\1[ ]*-[ ].*)*)", re.M)


class Secrets(NamedTuple):
    """The secrets of one text.

    Attributes:
        values: as programs get them.
        spans: where they stand: offsets of `source`.
        source: the text that the spans are of.
        parts: lines of those that go over several lines.
    """

    values: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    source: Source | None = None
    parts: tuple[str, ...] = ()

    def mask(self, text: str, in_file: bool = False) -> str:
        """`text` without them; `in_file`: it is a line of the file, no message."""
        if not in_file and CUT in text:
            text = self._without_beginnings(text)
        for part in self.parts if in_file else ():
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", lambda _: HIDDEN, text)
        for value in self.values:
            if len(value) >= LONG:
                text = text.replace(value, HIDDEN)
            elif not value.isalpha():
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: HIDDEN, text)
        return hidden(text, in_file)

    def _without_beginnings(self, text: str) -> str:
        """A message may have been cut within a secret."""
        head, cut, rest = text.partition(CUT)
        for value in self.values:
            size = next((size for size in range(len(value) - 1, 3, -1) if head.endswith(value[:size])), 0)
            if size:
                head = head[:-size] + HIDDEN
        return head + cut + (self._without_beginnings(rest) if CUT in rest else rest)

    def within(self, source: Source, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches of `source.text[start:end]` that are not to be shown, in order, as offsets of the text."""
        text = source.text[start:end]
        found = [(start + first, start + last) for first, last in shapes(text, True)]
        if source is self.source:
            found += [(max(first, start), min(last, end)) for first, last in self.spans if first < end and last > start]
        for value in self.values:
            if len(value) >= LONG:
                found += [(start + at, start + at + len(value)) for at in _occurrences(text, value)]
        return _joined(found)


def secrets_of(source: Source, launches: Iterable[Launch]) -> Secrets:
    """The secrets of the servers of one text."""
    values: list[str] = []
    spans: list[tuple[int, int]] = []
    for launch in launches:
        configs = (config.text for config in launch.files.values())
        for value, span in (*_of_tokens(launch.tokens, source.text), *_of_env(launch.env), *_of_configs(configs)):
            if value and not REFERENCE.match(value):
                values.append(value)
                spans += [span] if span is not None else []
    longest_first = sorted(dict.fromkeys(values), key=len, reverse=True)
    parts = [line.strip() for value in longest_first if "\n" in value for line in value.split("\n")]
    longest_first += [part for part in parts if len(part) >= LONG]
    return Secrets(tuple(longest_first), tuple(spans), source, tuple(part for part in parts if part))


def _of_tokens(tokens: Iterable[LaunchToken], text: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    of_secret = False
    for token in tokens:
        start, end = token.span.start, token.span.end
        span = None if token.style == "made" else _unquoted(text, start, end)
        option = _OPTION.match(token.text)
        if option is None:
            if of_secret:
                yield token.text, span
            else:
                yield from ((value, None) for value in (*_of_json(token.text), *_of_line(token.text)))
            of_secret = of_secret or token.text == "Bearer"
            continue
        of_secret = is_secret_name(option[1])
        value = token.text[option.end() :]
        if of_secret and value:
            at = text.find(value, start, end)
            yield value, (at, at + len(value)) if span and at >= 0 else span
        elif value:
            yield from ((value, None) for value in _of_json(value))


def _of_line(text: str) -> Iterator[str]:
    """The secrets of a command that is one word."""
    words = text.split() if " --" in text else []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("-") and is_secret_name(name):
            yield (value if equals else following).strip("\"'")


def _unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch without the quotes around it."""
    if end - start > 1 and text[start : start + 1] in ("'", '"') and text[end - 1 : end] == text[start]:
        return start + 1, end - 1
    return start, end


def _of_json(text: str) -> Iterator[str]:
    """The secrets in a JSON object, by its keys."""
    if "{" not in text or len(text) > MOST_JSON:
        return
    try:
        left: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += one.values()
            yield from (v for key, v in one.items() if isinstance(v, str) and is_secret_name(key))


def _of_env(env: Iterable[EnvVariable]) -> Iterator[tuple[str, tuple[int, int] | None]]:
    for variable in env:
        if variable.value is not None and is_secret_name(variable.name):
            yield variable.value, None


def _of_configs(texts: Iterable[str]) -> Iterator[tuple[str, None]]:
    """Keys in files of --config: one, or a list of them."""
    for text in texts:
        for match in _SETTING.finditer(text):
            for word in re.split(r"[\s,\[\]]+", match[2]):
                value = word.strip("\"'")
                if value and value != "-":
                    yield value, None


def _occurrences(text: str, value: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + len(value))


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
