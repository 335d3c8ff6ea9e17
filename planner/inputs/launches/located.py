"""Where something stands: a span, and the text it is in."""

from __future__ import annotations

from typing import NamedTuple

from ..serve_args_tokens import Place
from .launch import Launch, Source, Span


class Located(NamedTuple):
    """A span and the text it is in."""

    source: Source
    span: Span


def located(launch: Launch, place: Place | None, kept: tuple[int, ...]) -> Located | None:
    """Where `place` is in a text; None where it is in none that was read. `kept` has, for each token of the line as it
    was parsed, its index in the launch.
    """
    if place is None:
        return None
    if place.line:
        return _in_config(launch, place)
    if 0 <= place.token < len(kept):
        return Located(launch.source, launch.tokens[kept[place.token]].span)
    return None


def _in_config(launch: Launch, place: Place) -> Located | None:
    if len(launch.files) != 1:
        return None
    config = next(iter(launch.files.values()))
    if not place.line <= len(config.lines):
        return None
    source = config.source or launch.source
    line = config.lines[place.line - 1]
    lines = source.text.split("\n")
    if line > len(lines):
        return None  # YAML ends lines where nothing else does, with a carriage return alone
    start = sum(map(len, lines[: line - 1])) + line - 1
    text = lines[line - 1].rstrip()
    indent = len(text) - len(text.lstrip())
    return Located(source, Span(start + indent, start + len(text), line, indent + 1))
