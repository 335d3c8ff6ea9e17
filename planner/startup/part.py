"""What a few quoted lines mean by themselves, where the rest of the log is not there."""

from __future__ import annotations

from collections.abc import Iterator

from ..trace import Finding
from . import upgrade
from .advice import finding_of
from .known import deducts, gib, release_of, total_of
from .record import Rank, Start
from .rules import PART_OF_A_LOG


def meanings(start: Start) -> Iterator[Finding]:
    """Of each figure what it says, and which line or command decides; nothing of a whole log, or of a crash."""
    if not start.is_part or start.crash is not None:
        return
    yield from _of_cache(start)
    for rank in start.ranks[:1]:
        yield from _of_graphs(start, rank)
        if rank.graph_estimate_bytes is None and rank.graph_actual_bytes is None:
            yield from _of_rest(start, rank)


def _of_cache(start: Start) -> Iterator[Finding]:
    """Tokens, requests and blocks of the KV cache."""
    parts = []
    whole = int((start.max_concurrency or 0) * (start.concurrency_length or 0))
    if start.kv_tokens is not None and whole <= 1.1 * start.kv_tokens:  # Else they are of one group, which CG536 says.
        parts.append(f"{start.kv_tokens:,} tokens fit at once, of all requests together")
    if start.max_concurrency is not None and start.concurrency_length is not None:
        parts.append(
            f"{start.max_concurrency:.2f} requests of {start.concurrency_length:,} tokens fit; where --max-num-seqs is"
            " higher, of so many at that length the rest wait"
        )
    if start.block_size is not None and start.block_size & (start.block_size - 1):
        parts.append(
            f"blocks have {start.block_size:,} tokens so that one is as large as a state of the model (Mamba, gated"
            " delta), which each request takes however short it is"
        )
    if parts:
        fix = (
            "a higher --gpu-memory-utilization or --kv-cache-dtype fp8 for more; `cgplan plan` says it before the start"
        )
        yield Finding(PART_OF_A_LOG.code, "info", "; ".join(parts), fix)


def _of_graphs(start: Start, rank: Rank) -> Iterator[Finding]:
    estimate, actual = rank.graph_estimate_bytes, rank.graph_actual_bytes
    if estimate is not None and actual is None and estimate > 0 and upgrade.finding_of(start, rank) is None:
        release = release_of(start)
        if release is None:
            how = "since 0.20.2 the KV cache gets that much less, and 0.19 only prints it"
        elif deducts(start, rank):
            how = f"by the rules of {release} the KV cache gets that much less"
        else:
            how = f"{release} only prints it, and graphs come on top of what is asked for"
        text = f"{gib(estimate)} is what vLLM expects its graphs to take: {how}"
        fix = (
            "hold it against `Graph capturing finished in ... took ...`: where that is less, --kv-cache-memory-bytes"
            " gives the KV cache the rest"
        )
        yield Finding(PART_OF_A_LOG.code, "info", text, fix, rank.name)
    elif actual is not None and estimate is None and actual > 0:
        seconds = f" in {rank.capture_seconds:g} s" if rank.capture_seconds is not None else ""
        text = (
            f"capture took {gib(actual)}{seconds}: within --gpu-memory-utilization where an estimate covers it, else,"
            " and always in 0.19, on top of it"
        )
        fix = (
            "where memory or time is short, a lower --max-num-seqs, fewer --cudagraph-capture-sizes or"
            " -cc.cudagraph_mode=FULL_DECODE_ONLY"
        )
        yield Finding(PART_OF_A_LOG.code, "info", text, fix, rank.name)


def _of_rest(start: Start, rank: Rank) -> Iterator[Finding]:
    """A KV cache, an advice or the weights alone."""
    if finding_of(start, rank) is not None:
        return  # That finding has all of it.
    if rank.raised_utilization is not None:
        own = f" in place of {rank.utilization:g}" if rank.utilization is not None else ""
        text = (
            f"vLLM advises --gpu-memory-utilization {rank.raised_utilization:g}{own}: it gives the KV cache back what"
            " the graphs' estimate takes, and is not needed to start"
        )
        fix = "follow it where so much is free before the start, and half a GiB more; else leave it"
        yield Finding(PART_OF_A_LOG.code, "info", text, fix, rank.name)
    elif rank.kv_bytes is not None and rank.kv_bytes > 0:
        total = total_of(start, rank)
        share = f", {100 * rank.kv_bytes / total:.0f}% of the GPU" if total else ""
        text = f"{gib(rank.kv_bytes)}{share} are left for the KV cache; how many requests that is, is of the model"
        fix = "`cgplan plan --gpu GPU -- vllm serve MODEL ...` says it; or give the lines `GPU KV cache size`"
        yield Finding(PART_OF_A_LOG.code, "info", text, fix, rank.name)
