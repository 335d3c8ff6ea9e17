"""A shell script as words, commands and blocks. Nothing is run and nothing is expanded here."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_SCRIPT = 2**18
"""Longest script that is read, in characters; the words of it are objects."""

MAX_DEPTH = 100
"""Blocks within blocks that are still told apart."""

_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_FREE = re.compile(r"[^'\"\\$`]+")
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_NAME = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]=]*\])?\+?=")
_OPERATOR = re.compile(r";;&|;;|;&|;|&&|&>>|&>|&|\|\||\|&|\|")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)|&>>|&>")
_FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
_NESTED = re.compile(r"\\.|\$[({]|['\"`(){}]", re.DOTALL)
_CLOSER = {"(": ")", "{": "}", '"': '"', "`": "`"}
_ANSI_BODY = re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\033"}

_OPENS = {"if": "if", "while": "loop", "until": "loop", "{": "group"}
_ARMS = ("else", "elif")
_CLOSES = {"fi": "if", "done": "loop", "}": "group", "esac": "case"}
_SKIPPED = ("then", "do", "!", "time")


class Piece(NamedTuple):
    """A part of a word.

    Attributes:
        kind: "text", "variable" ($X and ${...}), "command" ($(...), `...` and $((...))).
        text: what it stands for; of the others as written.
        start, end: offsets of what is written, quotes left out.
        quote: "", "'", '"', "\\\\" or "$'".
    """

    kind: str
    text: str
    start: int
    end: int
    quote: str = ""


class ShellWord(NamedTuple):
    """One word as written: its pieces; of NAME=(...) also the words within."""

    pieces: tuple[Piece, ...]
    start: int
    end: int
    array: tuple[ShellWord, ...] | None = None

    @property
    def plain(self) -> str | None:
        """Its text where it is written without quotes and expansions."""
        if len(self.pieces) == 1 and self.pieces[0].kind == "text" and not self.pieces[0].quote:
            return self.pieces[0].text
        return None

    @property
    def raw(self) -> str:
        """Its text with expansions left as they are written."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def assigns(self) -> bool:
        first = self.pieces[0] if self.pieces else None
        return first is not None and first.kind == "text" and not first.quote and bool(_ASSIGNMENT.match(first.text))


class HereDocument(NamedTuple):
    """Lines that a command gets as its input: offsets of the first and behind the last."""

    start: int
    end: int
    quoted: bool


class Item(NamedTuple):
    """A simple command, or the edge of a block.

    Attributes:
        kind: "command", "open", "arm" (another branch begins) or "close".
        words: of a command; of an opened `for` its name and words.
        what: of a block: "if", "loop", "for", "case", "group", "subshell", or "function NAME".
        ends: what ends the command: ";", "&", "&&", "||", "|", a line break, or "".
        documents: its here-documents.
        start: offset.
    """

    kind: str
    words: tuple[ShellWord, ...] = ()
    what: str = ""
    ends: str = ""
    documents: tuple[HereDocument, ...] = ()
    start: int = 0


class Fault(NamedTuple):
    """Where a text ends within a quote."""

    at: int
    quote: str


class _Unclosed(Exception):
    def __init__(self, at: int, quote: str) -> None:
        self.fault = Fault(at, quote)


class Lexer:
    """Cuts a text into items; `fault` says where it is not shell."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text if end is None else text[:end]
        self.at = start
        self.end = len(self.text)
        self.items: list[Item] = []
        self.fault: Fault | None = None
        self.words: list[ShellWord] = []
        self.waiting: list[tuple[str, bool, bool, int]] = []
        self.blocks: list[str] = []
        self.in_array = False

    def read(self) -> list[Item]:
        """All items."""
        try:
            while self._skip_blanks():
                self._step()
        except _Unclosed as unclosed:
            self.fault = unclosed.fault
            self.words = []  # half a command is none
        self._finish("")
        return self.items

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
        except _Unclosed as unclosed:
            self.fault = unclosed.fault
        return pieces

    def _step(self) -> None:
        char = self.text[self.at]
        if char == "\n":
            self.at += 1
            self._finish("\n")
            self._read_documents()
        elif _REDIRECTION.match(self.text, self.at):
            self._redirection()
        elif char in ";&|":
            self._operator()
        elif self.blocks and self.blocks[-1] == "case" and not self.words and char != ")":
            self._pattern()
        elif char == "(":
            self._parenthesis()
        elif char == ")":
            self.at += 1
            self._finish(")")
            self._close("subshell")
        else:
            self._word_or_keyword()

    def _operator(self) -> None:
        found = _OPERATOR.match(self.text, self.at)
        operator = found[0] if found else ";"
        self.at += len(operator)
        self._finish(operator)
        if operator in (";;", ";&", ";;&"):
            self._close("arm")

    def _parenthesis(self) -> None:
        if self.text.startswith("((", self.at) and not self.words:
            self.at = self._closing(self.at)
            return
        self.at += 1
        self._finish("(")
        self._open("subshell")

    def _pattern(self) -> None:
        """`pattern)` of a case, or its `esac`."""
        if self.text[self.at] == "(":
            self.at += 1
            if not self._skip_blanks():
                return
        word = self._word()
        if word.plain == "esac":
            self._close("case")
            return
        while self._skip_blanks() and self.text[self.at] not in ")\n":
            if self.text[self.at] in "|;&<>(":
                self.at += 1
            else:
                self._word()
        self.at += 1
        self._open("arm")

    def _word_or_keyword(self) -> None:
        word = self._word()
        start = word.start
        if self.words:
            self._add(word)
            return
        plain = word.plain
        if plain is None or plain in _SKIPPED:
            if plain is None:
                self._add(word)
        elif plain in ("for", "select"):
            self._for(word)
        elif plain == "case":
            self._case()
        elif plain == "function":
            self._function()
        elif plain == "[[":
            self._test(word)
        elif plain in _OPENS:
            self._open(_OPENS[plain])
        elif plain in _ARMS:
            self.items.append(Item("arm", start=start))
        elif plain in _CLOSES:
            self._close(_CLOSES[plain])
        elif _FUNCTION.match(self.text, self.at) and "=" not in plain:
            self._body(plain)
        else:
            self._add(word)

    def _add(self, word: ShellWord) -> None:
        self.words.append(word)

    def _for(self, word: ShellWord) -> None:
        words: list[ShellWord] = []
        if self._skip_blanks() and self.text.startswith("((", self.at):
            self.at = self._closing(self.at)
        else:
            words = self._rest_of_line()
        self.items.append(Item("open", tuple(words), "for", start=word.start))
        self._push("loop")

    def _case(self) -> None:
        while self._skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            if self._word().plain == "in":
                break
        self._open("case")

    def _function(self) -> None:
        if self._skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            self._body(self._word().raw)

    def _body(self, name: str) -> None:
        found = _FUNCTION.match(self.text, self.at)
        self.at = found.end() if found else self.at
        while self._skip_blanks() and self.text[self.at] == "\n":
            self.at += 1
        if self.text.startswith("{", self.at):
            self.at += 1
            self._open(f"function {name}", "group")
        elif self.text.startswith("(", self.at):
            self.at += 1
            self._open(f"function {name}", "subshell")

    def _test(self, word: ShellWord) -> None:
        """`[[ ... ]]`: operators within are its own."""
        self._add(word)
        while self._skip_blanks():
            if self.text[self.at] in "\n;&|()<>":
                self.at += 1
                continue
            word = self._word()
            self._add(word)
            if word.plain == "]]":
                return

    def _rest_of_line(self) -> list[ShellWord]:
        words = []
        while self._skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            words.append(self._word())
        return words

    def _open(self, what: str, closed_as: str | None = None) -> None:
        self.items.append(Item("open", what=what, start=self.at))
        self._push(closed_as or what)

    def _push(self, what: str) -> None:
        if len(self.blocks) < MAX_DEPTH:
            self.blocks.append(what)

    def _close(self, what: str) -> None:
        """Close the innermost such block, and what is still open within it."""
        if what not in self.blocks:
            return
        while self.blocks:
            closed = self.blocks.pop()
            self.items.append(Item("close", what=closed, start=self.at))
            if closed == what:
                return

    def _finish(self, ends: str) -> None:
        if self.words or self.waiting:
            if self.words:
                start = self.words[0].start
                self.items.append(Item("command", tuple(self.words), "", ends, (), start))
            self.waiting = [
                (name, quoted, dash, len(self.items) - 1 if owner < 0 else owner)
                for name, quoted, dash, owner in self.waiting
            ]
        self.words = []

    def _redirection(self) -> None:
        found = _REDIRECTION.match(self.text, self.at)
        sign = (found[0] if found else "<").lstrip("0123456789")
        if self.text.startswith(("<(", ">("), self.at):
            start = self.at
            self.at = self._closing(self.at + 1)
            self._add(ShellWord((Piece("command", self.text[start : self.at], start, self.at),), start, self.at))
            return
        self.at = found.end() if found else self.at + 1
        if not self._skip_blanks() or self.text[self.at] == "\n":
            return
        if self.text.startswith(("<(", ">("), self.at):
            self.at = self._closing(self.at + 1)
        elif self.text[self.at] not in ";&|()<>":
            word = self._word()
            if sign in ("<<", "<<-"):
                quoted = any(piece.quote for piece in word.pieces)
                self.waiting.append((word.raw, quoted, sign == "<<-", -1))

    def _read_documents(self) -> None:
        """Bodies of the here-documents that the line before this one began."""
        waiting, self.waiting = self.waiting, []
        for name, quoted, dash, owner in waiting:
            start = self.at
            while self.at < self.end:
                end = self.text.find("\n", self.at)
                end = self.end if end < 0 else end
                line = self.text[self.at : end].removesuffix("\r")
                found = (line.lstrip("\t") if dash else line) == name
                body_end = self.at
                self.at = min(end + 1, self.end)
                if found:
                    break
                body_end = self.at
            else:
                body_end = self.at
            if 0 <= owner < len(self.items):
                item = self.items[owner]
                document = HereDocument(start, body_end, quoted)
                self.items[owner] = item._replace(documents=(*item.documents, document))

    def _skip_blanks(self) -> bool:
        """Go to the next character that is no blank and no comment; False at the end."""
        while self.at < self.end:
            char = self.text[self.at]
            if char == "#":
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

    def _word(self) -> ShellWord:
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
                end = self._closing(self.at, "(")  # an extended pattern: @(a|b)
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
        while self._skip_blanks():
            char = self.text[self.at]
            if char == ")":
                self.at += 1
                self.in_array = False
                return tuple(words)
            if char in "\n;&|<>(":
                self.at += 1
            else:
                words.append(self._word())
        raise _Unclosed(start, "(")

    def _single(self, pieces: list[Piece]) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise _Unclosed(self.at, "'")
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
        raise _Unclosed(start, '"')

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
            self.at = self._closing(start + 1, quote)
        elif self.text.startswith("$(", start):
            kind = "command"
            self.at = self._closing(start + 1)
        elif self.text[start] == "`":
            kind = "command"
            end = self.text.find("`", start + 1)
            if end < 0:
                raise _Unclosed(start, "`")
            self.at = end + 1
        else:
            kind = "text"
            self.at = start + 1
        pieces.append(Piece(kind, self.text[start : self.at], start, self.at, quote))

    def _closing(self, start: int, quote: str = "") -> int:
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
        raise _Unclosed(start - 1 if self.text[start - 1 : start] == "$" else start, f"${self.text[start]}")

    def _ansi(self, pieces: list[Piece]) -> None:
        start = self.at + 2
        body = _ANSI_BODY.match(self.text, start)
        end = start if body is None else body.end()
        if self.text[end : end + 1] != "'":
            raise _Unclosed(self.at, "$'")
        text = re.sub(r"\\(.)", lambda found: _ANSI.get(found[1], found[1]), self.text[start:end], flags=re.DOTALL)
        pieces.append(Piece("text", text, start, end, "$'"))
        self.at = end + 1


def _is_assignment(piece: Piece) -> bool:
    return piece.kind == "text" and not piece.quote and bool(_ASSIGNMENT.fullmatch(piece.text))


def _is_quoted(stack: list[str], quote: str) -> bool:
    """Whether a single quote is a plain character here: within double quotes, or ${...} within them."""
    for closer in reversed(stack):
        if closer == '"':
            return True
        if closer != "}":
            return False
    return quote == '"'
