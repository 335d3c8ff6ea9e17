"""What to change where the KV cache is too small for a request, or nothing is left for it."""

from __future__ import annotations

from ..memory.thin_margin import FEW_SEQS
from . import siblings
from .arguments import model_of
from .estimate import is_implausible, size_without, switched_off, without_implausible
from .known import GIB, argument, deducts, gib, is_manual
from .scene import LEAST_OUTSIDE, LEAST_SHARE, Remedy, Scene, more_memory, up

LITTLE_CACHE = GIB
"""A KV cache that is worth a start, where the log does not say what one request needs."""


def model_len(scene: Scene) -> Remedy | None:
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


def no_blocks(scene: Scene) -> Remedy | None:
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
    parts += [f"{part}{_room(scene, largest)}" for part in more_memory(scene, missing, largest)] or _by_share(
        scene, missing
    )
    tokens = scene.start.max_num_batched_tokens
    if tokens is not None and tokens > 2048:
        parts.append(f"--max-num-batched-tokens {max(2048, tokens // 4)}, which lowers the peak of the profile run")
    if "ConditionalGeneration" in (scene.start.architecture or ""):
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(", or ".join(parts), largest) if parts else None


def _room(scene: Scene, largest: dict[str, int | float]) -> str:
    """What the share leaves outside it, held against the graphs that come on top; "": none do, or it is not known."""
    rank, share, total = scene.rank, largest.get("gpu_memory_utilization"), scene.total
    if rank is None or share is None or not total or deducts(scene.start, rank):
        return ""
    before = scene.free if scene.free is not None else total
    left, graphs = before - round(share * total), max(0, rank.graph_estimate_bytes or 0)
    if not graphs:
        return f"; the graphs come on top of it, and {gib(max(0, left))} stay outside"
    text = f"; outside it stay {gib(max(0, left))} for the graphs, about {gib(graphs)}"
    if left - graphs >= LEAST_OUTSIDE:
        return text
    return f"{text}, and half a GiB has to stay free: fewer of them, by --max-num-seqs {FEW_SEQS} or fewer sizes"


def _by_share(scene: Scene, missing: int, what: str = "a small cache") -> list[str]:
    """By how much the share has to be higher, where the log does not say what it was, or that none is enough."""
    if is_manual(scene.start, scene.rank):
        return []
    total = scene.total or scene.gpu_bytes
    what = "a request" if scene.needed else what
    beside = _beside_missing(scene)
    least = "less memory for a step: --max-num-batched-tokens 2048"
    if total and beside + missing > (1 - LEAST_SHARE) * total:
        held = f", beside {gib(beside)} that are taken" if beside else ""
        return [f"{_not_by_share(scene)}: {gib(missing)} more are missing{held}, and the GPU has {gib(total)}"]
    if total:
        by = f"{up(missing / total):g}, {gib(missing)} of {gib(total)}"
    else:
        sizes = [size for size in (24, 80) if beside + missing <= (1 - LEAST_SHARE) * size * GIB]
        shares = [f"{up(missing / (size * GIB)):g} of {size}{' GiB' if size == sizes[0] else ''}" for size in sizes]
        by = f"{gib(missing)} of the GPU's memory"
        if not shares:
            return [f"{_not_by_share(scene)} on a GPU of 80 GiB: {gib(missing)} more are missing"]
        by += f" ({', '.join(shares)})"
    return [f"a --gpu-memory-utilization higher by {by}, with which {what} fits", least]


def _not_by_share(scene: Scene) -> str:
    needed, available = scene.values.get("needed_bytes"), scene.values.get("available_bytes")
    half = ", or --kv-cache-dtype fp8" if needed and available and needed <= 2 * available else ""
    windows = ""
    if needed and model_of(scene.start) is None and argument(scene.start, "architecture") is None:
        windows = (
            ", or, of a model whose layers have windows, the hybrid KV cache manager, which --model tells more about"
        )
    return f"more GPUs{half}{windows}; no --gpu-memory-utilization reaches it"


def _beside_missing(scene: Scene) -> int:
    """What the GPU surely holds already: the weights, and the KV cache that there is."""
    weights = scene.rank.weights_bytes if scene.rank is not None else None
    return (weights or 0) + max(0, int(scene.values.get("available_bytes") or 0))


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
