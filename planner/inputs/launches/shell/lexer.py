"""A shell script as commands and blocks. Nothing is run and nothing is expanded here."""

from __future__ import annotations

import re
from typing import NamedTuple

from .grammar import HereDocument, Item, Piece, ShellWord
from .word_lexer import Unclosed, WordLexer

MAX_SCRIPT = 2**18
"""Longest script that is read, in characters; the words of it are objects."""

MAX_DEPTH = 100
"""Blocks within blocks that are still told apart."""

_OPERATOR = re.compile(r";;&|;;|;&|;|&&|&>>|&>|&|\|\||\|&|\|")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)|&>>|&>")
_FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")

_OPENS = {"if": "if", "while": "loop", "until": "loop", "{": "group"}
_ARMS = ("else", "elif")
_CLOSES = {"fi": "if", "done": "loop", "}": "group", "esac": "case"}
_SKIPPED = ("then", "do", "!", "time")


class _Waiting(NamedTuple):
    """A here-document whose body is still to come.

    Attributes:
        name: the line that ends it.
        tabs: it may be indented with tabs.
        owner: index of the item that gets it; -1 while that is not finished.
    """

    name: str
    tabs: bool
    owner: int = -1


class Lexer(WordLexer):
    """Cuts a text into items; `fault` says where it is not shell."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.items: list[Item] = []
        self.words: list[ShellWord] = []
        self.waiting: list[_Waiting] = []
        self.blocks: list[str] = []

    def read(self) -> list[Item]:
        """All items."""
        try:
            while self.skip_blanks():
                self._step()
        except Unclosed as unclosed:
            self.fault = unclosed.fault
            self.words = []  # half a command is none
        self._finish("")
        return self.items

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
            self.at = self.closing(self.at)
            return
        self.at += 1
        self._finish("(")
        self._open("subshell")

    def _pattern(self) -> None:
        """`pattern)` of a case, or its `esac`."""
        if self.text[self.at] == "(":
            self.at += 1
            if not self.skip_blanks():
                return
        word = self.word()
        if word.plain == "esac":
            self._close("case")
            return
        while self.skip_blanks() and self.text[self.at] not in ")\n":
            if self.text[self.at] in "|;&<>(":
                self.at += 1
            else:
                self.word()
        self.at += 1
        self._open("arm")

    def _word_or_keyword(self) -> None:
        word = self.word()
        start = word.start
        if self.words:
            self.words.append(word)
            return
        plain = word.plain
        if plain is None or plain in _SKIPPED:
            if plain is None:
                self.words.append(word)
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
            self.words.append(word)

    def _for(self, word: ShellWord) -> None:
        words: list[ShellWord] = []
        if self.skip_blanks() and self.text.startswith("((", self.at):
            self.at = self.closing(self.at)
        else:
            words = self._rest_of_line()
        self.items.append(Item("open", tuple(words), "for", start=word.start))
        self._push("loop")

    def _case(self) -> None:
        while self.skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            if self.word().plain == "in":
                break
        self._open("case")

    def _function(self) -> None:
        if self.skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            self._body(self.word().raw)

    def _body(self, name: str) -> None:
        found = _FUNCTION.match(self.text, self.at)
        self.at = found.end() if found else self.at
        while self.skip_blanks() and self.text[self.at] == "\n":
            self.at += 1
        if self.text.startswith("{", self.at):
            self.at += 1
            self._open(f"function {name}", "group")
        elif self.text.startswith("(", self.at):
            self.at += 1
            self._open(f"function {name}", "subshell")

    def _test(self, word: ShellWord) -> None:
        """`[[ ... ]]`: operators within are its own."""
        self.words.append(word)
        while self.skip_blanks():
            if self.text[self.at] in "\n;&|()<>":
                self.at += 1
                continue
            word = self.word()
            self.words.append(word)
            if word.plain == "]]":
                return

    def _rest_of_line(self) -> list[ShellWord]:
        words = []
        while self.skip_blanks() and self.text[self.at] not in "\n;&|()<>":
            words.append(self.word())
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
            last = len(self.items) - 1
            self.waiting = [one._replace(owner=last) if one.owner < 0 else one for one in self.waiting]
        self.words = []

    def _redirection(self) -> None:
        found = _REDIRECTION.match(self.text, self.at)
        sign = (found[0] if found else "<").lstrip("0123456789")
        if self.text.startswith(("<(", ">("), self.at):
            start = self.at
            self.at = self.closing(self.at + 1)
            self.words.append(
                ShellWord((Piece("command", self.text[start : self.at], start, self.at),), start, self.at)
            )
            return
        self.at = found.end() if found else self.at + 1
        if not self.skip_blanks() or self.text[self.at] == "\n":
            return
        if self.text.startswith(("<(", ">("), self.at):
            self.at = self.closing(self.at + 1)
        elif self.text[self.at] not in ";&|()<>":
            word = self.word()
            if sign in ("<<", "<<-"):
                self.waiting.append(_Waiting(word.raw, sign == "<<-"))

    def _read_documents(self) -> None:
        """Bodies of the here-documents that the line before this one began."""
        waiting, self.waiting = self.waiting, []
        for name, tabs, owner in waiting:
            start = self.at
            while self.at < self.end:
                end = self.text.find("\n", self.at)
                end = self.end if end < 0 else end
                line = self.text[self.at : end].removesuffix("\r")
                found = (line.lstrip("\t") if tabs else line) == name
                body_end = self.at
                self.at = min(end + 1, self.end)
                if found:
                    break
                body_end = self.at
            else:
                body_end = self.at
            if 0 <= owner < len(self.items):
                item = self.items[owner]
                document = HereDocument(start, body_end)
                self.items[owner] = item._replace(documents=(*item.documents, document))
