"""How docker compose reads a value: variables put in, and a command that is one text split into words.

Compose puts variables of its own shell or of a `.env` file in, never those of the service. A command that is one text
is no shell line: it is split at blanks, quotes are taken off, and it ends at the first of ; & | < >.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from ....errors import InputError
from ..launch import Remark, Span
from ..shell.put_in import Reference
from ..shell.put_in import put_in as put_in_word
from ..shell.word import SpanOf, Word
from ..yaml_nodes import Scalar

MAX_CHARS = 256 * 1024
"""Longest text that is read word by word."""
MAX_WORDS = 5000
"""Most words of a command; long ones of vLLM have a hundred."""
MAX_DEPTH = 10
"""Variables within the defaults of variables."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+?])(.*))?\Z", re.DOTALL)
_BLANK = " \t\r\n"
_SPLIT = _BLANK + "'\"\\"
_END = ";&|<>"


def put_in(text: str, depth: int = 0) -> str | None:
    """`text` with the defaults of its variables; None where one has none, since its value is in no file, and where the
    text is longer than any that is meant.
    """
    if len(text) > MAX_CHARS:
        return None
    parts: list[str] = []
    at = 0
    for start, end, value in _references(text, depth):
        if value is None:
            return None
        parts += (text[at:start], value)
        at = end
    return "".join((*parts, text[at:]))


def with_defaults(word: Word) -> Word:
    """A word with the defaults of its variables; those without one stay, and are named as unknown."""
    written = word.text
    return put_in_word(word, (one for one in _references(written) if one.value != written[one.start : one.end]))


def _references(text: str, depth: int = 0) -> Iterator[Reference]:
    """The variables of a text, and `$$`, each with what is put in for it."""
    at = text.find("$")
    while at >= 0:
        end = variable_end(text, at)
        yield Reference(at, end, _value(text[at:end], depth))
        at = text.find("$", end)


def variable_end(text: str, at: int) -> int:
    """Offset behind the variable, or the `$$`, that begins at `text[at]`; behind the dollar where it is none."""
    if text.startswith("$$", at):
        return at + 2
    if text.startswith("${", at):
        depth = 0
        for index in range(at + 1, len(text)):
            depth += (text[index] == "{") - (text[index] == "}")
            if depth == 0:
                return index + 1
        return len(text)
    name = _NAME.match(text, at + 1)
    return name.end() if name else at + 1


def _value(variable: str, depth: int) -> str | None:
    """What is put in for `$NAME`, `${NAME...}` or `$$`."""
    if variable in ("$$", "$"):
        return "$"
    if not variable.startswith("${"):
        return None
    found = _BRACED.match(variable[2:-1] if variable.endswith("}") else variable[2:])
    if found is None or found[2] not in ("-", ":-") or depth >= MAX_DEPTH:
        return None
    return put_in(found[3], depth + 1)


class Split(NamedTuple):
    """A command that was one text, as words.

    Attributes:
        words: variables still in them, so that who reads them knows which were put in.
        remarks: what is lost or odd.
    """

    words: list[Word]
    remarks: list[Remark]


def split(scalar: Scalar) -> Split:
    """The words of a command that is one text, as compose splits it."""
    if len(scalar.text) > MAX_CHARS:
        raise _too_long(scalar)
    return _Splitter(scalar).split()


class _Splitter:
    def __init__(self, scalar: Scalar) -> None:
        self.scalar = scalar
        self.exact = scalar.exact
        whole = scalar.span
        self.span_of: SpanOf = scalar.span_of if self.exact else lambda start, end: whole
        self.text = scalar.text
        self.inner = scalar.inner
        self.words: list[Word] = []
        self.remarks: list[Remark] = []
        self.at = 0
        self.stray = False
        self._begin()

    def _begin(self) -> None:
        self.value: list[str] = []
        self.places: list[int] = []
        self.start = -1
        self.literal = self.exact

    def split(self) -> Split:
        quote = ""
        while self.at < len(self.text):
            if len(self.words) > MAX_WORDS:
                raise _too_long(self.scalar)
            letter = self.text[self.at]
            if letter == "$":
                self._variable(quote)
            elif letter == "\\" and quote != "'":
                self._escape(quote)
            elif quote:
                quote = self._quoted(letter, quote)
            elif letter in _BLANK:
                self._finish()
                self.at += 1
            elif letter in "'\"":
                quote = letter
                self._open()
                self.at += 1
            elif letter in _END:
                self._cut(letter)
                break
            else:
                self._take(1)
        if quote:
            where = self.span_of(self.start, len(self.text))
            message = f"the quote {quote} is not closed; compose refuses the command"
            self.remarks.append(Remark("not_read", message, where, "close the quote"))
        self._finish()
        return Split(self.words, self.remarks)

    def _open(self) -> None:
        if self.start < 0:
            self.start = self.at

    def _take(self, count: int) -> None:
        """Let the next characters be part of the word."""
        self._open()
        for index in range(self.at, self.at + count):
            self.value.append(self.text[index])
            self.places.append(index)
        self.at += count

    def _quoted(self, letter: str, quote: str) -> str:
        if letter == quote:
            self.at += 1
            return ""
        self._take(1)
        return quote

    def _variable(self, quote: str) -> None:
        """A variable; without quotes its default is split as well."""
        end = variable_end(self.text, self.at)
        variable = self.text[self.at : end]
        default = put_in(variable) if variable.startswith("${") and not quote else None
        if default is None or (default and not any(one in default for one in _SPLIT)):
            self._take(end - self.at)
            return
        first = self.at
        for index, piece in enumerate(_words(default)):
            if index or default[0] in _BLANK:
                self._finish()
            self.start = first if self.start < 0 else self.start
            self.literal = False
            self.value += piece.replace("$", "$$")
            self.places += [first] * (len(self.value) - len(self.places))
            self.at = end
        if default and default[-1] in _BLANK:
            self._finish()
        self.at = end

    def _escape(self, quote: str) -> None:
        """A backslash: the next character as it is. At the end of a line it makes an argument of the line break."""
        following = self.text[self.at + 1 : self.at + 2]
        if following and following in _BLANK and not quote:
            if not self.stray:
                self.remarks.append(
                    Remark(
                        "stray_backslash",
                        "compose does not join lines at a backslash: it makes an argument of the blank behind it",
                        self.span_of(self.at, self.at + 1),
                        "drop the backslashes at the ends of the lines; compose joins the lines by itself",
                    )
                )
            self.stray = True
            self._finish()
            self.at += 2
            return
        self._open()
        self.at += 1
        if following:
            self.value.append({"n": "\n", "t": "\t"}.get(following, following))
            self.places.append(self.at)
            self.at += 1

    def _cut(self, letter: str) -> None:
        rest = self.text[self.at :].strip()
        self.remarks.append(
            Remark(
                "cut_off",
                f"compose ends the command at `{letter}`; what follows is not run",
                self.span_of(self.at, self.at + len(rest)),
                'a shell is needed for it: command: ["sh", "-c", "..."]',
            )
        )

    def _finish(self) -> None:
        if self.start >= 0:
            value, places = "".join(self.value), self.places
            whole = self.span_of(self.start, self.at)
            span_of = _spans(self.span_of, places, whole)
            self.words.append(Word(value, whole, "word", self.literal, self.inner, span_of))
        self._begin()


def _too_long(scalar: Scalar) -> InputError:
    return InputError(
        f"a command of more than {MAX_WORDS} words or {MAX_CHARS // 1024} KiB is not read",
        code="CG914",
        where=f"line {scalar.span.line}",
        fix="pass the service of the server alone",
    )


def _words(default: str) -> list[str]:
    """The words of a default that stands without quotes."""
    try:
        return shlex.split(default)
    except ValueError:
        return default.split()


def _spans(outer: SpanOf, places: list[int], whole: Span) -> SpanOf:
    def span_of(start: int, end: int) -> Span:
        if not 0 <= start < end <= len(places):
            return whole
        return outer(places[start], places[end - 1] + 1)

    return span_of
