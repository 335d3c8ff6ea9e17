"""Whether a text that does not say what it is holds commands of a shell, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .shell.grammar import Item, ShellWord
from .shell.lexer import MAX_SCRIPT, Lexer

_PROGRAM = re.compile(r"[a-z0-9_][\w.+@-]*|[.~]{0,2}/\S*|\.|\[{1,2}|:|\$.*")
"""A program is written small; a word of prose, a heading and the name of a key are not of this form."""
_SENTENCE = re.compile(r"[A-Za-z]{3,}[.,?]")
COLUMN = 2
"""So many blanks or more part a command from a remark that stands beside it."""


def all_commands(text: str) -> bool:
    """Whether every line is part of a command. Screens, drawings, and commands with a remark beside them are not.

    A remark behind # is of the shell's own.
    """
    if len(text) > MAX_SCRIPT:
        return False
    lexer = Lexer(text)
    items = lexer.read()
    return lexer.fault is None and all(_is_command(item, text) for item in items if item.kind == "command")


def _is_command(item: Item, text: str) -> bool:
    words = item.words
    program = next((word for word in words if not word.assigns), None)
    if program is not None and not _PROGRAM.fullmatch(program.raw):
        return False
    if any(word.plain is not None and not word.plain.isascii() for word in words):
        return False
    last = words[-1].plain if words else None
    if last is not None and _SENTENCE.fullmatch(last):
        return False
    return not any(_begins_a_remark(words, index, text) for index in range(1, len(words)))


def _begins_a_remark(words: Sequence[ShellWord], index: int, text: str) -> bool:
    """Whether a word stands apart, as the first of a remark: `--tp 2    two GPUs`, not `--tp    2`."""
    before, word = words[index - 1], words[index]
    gap = text[before.end : word.start]
    if len(gap) < COLUMN or gap.strip(" \t") or not (word.plain or "-")[0].isalpha():
        return False
    if not before.raw.startswith("-"):
        return True
    after = words[index + 1].raw if index + 1 < len(words) else "-"
    return not after.startswith("-")
