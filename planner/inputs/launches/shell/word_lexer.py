"""Words of a shell: quotes, escapes, expansions and arrays. Nothing is expanded here."""

from __future__ import annotations

import re

from .grammar import ASSIGNMENT, Fault, Piece, ShellWord

_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_FREE = re.compile(r"[^'\"\\$`]+")
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_NAME = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_NESTED = re.compile(r"\\.|\$[({]|['\"`(){}]", re.DOTALL)
_CLOSER = {"(": ")", "{": "}", '"': '"', "`": "`"}
_ANSI_BODY = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\033"}


class Unclosed(Exception):
    """The text ends within a quote."""

    def __init__(self, at: int, quote: str) -> None:
        self.fault = Fault(at, quote)


class WordLexer:
    """Cuts words off a text, one after the other.

    Attributes:
        at: where it stands.
        fault: where the text ends within a quote, or None.
        comments: where comments begin, as far as it went.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.fault: Fault | None = None
        self.in_array = False
        self.comments: list[int] = []

    def free_text(self, quoted: bool) -> list[Piece]:
        """The pieces of a text in which blanks and operators mean nothing, as within ${X:-...}."""
        pieces: list[Piece] = []
        try:
            while self.at < self.end:
                char = self.text[self.at]
                if char == "'" and not quoted:
                    self._single(pieces)
                elif char == '"' and not quoted:
                    self._double(pieces)
                elif char == "\\":
                    self._escape(pieces)
                elif char in "$`":
                    self._expansion(pieces, '"' if quoted else "")
                else:
                    found = _FREE.match(self.text, self.at)
                    end = found.end() if found else self.at + 1
                    pieces.append(Piece("text", self.text[self.at : end], self.at, end))
                    self.at = end
        except Unclosed as unclosed:
            self.fault = unclosed.fault
        return pieces

    def skip_blanks(self) -> bool:
        """Go to the next character that is no blank and no comment; False at the end."""
        while self.at < self.end:
            char = self.text[self.at]
            if char == "#":
                self.comments.append(self.at)
                end = self.text.find("\n", self.at)
                self.at = self.end if end < 0 else end
            elif char == "\\" and self._continues(self.at):
                self.at = self._continues(self.at)
            elif (blanks := _BLANKS.match(self.text, self.at)) is not None:
                self.at = blanks.end()
            else:
                return True
        return False

    def _continues(self, at: int) -> int:
        """Where the text goes on behind a backslash that ends its line; 0 if this one does not."""
        end = at + 1
        if self.text[end : end + 1] == "\r":
            end += 1
        return end + 1 if self.text[end : end + 1] == "\n" else 0

    def word(self) -> ShellWord:
        """The word that begins here, which is no blank and no operator."""
        start = self.at
        pieces: list[Piece] = []
        array: tuple[ShellWord, ...] | None = None
        while self.at < self.end:
            char = self.text[self.at]
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                pieces.append(Piece("text", plain[0], self.at, plain.end()))
                self.at = plain.end()
            elif char == "'":
                self._single(pieces)
            elif char == '"':
                self._double(pieces)
            elif char == "\\":
                self._escape(pieces)
            elif char in "$`":
                self._expansion(pieces)
            elif char == "(" and not self.in_array and len(pieces) == 1 and _is_assignment(pieces[0]):
                array = self._array()
            elif char == "(" and pieces and pieces[-1].text[-1:] in ("@", "?", "!", "+", "*") and not pieces[-1].quote:
                end = self.closing(self.at, "(")  # an extended pattern: @(a|b)
                pieces.append(Piece("text", self.text[self.at : end], self.at, end))
                self.at = end
            else:
                break
        if self.at == start:
            self.at += 1  # a character that starts nothing, such as a vertical tab of another script
            pieces.append(Piece("text", self.text[start : self.at], start, self.at))
        return ShellWord(tuple(pieces), start, self.at, array)

    def _array(self) -> tuple[ShellWord, ...]:
        start = self.at
        self.at += 1
        self.in_array = True
        words: list[ShellWord] = []
        while self.skip_blanks():
            char = self.text[self.at]
            if char == ")":
                self.at += 1
                self.in_array = False
                return tuple(words)
            if char in "\n;&|<>(":
                self.at += 1
            else:
                words.append(self.word())
        raise Unclosed(start, "(")

    def _single(self, pieces: list[Piece]) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise Unclosed(self.at, "'")
        pieces.append(Piece("text", self.text[self.at + 1 : end], self.at + 1, end, "'"))
        self.at = end + 1

    def _double(self, pieces: list[Piece]) -> None:
        start = self.at
        self.at += 1
        first = len(pieces)
        while self.at < self.end:
            plain = _IN_DOUBLE.match(self.text, self.at)
            if plain is not None:
                pieces.append(Piece("text", plain[0], self.at, plain.end(), '"'))
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char == '"':
                if len(pieces) == first:
                    pieces.append(Piece("text", "", self.at, self.at, '"'))
                self.at += 1
                return
            if char != "\\":
                self._expansion(pieces, quote='"')
            elif self._continues(self.at):
                self.at = self._continues(self.at)
            else:
                pair = self.text[self.at : self.at + 2]
                text = pair[1:] if pair[1:] in ('"', "\\", "$", "`") else pair
                pieces.append(Piece("text", text, self.at, self.at + 2, '"'))
                self.at += 2
        raise Unclosed(start, '"')

    def _escape(self, pieces: list[Piece]) -> None:
        end = self._continues(self.at)
        if end:
            self.at = end
        else:
            text = self.text[self.at + 1 : self.at + 2]
            self.at = min(self.at + 2, self.end)
            pieces.append(Piece("text", text, self.at - len(text), self.at, "\\"))

    def _expansion(self, pieces: list[Piece], quote: str = "") -> None:
        start = self.at
        if not quote and self.text.startswith("$'", start):
            self._ansi(pieces)
            return
        if not quote and self.text.startswith('$"', start):
            self.at += 1
            self._double(pieces)
            return
        name = _NAME.match(self.text, start)
        kind = "variable"
        if name is not None:
            self.at = name.end()
        elif self.text.startswith("${", start):
            self.at = self.closing(start + 1, quote)
        elif self.text.startswith("$(", start):
            kind = "command"
            self.at = self.closing(start + 1)
        elif self.text[start] == "`":
            kind = "command"
            end = self.text.find("`", start + 1)
            if end < 0:
                raise Unclosed(start, "`")
            self.at = end + 1
        else:
            kind = "text"
            self.at = start + 1
        pieces.append(Piece(kind, self.text[start : self.at], start, self.at, quote))

    def closing(self, start: int, quote: str = "") -> int:
        """Behind the bracket that closes the one at `start`; quotes within are passed over."""
        stack = [_CLOSER[self.text[start]]]
        at = start + 1
        while (found := _NESTED.search(self.text, at)) is not None:
            token, at, top = found[0], found.end(), stack[-1]
            if token == top:
                stack.pop()
                if not stack:
                    return at
            elif token in ("$(", "${", '"', "`"):
                stack.append(_CLOSER[token[-1]])
            elif token == "(" and top == ")":
                stack.append(")")
            elif token == "'" and not _is_quoted(stack, quote):
                end = self.text.find("'", at)
                if end < 0:
                    break
                at = end + 1
        raise Unclosed(start - 1 if self.text[start - 1 : start] == "$" else start, f"${self.text[start]}")

    def _ansi(self, pieces: list[Piece]) -> None:
        start = self.at + 2
        body = _ANSI_BODY.match(self.text, start)
        end = start if body is None else body.end()
        if self.text[end : end + 1] != "'":
            raise Unclosed(self.at, "$'")
        text = re.sub(r"\\(.)", lambda found: _ANSI.get(found[1], found[1]), self.text[start:end], flags=re.DOTALL)
        pieces.append(Piece("text", text, start, end, "$'"))
        self.at = end + 1


def _is_assignment(piece: Piece) -> bool:
    return piece.kind == "text" and not piece.quote and bool(ASSIGNMENT.fullmatch(piece.text))


def _is_quoted(stack: list[str], quote: str) -> bool:
    """Whether a single quote is a plain character here: within double quotes, or ${...} within them."""
    for closer in reversed(stack):
        if closer == '"':
            return True
        if closer != "}":
            return False
    return quote == '"'
