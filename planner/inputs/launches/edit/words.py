"""Words of a command taken out or put in, with the blanks, continued lines and comments around them.

A line that holds nothing but what is taken out goes as a whole; no backslash is left that continues nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..launch import Span
from ..lines import line_end, line_start, newline_at, next_line
from .kinds import Splice

_REST = re.compile(r"[ \t]*(?P<on>\\(?=\r?\n))?(?P<comment>[ \t]+#[^\r\n]*|(?<=[ \t])#[^\r\n]*)?(?=\r?\n|\Z)")
_CONTINUED = re.compile(r"[ \t]*\\\r?\n\Z")
_BLANKS = re.compile(r"[ \t]*")


class Run(NamedTuple):
    """Words side by side on one line."""

    start: int
    end: int


def without_words(text: str, spans: Sequence[Span]) -> list[Splice]:
    """Take out the words at these spans."""
    found: list[Splice] = []
    whole: dict[int, int] = {}  # where a line starts that a line taken out ends at: where that one starts
    for run in _runs(text, spans):
        start = line_start(text, run.start)
        rest = _REST.match(text, run.end)
        if text[start : run.start].strip(" \t"):
            splice = _within_line(text, run)
        elif rest is None:
            splice = _at_front(text, run, whole)
        else:
            whole[next_line(text, rest.end())] = start
            before = None if rest["on"] else _continued_before(text, start, whole)
            if before is not None:
                splice = Splice(before, rest.end())
            else:
                splice = Splice(start, next_line(text, rest.end()))
        found = [*(earlier for earlier in found if earlier.start < splice.start), splice]
    return found


def _runs(text: str, spans: Sequence[Span]) -> list[Run]:
    runs: list[Run] = []
    for span in sorted(set(spans)):
        if runs and re.fullmatch(r"[ \t]+", text[runs[-1].end : span.start]):
            runs[-1] = Run(runs[-1].start, span.end)
        else:
            runs.append(Run(span.start, span.end))
    return runs


def _within_line(text: str, run: Run) -> Splice:
    """Take out words that something stands in front of, with the blanks before them."""
    start = run.start
    while text[start - 1] in " \t":
        start -= 1
    if start < run.start:
        return Splice(start, run.end)
    return Splice(run.start, _after_blanks(text, run.end))


def _at_front(text: str, run: Run, whole: dict[int, int]) -> Splice:
    """Take out words at the front of a line that goes on behind them."""
    if text[run.end] in "\"')`":
        before = _continued_before(text, line_start(text, run.start), whole)
        return Splice(run.start if before is None else before, run.end)
    return Splice(run.start, _after_blanks(text, run.end))


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _continued_before(text: str, start: int, whole: dict[int, int]) -> int | None:
    """Where the last line that stays ends, without the backslash that continues it; None: it is not continued."""
    while start in whole and whole[start] != start:
        start = whole[start]
    found = _CONTINUED.search(text, line_start(text, max(start - 1, 0)), start)
    return found.start() if found is not None else None


def with_words(text: str, after: Span, command: Sequence[Span], words: Sequence[str]) -> Splice:
    """Put words in behind the one at `after`, on lines of their own where its neighbours have such.

    Args:
        text: the source.
        after: the word before.
        command: its words as they stand, from the first on.
        words: as they are to be written.
    """
    start = line_start(text, after.start)
    indent = text[start : _after_blanks(text, start)]
    own_line = start + len(indent) in {span.start for span in command[1:]}
    rest = _REST.match(text, after.end)
    newline = newline_at(text, after.end)
    if rest is not None and rest["on"]:
        following = next_line(text, after.end)
        blanks = _BLANKS.match(text, following)
        if following < len(text) and blanks is not None and text[blanks.end() : blanks.end() + 1].strip():
            indent = indent if own_line else blanks[0]
            return Splice(following, following, "".join(f"{indent}{line} \\{newline}" for line in lines_of(words)))
    elif rest is not None and own_line:
        if _CONTINUED.search(text, line_start(text, max(start - 1, 0)), start):
            lines = [f" \\{newline}{indent}{line}" for line in lines_of(words)]
            return Splice(after.end, after.end, "".join(lines))
        end = line_end(text, after.end)
        return Splice(end, end, "".join(f"{newline}{indent}{line}" for line in lines_of(words)))
    return Splice(after.end, after.end, "".join(f" {word}" for word in words))


def before_word(text: str, before: Span, words: Sequence[str]) -> Splice:
    """Put words in, in front of the one at `before`; on lines of their own where that one begins a line."""
    start = line_start(text, before.start)
    indent = text[start : before.start]
    if start == 0 or indent.strip(" \t"):
        return Splice(before.start, before.start, "".join(f"{word} " for word in words))
    continued = _CONTINUED.search(text, line_start(text, start - 1), start)
    go_on = " \\" if continued is not None else ""
    end = f"{go_on}{newline_at(text, start)}{indent}"
    return Splice(before.start, before.start, "".join(f"{line}{end}" for line in lines_of(words)))


def lines_of(words: Sequence[str]) -> list[str]:
    """Words as lines: each option with its values on one."""
    lines: list[list[str]] = []
    for word in words:
        if not lines or word.lstrip("'\"\\")[:1] == "-":
            lines.append([])
        lines[-1].append(word)
    return [" ".join(line) for line in lines]
