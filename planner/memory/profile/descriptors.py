"""Which graphs there are to capture, in vLLM's order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...resolve import Resolution
from ...resolve.graphs import Graph
from ...vocabulary import CUDAGraphMode


class Descriptor(NamedTuple):
    """One graph to capture.

    Attributes:
        mode: FULL or PIECEWISE.
        num_tokens: tokens that it holds.
        num_reqs: requests that its attention sees; PIECEWISE graphs do not see any, there it is the tokens.
        query_len: tokens of each request; 1 for mixed batches.
        num_active_loras: adapters.
    """

    mode: CUDAGraphMode
    num_tokens: int
    num_reqs: int
    query_len: int = 1
    num_active_loras: int = 0

    def __str__(self) -> str:
        adapters = f", {self.num_active_loras} adapters" if self.num_active_loras else ""
        return f"{self.mode} of {self.num_tokens} tokens{adapters}"


MODES = (CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL)
"""In the order of capture."""


def descriptors_of(resolution: Resolution) -> tuple[Descriptor, ...]:
    """The target model's graphs: PIECEWISE before FULL, and of each mode the largest first."""
    return tuple(_descriptor(mode, graph) for mode in MODES for graph in resolution.captures.get(mode, ()))


def with_only(resolution: Resolution, descriptors: Iterable[Descriptor]) -> Resolution:
    """The resolution as if the target model had these of its graphs alone."""
    kept = set(descriptors)
    captures = {
        mode: tuple(graph for graph in graphs if _descriptor(mode, graph) in kept)
        for mode, graphs in resolution.captures.items()
    }
    return replace(resolution, captures=captures)


def _descriptor(mode: CUDAGraphMode, graph: Graph) -> Descriptor:
    query_len = graph.uniform_query_len or 1
    reqs = graph.num_reqs or -(-graph.num_tokens // query_len)
    return Descriptor(mode, graph.num_tokens, reqs, query_len, graph.num_active_loras)


def by_mode(descriptors: Iterable[Descriptor]) -> dict[CUDAGraphMode, list[Descriptor]]:
    """The graphs of each mode, in the order given; modes without one are left out."""
    found: dict[CUDAGraphMode, list[Descriptor]] = {}
    for one in descriptors:
        found.setdefault(one.mode, []).append(one)
    return found


def counts(descriptors: Sequence[Descriptor]) -> dict[str, int]:
    """How many graphs of each mode."""
    return {str(mode): count for mode, count in Counter(one.mode for one in descriptors).items()}
