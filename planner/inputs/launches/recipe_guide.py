"""The guide of a recipe: Markdown in a YAML text, with commands in fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .commands import in_script
from .compose_configs import with_config
from .launch import Launch, Source, Span
from .yaml_nodes import Node, Scalar

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_SHELLS = ("", "bash", "sh", "shell", "console", "zsh")


def of_guide(guide: Node | None, source: Source) -> Iterator[Launch]:
    """The commands in the fenced blocks of the guide; those with "..." are no commands."""
    if not isinstance(guide, Scalar):
        return
    for block in _FENCE.finditer(guide.text):
        if block[2].lower() not in _SHELLS or "vllm" not in block[3]:
            continue
        start = block.start(3)

        def span_of(first: int, last: int, start: int = start) -> Span:
            return guide.span_of(start + first, start + last)

        for found in in_script(block[3], span_of, {}):
            if found.tokens and "..." not in [token.text for token in found.tokens]:
                tokens, _, notes = with_config(found.tokens, {})
                label = f"guide, line {tokens[0].span.line}"
                remarks = (*found.remarks, *notes)
                yield Launch(source, "recipe", label, tokens, found.env, hints=found.hints, remarks=remarks)
