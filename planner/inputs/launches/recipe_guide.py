"""The guide of a recipe: Markdown in a YAML text, with commands in fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import InputError
from .commands import in_script
from .compose_configs import with_config
from .launch import Launch, Source, Span
from .yaml_nodes import Node, Scalar

MAX_BLOCKS = 200
"""Fenced blocks that are read; the longest guide known has some 40."""
_FENCE = re.compile(r"[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^`\r\n]*$", re.MULTILINE)
_SHELLS = ("", "bash", "sh", "shell", "console", "zsh")


class _Block(NamedTuple):
    language: str
    start: int
    end: int


def of_guide(guide: Node | None, source: Source) -> Iterator[Launch]:
    """The commands in the fenced blocks of the guide; those with "..." are no commands."""
    if not isinstance(guide, Scalar):
        return
    blocks = [block for block in _blocks(guide.text) if block.language.lower() in _SHELLS]
    for block in blocks[:MAX_BLOCKS]:
        text, start = guide.text[block.start : block.end], block.start

        def span_of(first: int, last: int, start: int = start) -> Span:
            return guide.span_of(start + first, start + last)

        try:
            starts = in_script(text, span_of, {})
        except InputError:
            continue  # an excerpt that is no whole command
        for found in starts:
            if found.tokens and "..." not in [token.text for token in found.tokens]:
                tokens, _, notes = with_config(found.tokens, {})
                label = f"guide, line {tokens[0].span.line}"
                remarks = (*found.remarks, *notes)
                yield Launch(source, "recipe", label, tokens, found.env, hints=found.hints, remarks=remarks)


def _blocks(text: str) -> Iterator[_Block]:
    """The fenced blocks; one that is not closed goes on to the end."""
    fence = language = ""
    start = at = 0
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if found is not None and not fence:
            fence, language, start = found[1], found[2], at + len(line)
        elif found is not None and line.strip() == fence:
            yield _Block(language, start, at)
            fence = ""
        at += len(line)
    if fence:
        yield _Block(language, start, at)
