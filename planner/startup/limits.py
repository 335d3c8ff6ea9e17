"""What to change where a limit or a size does not go with another: the sizes that do, by the numbers of the message."""

from __future__ import annotations

from collections.abc import Mapping

from .known import argument
from .scene import Remedy, Scene, round_number

TENSOR_SIZES = (1, 2, 4, 8, 16, 32)


def batched_below(scene: Scene) -> Remedy | None:
    """Two limits of which one is below the other: either can be moved."""
    tokens = scene.values.get("max_num_batched_tokens")
    name = "max_model_len" if "max_model_len" in scene.values else "max_num_seqs"
    other = scene.values.get(name)
    if tokens is None or other is None:
        return None
    flag = f"--{name.replace('_', '-')}"
    # Each alone; the first is what `works` names.
    return Remedy(
        f"--max-num-batched-tokens {other} or more, or {flag} {tokens} or less", {"max_num_batched_tokens": other}
    )


def world_size(scene: Scene) -> Remedy | None:
    ranks, gpus = scene.values.get("world_size"), scene.values.get("gpus")
    if not ranks or not gpus:
        return None
    size, stages = argument(scene.start, "tensor_parallel_size"), argument(scene.start, "pipeline_parallel_size")
    if isinstance(size, int) and stages in (None, 1):
        return Remedy(
            f"--tensor-parallel-size {round_number(gpus)}, or {ranks} GPUs, or --nnodes for several nodes",
            {"tensor_parallel_size": round_number(gpus)},
        )
    return Remedy(f"at most {gpus} ranks over all parallel sizes, or {ranks} GPUs, or --nnodes for several nodes", {})


def context_ranks(scene: Scene) -> Remedy | None:
    ranks, divisor = scene.values.get("number"), scene.values.get("divisor")
    if not ranks or not divisor:
        return None
    fits = [size for size in range(1, min(ranks, 1024) + 1) if ranks % size == 0]
    largest = max((size for size in fits if size < divisor), default=1)
    sizes = ", ".join(map(str, fits[:12]))
    fix = f"--decode-context-parallel-size of {sizes}: {ranks} divides by them"
    return Remedy(fix, {"decode_context_parallel_size": largest})


def derived_len(scene: Scene) -> Remedy | None:
    known = [value for key in ("derived_len", "tokenizer_len") if isinstance(value := scene.values.get(key), int)]
    if not known:
        return None
    return Remedy(f"--max-model-len {max(known)} or less", {"max_model_len": max(known)})


def divide(scene: Scene) -> Remedy | None:
    number, divisor = scene.values.get("number"), scene.values.get("divisor")
    if not number or not divisor:
        return None
    fits = [size for size in TENSOR_SIZES if size <= max(8, divisor) and number % size == 0]
    largest = max((size for size in fits if size < divisor), default=1)
    sizes = ", ".join(map(str, fits))
    return Remedy(f"--tensor-parallel-size of {sizes}: {number} divides by them", {"tensor_parallel_size": largest})


def largest_size(scene: Scene) -> Remedy | None:
    size = scene.values.get("largest")
    fix = f"drop --max-cudagraph-capture-size, or set it to {size}, the largest of the sizes"
    return Remedy(fix, {"max_cudagraph_capture_size": size}) if size else None


def mode(scene: Scene) -> Remedy | None:
    asked = argument(scene.start, "compilation_config")
    given = isinstance(asked, Mapping) and asked.get("cudagraph_mode") is not None
    drop = "drop cudagraph_mode, and vLLM chooses" if given else "FULL_AND_PIECEWISE"
    return Remedy(f"-cc.cudagraph_mode=PIECEWISE, or {drop}, or another --attention-backend", {})
