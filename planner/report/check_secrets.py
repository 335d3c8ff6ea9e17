"""Keys and passwords that stand in a file: found by name and by shape, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from ..inputs.launches.launch import EnvVariable, Launch, LaunchToken, Source

HIDDEN = "***"
LONG = 6
"""Letters from which a secret is hidden wherever it stands; a shorter one may be any word."""

_FLAG = re.compile(r"--(?:[\w-]*-)?(?:api-?k(?:ey?)?|token|secret|password|passphrase)", re.I)
_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)(?:_|$)", re.I)
_WRITTEN = r"""
    (?<!--)\bhf_(?!(?:overrides|config_path|token)\b)[\w-]{8,}   # by shape; options are named so as well
    | \b(?:sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[abprs]-|AKIA)[\w-]{8,}
    | (?:\bBearer\s+) (?P<bearer>[\w.~+/=-]{6,})
    | --(?:api[-_]key|hf[-_]token)(?:=|[ \t]+(?!-))["']?(?P<flag>[^\s"'\\,\]]+)
    | \b\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY)\b["']?
      \s*(?P<between>=|:\s)\s*["']?(?P<name>[^\s"',}\]]+)
    | \b(?:api[-_]?key|hf[-_]token|password)["']?\s*(?P<colon>:\s)\s*["']?(?P<key>[^\s"',}\]]+)
    """
_SETTING = re.compile(r"^([ ]*)[\"']?(?:api[-_]key|hf[-_]token)[\"']?[ ]*:(.*(?:\n\1[ ]*-[ ].*)*)", re.M)
_REFERENCE = re.compile(r"\$[({A-Za-z_].*")


@cache
def _written() -> re.Pattern[str]:
    """The pattern of what looks like a secret; a check that finds nothing need not wait for it."""
    return re.compile(_WRITTEN, re.X)


class Secrets(NamedTuple):
    """The secrets of one text.

    Attributes:
        values: as programs get them.
        spans: where they stand: offsets of `source`.
        source: the text that the spans are of.
    """

    values: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    source: Source | None = None

    def mask(self, text: str, in_file: bool = False) -> str:
        """`text` without them; `in_file`: it is a line of the file, no message."""
        for value in self.values:
            if len(value) >= LONG:
                text = text.replace(value, HIDDEN)
            elif not value.isalpha():
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: HIDDEN, text)
        return "".join(_parts(text, _shapes(text, in_file)))

    def within(self, source: Source, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches of `source.text[start:end]` that are not to be shown, in order, as offsets of the text."""
        text = source.text[start:end]
        found = [(start + first, start + last) for first, last in _shapes(text, True)]
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
            if value and not _REFERENCE.match(value):
                values.append(value)
                spans += [span] if span is not None else []
    longest_first = sorted(dict.fromkeys(values), key=len, reverse=True)
    return Secrets(tuple(longest_first), tuple(spans), source)


def _of_tokens(tokens: Iterable[LaunchToken], text: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    of_secret = False
    for token in tokens:
        start, end = token.span.start, token.span.end
        span = None if token.style == "made" else (start, end)
        if token.text.startswith("-"):
            flag, equals, value = token.text.partition("=")
            of_secret = _FLAG.fullmatch(flag.replace("_", "-")) is not None
            if of_secret and equals:
                at = text.find("=", start, end) + 1
                yield value, span and (at or start, end)
        elif of_secret:
            yield token.text, span


def _of_env(env: Iterable[EnvVariable]) -> Iterator[tuple[str, tuple[int, int] | None]]:
    for variable in env:
        if variable.value is not None and _NAME.search(variable.name):
            yield variable.value, None


def _of_configs(texts: Iterable[str]) -> Iterator[tuple[str, None]]:
    """Keys in files of --config: one, or a list of them."""
    for text in texts:
        for match in _SETTING.finditer(text):
            for word in re.split(r"[\s,\[\]]+", match[2]):
                value = word.strip("\"'")
                if value and value != "-":
                    yield value, None


def _shapes(text: str, in_file: bool) -> list[tuple[int, int]]:
    """What looks like a secret. `NAME: word` gives a value in a file only; a message speaks so of a variable."""
    found = []
    for match in _written().finditer(text):
        if not in_file and (match["colon"] or match["between"] or "=").startswith(":"):
            continue
        start, end = match.span(match.lastgroup or 0)
        if not _REFERENCE.match(text[start:end]):
            found.append((start, end))
    return found


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


def _parts(text: str, hidden: list[tuple[int, int]]) -> Iterator[str]:
    at = 0
    for start, end in hidden:
        yield text[at:start]
        yield HIDDEN
        at = end
    yield text[at:]
