"""What of a start is known that several parts ask for: its release, its step, its numbers from wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..releases import SUPPORTED, canonical, facts, is_known, nearest
from ..resolve.memory_deduction import VARIABLE
from .record import Rank, Start

MIB = 1 << 20
GIB = 1 << 30
LEAST_SHARE = 0.005
"""Of the GPU; of a smaller share that is printed with four decimals nothing is worked out."""
ROUNDING = round(0.005 * GIB)
"""Bytes by which a printed GiB may differ from the truth."""


def release_of(start: Start) -> str | None:
    """The known release by whose rules the start is read; None: the log does not say which it is."""
    if start.vllm_version is None:
        return None
    return canonical(start.vllm_version) if is_known(start.vllm_version) else nearest(start.vllm_version)


def release_assumed(start: Start) -> str | None:
    """What to say where the release of the log is not one that cgplan knows; else None."""
    release = release_of(start)
    if release is None or is_known(str(start.vllm_version)):
        return None
    said = str(start.vllm_version)[:40]
    return f"vLLM {said} of the log is read by the rules of {release}, the nearest release known"


def tightest(ranks: Iterable[Rank]) -> Rank | None:
    """The rank with the least KV cache, which decides for all; None: none printed it."""
    sized = [rank for rank in ranks if rank.kv_bytes is not None]
    return min(sized, key=lambda rank: rank.kv_bytes or 0, default=None)


def rank_named(start: Start, name: str) -> Rank | None:
    """The rank of that name, as the log calls it, or by its number."""
    for rank in start.ranks:
        if name.casefold() in (rank.name.casefold(), str(rank.rank)):
            return rank
    return None


def ranks_of(start: Start) -> int:
    """How many ranks the server has, by its arguments or the engine's line."""
    count = 1
    for name in ("tensor", "pipeline", "data", "prefill_context"):
        key = f"{name}_parallel_size"
        count *= max(1, whole_number(start.arguments.get(key, start.engine.get(key))) or 1)
    return count


def argument(start: Start, name: str) -> Any:
    """An argument that was given; None: it was not, or the log does not say."""
    return start.said.get(name, start.arguments.get(name))


def whole_number(value: Any) -> int | None:
    """A number as vLLM's arguments have it, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def sized(start: Start, name: str) -> int | None:
    """A parallel size by vLLM's name, as given or as the engine's line has it; None: the log does not say."""
    return whole_number(start.said.get(name, start.arguments.get(name, start.engine.get(name))))


def release_numbers(start: Start) -> tuple[int, int] | None:
    """The first two numbers of the release, of releases that cgplan does not know as well; None: it is not said."""
    match = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", start.vllm_version or "")
    return (int(match[1]), int(match[2])) if match else None


def is_of_v0(start: Start) -> bool:
    """Whether the release is one of engine V0 alone, which had no flags for sizes or for the KV cache's bytes."""
    numbers = release_numbers(start)
    return numbers is not None and numbers < (0, 8)


def max_num_seqs(start: Start) -> int | None:
    return whole_number(argument(start, "max_num_seqs")) or start.max_num_seqs or None


def utilization(start: Start, rank: Rank | None = None) -> float | None:
    """--gpu-memory-utilization: printed by a rank, given, or the release's default."""
    for one in (rank, *start.ranks):
        if one is not None and is_share(one.utilization):
            return one.utilization
    given = argument(start, "gpu_memory_utilization")
    if is_share(given):
        return float(given)
    release = release_of(start)
    if release is None or not start.arguments:
        return None
    return float(facts("budget", release)["requested"]["utilization"])


def is_share(value: Any) -> bool:
    """Whether a value can be a --gpu-memory-utilization that something was started with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and LEAST_SHARE <= value <= 1


def total_of(start: Start, rank: Rank | None = None) -> int | None:
    """Memory of the GPU as CUDA has it: printed, else from what was asked for and the share of it."""
    for one in (rank, *start.ranks):
        if one is None:
            continue
        if one.total_bytes is not None and one.total_bytes > 0:
            return one.total_bytes
        share = utilization(start, one)
        if one.requested_bytes is not None and one.requested_bytes > 0 and share:
            return round(one.requested_bytes / share)
    for one in (rank, *start.ranks):
        if one is not None and (found := _of_raised(one)) is not None:
            return found
    return None


def _of_raised(rank: Rank) -> int | None:
    """The GPU's memory by the share of it that vLLM says its estimate is; four decimals of it are printed."""
    if rank.graph_estimate_bytes is None or rank.utilization is None or rank.raised_utilization is None:
        return None
    share = rank.raised_utilization - rank.utilization
    if share < LEAST_SHARE or rank.raised_utilization >= 1 or rank.graph_estimate_bytes <= 0:
        return None
    return round(rank.graph_estimate_bytes / share)


class Memory(NamedTuple):
    """Bytes of the log's GPU, as CUDA has it, between two bounds."""

    low: int
    high: int
    by: str = ""

    def as_text(self) -> str:
        """ "79.19 GiB", or "23.1 to 24.8 GiB by its advice on the utilization"."""
        if not self.by:
            return f"{gib(self.low)} as CUDA has it"
        return f"{self.low / GIB:.1f} to {self.high / GIB:.1f} GiB {self.by}"


def gpu_memory(start: Start) -> Memory | None:
    """The memory of the log's GPU: printed, else worked out, with the bounds of what was rounded; None: not known."""
    for rank in start.ranks:
        if rank.total_bytes is not None and rank.total_bytes > 0:
            return Memory(rank.total_bytes, rank.total_bytes)
    said = start.crash.values.get("total_bytes") if start.crash is not None else None
    if isinstance(said, int) and said > 0:
        return Memory(said, said)
    for rank in start.ranks:
        if rank.requested_bytes and rank.requested_bytes > 0 and is_share(rank.utilization):
            low, high = ((rank.requested_bytes + by) / float(rank.utilization or 1) for by in (-ROUNDING, ROUNDING))
            return Memory(round(low), round(high), "by what was asked for and its share")
    found = [bounds for rank in start.ranks if (bounds := _by_advice(rank)) is not None]
    return max(found, key=lambda bounds: bounds.low / bounds.high, default=None)


ADVICE = "by its advice on the utilization"
PRINTED = 0.00005
"""By how much a share with four decimals may differ from the truth."""
MOST_WIDE = 1.5
"""Bounds wider than that say nothing of the GPU."""


def _by_advice(rank: Rank) -> Memory | None:
    """The estimate is that share of the GPU by which vLLM says to raise the utilization, or that it is below it."""
    estimate, own = rank.graph_estimate_bytes, rank.utilization
    if estimate is None or estimate <= ROUNDING or own is None:
        return None
    shares = []
    if rank.raised_utilization is not None and rank.raised_utilization < 1:
        shares.append(rank.raised_utilization - own)
    if rank.equivalent_utilization is not None:
        shares.append(own - rank.equivalent_utilization)
    if not shares or max(shares) - PRINTED <= 0:
        return None
    low = (estimate - ROUNDING) / (min(shares) + PRINTED)
    high = (estimate + ROUNDING) / (max(shares) - PRINTED)
    return Memory(round(low), round(high), ADVICE) if 0 < low <= high <= MOST_WIDE * low else None


def requested_of(start: Start, rank: Rank | None) -> int | None:
    """What vLLM asked for: printed, else its share of the GPU."""
    if rank is not None and rank.requested_bytes is not None:
        return rank.requested_bytes
    total, share = total_of(start, rank), utilization(start, rank)
    return None if total is None or share is None else round(total * share)


def is_manual(start: Start, rank: Rank | None = None) -> bool:
    """Whether the bytes of the KV cache were given, so that nothing was worked out."""
    ranks = start.ranks if rank is None else (rank,)
    return argument(start, "kv_cache_memory_bytes") is not None or any(one.kv_is_given for one in ranks)


def deducts(start: Start, rank: Rank) -> bool:
    """Whether the estimate of the graphs was taken off the KV cache of `rank`."""
    if is_manual(start, rank):
        return False
    if rank.activation_includes_estimate:
        return True
    said = start.environment.get(VARIABLE)
    if said in ("0", "1"):
        return said == "1"
    for message in start.messages:
        if "CUDA graph memory profiling is disabled" in message.text:
            return False
    release = release_of(start) or SUPPORTED[-1]
    return bool(facts("memory", release)["graph_estimate"]["applied_by_default"])


def transient(rank: Rank) -> int | None:
    """The peak of the profile run without the estimate of the graphs, bytes; None: not known."""
    if rank.activation_bytes is None:
        return rank.torch_peak_bytes if rank.consumed_bytes is None else None
    if not rank.activation_includes_estimate:
        return rank.activation_bytes
    return None if rank.graph_estimate_bytes is None else rank.activation_bytes - rank.graph_estimate_bytes


def step_of(start: Start) -> str:
    """How far the start came: "loading", "profiling", "cache", "capture", "warm-up" or, of a server that died at work,
    "serving"; "": the log does not say.

    Of a crash the frames of its traceback say it. vLLM prints the tokens of the KV cache before it allocates it.
    """
    said = start.crash.step if start.crash is not None else ""
    if said == "start-up":
        return "warm-up" if any(rank.graph_actual_bytes is not None for rank in start.ranks) else "capture"
    if said:
        return said
    step = _by_lines(start)
    return "capture" if step == "cache" and _has_pools(start) else step


def is_seen_by_pools(start: Start) -> bool:
    """Whether only the pools of graphs in torch's words show that capture had begun, and no line of the log."""
    return not (start.crash is not None and start.crash.step) and _by_lines(start) == "cache" and _has_pools(start)


def _has_pools(start: Start) -> bool:
    """Whether graphs had memory when it ran out; sleep mode keeps the KV cache in such pools as well."""
    values = start.crash.values if start.crash is not None else {}
    return bool(values.get("private_pool_bytes")) and not argument(start, "enable_sleep_mode")


def _by_lines(start: Start) -> str:
    ranks = start.ranks
    if any(rank.graph_actual_bytes is not None for rank in ranks):
        return "warm-up"
    if start.captured or any(rank.captured for rank in ranks):
        return "capture"
    if start.kv_tokens is not None:
        return "cache" if is_manual(start) or argument(start, "num_gpu_blocks_override") else "capture"
    if any(rank.kv_bytes is not None for rank in ranks):
        return "cache"
    if any(rank.raised_utilization is not None for rank in ranks):
        return "capture"  # The last line of profiling; what was profiled fits when it is allocated.
    if start.is_part:
        return ""
    if any(rank.weights_bytes is not None or rank.profiled or rank.samples for rank in ranks):
        return "profiling"
    if any(rank.graph_estimate_bytes is not None for rank in ranks):
        return "profiling"
    return "loading" if start.engine or start.architecture or ranks else ""


def gib(size: float) -> str:
    """Bytes as GiB with two decimals, as vLLM prints them."""
    return f"{size / GIB:.2f} GiB"
