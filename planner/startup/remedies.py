"""What to change after each kind of crash, with the largest value that would have worked, by the log's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import serving
from .estimate import is_implausible, size_without, switched_off
from .known import GIB, MIB, argument, deducts, gib, is_of_v0, max_num_seqs
from .scene import (
    Remedy,
    Scene,
    down,
    left_to_capture,
    less_cache,
    more_memory,
    room_for_cache,
    round_number,
    transient_of,
    up,
)

MORE_LOGITS = 2
"""Of the sampler's float32 copies of the logits, those that may still have to come after the one that did not fit."""
LITTLE_CACHE = GIB
"""A KV cache that is worth a start, where the log does not say what one request needs."""
TENSOR_SIZES = (1, 2, 4, 8, 16, 32)


def remedy(kind: str, scene: Scene) -> Remedy | None:
    """What helps; None: nothing beyond what the rule's page says."""
    if scene.step == serving.SERVING and kind == "out_of_memory":
        return serving.out_of_memory(scene)
    found = _REMEDIES.get(kind)
    return found(scene) if found is not None else None


def _model_len(scene: Scene) -> Remedy | None:
    longest = scene.values.get("estimated_len")
    needed, available = scene.values.get("needed_bytes"), scene.values.get("available_bytes")
    largest: dict[str, int | float] = {"max_model_len": longest} if longest else {}
    parts = [] if needed is None else _without_estimate(scene, needed, largest)
    parts += [f"--max-model-len {longest} or less"] if longest else []
    if needed is not None and available is not None and not _is_of_the_estimate(scene, parts):
        parts += more_memory(scene, needed - available, largest)
    return Remedy(", or ".join(parts), largest) if parts else None


def _no_blocks(scene: Scene) -> Remedy | None:
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if kv is None:
        return None
    graphs = 0
    if scene.rank is not None and not deducts(scene.start, scene.rank):
        graphs = max(0, scene.rank.graph_estimate_bytes or 0)
    largest: dict[str, int | float] = {}
    needed = scene.needed or LITTLE_CACHE
    parts = _without_estimate(scene, needed, largest)
    if _is_of_the_estimate(scene, parts):
        return Remedy(", or ".join(parts), largest)
    parts += more_memory(scene, max(0, -kv) + graphs + needed, largest)
    tokens = scene.start.max_num_batched_tokens
    if tokens is not None and tokens > 2048:
        parts.append(f"--max-num-batched-tokens {max(2048, tokens // 4)}, which lowers the peak of the profile run")
    if "ConditionalGeneration" in (scene.start.architecture or ""):
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(", or ".join(parts), largest) if parts else None


def _without_estimate(scene: Scene, needed: int, largest: dict[str, int | float]) -> list[str]:
    """What helps where the estimate of the graphs alone keeps the KV cache below what a request needs; else none."""
    switch = switched_off(scene, needed)
    if switch is None:
        return []
    parts = [switch]
    size = size_without(scene.start)
    if _is_of_the_estimate(scene, parts) and size is not None and size >= needed:
        largest["kv_cache_memory_bytes"] = size
        parts.append(f"--kv-cache-memory-bytes {size} ({gib(size)})")
    return parts


def _is_of_the_estimate(scene: Scene, parts: list[str]) -> bool:
    """Whether an estimate that cannot be true is what is wrong, so that more memory is not missing."""
    rank = scene.rank
    if rank is None or not parts:
        return False
    estimate = rank.graph_estimate_bytes
    return is_implausible(estimate, rank.graph_actual_bytes, scene.total or scene.gpu_bytes)


def _mamba_blocks(scene: Scene) -> Remedy | None:
    blocks = scene.values.get("blocks")
    if not blocks:
        return None
    least = round_number(blocks)
    most = f" ({blocks} at most)" if least != blocks else ""
    fix = (
        f"--max-num-seqs {least}{most}, or a higher --gpu-memory-utilization; or -cc.cudagraph_mode=PIECEWISE, which"
        " needs no block for each request"
    )
    return Remedy(fix, {"max_num_seqs": blocks})


def _free_memory(scene: Scene) -> Remedy | None:
    free, total = scene.values.get("free_bytes"), scene.values.get("total_bytes")
    if free is None or not total:
        return None
    asked = scene.values.get("requested_bytes")
    external = _external(scene, total, asked)
    share = down(min(1.0, (free + external) / total))
    held = f"; other processes and the driver hold {gib(max(0, total - free - external))}"
    if external:
        held += f", and {gib(external)} are weights that another process holds for this server"
    if share <= 0:
        return Remedy(f"stop what runs on the GPU{held}", {})
    short = f", {gib(asked - free)} less than was asked for" if asked else ""
    return Remedy(f"--gpu-memory-utilization {share:g} or less{short}{held}", {"gpu_memory_utilization": share})


def _external(scene: Scene, total: int, asked: int | None) -> int:
    """Weights that another process holds: vLLM takes them off what it asks for before it looks at what is free."""
    share = scene.values.get("utilization")
    if "after" not in scene.values or asked is None or share is None:
        return 0
    return max(0, round(float(share) * total) - asked)


def _external_weights(scene: Scene) -> Remedy | None:
    held, total = scene.values.get("external_bytes"), scene.values.get("total_bytes")
    if not held or not total:
        return None
    share = up(held / total, 3)
    if share >= 1:
        return None
    return Remedy(
        f"--gpu-memory-utilization above {share:g}: only what is above the {gib(held)} of weights is the engine's", {}
    )


def _batched_below(scene: Scene) -> Remedy | None:
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


def _world_size(scene: Scene) -> Remedy | None:
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


def _context_ranks(scene: Scene) -> Remedy | None:
    ranks, divisor = scene.values.get("number"), scene.values.get("divisor")
    if not ranks or not divisor:
        return None
    fits = [size for size in range(1, min(ranks, 1024) + 1) if ranks % size == 0]
    largest = max((size for size in fits if size < divisor), default=1)
    sizes = ", ".join(map(str, fits[:12]))
    fix = f"--decode-context-parallel-size of {sizes}: {ranks} divides by them"
    return Remedy(fix, {"decode_context_parallel_size": largest})


def _profiling(scene: Scene) -> Remedy | None:
    before, after = scene.values.get("free_bytes"), scene.values.get("free_after_bytes")
    if before is None or after is None:
        return None
    return Remedy(
        f"start again when no other process starts or ends on the GPU: at least {gib(after - before)} came free while"
        " vLLM measured",
        {},
    )


def _derived_len(scene: Scene) -> Remedy | None:
    known = [value for key in ("derived_len", "tokenizer_len") if isinstance(value := scene.values.get(key), int)]
    if not known:
        return None
    return Remedy(f"--max-model-len {max(known)} or less", {"max_model_len": max(known)})


def _divide(scene: Scene) -> Remedy | None:
    number, divisor = scene.values.get("number"), scene.values.get("divisor")
    if not number or not divisor:
        return None
    fits = [size for size in TENSOR_SIZES if size <= max(8, divisor) and number % size == 0]
    largest = max((size for size in fits if size < divisor), default=1)
    sizes = ", ".join(map(str, fits))
    return Remedy(f"--tensor-parallel-size of {sizes}: {number} divides by them", {"tensor_parallel_size": largest})


def _largest_size(scene: Scene) -> Remedy | None:
    size = scene.values.get("largest")
    fix = f"drop --max-cudagraph-capture-size, or set it to {size}, the largest of the sizes"
    return Remedy(fix, {"max_cudagraph_capture_size": size}) if size else None


def _sampler(scene: Scene) -> Remedy | None:
    tried, free = scene.values.get("tried_bytes"), scene.values.get("free_bytes")
    rows = scene.values.get("max_num_seqs") or max_num_seqs(scene.start)
    largest: dict[str, int | float] = {}
    parts = []
    if tried is not None and free is not None:
        parts += less_cache(scene, max(0, tried - free) + MORE_LOGITS * tried, largest)
    if rows and rows > 1:
        most = int(rows * free / tried) if tried and free is not None else rows // 2
        fewer = max(1, min(round_number(max(1, most)), rows // 2))
        largest["max_num_seqs"] = fewer
        parts.append(f"--max-num-seqs {fewer}")
    return Remedy(", or ".join(parts), largest) if parts else None


def _out_of_memory(scene: Scene) -> Remedy | None:
    if scene.step == "warm-up":
        return _sampler(scene)
    if scene.step == "profiling":
        return _profile_run(scene)
    if scene.step not in ("capture", "cache"):
        return None
    if scene.step == "cache":
        return _allocation(scene)
    tried, free = scene.values.get("tried_bytes") or 0, scene.values.get("free_bytes") or 0
    largest: dict[str, int | float] = {}
    parts = less_cache(scene, max(0, tried - free) + left_to_capture(scene), largest)
    if is_of_v0(scene.start):
        size = largest.pop("kv_cache_memory_bytes", None)
        parts = [part for part in parts if size is None or not part.startswith("--kv-cache-memory-bytes")]
        return Remedy(", or ".join([*parts, "--enforce-eager"]), largest)
    parts.append("fewer sizes with --cudagraph-capture-sizes")
    return Remedy(", or ".join(parts), largest)


def _allocation(scene: Scene) -> Remedy | None:
    """The KV cache is allocated a tensor at a time, so the one that failed does not say how much is missing."""
    fits, kv = room_for_cache(scene), scene.rank.kv_bytes if scene.rank is not None else None
    if fits is None or kv is None:
        return None  # What one tensor lacked says nothing of those after it.
    if fits < MIB:
        return Remedy(f"more GPUs or smaller weights: beside all else {gib(max(0, fits))} are left for it", {})
    largest: dict[str, int | float] = {}
    if fits >= kv:
        # Torch holds more than weights and cache: what it is the log does not say, so only what is missing is known.
        tried = scene.values.get("tried_bytes") or 0
        parts = less_cache(scene, max(0, tried - (scene.values.get("free_bytes") or 0)), largest)
        return Remedy(f"{', or '.join(parts)}, or less of either", largest) if parts else None
    parts = less_cache(scene, kv - fits, largest, as_worked_out=True)
    step = scene.start.max_num_batched_tokens
    if scene.beside is None and transient_of(scene) is None and parts:
        beside = f" of {step:,} tokens" if step is not None else ""
        parts[-1] += f", less what a step{beside} takes, which the log does not say"
    return Remedy(", or ".join(parts), largest) if parts else None


def _profile_run(scene: Scene) -> Remedy | None:
    tokens = scene.start.max_num_batched_tokens
    if tokens is None or tokens < 2:
        return None
    return Remedy(
        f"--max-num-batched-tokens {tokens // 2}: the KV cache does not exist yet, so --gpu-memory-utilization is no"
        " help",
        {},
    )


def _mode(scene: Scene) -> Remedy | None:
    asked = argument(scene.start, "compilation_config")
    given = isinstance(asked, Mapping) and asked.get("cudagraph_mode") is not None
    drop = "drop cudagraph_mode, and vLLM chooses" if given else "FULL_AND_PIECEWISE"
    return Remedy(f"-cc.cudagraph_mode=PIECEWISE, or {drop}, or another --attention-backend", {})


_REMEDIES: dict[str, Callable[[Scene], Remedy | None]] = {
    "model_len": _model_len,
    "no_blocks": _no_blocks,
    "auto_fit": _no_blocks,
    "mamba_blocks": _mamba_blocks,
    "free_memory": _free_memory,
    "profiling": _profiling,
    "derived_len": _derived_len,
    "heads": _divide,
    "world_size": _world_size,
    "context_ranks": _context_ranks,
    "external_weights": _external_weights,
    "batched_below_seqs": _batched_below,
    "batched_below_len": _batched_below,
    "not_divisible": _divide,
    "largest_size": _largest_size,
    "sampler_warm_up": _sampler,
    "pooler_warm_up": _sampler,
    "out_of_memory": _out_of_memory,
    "mode": _mode,
    "memory_access": serving.memory_access,
    "process_died": serving.process_died,
}
