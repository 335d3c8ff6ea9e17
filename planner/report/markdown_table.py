"""Tables of Markdown pages, and text that is safe in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence


def cell(text: str) -> str:
    """Text that cannot break a table or start markup."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    for sign in ("\\", "|", "<", ">", "`", "*", "_", "[", "]"):
        clean = clean.replace(sign, f"\\{sign}")
    return clean


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[int] = (),
    safe: Callable[[str], str] = cell,
) -> list[str]:
    """The lines of a table.

    Args:
        right: columns whose text stands at the right.
        safe: makes a text one that can stand in a cell.
    """

    def row(texts: Sequence[str]) -> str:
        return f"| {' | '.join(safe(text) for text in texts)} |"

    marks = ("---:" if at in right else "---" for at in range(len(head)))
    return [row(head), f"|{'|'.join(marks)}|", *map(row, rows)]
