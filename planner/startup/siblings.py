"""Other starts of the same server that ended too: what they had, so that no fix names a value that failed already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .arguments import model_of
from .crashes import KINDS, UNKNOWN, classify
from .known import GIB, argument, is_manual, is_share, max_num_seqs, tightest, utilization
from .record import Crash, Start

WITHOUT_CAUSE = ("wrapper", UNKNOWN)
TOO_MUCH = ("out_of_memory", "sampler_warm_up", "pooler_warm_up")
"""Ends of a KV cache that was too large."""
TOO_LITTLE = ("no_blocks", "auto_fit", "model_len")
"""Ends of one that was too small."""
LIMITS = ("mamba_blocks",)
"""Ends at a limit, which go by neither."""
MUCH = GIB // 2
"""Memory by which two crashes count as the same."""


class Failed(NamedTuple):
    """A start that ended for memory.

    Attributes:
        kind: of TOO_MUCH, TOO_LITTLE or LIMITS.
        share: its --gpu-memory-utilization; None: not known, as of the others.
        kv_bytes: of the rank with the least KV cache.
        in_use: bytes that were in use when memory ran out.
        pools: bytes of its graphs then.
        seqs: --max-num-seqs.
        length: --max-model-len that did not fit.
        fits: the length or the requests that would have fit, as vLLM says it.
    """

    kind: str
    share: float | None = None
    kv_bytes: int | None = None
    in_use: int | None = None
    pools: int | None = None
    seqs: int | None = None
    length: int | None = None
    fits: int | None = None


def cause(start: Start, crash: Crash) -> tuple[str, dict[str, Any]]:
    """The most telling kind of the exceptions, and the numbers of all that are of its chain."""
    told = [classify(text) for text in dict.fromkeys((*crash.chain, crash.message))]
    kinds = [kind for kind, _ in told if kind not in WITHOUT_CAUSE]
    if not kinds:
        return crash.kind if crash.kind in (*KINDS, UNKNOWN) else UNKNOWN, dict(crash.values)
    # vLLM's own words about an exception stand before torch's in KINDS.
    kind = min(kinds, key=KINDS.index)
    values: dict[str, Any] = {}
    for _, found in told:
        values.update({name: value for name, value in found.items() if name not in values})
    return kind, {**values, **crash.values}


def had_too_much(start: Start) -> bool:
    """Whether memory ran out, so that the KV cache is none to keep."""
    return start.crash is not None and cause(start, start.crash)[0] in TOO_MUCH


def same_server(one: Start, other: Start) -> bool:
    """Whether two starts are of one server: of a model and a container, in one file or in several."""
    name = model_of(one)
    return name is not None and name == model_of(other) and one.source == other.source


def in_use(values: Mapping[str, Any]) -> int | None:
    """Bytes in use where memory ran out: as torch says it, else what the GPU has less what is free, for torch on ROCm
    does not say what the process holds."""
    stated, total, free = (values.get(name) for name in ("process_bytes", "total_bytes", "free_bytes"))
    if stated is not None:
        return int(stated)
    return None if total is None or free is None else int(total - free)


def failed_of(start: Start, starts: Sequence[Start]) -> tuple[Failed, ...]:
    """The others of `starts` that are of the same server and ended for memory."""
    found = []
    for other in starts:
        if other is start or other.crash is None or not same_server(start, other):
            continue
        kind, values = cause(other, other.crash)
        if kind not in TOO_MUCH + TOO_LITTLE + LIMITS:
            continue
        least = tightest(other.ranks)
        manual = is_manual(other, least) or bool(argument(other, "num_gpu_blocks_override"))
        share: Any = values.get("utilization")
        own = None if manual else float(share) if is_share(share) else utilization(other, least)
        kv = least.kv_bytes if least is not None else None
        seqs = values.get("max_num_seqs") or max_num_seqs(other)
        fits = values.get("estimated_len") if kind == "model_len" else values.get("blocks")
        found.append(
            Failed(
                kind, own, kv, in_use(values), values.get("private_pool_bytes"), seqs, values.get("max_model_len"), fits
            )
        )  # fmt: skip
    return tuple(found)


def too_high(failed: Sequence[Failed]) -> float | None:
    """The least share that was too high."""
    return min((one.share for one in failed if one.kind in TOO_MUCH and one.share is not None), default=None)


def too_low(failed: Sequence[Failed]) -> float | None:
    """The largest share that was too low."""
    return max((one.share for one in failed if one.kind in TOO_LITTLE and one.share is not None), default=None)


def too_large(failed: Sequence[Failed]) -> int | None:
    """The smallest KV cache that was too large, bytes."""
    sizes = (one.kv_bytes for one in failed if one.kind in TOO_MUCH and one.kv_bytes is not None)
    return min((size for size in sizes if size > 0), default=None)


def longest(failed: Sequence[Failed], length: int) -> int:
    """`length`, or the shorter one that vLLM named to a start which had no more, and did not fit."""
    found = (
        one.fits for one in failed if one.kind == "model_len" and one.fits and (one.length or length + 1) <= length
    )
    return min((length, *found))


def most_requests(failed: Sequence[Failed], blocks: int) -> int:
    """`blocks`, or the fewer of a start whose requests were no more, and too many."""
    found = (
        one.fits for one in failed if one.kind == "mamba_blocks" and one.fits and (one.seqs or blocks + 1) <= blocks
    )
    return min((blocks, *found))


def fewer_rows(failed: Sequence[Failed], rows: int) -> int:
    """`rows`, or half of the fewest with which the sampler's warm-up ran out of memory as well."""
    found = (one.seqs // 2 for one in failed if one.kind.endswith("warm_up") and one.seqs and one.seqs <= rows)
    return max(1, min((rows, *found)))


def not_moved(own: Failed, failed: Sequence[Failed], total: int | None) -> tuple[float, ...]:
    """The shares, the least first, at which as much was in use though the KV cache differed; (): it is not so.

    At each of them memory ran out, so that alone says little. It counts where the graphs got no further for the room
    that the smaller share left.
    """
    if own.share is None or own.in_use is None or not total:
        return ()
    shares = {own.share}
    for one in failed:
        if one.kind != "out_of_memory" or one.share is None or one.in_use is None:
            continue
        if abs(one.in_use - own.in_use) < MUCH and not _got_further(own, one, total):
            shares.add(one.share)
    if len(shares) < 2 or (max(shares) - min(shares)) * total <= MUCH:
        return ()
    return tuple(sorted(shares))


def _got_further(one: Failed, other: Failed, total: int) -> bool:
    """Whether the start with the smaller share has so much more of its graphs that they took the room."""
    if one.share is None or other.share is None or one.pools is None or other.pools is None:
        return False
    low, high = sorted((one, other), key=lambda start: start.share or 0.0)
    moved = abs(one.share - other.share) * total
    return moved > 0 and (low.pools or 0) - (high.pools or 0) >= moved / 2
