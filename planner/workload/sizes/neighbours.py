"""Sizes near those that were seen, where the traffic itself does not say how far it spreads.

A list that is the best for batches of 9 requests may have nothing between 9 and 18: one request more then computes
twice as much. Steps of any size (`others.guard_of`) do not weigh enough to keep that out. So every list then has the
sizes that were seen, and for each of them those in which half to twice as many requests run today: none is padded
further than today. Where no decode batch had more than MOST_FILLED requests each number up to that has a size of its
own. Where the limits leave no room for these, sizes are nearer (REACHES).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from ...resolve.graphs import Batch
from ...resolve.padding import round_up
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from .frame import Frame
from .others import TrafficSteps
from .robust import Shift
from .steps import Step

FEW_SIZES = 8
"""Batches of at most so many sizes do not say how far the traffic spreads."""
FEW_STEPS = 300
"""What did not come in fewer steps may be in 1% of all, with 95%."""
SEEN = 0.001
"""Sizes of a smaller share of the steps do not count as seen."""
MOST_FILLED = 16
WORST = -0.25
"""Where half to twice as many requests cost more than this beyond today's list, lists have the sizes near as well."""


REACHES = ((2.0, True), (2.0, False), (1.25, False))
"""How many times as many requests lists are made for, and whether each small number has a size; the widest first."""


class Near(NamedTuple):
    """Sizes that lists have beside those that have to be there.

    Attributes:
        sizes: tokens, ascending; () for none.
        why: what the traffic lacks, in words; "": nothing.
        reach: how many times as many requests, or how many times fewer, they are for.
        filled: requests up to which each number has a size; 0: no such.
    """

    sizes: tuple[int, ...] = ()
    why: str = ""
    reach: float = 1.0
    filled: int = 0


def why_narrow(given: TrafficSteps) -> str:
    """Why the traffic does not say how far it spreads, in words; "": it does."""
    seen = {(step.kind, step.batch.num_tokens) for step in _seen(given)}
    if len(seen) <= FEW_SIZES:
        return "batches of 1 size alone were seen" if len(seen) == 1 else f"batches of {len(seen)} sizes were seen"
    counted = sum(part.workload.steps for part in given.traffic)
    if all(part.is_measured for part in given.traffic) and counted < FEW_STEPS:
        return f"only {counted:,.0f} steps were seen"
    return ""


def is_fragile(shifts: Iterable[Shift]) -> bool:
    """Whether the list costs traffic with half to twice as many requests much more than today's."""
    return min((one.gain for one in shifts), default=0.0) < WORST


FRAGILE = f"without them half to twice as many requests would cost over {-WORST:.0%} more than with today's list"


def nears_of(given: TrafficSteps, frame: Frame, why: str) -> Iterator[Near]:
    """What lists may have, the most first; the same sizes once."""
    before: tuple[int, ...] = ()
    for reach, fill in REACHES:
        filled = _filled(given) if fill else 0
        sizes = _near(given, frame, reach, filled, with_seen=why != FRAGILE)
        if sizes != before:
            yield Near(sizes, why, reach, filled)
        before = sizes


def _near(given: TrafficSteps, frame: Frame, reach: float, filled: int, with_seen: bool) -> tuple[int, ...]:
    resolution = given.resolution
    decode: set[tuple[int, int]] = set()
    mixed: set[int] = set()
    for step in _seen(given):
        batch = step.batch
        if step.kind == "decode":
            most = min(resolution.max_num_seqs, frame.largest // batch.max_query_len)
            decode |= {(requests, batch.max_query_len) for requests in _around(batch.num_reqs, reach, most)}
        else:
            mixed |= set(_around(batch.num_tokens, reach, frame.largest))
    batches = [Batch(requests * each, requests, each) for requests, each in decode]
    batches += [Batch(tokens, 1, tokens + 1, has_prefill=True) for tokens in mixed]
    found = set(_sizes_of(batches, resolution))
    found |= {step.batch.num_tokens for step in _seen(given)} if with_seen else set()
    found |= {requests * resolution.uniform_decode_query_len for requests in range(1, filled + 1)}
    kept = sorted({round_up(size, frame.multiple) for size in found})
    return tuple(size for size in kept if size <= frame.largest)


def _around(seen: int, reach: float, most: int) -> range:
    return range(max(1, int(seen / reach)), min(ceil(seen * reach), most) + 1)


def _sizes_of(batches: Iterable[Batch], resolution: Resolution) -> Iterable[int]:
    for batch in batches:
        found = resolution.dispatch_batch(batch)
        if found.mode is not CUDAGraphMode.NONE:
            yield found.num_tokens


def _filled(given: TrafficSteps) -> int:
    most = max((step.batch.num_reqs for step in _seen(given) if step.kind == "decode"), default=0)
    return min(MOST_FILLED, given.resolution.max_num_seqs) if 0 < most <= MOST_FILLED else 0


def _seen(given: TrafficSteps) -> list[Step]:
    least = SEEN * sum(step.weight for step in given.steps)
    return [step for step in given.steps if step.weight >= least]
