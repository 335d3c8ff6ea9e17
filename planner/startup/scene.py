"""Where a start ended, and the sizes of the KV cache that would have fit there."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, NamedTuple

from . import siblings
from .known import (
    GIB,
    MIB,
    argument,
    deducts,
    gib,
    is_manual,
    is_of_v0,
    is_share,
    requested_of,
    total_of,
    transient,
    utilization,
)
from .record import Rank, Start
from .siblings import Failed, in_use, too_high, too_large, too_low

LEAST_OUTSIDE = GIB // 2
LEAST_SHARE = 0.02
"""Memory that capture needs beside a full KV cache, whatever the estimate is: half a GiB or 2% of the GPU."""
SPARE = 2 * GIB
"""What to leave beside the KV cache where something outside the budget takes memory."""
Values = Mapping[str, Any]


class Remedy(NamedTuple):
    """What to change.

    Attributes:
        fix: in words, with the numbers.
        largest: the largest (of lengths and requests) or the right value that would have worked, by vLLM's name.
    """

    fix: str
    largest: dict[str, int | float]


class Scene(NamedTuple):
    """Where a start ended.

    Attributes:
        start, rank: the rank that ended, or the one with the least KV cache; None: the log has none.
        step: of `known.step_of`.
        values: numbers of the message.
        needed: bytes of KV cache that a request of the full length takes, where a plan says; None: not known.
        beside: bytes that the largest step and the graphs take beside the KV cache, where a plan says; None: not known.
        most: the largest share of the GPU that is surely free before the start, where a plan says; None: not known.
        gpu_bytes: memory of the GPU that was named; None: none was, or the log's is another.
        graphs: bytes that capture takes at most, where a plan says; None: not known.
        failed: other starts of the same server that ended for memory.
        seqs: how many requests may run, where a plan says; None: not known.
        tokens: batched tokens, where a plan says; None: not known.
        prefill: bytes that a prefill of gated delta layers takes at most beyond the profile run, where a plan says; 0:
            the model has such layers, and it is not known; None: no plan says that it has.
    """

    start: Start
    rank: Rank | None
    step: str
    values: Values
    needed: int | None = None
    beside: int | None = None
    most: float | None = None
    gpu_bytes: int | None = None
    graphs: int | None = None
    failed: tuple[Failed, ...] = ()
    seqs: int | None = None
    tokens: int | None = None
    prefill: int | None = None

    @property
    def most_share(self) -> float:
        """The largest --gpu-memory-utilization that vLLM surely does not refuse; what the log says goes first."""
        if self.most is None or self.free is not None:
            return 1.0
        held, share = self.values.get("process_bytes"), self.share
        if held and share is not None and self.total and held >= share * self.total:
            # This process alone held as much, so it was free before.
            return max(self.most, share)
        return self.most

    @property
    def total(self) -> int | None:
        found = self.values.get("total_bytes")
        return int(found) if found else total_of(self.start, self.rank)

    @property
    def share(self) -> float | None:
        found: Any = self.values.get("utilization")
        return float(found) if is_share(found) else utilization(self.start, self.rank)

    @property
    def free(self) -> int | None:
        """Free before the start, bytes."""
        return self.rank.free_bytes if self.rank is not None else None


class Beyond(NamedTuple):
    """Bytes that a process held where memory ran out, those beyond what it asked for, and those of its graphs."""

    held: int
    beyond: int
    pools: int


BEFORE_CACHE = ("loading", "profiling")
"""Steps at which the budget is not yet spent: what a process holds there says nothing of it."""


def beyond_budget(scene: Scene) -> Beyond | None:
    """What was in use beyond the budget, where most of it is no graph; None: it is not, or the log does not say.

    Torch on ROCm does not say what the process holds; then it is at least what torch itself has.
    """
    held = scene.values.get("process_bytes") or scene.values.get("torch_bytes")
    pools = scene.values.get("private_pool_bytes")
    asked = requested_of(scene.start, scene.rank)
    if asked is None and scene.total and scene.share is not None:
        asked = round(scene.share * scene.total)
    if held is None or pools is None or asked is None or is_of_v0(scene.start):
        return None
    if scene.step in BEFORE_CACHE or (scene.step == "" and not scene.start.is_part) or _is_of_warm_up(scene.start):
        return None
    beyond = held - asked
    if scene.rank is not None and not deducts(scene.start, scene.rank):
        taken = scene.rank.graph_actual_bytes
        beyond -= max(0, (scene.rank.graph_estimate_bytes or 0) if taken is None else taken)
    return None if beyond < LEAST_OUTSIDE or pools > beyond // 2 else Beyond(int(held), int(beyond), int(pools))


def _is_of_warm_up(start: Start) -> bool:
    """Whether vLLM's words or the frames say that the sampler or the pooler was warmed up: its logits are what is
    beyond the budget."""
    crash = start.crash
    return crash is not None and (crash.step == "warm-up" or siblings.cause(start, crash)[0].endswith("warm_up"))


def not_moved(scene: Scene) -> tuple[float, ...]:
    """The shares at which memory ran out alike, so that a smaller one is no help; (): none, or not known."""
    if is_manual(scene.start, scene.rank) or argument(scene.start, "num_gpu_blocks_override"):
        return ()
    own = Failed("", scene.share, None, in_use(scene.values), scene.values.get("private_pool_bytes"))
    return siblings.not_moved(own, scene.failed, scene.total)


def down(share: float, digits: int = 2) -> float:
    """A share rounded down, as operators write it."""
    steps = 10.0**digits
    return floor(share * steps + 1e-6) / steps


def up(share: float, digits: int = 2) -> float:
    steps = 10.0**digits
    return ceil(share * steps - 1e-6) / steps


def round_number(most: int) -> int:
    """A round number of requests: the number of blocks changes a little from start to start."""
    return 1 << max(0, most.bit_length() - 1)


def more_memory(scene: Scene, missing: int, largest: dict[str, int | float]) -> list[str]:
    """The utilization, or the bytes, with which `missing` bytes more are there; the GPU may not have them."""
    if is_manual(scene.start, scene.rank):
        kv = scene.rank.kv_bytes if scene.rank is not None else None
        if kv is None:
            return []
        largest["kv_cache_memory_bytes"] = kv + missing
        return [f"--kv-cache-memory-bytes {kv + missing}, if so much is free"]
    if scene.share is None or not scene.total:
        return []
    wanted = up(scene.share + missing / scene.total)
    least = too_low(scene.failed)
    if least is not None and wanted <= least:
        wanted = up(least + 0.01)  # Another start had as much, and it was too little.
    most = down((scene.free if scene.free is not None else scene.total - LEAST_OUTSIDE) / scene.total)
    most = min(most, scene.most_share)
    ran_out = too_high(scene.failed)
    if ran_out is not None and wanted >= ran_out:
        return [
            f"more GPUs or smaller weights: {gib(missing)} are missing, and at --gpu-memory-utilization {ran_out:g}"
            " another start ran out of memory"
        ]
    if wanted > most:
        most_of = f"--gpu-memory-utilization ends at {most:g}"
        return [f"more GPUs or smaller weights: {gib(missing)} are missing, and {most_of}"]
    largest["gpu_memory_utilization"] = wanted
    gained = round((wanted - scene.share) * scene.total)
    now = scene.rank.kv_bytes if scene.rank is not None else None
    by = f"{wanted - scene.share:.2g} of {gib(scene.total)} are {gib(gained)} more"
    if now is not None:
        by += f", {gib(now)} + {gib(gained)} = {gib(now + gained)} of KV cache"
    return [f"--gpu-memory-utilization {wanted:g} ({by})"]


def left_to_capture(scene: Scene) -> int:
    """What the graphs after the one that failed take, where the log has samples of them; else 0."""
    rank = scene.rank
    if rank is None:
        return 0
    if scene.step == "serving" or rank.graph_actual_bytes is not None:
        return 0
    bars = rank.captured or scene.start.captured
    done: dict[str, int] = {}
    for bar in bars:
        done[bar.kind] = done.get(bar.kind, 0) + bar.graphs
    left = sum(max(0, sample.graphs - done.get(sample.mode, 0)) * sample.per_graph_bytes for sample in rank.samples)
    if not deducts(scene.start, rank):
        # They come on top of the budget; without samples what a plan says of them is left, less what they have.
        on_top = scene.graphs if scene.graphs is not None and not rank.samples else 0
        return max(left, on_top - int(scene.values.get("private_pool_bytes") or 0))
    if not rank.samples:
        return left
    # The estimate kept that much back already.
    return 0


def transient_of(scene: Scene) -> int | None:
    """The peak of the largest step, bytes, as the log has it."""
    return transient(scene.rank) if scene.rank is not None else None


def room_for_cache(scene: Scene) -> int | None:
    """Bytes that the KV cache can have where its allocation failed: what torch holds less the weights, and what is
    free, less what steps and graphs take later. None: the message or the log does not say enough."""
    rank, values = scene.rank, scene.values
    held, free = values.get("torch_bytes"), values.get("free_bytes")
    if rank is None or rank.weights_bytes is None or held is None or free is None:
        return None
    beside = scene.beside
    if beside is None:
        margin = max(LEAST_OUTSIDE, round(LEAST_SHARE * (scene.total or 0)))
        beside = max(margin, rank.graph_estimate_bytes or 0) + max(0, transient(rank) or 0)
    return int(held) - rank.weights_bytes + int(free) - beside


def less_cache(
    scene: Scene, missing: int, largest: dict[str, int | float], *, as_worked_out: bool = False
) -> list[str]:
    """A smaller KV cache: by share where the GPU's memory is known, and in bytes where the cache's are.

    Args:
        as_worked_out: `missing` holds all that has to stay free; else half a GiB or 2% of the GPU is added to it.
    """
    parts = []
    rank = scene.rank
    kv = rank.kv_bytes if rank is not None else None
    most_kv = too_large(scene.failed)
    if kv is not None and most_kv is not None:
        kv = min(kv, most_kv)
    if scene.total and scene.share is not None and not is_manual(scene.start, rank):
        before = scene.free if scene.free is not None else scene.total
        margin = max(LEAST_OUTSIDE, LEAST_SHARE * scene.total)
        share = down(min(scene.share - missing / scene.total, (before - margin) / scene.total, scene.most_share))
        if share >= scene.share:
            share = down(scene.share - 0.01)
        ran_out = too_high(scene.failed)
        if ran_out is not None and share >= ran_out:
            share = down(ran_out - 0.01)  # Another start had as little, and ran out of memory all the same.
        if share > (too_low(scene.failed) or 0.0):
            largest["gpu_memory_utilization"] = share
            parts.append(f"--gpu-memory-utilization {share:g}")
            asked = requested_of(scene.start, rank) or round(scene.share * scene.total)
            if not as_worked_out:
                missing = max(missing, asked - round(share * scene.total))
    elif scene.share is not None and scene.most_share < scene.share and not is_manual(scene.start, rank):
        # The log does not say how large the GPU is, and the plan of the one that was named does.
        largest["gpu_memory_utilization"] = scene.most_share
        parts.append(f"--gpu-memory-utilization {scene.most_share:g}")
    if kv is not None and kv > missing:
        size = (kv - missing) // MIB * MIB
        largest["kv_cache_memory_bytes"] = size
        parts.append(f"--kv-cache-memory-bytes {size} ({gib(size)})")
    return parts


def smaller_cache(scene: Scene) -> str | None:
    """The flag with the KV cache that leaves room for what is taken after it was sized; None: the log has none."""
    size = smaller(scene)
    return None if size is None else f"--kv-cache-memory-bytes {size} ({gib(size)})"


def smaller(scene: Scene) -> int | None:
    """Bytes of that KV cache: 2 GiB less than the smallest that failed, or what was missing where that is more."""
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if kv is None:
        return None
    tried, free = scene.values.get("tried_bytes") or 0, scene.values.get("free_bytes") or 0
    least = max(SPARE, tried - free) + left_to_capture(scene)
    size = (min(kv, too_large(scene.failed) or kv) - least) // MIB * MIB
    return size if size > 0 else None
