"""The largest capture size: which steps are above it, and what a larger one buys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...resolve.resolution import Resolution
from ..sizes.effect import with_sizes
from ..sizes.flags import Flags, flags_of
from ..sizes.limits import keeps
from ..sizes.robust import Interval
from .candidate import (
    REAL,
    TOO_SMALL,
    Bench,
    Candidate,
    Listed,
    compared,
    first_of,
    listed,
    not_measured,
    surely,
    trials_of,
)

WORTH_SAYING = 0.001
"""Where a smaller share of the steps is above the largest size, no larger one is looked at."""
NOT_TOLD = "tokens do not say what a graph saves"


@dataclass(frozen=True)
class SizeRow:
    """One largest size with its best list; `above`: share of all steps above it. None: why_not says why."""

    largest: int
    above: float | None
    found: Candidate | None
    why_not: str = ""


@dataclass(frozen=True)
class LargestSize:
    """What the traffic says of max_cudagraph_capture_size.

    Attributes:
        today: the largest size of the first answer.
        first: the first answer, on the steps that the rows are compared on.
        decode_above, mixed_above: shares of all steps that are above it, and so run without a graph.
        widest: tokens of the largest step that has a graph.
        rows: larger ones, ascending.
        recommended: of `rows`; None: today's stays.
        chance: where the gain of the best of them lies; None: not known.
        reason: why, in whole sentences.
        flags: of the recommended one.
    """

    today: int
    first: Candidate
    decode_above: float
    mixed_above: float
    widest: int
    rows: tuple[SizeRow, ...]
    recommended: SizeRow | None
    chance: Interval | None
    reason: str
    flags: Flags | None

    @property
    def above(self) -> float:
        return self.decode_above + self.mixed_above


def largest_size(bench: Bench) -> LargestSize:
    """Which steps the first answer leaves above its sizes, and what the next larger ones do."""
    today = bench.chosen.sizes[-1]
    shares = {"decode": 0.0, "mixed": 0.0}
    for step in bench.given.every:
        if step.batch.num_tokens > today:
            shares[step.kind] += step.weight / bench.given.weight
    widest = max((step.batch.num_tokens for step in bench.given.steps if step.batch.num_tokens <= today), default=0)
    made = _lists(bench, today) if sum(shares.values()) >= WORTH_SAYING else {}
    trials = trials_of(bench, made.values())
    rows = tuple(_row(bench, largest, one, trials) for largest, one in made.items())
    recommended, chance, reason = _choose(bench, rows)
    flags = None
    if recommended is not None and recommended.found is not None:
        flags = flags_of(bench.deployment, recommended.found.resolution.capture_sizes)
    first = first_of(bench, trials)
    return LargestSize(
        today, first, shares["decode"], shares["mixed"], widest, rows, recommended, chance, reason, flags
    )


def _lists(bench: Bench, today: int) -> dict[int, Listed | str]:
    """The best list by its largest size."""
    budget = bench.resolution.max_num_batched_tokens
    value = min(budget, 2 * today)
    return {value: _listed(bench, value)} if value > today else {}


def _listed(bench: Bench, largest: int) -> Listed | str:
    found = listed(bench, with_sizes(bench.deployment, (*bench.chosen.sizes, largest)), as_good=False)
    if not isinstance(found, str) and found.resolution.cudagraph_mode is not bench.resolution.cudagraph_mode:
        return f"the mode becomes {found.resolution.cudagraph_mode}"
    return found


def _row(bench: Bench, largest: int, found: Listed | str, trials: Sequence[Resolution]) -> SizeRow:
    if isinstance(found, str):
        return SizeRow(largest, None, None, found)
    last = found.point.sizes[-1]
    above = sum(step.weight for step in bench.given.every if step.batch.num_tokens > last)
    return SizeRow(last, above / bench.given.weight, compared(bench, found, trials))


def _choose(bench: Bench, rows: tuple[SizeRow, ...]) -> tuple[SizeRow | None, Interval | None, str]:
    stays = f"{bench.chosen.sizes[-1]} stays"
    if not rows:
        return None, None, f"{stays}: next to no step is above it."
    usable = [row for row in rows if row.found is not None and keeps(row.found.point, bench.limits, bench.today)]
    best = max(usable, key=lambda row: _gain(row) or 0.0, default=None)
    if best is None or best.found is None:
        return None, None, f"{stays}: within the limits there is no larger one."
    gain = best.found.gain
    if gain is None or not bench.prices.times:
        return None, None, f"{stays}: {best.found.unpriced or NOT_TOLD}."
    chance = surely(bench, best.found)
    less = f"with {best.largest} a step takes {max(gain, 0):.1%} less time"
    if gain <= REAL:
        return None, chance, f"{stays}: {less}, and {TOO_SMALL}."
    doubt = bench.doubt() or not_measured(bench, best.found)
    if doubt or chance is None or chance.low <= REAL:
        return None, chance, f"{stays}: {less}, but {doubt or 'that may be chance alone'}."
    span = f"between {chance.low:.1%} and {chance.high:.1%}, with 95%"
    return best, chance, f"With sizes up to {best.largest} a step takes {gain:.1%} less time ({span})."


def _gain(row: SizeRow) -> float | None:
    return None if row.found is None else row.found.gain
