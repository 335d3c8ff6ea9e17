"""Tables of the screen: single batches, and the padding of every size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ..resolve.padding import over_batch
from ..resolve.resolution import Resolution
from ..vocabulary import CUDAGraphMode
from . import bars
from .batches import BatchAnswer
from .words import counted, sentence

if TYPE_CHECKING:
    from rich.table import Table

BLOCK_WIDTH = 50
"""Columns that four columns of the padding table take."""
OVER_BATCH = "over the batch"
"""Heading of padding that is counted over the tokens of the batch, as some reports do, not of the step."""


def batches(found: Iterable[BatchAnswer]) -> Table:
    """What `--batch` answers."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    headings = (("Batch", "left"), ("Runs in", "left"), ("As", "right"), ("Padding", "right"), (OVER_BATCH, "right"))
    for heading, justify in headings:
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for answer in found:
        decode = answer.kind == "uniform_decode"
        what = counted(answer.size, "decode request" if decode else "token") + ("" if decode else ", mixed")
        if answer.mode is None:
            table.add_row(what, Text(f"never: {answer.why_not}", style="faint"), "", "", "")
            continue
        mode = CUDAGraphMode(answer.mode)
        table.add_row(
            what,
            Text(bars.NAMES[mode], style=bars.STYLES[mode]),
            counted(answer.padded or 0, "token"),
            f"{answer.waste:.2%}",
            f"{answer.over_batch:.2%}",
        )
    return table


def padding(resolution: Resolution, width: int) -> Table:
    """Every captured size, in as many blocks side by side as fit `width`."""
    from rich.table import Table

    rows = [
        (
            str(first) if first == last else f"{first}–{last}",
            str(size),
            f"{(size - first) / size:.2%}",
            f"{over_batch(first, size):.2%}",
        )
        for first, last, size in resolution.padding_table()
    ]
    blocks = max(1, min(width // BLOCK_WIDTH, len(rows)))
    height = -(-len(rows) // blocks)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for _ in range(blocks):
        for heading in ("tokens", "run as", "padding", OVER_BATCH):
            table.add_column(heading, justify="right", min_width=9)
    for index in range(height):
        line = [rows[at] for block in range(blocks) if (at := block * height + index) < len(rows)]
        table.add_row(*(cell for row in line for cell in row))
    return table


def show_list(out: Console, title: str, items: Iterable[str]) -> None:
    """`items` as sentences under `title`, one a bullet; nothing where there are none."""
    lines = [sentence(item) for item in items]
    if not lines:
        return
    out.print()
    out.print(Text(title, style="key"))
    show_pairs(out, [("•", line) for line in lines], gap=1)


def show_pairs(out: Console, pairs: Iterable[tuple[str, str]], gap: int = 2, style: str = "") -> None:
    """A label and a text a row, the texts below each other. A rich table of it takes four times as long."""
    rows = list(pairs)
    indent = max((len(label) for label, _ in rows), default=0) + gap
    shown = Text()
    for label, text in rows:
        start = label.ljust(indent)
        for line in Text(text).wrap(out, max(1, out.width - indent)):
            line.rstrip()
            shown.append(start, style=style).append_text(line).append("\n")
            start = " " * indent
    out.print(shown, end="")


def show_columns(
    out: Console,
    head: Sequence[str],
    rows: Iterable[tuple[Sequence[str], str]],
    *,
    right: Collection[int] = (),
    faint: Collection[int] = (),
) -> None:
    """A table of short cells, the last of which goes on in the next line where there is no room.

    Args:
        rows: cells and the style of the row.
        right, faint: columns that stand to the right, and that are faint whatever the style of their row.
    """
    gap, last = 2, len(head) - 1
    found = [(head, "key"), *rows]
    widths = [max(len(cells[at]) for cells, _ in found) for at in range(len(head))]
    room = max(1, out.width - sum(width + gap for width in widths[:-1]))
    shown = Text()
    for number, (cells, style) in enumerate(found):
        lines = Text(cells[last]).wrap(out, room) if widths[last] > room else [Text(cells[last])]
        for at, cell in enumerate(cells[:-1]):
            text = cell.rjust(widths[at]) if at in right else cell.ljust(widths[at])
            shown.append(text, style="faint" if number and at in faint else style).append(" " * gap)
        for at, line in enumerate(lines or [Text()]):
            line.rstrip()
            start = " " * sum(width + gap for width in widths[:-1]) if at else ""
            text = line.plain.rjust(widths[last]) if last in right else line.plain
            shown.append(start).append(text, style="faint" if number and last in faint else style).append("\n")
    out.print(shown, end="", no_wrap=True, overflow="ellipsis")
