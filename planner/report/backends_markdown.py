"""The support table as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..resolve.support_table import Row, SupportTable


def as_markdown(table: SupportTable, model: str, gpu: str) -> str:
    """The page, with a line end at its end."""
    return "\n".join(_lines(table, model, gpu)) + "\n"


def _lines(table: SupportTable, model: str, gpu: str) -> Iterator[str]:
    yield f"# Attention backends: vLLM {table.vllm_version}"
    yield ""
    yield f"{_cell(model or 'a dense 8B decoder')} on {_cell(gpu)}."
    yield ""
    if table.choice is not None:
        yield f"Chosen: **{table.choice.name}** ({table.why}). CUDA graphs: **{table.choice.support.name}**."
    if table.refused is not None:
        yield f"vLLM refuses to start: {_cell(table.refused.message)}."
    if table.choice is not None and table.choice.groups:
        yield ""
        yield from _table(
            ("Layers", "Backend", "CUDA graphs", "Decided by"),
            ((g.kind, g.class_name, g.support.name, g.condition) for g in table.choice.groups),
        )
    yield ""
    yield "## Backends"
    yield ""
    heads = ("Order", "Backend", "Kind", "CUDA graphs", "Decided by", "Source", "Serves this")
    yield from _table(heads, (_row(row) for row in table.sorted_rows))
    if table.differences:
        yield ""
        yield "## Where the documentation differs from the code"
        yield ""
        found = ((d.backend, d.row or "", d.says, d.does, d.page, d.source) for d in table.differences)
        yield from _table(("Backend", "Its row", "The page says", "The code does", "Page", "Source"), found)
    for title, items in (("Assumed", table.assumptions), ("Not modelled", table.not_modelled)):
        if items:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"* {_cell(item)}" for item in items)


def _row(row: Row) -> tuple[str, ...]:
    serves = "chosen" if row.chosen else "yes" if row.fits else "no"
    return (
        str(row.priority or ""),
        row.name,
        row.kind,
        row.support.name if row.support is not None else "",
        row.condition,
        f"{row.source} @ {row.release}" if row.source else "",
        "; ".join((serves, *row.reasons)),
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"


def _cell(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text).replace("\\", "\\\\").replace("|", "\\|")
