"""Comments that silence findings: `# cgplan: ignore CG123` and, at the top of a file, `# cgplan: ignore-file`."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import nearest
from ..inputs.launches.asked import Located
from ..inputs.launches.launch import Source, Span
from ..trace import RENAMED
from .diagnostic import Diagnostic, Hit
from .registry import diagnostic
from .selection import fits, known_codes
from .suppress_rules import MISREAD, UNUSED

WORDS = ("ignore", "ignore-file")
ALIKE = 3
"""Letters at least of a word that is taken for a misspelt `ignore`."""

MOST = 1_000
"""Comments of one text that are heeded, and codes of one comment."""

MARK = "cgplan:"
_BEGINS = re.compile(r"(?:^|(?<=[\s\ufeff]))#\s*cgplan:\s*[\w-]")
_COMMENT = re.compile(r"#\s*cgplan:\s*([\w-]+)([^\r\n]*)")
_CODE = re.compile(r"[\s,:=\[]*([A-Za-z]{2}[0-9]\w*|[Cc][Gg])(?![\w-])")


class Comment(NamedTuple):
    """One comment.

    Attributes:
        line: where it stands, from 1.
        span: from its # to its last code.
        word: as it was written.
        codes: codes or beginnings of codes, () for every code.
        unknown: what looks like a code and is none.
        alone: nothing else is in its line, so that it speaks of what follows.
        at_top: nothing but comments and blank lines come before it.
    """

    line: int
    span: Span
    word: str
    codes: tuple[str, ...]
    unknown: tuple[str, ...]
    alone: bool
    at_top: bool

    @property
    def whole_file(self) -> bool:
        return self.word == "ignore-file" and self.at_top

    def silences(self, code: str) -> bool:
        return (not self.codes and not self.unknown) or fits(code, self.codes)


class Silenced(NamedTuple):
    """What the comments of a file do.

    Attributes:
        kept: for each diagnostic, whether it is still to be said.
        further: of the comments themselves: unused, or misread.
    """

    kept: tuple[bool, ...]
    further: tuple[Diagnostic, ...]


def silence(source: Source, diagnostics: Sequence[Diagnostic]) -> Silenced:
    """Apply the comments of `source`, and of the files that its diagnostics point into."""
    texts = {id(source): _Text(source)}
    used: dict[tuple[int, int], set[str]] = defaultdict(set)
    silent: dict[tuple[int, int, str], bool] = {}
    kept = []
    for one in diagnostics:
        where = one.at.source if one.at is not None else source
        if id(where) not in texts:
            texts[id(where)] = _Text(where)
        text = texts[id(where)]
        key = (id(text), one.at.span.line if one.at is not None else 0, one.code)
        if key not in silent:
            hits = [comment for comment in text.of(one) if comment.silences(one.code)]
            for comment in hits:
                used[id(text), comment.span.start].add(one.code)
            silent[key] = bool(hits)
        kept.append(not silent[key])
    own = texts[id(source)]
    further = [found for comment in own.comments for found in _about(own, comment, used[id(own), comment.span.start])]
    if len(own.comments) == MOST:
        at = Located(source, own.comments[-1].span)
        further.append(_misread(at, f"of comments for cgplan {MOST:,} are heeded, not more", "drop some"))
    return Silenced(tuple(kept), tuple(one for one in further if not own.silences_file(one.code)))


def comments(source: Source) -> tuple[Comment, ...]:
    """The comments for cgplan in a text, the first MOST of them. What stands in quotes or in a value is none."""
    if MARK not in source.text:
        return ()
    from ..inputs.launches.comments import Comments

    real = Comments(source, MARK)
    found: list[Comment] = []
    at, at_top = 0, True
    kinds: dict[str, bool] = {}
    for number, line in enumerate(source.text.split("\n"), 1):
        start = next((one for one in _hashes(line) if real.holds(at + one)), None)
        match = _COMMENT.match(line, start) if start is not None else None
        if match is not None:
            found.append(_comment(match, number, at, line, at_top, kinds))
            if len(found) == MOST:
                break
        stripped = line.strip("\ufeff \t\r")
        at_top = at_top and (not stripped or stripped.startswith(("#", "%")) or stripped == "---")
        at += len(line) + 1
    return tuple(found)


def _hashes(line: str) -> Iterator[int]:
    """Where what looks like a comment for cgplan begins."""
    return (found.start() for found in _BEGINS.finditer(line)) if MARK in line else iter(())


def _comment(
    match: re.Match[str], number: int, at: int, line: str, at_top: bool, kinds: dict[str, bool]
) -> Comment:  # fmt: skip
    """One comment. `kinds` keeps, of each code in capitals, whether there is one that begins so."""
    end = match.start(2)
    written: dict[str, None] = {}
    while len(written) < MOST and (code := _CODE.match(line, end, match.end(2))) is not None:
        written[code[1]] = None
        end = code.end()
    for text in written:
        upper = text.upper()
        if upper not in kinds:
            kinds[upper] = any(one.startswith(upper) for one in known_codes())
    codes = tuple(RENAMED.get(text.upper(), text.upper()) for text in written if kinds[text.upper()])
    unknown = tuple(text for text in written if not kinds[text.upper()])
    alone = not line[: match.start()].strip("\ufeff \t")
    span = Span(at + match.start(), at + end, number, match.start() + 1)
    return Comment(number, span, match[1], codes, unknown, alone, at_top and alone)


class _Text:
    """One text, and which of its comments speak of which line."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.comments = comments(source)
        self.whole = [comment for comment in self.comments if comment.whole_file]
        self.by_line = {comment.line: comment for comment in self.comments if comment.word == "ignore"}
        self.lines = source.text.split("\n") if self.by_line else []
        self.begins, self.parents = _structure(self.lines)
        self.found: dict[int, tuple[Comment, ...]] = {}

    def silences_file(self, code: str) -> bool:
        return any(comment.silences(code) for comment in self.whole)

    def of(self, one: Diagnostic) -> Iterator[Comment]:
        """The comments that speak of a diagnostic's place."""
        yield from self.whole
        if one.at is None or not self.by_line:
            return
        for line in dict.fromkeys(self._lines_of(one.at.span.line)):
            if line not in self.found:
                self.found[line] = tuple(self._at(line))
            yield from self.found[line]

    def _at(self, line: int) -> Iterator[Comment]:
        """The comments beside a line, and those on lines of their own above it."""
        beside = self.by_line.get(line)
        if beside is not None and not beside.alone:
            yield beside
        above = line - 1
        while above and self._text(above).startswith("#"):
            if above in self.by_line:
                yield self.by_line[above]
            above -= 1

    def _lines_of(self, line: int) -> Iterator[int]:
        """The line, where its command begins, and the key of the block that the command is written in.

        Between lines that a backslash joins there is no room for a comment, nor within a block of a YAML file where it
        would be part of the text.
        """
        yield line
        line = self.begins[line]
        yield line
        above = self.parents[line]
        if above and re.search(r"[|>][0-9+-]*(\s+#.*)?$", self._text(above)):
            yield above

    def _text(self, line: int) -> str:
        return self.lines[line - 1].strip("\ufeff \t\r")


def _structure(lines: Sequence[str]) -> tuple[array[int], array[int]]:
    """By line, from 1: the line where its command begins, and the nearest line above that is indented less; 0: none."""
    begins, parents = array("l", (0,)), array("l", (0,))
    outer: list[tuple[int, int]] = []
    joins = False
    for number, line in enumerate(lines, 1):
        text = line.strip("\ufeff \t\r")
        begins.append(begins[-1] if joins else number)
        indent = len(line) - len(line.lstrip(" "))
        if text:
            while outer and outer[-1][0] >= indent:
                outer.pop()
            parents.append(outer[-1][1] if outer else 0)
            outer.append((indent, number))
        else:
            inside = bisect_left(outer, (indent, 0))
            parents.append(outer[inside - 1][1] if inside else 0)
        joins = text.endswith("\\")
    return begins, parents


def _about(text: _Text, comment: Comment, hits: set[str]) -> Iterator[Diagnostic]:
    """What is to be said of a comment that silenced the codes `hits`."""
    at = Located(text.source, comment.span)
    if comment.word not in WORDS:
        near = nearest(comment.word, WORDS, 1) if len(comment.word) >= ALIKE else []
        if near:
            yield _misread(at, f"{comment.word!r} is not a word for cgplan", f"did you mean {near[0]}?")
        return
    if comment.word == "ignore-file" and not comment.at_top:
        yield _misread(at, "ignore-file counts at the top of a file only", "put it before the first line of content")
        return
    for code in comment.unknown:
        near = nearest(code.upper(), known_codes(), 1)
        fix = f"did you mean {near[0]}?" if near else "cgplan explain lists all codes"
        yield _misread(at, f"there is no code {code[:40]}", fix)
    if comment.codes:
        idle = [code for code in comment.codes if not any(hit.startswith(code) for hit in hits)]
    else:
        idle = [] if hits or comment.unknown else ["every code"]
    if idle:
        where = "in this file" if comment.whole_file else "here"
        hit = Hit(f"the comment silences {', '.join(idle)}, of which there is nothing {where}", "drop it", at)
        yield diagnostic(UNUSED.code, "info", hit)


def _misread(at: Located, message: str, fix: str) -> Diagnostic:
    return diagnostic(MISREAD.code, "warning", Hit(message, fix, at))
