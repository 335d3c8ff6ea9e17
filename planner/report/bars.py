"""Coverage as a bar on a logarithmic scale: which batch sizes run in FULL, in PIECEWISE, or eager."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import NamedTuple

from ..resolve.coverage import Coverage
from ..vocabulary import CUDAGraphMode

GLYPHS = {CUDAGraphMode.FULL: "█", CUDAGraphMode.PIECEWISE: "▒", CUDAGraphMode.NONE: "░"}
NAMES = {CUDAGraphMode.FULL: "FULL", CUDAGraphMode.PIECEWISE: "PIECEWISE", CUDAGraphMode.NONE: "eager"}

STYLES = {CUDAGraphMode.FULL: "full", CUDAGraphMode.PIECEWISE: "piecewise", CUDAGraphMode.NONE: "eager"}
"""Names in the theme of console.py."""


class Stretch(NamedTuple):
    """Batch sizes `first` to `last` with one mode, whatever they are padded to."""

    first: int
    last: int
    mode: CUDAGraphMode

    def __str__(self) -> str:
        sizes = str(self.first) if self.first == self.last else f"{self.first}–{self.last}"
        return f"{NAMES[self.mode]} {sizes}"


class Segment(NamedTuple):
    """A piece of the bar."""

    stretch: Stretch
    text: str


def stretches(coverage: Coverage) -> list[Stretch]:
    """The ranges of `coverage` with neighbours of one mode joined."""
    found: list[Stretch] = []
    for r in coverage.ranges:
        if found and found[-1].mode is r.mode:
            found[-1] = Stretch(found[-1].first, r.last, r.mode)
        else:
            found.append(Stretch(r.first, r.last, r.mode))
    return found


def segments(parts: Sequence[Stretch], width: int) -> list[Segment]:
    """The bar, `width` cells in all; each stretch has at least one cell, and its mode's name where it fits."""
    ends = _ends(parts, width)
    found = []
    for part, start, end in zip(parts, [0, *ends], ends, strict=False):
        cells = end - start
        label = f" {NAMES[part.mode]} "
        text = GLYPHS[part.mode] * cells
        if cells >= len(label) + 4:
            text = label.center(cells, GLYPHS[part.mode])
        found.append(Segment(part, text))
    return found


def scale(parts: Sequence[Stretch], width: int) -> str:
    """The numbers under the bar: where the mode changes, then powers of two where there is room."""
    if not parts:
        return ""
    line = [" "] * width
    top = parts[-1].last
    _write(line, 0, str(parts[0].first))
    edges = [(end, part.last) for part, end in zip(parts, _ends(parts, width), strict=True)]
    for end, last in [edges[-1], *edges[:-1]]:
        _write(line, end - len(str(last)), str(last))
    for power in _powers(top):
        if all(power != part.last for part in parts):
            _write(line, _cell(power + 1, top, width) - len(str(power)), str(power))
    return "".join(line).rstrip()


def _ends(parts: Sequence[Stretch], width: int) -> list[int]:
    """The cell after each stretch: by logarithm, but none is empty."""
    if not parts:
        return []
    top = parts[-1].last
    ends: list[int] = []
    for index, part in enumerate(parts):
        room = width - (len(parts) - 1 - index)
        least = (ends[-1] if ends else 0) + 1
        ends.append(max(least, min(room, _cell(part.last + 1, top, width))))
    ends[-1] = max(ends[-1], width)
    return ends


def _cell(size: int, top: int, width: int) -> int:
    """The cell where batch size `size` begins, on a scale from 1 to `top`."""
    return round(log2(size) / log2(top + 1) * width) if top > 0 else 0


def _powers(top: int) -> Iterable[int]:
    """Powers of two below `top`, the rounder ones first, so that those win where room is short."""
    powers = [2**n for n in range(1, top.bit_length()) if 2**n < top]
    return sorted(powers, key=lambda p: (p.bit_length() - 1) % 3 != 0)


def _write(line: list[str], start: int, text: str) -> None:
    """Put `text` into `line` unless it would touch another number."""
    start = max(0, start)
    end = start + len(text)
    if end > len(line) or any(cell != " " for cell in line[max(0, start - 2) : end + 2]):
        return
    line[start:end] = text
