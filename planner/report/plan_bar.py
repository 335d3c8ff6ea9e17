"""The memory of one GPU as a stacked bar: what each part takes, and what stays free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..memory.budget.budget import Budget, StageBudget

LABEL_ROOM = 2
IN_USE = "in use at the start"
"""The CUDA context and other processes."""
FREE = "free at a step's peak"


class Part(NamedTuple):
    """A part of the bar.

    Attributes:
        name: for people.
        size: bytes.
        glyph, style: how it is drawn.
    """

    name: str
    size: int
    glyph: str
    style: str


def parts_of(budget: Budget, stage: StageBudget, serves: bool = True) -> list[Part]:
    """The parts of one GPU's memory at the peak of a step, in the words and numbers of the table; what is free comes
    last.

    Where they are more than the GPU has, nothing is free and the bar is that much longer.
    """
    taken = [
        Part(IN_USE, max(0, budget.total.best - budget.free.best), "¤", "yellow"),
        Part("weights", stage.weights.best, "█", "blue"),
        Part("activations", stage.activation.best, "▒", "magenta"),
        Part("outside torch", max(0, stage.non_torch.best), "•", "yellow"),
        Part("buffers", stage.buffers.best, "~", "yellow"),
        Part("CUDA graphs", stage.graphs.best, "×", "cyan"),
        Part("KV cache" if serves else "left for the KV cache", max(0, stage.held.best), "░", "green"),
    ]
    free = budget.total.best - sum(part.size for part in taken)
    return [part for part in (*taken, Part(FREE, free, "–", "dim")) if part.size > 0]


_SHORT = {IN_USE: "in use", FREE: "free", "left for the KV cache": "left"}
"""Names of parts within the bar."""


def cells(parts: Sequence[Part], width: int) -> list[tuple[Part, str]]:
    """The bar, `width` cells in all: each part has at least one cell, and its name where that fits."""
    whole = sum(part.size for part in parts)
    if not whole or not parts:
        return []
    counts = _counts([part.size for part in parts], whole, max(width, len(parts)))
    drawn = []
    for part, count in zip(parts, counts, strict=True):
        label = f" {_SHORT.get(part.name, part.name)} "
        text = label.center(count, part.glyph) if count >= len(label) + LABEL_ROOM else part.glyph * count
        drawn.append((part, text))
    return drawn


def _counts(sizes: Sequence[int], whole: int, width: int) -> list[int]:
    """Cells by share, at least one each; the largest parts give what the small ones are rounded up by."""
    counts = [max(1, width * size // whole) for size in sizes]
    while sum(counts) != width:
        step = 1 if sum(counts) < width else -1
        at = max(range(len(sizes)), key=lambda i: (sizes[i] * width / whole - counts[i]) * step)
        if step < 0 and counts[at] <= 1:
            at = counts.index(max(counts))
        counts[at] += step
    return counts
