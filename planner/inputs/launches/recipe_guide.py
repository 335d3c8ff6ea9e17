"""The guide of a recipe: Markdown in a YAML text, with commands in fenced blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...errors import InputError
from .config_files import with_config
from .launch import Launch, Source, Span, label_with_line
from .markdown import SHELL, blocks
from .shell.commands import in_script
from .yaml_nodes import Node, Scalar

MAX_BLOCKS = 200
"""Fenced blocks that are read; the longest guide known has some 40."""


def of_guide(guide: Node | None, source: Source) -> Iterator[Launch]:
    """The commands in the fenced blocks of the guide; those with "..." are no commands."""
    if not isinstance(guide, Scalar):
        return
    shell = (block for block in blocks(guide.text) if block.language in SHELL)
    for block in islice(shell, MAX_BLOCKS):
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
                label = label_with_line("guide", tokens)
                remarks = (*found.remarks, *notes)
                yield Launch(source, "recipe", label, tokens, found.env, hints=found.hints, remarks=remarks)
