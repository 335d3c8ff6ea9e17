"""What to change after each kind of crash, with the largest value that would have worked, by the log's own numbers."""

from __future__ import annotations

from collections.abc import Callable

from ..memory.budget.shortages import MORE_LOGITS
from ..memory.thin_margin import FEW_SEQS
from . import limits, serving, siblings, too_little, unknown_step
from .known import MIB, gib, is_manual, is_of_v0, max_num_seqs
from .scene import (
    SPARE,
    Remedy,
    Scene,
    beyond_budget,
    down,
    left_to_capture,
    less_cache,
    not_moved,
    room_for_cache,
    round_number,
    smaller,
    smaller_cache,
    transient_of,
    up,
)

LEAST_OF_A_GPU = 0.1
"""Share of a GPU below which hardly a server starts."""


def remedy(kind: str, scene: Scene) -> Remedy | None:
    """What helps; None: nothing beyond what the rule's page says."""
    if scene.step == serving.SERVING and kind == "out_of_memory":
        return serving.out_of_memory(scene)
    found = _REMEDIES.get(kind)
    return found(scene) if found is not None else None


def _mamba_blocks(scene: Scene) -> Remedy | None:
    blocks = scene.values.get("blocks")
    if not blocks:
        return None
    blocks = siblings.most_requests(scene.failed, blocks)
    least = round_number(blocks)
    most = f" ({blocks} at most)" if least != blocks else ""
    fix = (
        f"--max-num-seqs {least}{most}, or a higher --gpu-memory-utilization; or -cc.cudagraph_mode=PIECEWISE, which"
        " needs no block for each request; --max-model-len can stay, for it does not change the number of blocks"
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
    if share < LEAST_OF_A_GPU:
        return Remedy(f"stop what else runs on the GPU: {gib(free)} of it are free, too little for a server{held}", {})
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


def _profiling(scene: Scene) -> Remedy | None:
    before, after = scene.values.get("free_bytes"), scene.values.get("free_after_bytes")
    if before is None or after is None:
        return None
    return Remedy(
        f"start again when no other process starts or ends on the GPU: at least {gib(after - before)} came free while"
        " vLLM measured",
        {},
    )


def _sampler(scene: Scene) -> Remedy | None:
    tried, free = scene.values.get("tried_bytes"), scene.values.get("free_bytes")
    rows = scene.values.get("max_num_seqs") or max_num_seqs(scene.start)
    largest: dict[str, int | float] = {}
    parts = []
    if beyond_budget(scene) is not None and (size := smaller(scene)) is not None:
        # Taken after the KV cache was sized, and fewer rows are no help against it.
        largest["kv_cache_memory_bytes"] = size
        parts.append(f"--kv-cache-memory-bytes {size} ({gib(size)})")
    elif tried is not None and free is not None:
        parts += less_cache(scene, max(0, tried - free) + MORE_LOGITS * tried, largest)
    if rows and rows > 1:
        most = int(rows * free / tried) if tried and free is not None else rows // 2
        fewer = max(1, min(round_number(max(1, most)), rows // 2))
        fewer = siblings.fewer_rows(scene.failed, fewer)
        largest["max_num_seqs"] = fewer
        parts.append(f"--max-num-seqs {fewer}")
    return Remedy(", or ".join(parts), largest) if parts else None


def _out_of_memory(scene: Scene) -> Remedy | None:
    if scene.step == "warm-up":
        return _sampler(scene)
    if scene.step == "profiling":
        return _profile_run(scene)
    if scene.step == "":
        return unknown_step.remedy(scene)
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
    if not not_moved(scene) and beyond_budget(scene) is None:
        total = scene.values.get("total_bytes")
        if not parts and total and scene.share is None and not is_manual(scene.start, scene.rank):
            parts = unknown_step.lower_by(max(0, tried - free), total)
        parts += [*_fewer_requests(scene), "fewer sizes with --cudagraph-capture-sizes"]
        return Remedy(", or ".join(parts) + _if_the_same_is_missing(scene), largest)
    # Taken after the KV cache was sized: a smaller share does not give it as much room as it should.
    size = smaller(scene)
    works: dict[str, int | float] = {} if size is None else {"kv_cache_memory_bytes": size}
    said = smaller_cache(scene) or "--kv-cache-memory-bytes, 2 GiB less than the KV cache in use"
    return Remedy(f"{said}, where a lower --gpu-memory-utilization is no help", works)


def _if_the_same_is_missing(scene: Scene) -> str:
    """What one start alone cannot say: whether the share is what is wrong; "": others say it, or it was not the
    share."""
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if scene.failed or is_manual(scene.start, scene.rank) or (kv is not None and kv <= SPARE):
        return ""
    if kv is None:
        return (
            "; if the same amount is missing at another utilization, --kv-cache-memory-bytes, 2 GiB less than the line"
            " `Available KV cache memory` says"
        )
    size = (kv - SPARE) // MIB * MIB
    return (
        "; if the same amount is missing at another utilization, --kv-cache-memory-bytes"
        f" {size} ({gib(size)}), 2 GiB less than now"
    )


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
    parts = []
    if tokens is not None and tokens >= 2:
        parts.append(f"--max-num-batched-tokens {tokens // 2}")
    elif _fewer_requests(scene):
        parts.append("a lower --max-num-batched-tokens")
    fewer = _fewer_requests(scene)
    # Behind the line of the first run what is left are the rows of the sampler, and the estimate of the graphs.
    has_run = any(phase.name == "warm-up" for phase in scene.start.phases)
    parts = [*fewer, *parts] if has_run else [*parts, *fewer]
    if not parts:
        return None
    if scene.start.architecture is None:
        parts.append("--limit-mm-per-prompt of a multimodal model")
    elif "ConditionalGeneration" in scene.start.architecture:
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(
        f"{', or '.join(parts)}: the KV cache does not exist yet, so --gpu-memory-utilization is no help"
        f"{_held_by_others(scene)}",
        {},
    )


def _held_by_others(scene: Scene) -> str:
    """That by the plan the step fits with room to spare, so that something else holds memory; "": it is not so."""
    weights = scene.rank.weights_bytes if scene.rank is not None else None
    total = scene.total or scene.gpu_bytes
    if weights is None or scene.beside is None or not total or total - weights - scene.beside < SPARE:
        return ""
    return (
        f". By the plan the step and the graphs take {gib(scene.beside)} beside {gib(weights)} of weights, and"
        f" {gib(total)} are there: look with nvidia-smi at what else is on the GPU"
    )


def _fewer_requests(scene: Scene) -> list[str]:
    """Fewer requests at once, by the number that runs now, as the log or the plan has it: states, logits and graphs get
    fewer."""
    now = max_num_seqs(scene.start) or scene.seqs
    if now is not None and now <= FEW_SEQS:
        return []
    said = f" (now {now})" if now is not None else ""
    return [f"--max-num-seqs {FEW_SEQS}, where so few run at once{said}"]


_REMEDIES: dict[str, Callable[[Scene], Remedy | None]] = {
    "model_len": too_little.model_len,
    "no_blocks": too_little.no_blocks,
    "auto_fit": too_little.no_blocks,
    "mamba_blocks": _mamba_blocks,
    "free_memory": _free_memory,
    "profiling": _profiling,
    "derived_len": limits.derived_len,
    "heads": limits.divide,
    "world_size": limits.world_size,
    "context_ranks": limits.context_ranks,
    "external_weights": _external_weights,
    "batched_below_seqs": limits.batched_below,
    "batched_below_len": limits.batched_below,
    "not_divisible": limits.divide,
    "largest_size": limits.largest_size,
    "sampler_warm_up": _sampler,
    "pooler_warm_up": _sampler,
    "out_of_memory": _out_of_memory,
    "mode": limits.mode,
    "memory_access": serving.memory_access,
    "process_died": serving.process_died,
}
