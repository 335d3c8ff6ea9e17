"""Sections on the CUDA graphs: what was resolved, which batches run in what, and which rules decided it."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from ...resolve.coverage import Coverage
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from .. import bars
from ..text import coverages, summary_rows
from ..trace import shown
from .blocks import Block, Figure, Line, Pairs, Piece, Section, Stacked, Table, table

COLOUR = {CUDAGraphMode.FULL: "full", CUDAGraphMode.PIECEWISE: "piecewise", CUDAGraphMode.NONE: "eager"}


def resolution(found: Resolution) -> Section:
    """What the graphs are, and a bar of every kind of batch."""
    rows = tuple((name, _plain(str(text))) for name, text in summary_rows(found))
    blocks: list[Block] = [Pairs(rows)]
    blocks += [_coverage(one, note) for one, note in coverages(found) if one.ranges]
    return Section("graphs", "CUDA graphs", tuple(blocks))


def decisions(found: Resolution) -> Section:
    """Every rule that changed something, and the backends that were passed over."""
    release = found.vllm_version
    rows = [(one.code, one.field, shown(one.before), shown(one.after), one.why, one.source) for one in found.decisions]
    blocks: list[Block] = []
    if rows:
        were = "setting was" if len(rows) == 1 else "settings were"
        told = f"{len(rows)} {were} changed by rules, in the order in which vLLM applies them."
        if any(" @ " in one.source and not one.source.endswith(f" @ {release}") for one in found.decisions):
            told += f" The rules are those of {release}; each place is in the release that it names."
        blocks.append(Line(told))
        head = ("rule", "setting", "before", "after", "why", "where in vLLM")
        blocks.append(table("Rules that changed a setting", head, rows, folded=True))
    passed = [(name, "; ".join(reasons)) for name, reasons in found.backend.rejected]
    if passed:
        blocks.append(table("Attention backends that were passed over", ("backend", "why"), passed, folded=True))
    return Section("decisions", "Decisions", tuple(blocks))


def _plain(text: str) -> str:
    """Lines and columns of the screen as one sentence."""
    lines = []
    for line in text.split("\n"):
        first, *others = [part.strip() for part in line.split("  ") if part.strip()] or [""]
        lines.append(f"{first}: {', '.join(others)}" if others else first)
    return "; ".join(line for line in lines if line)


def _coverage(found: Coverage, note: str) -> Figure:
    decode = found.kind == "uniform_decode"
    unit = "requests" if decode else "tokens"
    parts = bars.stretches(found)

    def of(last: int) -> str:
        return unit.removesuffix("s") if last == 1 else unit

    name = f"{'Decode' if decode else 'Mixed'} batches{note}, by {unit}"
    pieces = tuple(
        Piece(COLOUR[one.mode], log2(one.last + 1) - log2(one.first), bars.NAMES[one.mode], f"{one} {of(one.last)}")
        for one in parts
    )
    told = ", ".join(str(one) for one in parts)
    cliff = found.first_cliff
    padding = f" Padding is {found.mean_waste:.1%} of a step on average." if found.mean_waste else ""
    end = "no batch runs eager." if cliff is None else f"the first that runs eager has {cliff} {of(cliff)}."
    named = dict.fromkeys(one.mode for one in parts)
    return Figure(
        name,
        f"{told} {of(parts[-1].last)}; {end}{padding} The scale is logarithmic.",
        Stacked((("", pieces),), _ticks(parts)),
        tuple((COLOUR[mode], bars.NAMES[mode]) for mode in named),
        _ranges(found, name, unit),
    )


def _ticks(parts: list[bars.Stretch]) -> tuple[tuple[float, str], ...]:
    """Batch sizes under the bar: powers of two, and where it ends."""
    top = parts[-1].last
    powers = [1 << power for power in range(top.bit_length()) if 1 << power < top]
    edges: Iterable[int] = sorted({*powers, *(part.last for part in parts)})
    return tuple((log2(size) if size < top else log2(size + 1), str(size)) for size in edges)


def _ranges(found: Coverage, name: str, unit: str) -> Table:
    rows = [
        (
            str(one.first) if one.first == one.last else f"{one.first}–{one.last}",
            bars.NAMES[one.mode],
            "" if one.padded is None else str(one.padded),
            f"{one.waste:.1%}" if one.padded is not None else "",
        )
        for one in found.ranges
    ]
    return table(name, (unit, "runs in", "tokens computed", "padding at most"), rows, (2, 3), folded=True)
