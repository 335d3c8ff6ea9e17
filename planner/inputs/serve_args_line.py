"""A pasted shell line, split as the shell splits it: quotes, comments, continued lines, NAME=VALUE in front.

Nothing is run and nothing is expanded: `$NAME` and `$(command)` stay as they are written, and are listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..errors import InputError
from .serve_args import MAIN_MODULE, SERVER_MODULE

MAX_CHARS = 256 * 1024
"""Longest text that is read; a long command line is some 10 kB."""

_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_VARIABLE = re.compile(r"\$(\w+|\{[^}]{0,200}\}|[@*#?$!-])")
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_BREAKS = "\n;&|()"
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\033"}


class ShellToken(NamedTuple):
    """One token as a program gets it.

    Attributes:
        text: without its quotes.
        start, end: its offsets in the text given.
        line, column: where it starts, from 1.
        expands: variables and commands in it, which only the shell knows.
    """

    text: str
    start: int
    end: int
    line: int
    column: int
    expands: tuple[str, ...]


class ShellCommand(NamedTuple):
    """The command of a text that starts a vLLM server.

    Attributes:
        tokens: from `vllm` or `python` on.
        env: variables in front of it, and those that the text exports before.
        before: tokens in front of it that are neither, such as `nohup`.
        lost: tokens that look as if they belonged to it, but the shell takes them for the next command: a comment, or
            a blank behind a backslash, ended the line.
    """

    tokens: tuple[ShellToken, ...]
    env: dict[str, str]
    before: tuple[ShellToken, ...]
    lost: tuple[ShellToken, ...] = ()

    @property
    def texts(self) -> list[str]:
        """What parse_serve takes."""
        return [token.text for token in self.tokens]


def split_line(text: str) -> ShellCommand:
    """The first command in `text` that starts a vLLM server.

    Raises:
        InputError: CG906 a quote is not closed or the text is binary, CG905 no vLLM server is started, CG914 too long.
    """
    if len(text) > MAX_CHARS:
        raise InputError(
            f"the command line is longer than {MAX_CHARS // 1024} KiB",
            code="CG914",
            fix="put long settings into the file of --config",
        )
    if "\0" in text:
        raise InputError("the command line is binary", code="CG906", fix="give it as text")
    exported: dict[str, str] = {}
    commands = _Lexer(text).commands()
    for index, words in enumerate(commands):
        found = _command(words, exported)
        if found is not None:
            following = commands[index + 1] if index + 1 < len(commands) else []
            lost = following if following and following[0].text.startswith("-") else ()
            return found._replace(lost=tuple(lost))
        if words[0].text == "export" or all(_ENV.match(word.text) for word in words):
            exported.update(_pairs(words))
    raise InputError(
        "no command here starts a vLLM server",
        code="CG905",
        fix=f"write `vllm serve MODEL ...` or `python -m {SERVER_MODULE} --model MODEL ...`",
    )


def _command(words: Sequence[ShellToken], exported: dict[str, str]) -> ShellCommand | None:
    start = next((index for index in range(len(words)) if _starts(words, index)), None)
    if start is None:
        return None
    front = words[:start]
    env = {**exported, **_pairs(front)}
    before = tuple(word for word in front if not _ENV.match(word.text))
    return ShellCommand(tuple(words[start:]), env, before)


def _starts(words: Sequence[ShellToken], index: int) -> bool:
    program = words[index].text.rpartition("/")[2]
    if program == "vllm":
        return index + 1 < len(words) and not _ENV.match(words[index + 1].text)
    if not re.fullmatch(r"python[0-9.]*", program):
        return False
    module = [word.text for word in words[index : index + 6]]
    return any(a == "-m" and b in (SERVER_MODULE, MAIN_MODULE) for a, b in pairwise(module))


def _pairs(words: Sequence[ShellToken]) -> dict[str, str]:
    found = {}
    for word in words:
        if _ENV.match(word.text):
            name, _, value = word.text.partition("=")
            found[name] = value
    return found


class _Lexer:
    """Cuts a text into commands of tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.line_start = 0
        self.counted = 0

    def commands(self) -> list[list[ShellToken]]:
        """Every simple command with at least one token."""
        found: list[list[ShellToken]] = [[]]
        while self._skip_blanks():
            char = self.text[self.at]
            if char in _BREAKS:
                self.at += 1
                found.append([])
            elif char in "<>":
                self._skip_redirection(found[-1])
            else:
                found[-1].append(self._word())
        return [command for command in found if command]

    def _skip_blanks(self) -> bool:
        """Go to the next token; False at the end."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char == "\\" and self._continues(self.at):
                self.at = self._continues(self.at)
            elif _BLANKS.match(self.text, self.at):
                self.at += len(_BLANKS.match(self.text, self.at)[0])  # type: ignore[index]
            else:
                return True
        return False

    def _continues(self, at: int) -> int:
        """Where the text goes on behind a backslash that ends its line; 0 if this one does not."""
        end = at + 1
        if self.text[end : end + 1] == "\r":
            end += 1
        return end + 1 if self.text[end : end + 1] == "\n" else 0

    def _skip_redirection(self, command: list[ShellToken]) -> None:
        before = command[-1] if command else None
        if before is not None and before.end == self.at and before.text.isdigit():
            command.pop()  # 2>file: the number is the stream
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        if self._skip_blanks() and self.text[self.at] not in _BREAKS:
            self._word()

    def _word(self) -> ShellToken:
        start = self.at
        line, column = self._position(start)
        parts: list[str] = []
        expands: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                parts.append(plain[0])
                self.at = plain.end()
            elif char == "'":
                parts.append(self._single(self.at + 1))
            elif char == '"':
                self._double(parts, expands)
            elif char == "\\":
                self._escape(parts)
            elif char in "$`":
                self._expansion(parts, expands)
            else:
                break
        return ShellToken("".join(parts), start, self.at, line, column, tuple(expands))

    def _single(self, start: int) -> str:
        end = self.text.find("'", start)
        if end < 0:
            raise self._open_quote(start - 1, "'")
        self.at = end + 1
        return self.text[start:end]

    def _double(self, parts: list[str], expands: list[str]) -> None:
        start = self.at
        self.at += 1
        while self.at < len(self.text):
            plain = _IN_DOUBLE.match(self.text, self.at)
            if plain is not None:
                parts.append(plain[0])
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char != "\\":
                self._expansion(parts, expands, in_quotes=True)
            elif self._continues(self.at):
                self.at = self._continues(self.at)
            else:
                pair = self.text[self.at : self.at + 2]
                parts.append(pair[1:] if pair[1:] in ('"', "\\", "$", "`") else pair)
                self.at += 2
        raise self._open_quote(start, '"')

    def _escape(self, parts: list[str]) -> None:
        end = self._continues(self.at)
        if end:
            self.at = end
        else:
            parts.append(self.text[self.at + 1 : self.at + 2])
            self.at += 2

    def _expansion(self, parts: list[str], expands: list[str], *, in_quotes: bool = False) -> None:
        start = self.at
        if not in_quotes and self.text.startswith("$'", start):
            self.at = start + 1
            parts.append(self._ansi(self.at + 1))
            return
        variable = _VARIABLE.match(self.text, start)
        if variable is not None:
            self.at = variable.end()
        elif self.text.startswith("$(", start):
            self.at = self._closing(start)
        elif self.text[start] == "`":
            end = self.text.find("`", start + 1)
            if end < 0:
                raise self._open_quote(start, "`")
            self.at = end + 1
        else:
            self.at = start + 1
        raw = self.text[start : self.at]
        parts.append(raw)
        if len(raw) > 1:
            expands.append(raw)

    def _closing(self, start: int) -> int:
        depth = 0
        for found in re.compile(r"[()]").finditer(self.text, start):
            depth += 1 if found[0] == "(" else -1
            if depth == 0:
                return found.end()
        raise self._open_quote(start, "$(")

    def _ansi(self, start: int) -> str:
        body = re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL).match(self.text, start)
        end = start if body is None else body.end()
        if self.text[end : end + 1] != "'":
            raise self._open_quote(start - 1, "$'")
        self.at = end + 1
        return re.sub(r"\\(.)", lambda found: _ANSI.get(found[1], found[1]), self.text[start:end], flags=re.DOTALL)

    def _position(self, at: int) -> tuple[int, int]:
        """Line and column of an offset; offsets only grow."""
        self.line += self.text.count("\n", self.counted, at)
        self.line_start = max(self.line_start, self.text.rfind("\n", self.counted, at) + 1)
        self.counted = at
        return self.line, at - self.line_start + 1

    def _open_quote(self, at: int, quote: str) -> InputError:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return InputError(
            f"line {line}, column {column}: {quote} is not closed",
            code="CG906",
            where=f"line {line}, column {column}",
            fix="close it; JSON stands best in single quotes",
        )
