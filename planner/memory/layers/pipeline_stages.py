"""Which decoder layers a pipeline stage holds: vllm/distributed/utils.py, get_pp_indices."""

from __future__ import annotations

from ...errors import StartupError
from ...trace import Rule
from .load_rules import load_error

PARTITION = Rule(
    "CG542",
    title="VLLM_PP_LAYER_PARTITION lists the layers of each pipeline stage.",
    why="Every layer must lie on exactly one stage.",
    example="VLLM_PP_LAYER_PARTITION=20,20 for a model of 32 layers does not load.",
    instead="List one number a stage that add up to the model's layers, or leave the variable out.",
    source="vllm/distributed/utils.py:77-130",
)


def stage_ranges(num_layers: int, stages: int, partition: str | None) -> tuple[range, ...]:
    """The layers of each stage. What does not divide goes to the last stages but the very last one.

    Args:
        partition: VLLM_PP_LAYER_PARTITION, or None.

    Raises:
        StartupError: CG542.
    """
    if partition is not None and stages > 1:
        sizes = _listed(partition, num_layers, stages)
    else:
        sizes = [num_layers // stages] * stages
        for i in range(2, num_layers % stages + 2):
            sizes[-i] += 1
    starts = [sum(sizes[:i]) for i in range(stages)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def _listed(partition: str, num_layers: int, stages: int) -> list[int]:
    try:
        sizes = [int(size) for size in partition.split(",")]
    except ValueError:
        raise _refuse(f"{partition[:40]!r} is no list of numbers") from None
    if len(sizes) != stages:
        raise _refuse(f"{len(sizes)} numbers for {stages} stages")
    if sum(sizes) != num_layers or min(sizes) < 0:
        raise _refuse(f"{partition[:40]} is not the model's {num_layers} layers")
    return sizes


def _refuse(why: str) -> StartupError:
    return load_error(
        PARTITION, f"VLLM_PP_LAYER_PARTITION: {why}", where="VLLM_PP_LAYER_PARTITION", raised_in="get_pp_indices"
    )
