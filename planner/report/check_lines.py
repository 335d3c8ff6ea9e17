"""Styled lines without a library: a check that writes to a pipe need not wait for one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

Part = tuple[str, str]
"""Words, and a style of console.THEME or ""."""

Line = tuple[Part, ...]

WIDEST = 120
NARROWEST = 40


def is_screen() -> bool:
    """Whether somebody looks at stdout, or wants it to look so."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def width() -> int:
    """Columns to write in."""
    columns = os.environ.get("COLUMNS", "")
    found = int(columns) if columns.isdecimal() and len(columns) < 6 else 0
    if not found:
        try:
            found = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ is not None else 0
        except (OSError, ValueError):
            found = 0
    return max(NARROWEST, min(found or WIDEST, WIDEST))


def wrapped(first: Line, text: str, style: str, indent: int, room: int | None) -> list[Line]:
    """`first` followed by `text`, broken between words where `room` is known; later lines are indented."""
    begun = sum(len(words) for words, _ in first)
    if room is None or begun + len(text) <= room:
        return [(*first, (text, style))]
    import textwrap

    lines = textwrap.wrap(
        text, room, initial_indent="x" * begun, subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [(*first, (lines[0][begun:], style)), *(((line, style),) for line in lines[1:])]


def write(lines: Iterable[Line]) -> None:
    """Print the lines, in colour on a screen."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    if not is_screen() and encoding.startswith("utf"):
        text = "".join("".join(words for words, _ in line).rstrip() + "\n" for line in lines)
        sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))
        return
    from rich.text import Text

    from .console import console

    out = console()
    for line in lines:
        text_line = Text()
        for words, style in line:
            text_line.append(words, style=style or None)
        out.print(text_line, soft_wrap=True)
