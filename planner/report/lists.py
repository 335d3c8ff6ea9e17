"""Lists on the screen: GPUs and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..inputs.catalogue import CatalogueEntry
from .console import console

GIB = 2**30


def show_gpus(records: Iterable[Mapping[str, Any]], out: Console | None = None) -> None:
    """Print the GPU catalogue."""
    table = _table(("--gpu", "left"), ("GiB", "right"), ("SMs", "right"), ("SM", "right"), ("Driver's name", "left"))
    notes = []
    for record in records:
        note = record.get("note")
        if note:
            notes.append((record["aliases"][0], note))
        major, minor = record["capability"]
        table.add_row(
            record["aliases"][0],
            f"{record['memory_bytes'] / GIB:.1f}",
            str(record["sm_count"]),
            f"{major}.{minor}",
            record["name"],
        )
    out = out or console()
    out.print(table)
    out.print()
    out.print(Text("GiB is the memory that nvidia-smi shows; SMs are multiprocessors, SM the compute capability."))
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
    table = _table(("--model", "left"), ("Parameters", "right"), ("Architecture", "left"))
    table.columns[0].no_wrap = True
    if out.width >= 110:
        table.add_column("Attention")
    for entry in entries:
        row = [entry.model_id, _billions(entry.params), entry.architecture]
        table.add_row(*row, *([entry.attention] if out.width >= 110 else []))
    out.print(table)
    out.print()
    out.print(Text(f"{len(entries)} models; --json tells each one's source and how sure it is."))


def _billions(params: str) -> str:
    """8,190,735,360 as 8.19B; what is no plain number stays as it is."""
    digits = params.replace(",", "")
    return f"{int(digits) / 1e9:.3g}B" if digits.isdigit() else params or "?"


def _table(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for heading, justify in columns:
        table.add_column(heading, justify=justify, overflow="fold")
    return table
