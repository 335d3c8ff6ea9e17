"""The text of a script with its place in a file, and its words with theirs."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from ..launch import Span
from .grammar import ShellWord
from .values import Field, Run
from .word import SpanOf, Word


class Script(NamedTuple):
    """A script of a shell.

    Attributes:
        text: the script.
        span_of: place of a stretch of it.
        inner: of its words, as of LaunchToken.
        literal: it stands in a file just so.
        arguments: what it gets as $1, $2 ...; None: that is not known.
        changed: stretches of `text` that something was put in for.
    """

    text: str
    span_of: SpanOf
    inner: str = ""
    literal: bool = True
    arguments: tuple[Word, ...] | None = None
    changed: tuple[tuple[int, int], ...] = ()

    def _is_changed(self, start: int, end: int) -> bool:
        """Whether something was put in within the stretch; `changed` is in the order of the text."""
        before = bisect_left(self.changed, (end, end)) - 1
        return before >= 0 and self.changed[before][1] > start

    def is_literal(self, start: int, end: int) -> bool:
        """Whether the stretch stands in the file just so, at a place of its own."""
        if not self.literal or self._is_changed(start, end):
            return False
        span = self.span_of(start, end)  # where no place is known, every stretch has the same one
        if start:
            return self.span_of(start - 1, end) != span
        return end >= len(self.text) or self.span_of(start, end + 1) != span


def script_of_shell(words: list[Word], index: int) -> Script | None:
    """The script of `bash -lc SCRIPT name arguments`."""
    for at in range(index + 1, min(index + 8, len(words) - 1)):
        text = words[at].text
        if not text.startswith(("-", "+")):
            return None
        if not text.startswith("--") and "c" in text:
            while at + 2 < len(words) and words[at + 1].text.startswith("-"):
                at += 1
            if words[at].text == "-o" or at + 1 >= len(words):
                return None
            return inner_script(words[at + 1], tuple(words[at + 3 :]))
    return None


def inner_script(word: Word, arguments: tuple[Word, ...] | None) -> Script:
    """A word as a script."""
    in_file = word.style in ("item", "flow")
    inner = word.inner or ("double" if word.style == "flow" else "")
    return Script(word.text, word.stretch, inner, in_file and word.literal, arguments, word.changed)


def behind_option(word: Word, option: str) -> Word:
    """What stands behind an option that a word begins with; else the word."""
    if not word.text.startswith(option):
        return word
    skip = len(option)
    span = word.stretch(skip, len(word.text))
    changed = tuple((max(start - skip, 0), end - skip) for start, end in word.changed if end > skip)

    def stretch(start: int, end: int) -> Span:
        return word.stretch(start + skip, end + skip)

    return word._replace(text=word.text[skip:], span=span, span_of=stretch, changed=changed)


def as_word(field: Field, written: ShellWord | None, script: Script) -> Word:
    """A word of a script, with its place in the file."""
    if isinstance(field.outer, Word):
        return field.outer
    if field.start < 0:
        span = script.span_of(0, len(script.text))
        return Word(field.text, span, "word", False, script.inner, None, field.unknown, field.several)
    span = script.span_of(field.start, field.end)
    literal = field.literal and script.is_literal(field.start, field.end)
    word = Word(field.text, span, "word", literal, script.inner, None, field.unknown, field.several, written)

    def stretch(start: int, end: int) -> Span:
        first, last = _offset(field.runs, start), _offset(field.runs, end - 1)
        if first is None or last is None or end <= start:
            return span
        return script.span_of(first, last + 1)

    return word._replace(span_of=stretch)


def as_field(word: Word) -> Field:
    """A word around a script, as its $1 is one."""
    return Field(word.text, literal=word.literal, unknown=word.unknown, outer=word)


def _offset(runs: tuple[Run, ...], at: int) -> int | None:
    for run in runs:
        if run.at <= at < run.at + run.length:
            return run.start + at - run.at
    return None
