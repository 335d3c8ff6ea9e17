"""A check of context parallelism beside FULL graphs: which release's rule decides."""

from __future__ import annotations

from collections.abc import Iterator

from ..trace import Rule
from ..vocabulary import CUDAGraphMode
from .diagnostic import Hit
from .registry import check
from .subject import Subject

FULL_WITH_CONTEXT_PARALLELISM = Rule(
    "CG247",
    title="Context parallelism keeps FULL graphs for decode on CUDA, where the attention backend supports them.",
    why="Its ranks talk within a decode step, and the graph holds that. Releases differ: up to 0.13 FULL could end in"
    " illegal memory accesses, on ROCm decode context parallelism meant PIECEWISE until 0.28 and prefill context"
    " parallelism means it still.",
    example="--decode-context-parallel-size 2 on CUDA since 0.19.1: FULL_AND_PIECEWISE stays; a server of 0.13 ended"
    " after a few decode steps (verl-project/verl#5262).",
    instead="Nothing where it runs. Should it end in an illegal memory access, set -cc.cudagraph_mode=PIECEWISE first.",
    source="vllm/platforms/rocm.py:1175-1185",
)


@check(FULL_WITH_CONTEXT_PARALLELISM, "info")
def full_with_context_parallelism(subject: Subject) -> Iterator[Hit]:
    d, found = subject.deployment, subject.resolution
    if d is None or found is None or found.decode_mode is not CUDAGraphMode.FULL:
        return
    for size, kind in (
        (d.decode_context_parallel_size, "decode"),
        (d.prefill_context_parallel_size, "prefill"),
    ):
        if size > 1:
            yield Hit(
                f"{kind} context parallelism of {size} keeps FULL graphs for decode in {subject.release}, as in every"
                " release since 0.19.1 on CUDA; up to 0.13 that could end in a memory access fault"
                " (verl-project/verl#5262)",
                "should it end in such a fault, -cc.cudagraph_mode=PIECEWISE first",
                subject.at(f"{kind}_context_parallel_size"),
            )
