"""Checks of parallelism: GPUs that stay idle, and sizes that the model does not divide by."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CgplanError
from ..inputs.launches.asked import Located
from ..trace import Rule
from .diagnostic import Hit, Related
from .places import Edits, place_of
from .registry import check
from .subject import Subject
from .what_if import number_flag, what_if

IDLE_GPUS = Rule(
    "CG650",
    title="The container gets more GPUs than the server uses.",
    why="A server uses tensor x pipeline x data parallel ranks, one GPU each; the others are reserved and idle.",
    example="nvidia.com/gpu: 8 with --tensor-parallel-size 4: four GPUs stay idle.",
    instead="Raise --tensor-parallel-size or --data-parallel-size, or ask for fewer GPUs.",
    source="vllm/config/parallel.py, ParallelConfig.world_size",
)


@check(IDLE_GPUS, "warning")
def idle_gpus(subject: Subject) -> Iterator[Hit]:
    d, gpus = subject.deployment, subject.launch.hints.gpus
    if d is None or gpus is None or subject.resolution is None or d.nnodes > 1:
        return
    if d.distributed_executor_backend not in (None, "mp", "uni"):
        return
    world = d.tensor_parallel_size * d.pipeline_parallel_size * d.prefill_context_parallel_size
    local = subject.get("data_parallel_size_local")
    ranks = world * (local if isinstance(local, int) and local > 0 else d.data_parallel_size)
    if ranks >= gpus:
        return
    span = subject.launch.hints.gpus_span
    beside = (Related(Located(subject.launch.source, span), f"{gpus} GPUs"),) if span is not None else ()
    flag: str | None = None
    edits: Edits = ()
    if gpus % world == 0 and what_if(subject, tensor_parallel_size=gpus * d.tensor_parallel_size // world) is not None:
        flag, edits = number_flag(subject, "--tensor-parallel-size", gpus * d.tensor_parallel_size // world)
    used = "1 is used" if ranks == 1 else f"{ranks} are used"
    yield Hit(
        f"the container gets {gpus} GPUs and {used}",
        IDLE_GPUS.instead,
        subject.at("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size"),
        flag,
        edits,
        safe=False,
        related=beside,
    )


def smaller_size(subject: Subject, error: CgplanError) -> Hit:
    """A tensor parallel size that the vocabulary does not divide by (CG615), or that takes more ranks than there are
    GPUs (CG605): the next smaller one that starts.
    """
    d = subject.deployment
    at = place_of(subject, error.where)
    for size in range(d.tensor_parallel_size - 1, 0, -1) if d is not None else ():
        changed = what_if(subject, tensor_parallel_size=size)
        if changed is not None:
            flag, edits = number_flag(subject, "--tensor-parallel-size", size)
            return Hit(error.message, error.fix, at, flag, edits, safe=False)
    return Hit(error.message, error.fix, at)
