"""Where the lines of a text start and end."""

from __future__ import annotations


def line_start(text: str, at: int) -> int:
    """Offset of the start of the line that `at` is in."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Offset of the line end behind `at`: of its "\\n" or "\\r\\n", or the end of the text."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end


def next_line(text: str, at: int) -> int:
    """Offset of the start of the line after the one that `at` is in, or the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def newline_at(text: str, at: int) -> str:
    """How the line that `at` is in ends; the last one as the first one does."""
    end = text.find("\n", at)
    if end < 0:
        end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
