"""From a workload to single batches that can be dispatched. What a source knows within bounds is spread evenly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log
from typing import Literal, NamedTuple

from ...resolve.graphs import Batch
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..histogram import Batches, Range, Workload
from ..replay.replay import settled

MOST_POINTS = 512
"""Batches that one range is spread over, at most."""
SPREAD_OVER = 256
"""Sizes that stand for all sizes, at most."""


class Step(NamedTuple):
    """Steps of one batch.

    Attributes:
        kind: decode, where all requests have the same length and none is in prefill.
        batch: as the dispatcher takes it.
        weight: of these steps.
    """

    kind: Literal["decode", "mixed"]
    batch: Batch
    weight: float


Group = tuple[Step, ...]
"""The steps that one entry of a workload may have been; one Step where it is exact."""


def groups_of(workload: Workload, resolution: Resolution) -> tuple[Group, ...]:
    """The steps of `workload`, which ran under `resolution`, one group an entry.

    A batch whose kind is not known is taken as decode where the deployment lets in such a decode batch. Steps above
    max_num_batched_tokens are as large as that.
    """
    return tuple(group for item in settled(workload, resolution).batches if (group := _group(item, resolution)))


def ways_of(item: Batches, resolution: Resolution, largest: int) -> Iterator[Step]:
    """The steps that an entry may have been, one a size up to `largest`, and one above that stands for all of these."""
    sizes = _sizes(item, resolution)
    for at, tokens in enumerate(sizes):
        yield _step(item, tokens, item.count, resolution)
        if tokens > largest or at + 1 == len(sizes):
            return


def merged(groups: Iterable[Group]) -> tuple[Step, ...]:
    """Each batch once, ascending by tokens."""
    found: dict[tuple[Literal["decode", "mixed"], Batch], float] = {}
    for group in groups:
        for step in group:
            key = (step.kind, step.batch)
            found[key] = found.get(key, 0.0) + step.weight
    made = [Step(kind, batch, weight) for (kind, batch), weight in found.items()]
    return tuple(sorted(made, key=lambda step: (step.batch.num_tokens, step.kind, step.batch)))


def scaled(steps: Iterable[Step], factor: float, resolution: Resolution) -> tuple[Step, ...]:
    """The same steps with `factor` times as many requests, or tokens, within what the deployment lets in."""
    found = []
    for step in steps:
        batch = step.batch
        if step.kind == "decode":
            most = max(1, min(resolution.max_num_seqs, resolution.max_num_batched_tokens // batch.max_query_len))
            requests = min(most, max(1, round(batch.num_reqs * factor)))
            batch = batch._replace(num_reqs=requests, num_tokens=requests * batch.max_query_len)
        else:
            tokens = min(resolution.max_num_batched_tokens, max(1, round(batch.num_tokens * factor)))
            batch = _mixed(tokens, batch.num_active_loras)
        found.append((Step(step.kind, batch, step.weight),))
    return merged(found)


def anywhere(resolution: Resolution, largest: int, weight: float) -> tuple[Step, ...]:
    """`weight` steps of any size up to `largest` tokens, as many in each doubling: for traffic that was not seen.

    Decode batches as far as the deployment lets them in, mixed ones above.
    """
    each = resolution.uniform_decode_query_len
    sizes = sorted({round(largest ** (at / SPREAD_OVER)) for at in range(SPREAD_OVER + 1)})
    found = []
    for before, size in zip([0, *sizes], sizes, strict=False):
        requests = -(-size // each)
        share = weight * log((size + 1) / (before + 1)) / log(largest + 1)
        if requests <= resolution.max_num_seqs and requests * each <= largest:
            found.append((Step("decode", Batch(requests * each, requests, each), share),))
        else:
            found.append((Step("mixed", _mixed(size, 0), share),))
    return merged(found)


def _group(item: Batches, resolution: Resolution) -> Group:
    points = list(_points(item, resolution))
    return tuple(_step(item, tokens, item.count * share, resolution) for tokens, share in points)


def _points(item: Batches, resolution: Resolution) -> Iterator[tuple[int, float]]:
    """(tokens, share of the steps) of an entry."""
    sizes = _sizes(item, resolution)
    stride = -(-len(sizes) // MOST_POINTS)
    chosen = sizes[stride // 2 :: stride]
    for tokens in chosen:
        yield tokens, 1 / len(chosen)


def _sizes(item: Batches, resolution: Resolution) -> range:
    """Tokens that an entry may have had."""
    budget = max(1, resolution.max_num_batched_tokens)
    low, high = item.tokens
    high = budget if high is None else high
    low, high = min(low, budget), min(high, budget)
    each = _length(item, resolution) if item.kind == "decode" else 1
    return range(-(-low // each) * each, high + 1, each) or range(high, high + 1)


def _step(item: Batches, tokens: int, weight: float, resolution: Resolution) -> Step:
    length = _length(item, resolution)
    if _is_decode(item, tokens, length, resolution):
        return Step("decode", Batch(tokens, tokens // length, length, item.loras), weight)
    return Step("mixed", _mixed(tokens, item.loras), weight)


def _mixed(tokens: int, loras: int) -> Batch:
    # One request whose length differs from the total marks the batch as not uniform. More requests, as many as the
    # deployment lets in, fit into the same graphs.
    return Batch(tokens, 1, tokens + 1, loras, has_prefill=True)


def _length(item: Batches, resolution: Resolution) -> int:
    if item.query_len is not None:
        return item.query_len
    if item.kind == "decode" and item.tokens.is_point and _is_known(item.requests):
        assert item.requests is not None
        return max(1, item.tokens.low // item.requests.low)
    return resolution.uniform_decode_query_len


def _is_known(requests: Range | None) -> bool:
    return requests is not None and requests.is_point


def _is_decode(item: Batches, tokens: int, length: int, resolution: Resolution) -> bool:
    if item.kind == "mixed" or tokens % length:
        return False
    if item.kind == "decode":
        return True
    if item.seen is not None and resolution.decode_mode is not resolution.mixed_mode:
        if item.seen.mode is CUDAGraphMode.FULL:
            return True
        if item.seen.mode is CUDAGraphMode.PIECEWISE:
            return False
    return tokens // length <= resolution.max_num_seqs
