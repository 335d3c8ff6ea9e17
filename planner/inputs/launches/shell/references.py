"""What Kubernetes and compose put into the words of a command before anything runs them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping

from ....errors import shorten
from .word import SpanOf, Word

MAX_TEXT = 200_000
"""Longest word that variables are put into; no system passes a longer one to a program."""

_KUBERNETES = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_COMPOSE = re.compile(
    r"\$\$|\$(?P<bare>[A-Za-z_]\w*)"
    r"|\$\{(?P<name>[A-Za-z_]\w*)(?:(?P<sign>:?[-?+])(?P<default>(?:[^{}$]|\$\{[^{}]*\})*))?\}",
    re.ASCII,
)

Put = Callable[[re.Match[str]], "str | None"]


def put_in(word: Word, env: Mapping[str, str | None], syntax: str) -> Word:
    """The word with its variables put in; those whose value is not known stay and are named.

    Args:
        word: as the file has it.
        env: variables that are set; None: to what is not in the file.
        syntax: "kubernetes" $(NAME), "compose" ${NAME:-default}, "plain" nothing.
    """
    if "$" not in word.text or syntax == "plain" or len(word.text) > MAX_TEXT:
        return word
    if syntax == "compose":
        return _changed(word, _COMPOSE, _compose)
    return _changed(word, _KUBERNETES, lambda found: env.get(found[1]))


def _compose(found: re.Match[str]) -> str | None:
    """Compose takes values from outside of the file; only defaults are known."""
    sign = found["sign"] or ""
    if sign.endswith("+"):
        return ""
    if not sign.endswith("-"):
        return None
    default = found["default"] or ""
    if "$" not in default:
        return default
    parts = [_compose(part) if part[0] != "$$" else "$" for part in _COMPOSE.finditer(default)]
    return None if None in parts else _COMPOSE.sub(lambda part: _compose(part) or "", default)


def _changed(word: Word, pattern: re.Pattern[str], put: Put) -> Word:
    parts: list[str] = []
    moves: list[tuple[int, int, int, int]] = []  # of the new text from, to; of the old one from, to
    unknown: list[str] = []
    at = length = 0
    for found in pattern.finditer(word.text):
        value = "$" if found[0] == "$$" else put(found)
        if value is None:
            unknown.append(shorten(found[0], 60))
            continue
        before = word.text[at : found.start()]
        parts += (before, value)
        length += len(before)
        moves.append((length, length + len(value), found.start(), found.end()))
        length += len(value)
        at = found.end()
    if not moves and not unknown:
        return word
    text = "".join([*parts, word.text[at:]])
    changed = tuple((start, end) for start, end, _, _ in moves)
    return word._replace(
        text=text,
        span_of=_moved(word.stretch, moves) if word.span_of is not None else None,
        unknown=(*word.unknown, *unknown),
        changed=changed,
    )


def _moved(span_of: SpanOf, moves: list[tuple[int, int, int, int]]) -> SpanOf:
    """Places of the new text; of what was put in, the place of the variable."""
    ends = [new_end for _, new_end, _, _ in moves]

    def before(at: int, side: int) -> int:
        index = bisect_right(ends, at)
        if index < len(moves) and at > moves[index][0]:
            return moves[index][side]
        return at + moves[index - 1][3] - moves[index - 1][1] if index else at

    return lambda start, end: span_of(before(start, 2), before(end, 3))
