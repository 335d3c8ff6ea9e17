"""What a shell script consists of: words and their pieces, commands and the edges of blocks."""

from __future__ import annotations

import re
from typing import NamedTuple

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]=]*\])?\+?=")
"""NAME=, NAME+= and NAME[index]= at the start of a word."""


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
        return first is not None and first.kind == "text" and not first.quote and bool(ASSIGNMENT.match(first.text))


class HereDocument(NamedTuple):
    """Lines that a command gets as its input: offsets of the first and behind the last."""

    start: int
    end: int


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
