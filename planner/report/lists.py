"""Lists on the screen: GPUs and models. One line an entry, whatever the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from ..inputs.catalogue import CatalogueEntry
from .console import console
from .words import counted

GIB = 2**30
GAP = 2
SHORTEST_CELL = 12
"""Least columns of a cell that is cut."""

UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


class Column(NamedTuple):
    """A column; the last ones are left out where they do not fit."""

    heading: str
    right: bool = False


def show_gpus(records: Sequence[Mapping[str, Any]], out: Console | None = None) -> None:
    """Print the GPU catalogue."""
    out = out or console()
    if not records:
        out.print(Text("No GPU of the catalogue matches; cgplan gpus lists them all."))
        return
    rows, notes = [], []
    for record in records:
        name = record["aliases"][0]
        if record.get("note"):
            notes.append((name, record["note"]))
        major, minor = record["capability"]
        memory = f"{record['memory_bytes'] / GIB:.1f}"
        rows.append([name, memory, str(record["sm_count"]), f"{major}.{minor}", record["name"]])
    columns = [Column("--gpu"), Column("GiB", True), Column("SMs", True), Column("SM", True), Column("Driver's name")]
    _print_table(out, columns, rows)
    out.print()
    out.print(Text("GiB is the memory that nvidia-smi shows; SMs are multiprocessors, SM the compute capability."))
    out.print(Text("Another NVIDIA GPU: its compute capability and memory, --gpu sm90 --gpu-memory-bytes 80GiB."))
    out.print(Text("ROCm, XPU and the CPU: in Python, Deployment(gpu=Gpu(platform='rocm', ...))."))
    for name, note in notes:
        line = Text(f"{name}: ", style="key")
        line.append(note, style="not bold bright_black")
        out.print(line)


def show_models(entries: Sequence[CatalogueEntry], out: Console | None = None) -> None:
    """Print the model catalogue."""
    out = out or console()
    if not entries:
        out.print(Text("No model of the catalogue matches; --model also takes the path of a config.json."))
        return
    rows = [
        [e.model_id, short_number(e.params), e.architecture + ("" if e.served else " (unknown to vLLM)"), e.attention]
        for e in entries
    ]
    columns = [Column("--model"), Column("Parameters", True), Column("Architecture"), Column("Attention")]
    _print_table(out, columns, rows)
    out.print()
    out.print(Text(f"{counted(len(entries), 'model')}; --json tells each one's source and how sure it is."))


def short_number(count: int | None) -> str:
    """8190735360 as 8.19B."""
    if count is None:
        return "?"
    for unit, letter in UNITS:
        # What rounds up to a thousand of a unit is one of the next.
        if count >= 0.9995 * unit:
            return f"{count / unit:#.3g}".rstrip("0").rstrip(".") + letter
    return str(count)


def _print_table(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Aligned lines. A terminal gets as many columns as fit; a file or a pipe gets all of them, uncut."""
    widths = [max(len(cell) for cell in cells) for cells in zip([c.heading for c in columns], *rows, strict=True)]
    if out.is_terminal:
        widths = fitting(widths, [column.right for column in columns], out.width)
    for index, row in enumerate([[c.heading for c in columns], *rows]):
        cells = [_cell(text, width, column.right) for text, width, column in zip(row, widths, columns, strict=False)]
        line = Text((" " * GAP).join(cells).rstrip(), style="" if index else "key")
        out.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def fitting(widths: Sequence[int], numeric: Sequence[bool], room: int) -> list[int]:
    """The widths of the first columns that fit in `room`; the first is cut where the numbers would not fit."""
    numbers = sum(width + GAP for width, is_number in zip(widths, numeric, strict=True) if is_number)
    found = [min(widths[0], max(SHORTEST_CELL, room - numbers))]
    for width in widths[1:]:
        left = room - sum(found) - GAP * len(found)
        if left < min(width, SHORTEST_CELL):
            break
        found.append(min(width, left))
    return found


def _cell(text: str, width: int, right: bool) -> str:
    shown = text if len(text) <= width else f"{text[: width - 1]}…"
    return shown.rjust(width) if right else shown.ljust(width)
