"""The --kv-cache-memory-bytes and --gpu-memory-utilization that are right for a start, step by step.

vLLM's own suggestion takes the graphs off twice since 0.27.1: the peak that it prints holds the estimate, and what
capture took is taken off as well. Source: vllm/v1/worker/gpu_worker.py:996-1068 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..memory.budget.suggestion import Suggestion, reserve_of, suggested
from ..releases import SUPPORTED, holds
from .known import GIB, deducts, gib, is_manual, ranks_of, release_of, requested_of, total_of, transient, utilization
from .record import Rank, Start
from .scene import down

DOUBLED_SINCE = "0.27.1"
AGREE = round(0.03 * GIB)
"""Sums of values with two decimals may differ by that much."""


@dataclass(frozen=True)
class Step:
    """A line of the reasoning: "+" or "-" and what, or "=" for the sum. Bytes."""

    sign: str
    what: str
    size: int


@dataclass(frozen=True)
class Correction:
    """Sizes of the KV cache of one rank, bytes.

    Attributes:
        rank: as the log calls it.
        printed, printed_full: what vLLM's log suggests, to fit into what it asked for and to use all that is free;
            None: it suggests none.
        right, right_full: the same with the graphs taken off once; None: what was free is not known.
        in_use: of this start, or None.
        utilization: with which vLLM's own sum gives `right`; None: not known, or none does.
        steps: how `right` comes about.
    """

    rank: str
    printed: int | None
    printed_full: int | None
    right: int
    right_full: int | None
    in_use: int | None
    utilization: float | None
    steps: tuple[Step, ...]

    @property
    def counts_twice(self) -> bool:
        return self.printed is not None and abs(self.printed - self.right) > AGREE

    def as_text(self) -> str:
        """The sum in one line, in GiB."""
        first, *others = self.steps
        text = f"{first.what} {first.size / GIB:.2f}"
        for step in others:
            text += f" {step.sign} {f'{step.what} ' if step.what else ''}{step.size / GIB:.2f}"
        return text


def correct(start: Start, rank: Rank) -> Correction | None:
    """The right sizes of `rank`; None: they cannot be worked out, or the bytes were given.

    Where less than nothing was taken, free memory changed for another reason, and the sum would give it away.
    """
    actual = rank.graph_actual_bytes
    if actual is None or actual < 0 or is_manual(start, rank):
        return None
    release = release_of(start) or SUPPORTED[-1]
    reserve = reserve_of(release)
    applied = _applied(start, rank)
    if applied is None:
        return None
    sizes = _by_parts(start, rank, release, actual)
    requested = requested_of(start, rank)
    if sizes is not None:
        right, steps = sizes.right, _parts(rank, reserve)
        full = sizes.right_full if rank.free_bytes is not None else None
        if rank.suggested_kv_bytes is not None and _agrees(rank, sizes):
            # To the byte, but for the estimate.
            twice = applied if _doubles(release, rank) else 0
            right = rank.suggested_kv_bytes + twice
            if rank.suggested_kv_bytes_full is not None:
                full = rank.suggested_kv_bytes_full + twice
    elif rank.kv_bytes is not None:
        right, steps = rank.kv_bytes + applied - actual - reserve, _by_cache(rank, applied, actual, reserve)
        free = rank.free_bytes
        full = right + free - requested if free is not None and requested is not None else None
    else:
        return None
    return Correction(
        rank.name, rank.suggested_kv_bytes, rank.suggested_kv_bytes_full, right, full, rank.kv_bytes,
        _share(start, rank, right), (*steps, Step("=", "", right)),
    )  # fmt: skip


@dataclass(frozen=True)
class Common:
    """The sizes that are right for all ranks: a flag is one for all of them.

    Attributes:
        least: the correction with the smallest right size.
        right, right_full, utilization: the smallest of all ranks; None as there.
        incomplete: names of ranks that have no correction.
        ranks: how many have one; of: how many the server has, as far as the log says.
        is_known: False: a rank without a correction has less KV cache than `least`, so that these sizes are too large.
    """

    least: Correction
    right: int
    right_full: int | None
    utilization: float | None
    incomplete: tuple[str, ...]
    ranks: int
    of: int
    is_known: bool = True

    @property
    def by(self) -> str:
        """Whose sizes they are; "": there is one rank."""
        if self.incomplete or self.ranks < self.of:
            return f" by {self.least.rank}, the least of those known"
        return f" by {self.least.rank}, the least of all ranks" if self.ranks > 1 else ""

    def as_flags(self) -> str | None:
        """The flags with their values; None: they are not known, or nothing fits."""
        if not self.is_known or self.right <= 0:
            return None
        share = f", or --gpu-memory-utilization {self.utilization:g}" if self.utilization else ""
        return f"--kv-cache-memory-bytes {self.right} ({gib(self.right)}){share}{self.by}"


def common(start: Start, corrections: Sequence[Correction] | None = None) -> Common | None:
    """The sizes for all ranks of `start`; None: no rank has any."""
    if corrections is None:
        corrections = [found for rank in start.ranks if (found := correct(start, rank)) is not None]
    if not corrections:
        return None
    least = min(corrections, key=lambda one: one.right)
    have = {one.rank for one in corrections}
    lacking = [rank for rank in start.ranks if rank.name not in have and _is_worker(rank)]
    tight = [rank.kv_bytes for rank in lacking if rank.kv_bytes is not None]
    fulls = [one.right_full for one in corrections]
    shares = [one.utilization for one in corrections if one.utilization is not None]
    return Common(
        least,
        least.right,
        None if None in fulls else min(size for size in fulls if size is not None),
        min(shares) if len(shares) == len(corrections) else None,
        tuple(rank.name for rank in lacking),
        len(corrections),
        max(ranks_of(start), len(corrections)),
        not tight or (least.in_use is not None and min(tight) >= least.in_use),
    )


def _is_worker(rank: Rank) -> bool:
    """Whether it said anything of its memory."""
    sizes = (rank.weights_bytes, rank.consumed_bytes, rank.kv_bytes, rank.graph_actual_bytes, rank.graph_estimate_bytes)
    return any(size is not None for size in sizes)


def _applied(start: Start, rank: Rank) -> int | None:
    """The estimate that the KV cache gave up, which may be below 0; None: it gave one up that is not known."""
    if not deducts(start, rank):
        return 0
    if rank.graph_estimate_bytes is not None:
        return rank.graph_estimate_bytes
    # An estimate of 0 is not printed by runner V2.
    return 0 if start.runner == "V2" and rank.activation_includes_estimate is not True else None


def _doubles(release: str, rank: Rank) -> bool:
    return holds(release, DOUBLED_SINCE) and rank.activation_includes_estimate is not False


def _by_parts(start: Start, rank: Rank, release: str, actual: int) -> Suggestion | None:
    """By the parts of the budget, where the log has all of them."""
    requested, peak = requested_of(start, rank), transient(rank)
    held = rank.consumed_bytes
    if held is None and rank.weights_bytes is not None and rank.non_torch_bytes is not None:
        held = rank.weights_bytes + rank.non_torch_bytes
    if requested is None or peak is None or held is None:
        return None
    free = rank.free_bytes if rank.free_bytes is not None else requested
    twice = (rank.graph_estimate_bytes or 0) if rank.activation_includes_estimate and _doubles(release, rank) else 0
    return suggested(requested, free, held + peak + actual, twice, release)


def _agrees(rank: Rank, sizes: Suggestion) -> bool:
    return rank.suggested_kv_bytes is not None and abs(rank.suggested_kv_bytes - sizes.printed) <= 2 * AGREE


def _parts(rank: Rank, reserve: int) -> tuple[Step, ...]:
    peak = transient(rank) or 0
    held = (
        (Step("-", "consumed", rank.consumed_bytes),)
        if rank.consumed_bytes is not None
        else (Step("-", "weights", rank.weights_bytes or 0), Step("-", "outside torch", rank.non_torch_bytes or 0))
    )
    requested = rank.requested_bytes or 0
    return (
        Step("+", "requested", requested), *held, Step("-", "peak without the estimate", peak),
        Step("-", "graphs", rank.graph_actual_bytes or 0), Step("-", "reserve", reserve),
    )  # fmt: skip


def _by_cache(rank: Rank, applied: int, actual: int, reserve: int) -> tuple[Step, ...]:
    given = (Step("+", "estimate", applied),) if applied else ()
    return (
        Step("+", "KV cache in use", rank.kv_bytes or 0), *given,
        Step("-", "graphs", actual), Step("-", "reserve", reserve),
    )  # fmt: skip


def _share(start: Start, rank: Rank, right: int) -> float | None:
    """The utilization whose KV cache is `right`: vLLM takes the estimate off, not what the graphs take."""
    total, share = total_of(start, rank), utilization(start, rank)
    if rank.kv_bytes is None or not total or share is None or right <= 0:
        return None
    found = down(share + (right - rank.kv_bytes) / total, 3)
    most = down(rank.free_bytes / total, 3) if rank.free_bytes is not None else 1.0
    return min(found, most) if found > 0 else None


def said_of(found: Correction) -> str:
    """vLLM's suggestion and the right one of that rank, in words."""
    if found.printed is not None and found.counts_twice:
        return (
            f"vLLM's log suggests --kv-cache-memory={found.printed} ({gib(found.printed)}), which takes the graphs off"
            f" twice; {gib(found.right)} is right"
        )
    return f"{gib(found.right)} of KV cache fit beside the graphs as captured"
