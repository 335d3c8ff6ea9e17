"""What to change after each kind of crash, with the largest value that would have worked, by the log's own numbers."""

from __future__ import annotations

from collections.abc import Callable

from ..memory.budget.shortages import MORE_LOGITS
from ..memory.thin_margin import FEW_SEQS
from . import limits, serving, siblings, unknown_step
from .estimate import is_implausible, size_without, switched_off, without_implausible
from .known import GIB, MIB, deducts, gib, is_manual, is_of_v0, max_num_seqs
from .scene import (
    SPARE,
    Remedy,
    Scene,
    beyond_budget,
    down,
    left_to_capture,
    less_cache,
    more_memory,
    not_moved,
    room_for_cache,
    round_number,
    transient_of,
    up,
)

LITTLE_CACHE = GIB
"""A KV cache that is worth a start, where the log does not say what one request needs."""


def remedy(kind: str, scene: Scene) -> Remedy | None:
    """What helps; None: nothing beyond what the rule's page says."""
    if scene.step == serving.SERVING and kind == "out_of_memory":
        return serving.out_of_memory(scene)
    found = _REMEDIES.get(kind)
    return found(scene) if found is not None else None


def _model_len(scene: Scene) -> Remedy | None:
    longest = scene.values.get("estimated_len")
    longest = siblings.longest(scene.failed, longest) if longest else None
    needed, available = scene.values.get("needed_bytes"), scene.values.get("available_bytes")
    largest: dict[str, int | float] = {"max_model_len": longest} if longest else {}
    parts = [] if needed is None else _without_estimate(scene, needed, largest)
    parts += [f"--max-model-len {longest} or less"] if longest else []
    if needed is not None and available is not None and not _is_of_the_estimate(scene, parts):
        if not longest and (fits := _shorter(scene, needed, available)) is not None:
            largest["max_model_len"] = fits
            parts.append(
                f"--max-model-len {fits} or less, by the share of it, if the cache grows with the length alone"
            )
        parts += (
            more_memory(scene, needed - available, largest) or _by_share(scene, needed - available, "a request")[:1]
        )
    return Remedy(", or ".join(parts), largest) if parts else None


def _shorter(scene: Scene, needed: int, available: int) -> int | None:
    """About the length that fits, where vLLM's line does not end with it; None: not one block of tokens."""
    length = scene.values.get("max_model_len")
    fits = int(length * available / needed) // 16 * 16 if length and needed > 0 and available > 0 else 0
    return fits if fits >= 16 else None


WITHOUT_NUMBERS = (
    "a higher --gpu-memory-utilization, or --max-num-batched-tokens 2048 and, of a multimodal model,"
    " --limit-mm-per-prompt or --language-model-only, or more GPUs; by how much says the line `Available KV cache"
    " memory` before it, which `cgplan logs` reads as well"
)


def _no_blocks(scene: Scene) -> Remedy | None:
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if kv is None and (switch := without_implausible(scene)) is not None:
        return Remedy(switch, {})
    if kv is None:
        return Remedy(WITHOUT_NUMBERS, {}) if scene.start.is_part else None
    graphs = 0
    if scene.rank is not None and not deducts(scene.start, scene.rank):
        graphs = max(0, scene.rank.graph_estimate_bytes or 0)
    largest: dict[str, int | float] = {}
    needed = scene.needed or LITTLE_CACHE
    parts = _without_estimate(scene, needed, largest)
    if _is_of_the_estimate(scene, parts):
        return Remedy(", or ".join(parts), largest)
    missing = max(0, -kv) + graphs + needed
    parts += more_memory(scene, missing, largest) or _by_share(scene, missing)
    tokens = scene.start.max_num_batched_tokens
    if tokens is not None and tokens > 2048:
        parts.append(f"--max-num-batched-tokens {max(2048, tokens // 4)}, which lowers the peak of the profile run")
    if "ConditionalGeneration" in (scene.start.architecture or ""):
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(", or ".join(parts), largest) if parts else None


def _by_share(scene: Scene, missing: int, what: str = "a small cache") -> list[str]:
    """By how much the share has to be higher, where the log does not say what it was."""
    if is_manual(scene.start, scene.rank):
        return []
    total = scene.total or scene.gpu_bytes
    if total:
        by = f"{up(missing / total):g}, {gib(missing)} of {gib(total)}"
    else:
        of_24, of_80 = (up(missing / (size * GIB)) for size in (24, 80))
        by = f"{gib(missing)} of the GPU's memory ({of_24:g} of 24 GiB, {of_80:g} of 80)"
    what = "a request" if scene.needed else what
    return [
        f"a --gpu-memory-utilization higher by {by}, with which {what} fits",
        "less memory for a step: --max-num-batched-tokens 2048",
    ]


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
    if tried is not None and free is not None:
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
    size = _smaller(scene)
    works: dict[str, int | float] = {} if size is None else {"kv_cache_memory_bytes": size}
    said = smaller_cache(scene) or "--kv-cache-memory-bytes, 2 GiB less than the KV cache in use"
    return Remedy(f"{said}, where a lower --gpu-memory-utilization is no help", works)


def smaller_cache(scene: Scene) -> str | None:
    """The flag with the KV cache that leaves room for what is taken after it was sized; None: the log has none."""
    size = _smaller(scene)
    return None if size is None else f"--kv-cache-memory-bytes {size} ({gib(size)})"


def _smaller(scene: Scene) -> int | None:
    """Bytes of that KV cache: 2 GiB less than the smallest that failed, or what was missing where that is more."""
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if kv is None:
        return None
    tried, free = scene.values.get("tried_bytes") or 0, scene.values.get("free_bytes") or 0
    least = max(SPARE, tried - free) + left_to_capture(scene)
    size = (min(kv, siblings.too_large(scene.failed) or kv) - least) // MIB * MIB
    return size if size > 0 else None


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
    parts += _fewer_requests(scene)
    if not parts:
        return None
    if scene.start.architecture is None:
        parts.append("--limit-mm-per-prompt of a multimodal model")
    elif "ConditionalGeneration" in scene.start.architecture:
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(
        f"{', or '.join(parts)}: the KV cache does not exist yet, so --gpu-memory-utilization is no help",
        {},
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
    "model_len": _model_len,
    "no_blocks": _no_blocks,
    "auto_fit": _no_blocks,
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
