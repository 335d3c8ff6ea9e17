"""A word of a command with its place, and a server that a command starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..launch import EnvVariable, Hints, LaunchToken, Remark, Span
from .grammar import ShellWord

SpanOf = Callable[[int, int], Span]
"""Place of a stretch of a text, by offsets in that text."""


class Word(NamedTuple):
    """One word of a command, as it stands in a file.

    Attributes:
        text, span, style, literal, inner: as of LaunchToken.
        span_of: place of a stretch of `text`; None: only the word as a whole has one.
        unknown: parts of the text that are not known, as written.
        several: variables in it that take several values.
        written: the word as the shell's lexer saw it, where it is one of a script.
        changed: stretches of `text` that something was put in for.
    """

    text: str
    span: Span
    style: str = "word"
    literal: bool = True
    inner: str = ""
    span_of: SpanOf | None = None
    unknown: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    written: ShellWord | None = None
    changed: tuple[tuple[int, int], ...] = ()

    def stretch(self, start: int, end: int) -> Span:
        """Place of text[start:end]; that of the word where it is not known better."""
        return self.span_of(start, end) if self.span_of is not None else self.span


def made(text: str, span: Span) -> Word:
    """A word that stands in no file; `span` is that of what it is made of."""
    return Word(text, span, "made", False)


class Found(NamedTuple):
    """A server that a command starts.

    Attributes:
        tokens: what parse_serve takes.
        env: variables that the command itself sets, the last of a name counts.
        hints: what it says of image and GPUs.
        apart: it runs in a container of its own, which the variables around it do not reach.
    """

    tokens: tuple[LaunchToken, ...]
    env: tuple[EnvVariable, ...] = ()
    remarks: tuple[Remark, ...] = ()
    hints: Hints = Hints()
    apart: bool = False
