"""Checks of a KV cache whose size is given in bytes, or stored from an earlier start."""

from __future__ import annotations

from collections.abc import Iterator

from ..memory.budget.estimate_rules import SUGGESTED_TWICE
from ..memory.budget.outside_rules import PLANNED_TWICE, STARTUP_PLAN
from ..trace import Rule
from .diagnostic import Hit
from .memory import BYTES, UTILIZATION, deduction
from .places import related
from .registry import check
from .subject import Subject

BYTES_WIN = Rule(
    "CG527",
    title="--kv-cache-memory-bytes decides the size of the KV cache; --gpu-memory-utilization then does not.",
    why="The budget is not worked out. The utilization only decides whether enough memory is free for a start.",
    example="--kv-cache-memory-bytes 20G --gpu-memory-utilization 0.95: a KV cache of 20 GB.",
    instead="Give one of the two.",
    source="vllm/v1/worker/gpu_worker.py:656-681",
)


@check(SUGGESTED_TWICE, "info")
def counted_twice(subject: Subject) -> Iterator[Hit]:
    taken = deduction(subject)
    if not subject.is_given(BYTES) or not subject.get(BYTES) or taken is None or not taken.deducted:
        return
    yield Hit(
        "the value that vLLM's log suggests for this option is too small by what the graphs take and 0.15 GiB: "
        "it counts the graphs twice",
        "add what the graphs took, and 0.15 GiB, to it; the line `Available KV cache memory` is right",
        subject.at(BYTES),
    )


@check(PLANNED_TWICE, "warning")
def planned_twice(subject: Subject) -> Iterator[Hit]:
    d, taken = subject.deployment, deduction(subject)
    if d is None or d.env.get(STARTUP_PLAN) != "1" or subject.get(BYTES) or taken is None or not taken.deducted:
        return
    yield Hit(
        "from the second start on the KV cache is smaller by what the graphs take and 0.15 GiB",
        PLANNED_TWICE.instead,
        subject.at_variable(STARTUP_PLAN),
    )


@check(BYTES_WIN, "warning")
def bytes_win(subject: Subject) -> Iterator[Hit]:
    if not (subject.is_given(BYTES) and subject.get(BYTES) and subject.is_given(UTILIZATION)):
        return
    yield Hit(
        "--gpu-memory-utilization does not size the KV cache beside --kv-cache-memory-bytes",
        "drop one of the two",
        subject.at(UTILIZATION),
        related=related(subject, "decides the size", BYTES),
    )
