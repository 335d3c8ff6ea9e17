"""Which of the graphs are captured, to know what all of them would take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from .descriptors import Descriptor, by_mode

Sample = Literal["two", "auto", "all"]
SAMPLES: tuple[Sample, ...] = ("two", "auto", "all")

SHARE = 4
"""`auto` captures one graph in so many."""

LEAST = 3
"""Graphs of a mode that `auto` captures at least, where there are as many: two points show no bend."""


def chosen(descriptors: Sequence[Descriptor], sample: Sample) -> tuple[Descriptor, ...]:
    """The graphs that `sample` captures, in the order of capture.

    two: the two largest of each mode, as vLLM does. auto: of each mode the two largest, the smallest, and others
    between them, a quarter of all together, of all modes the same sizes where they have them, to compare the modes.
    all: every one; in each mode those of `auto` come first, so that one run gives both answers.
    """
    modes = by_mode(descriptors)
    if sample == "two":
        return tuple(graph for graphs in modes.values() for graph in graphs[:2])
    picked: set[Descriptor] = set()
    sizes: set[int] = set()
    for graphs in sorted(modes.values(), key=len):
        own = _spread(graphs, sizes)
        picked.update(own)
        sizes.update(graph.num_tokens for graph in own)
    found: list[Descriptor] = []
    for graphs in modes.values():
        found += [graph for graph in graphs if graph in picked]
        if sample == "all":
            found += [graph for graph in graphs if graph not in picked]
    return tuple(found)


def _spread(graphs: Sequence[Descriptor], sizes: set[int]) -> list[Descriptor]:
    """The first two, the last, those of `sizes`, and the middles of the widest gaps, as many as a quarter allows."""
    wanted = min(len(graphs), max(LEAST, len(graphs) // SHARE))
    last = len(graphs) - 1
    places = {0, min(1, last), last}
    known = [place for place, graph in enumerate(graphs) if graph.num_tokens in sizes and place not in places]
    room = max(0, wanted - len(places))
    if len(known) > room:
        known = [known[round(step * (len(known) - 1) / max(1, room - 1))] for step in range(room)]
    places.update(known)
    while len(places) < wanted:
        ordered = sorted(places)
        left, right = max(pairwise(ordered), key=lambda gap: gap[1] - gap[0])
        places.add((left + right) // 2)
    return [graphs[place] for place in sorted(places)]
