"""max_num_seqs: how many requests ran at once, and what another value buys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from ...deployment import Deployment
from ...resolve.padding import round_up
from ...resolve.resolution import Resolution
from ..histogram import Batches
from ..sizes.effect import with_sizes
from ..sizes.flags import Flags, flags_of
from ..sizes.limits import SAME, keeps
from .candidate import Bench, Candidate, Listed, compared, first_of, listed, trials_of

MARGIN = 1.25
"""The value asked for, beside the most requests that may have run at once."""
STEP = 8
"""It is a multiple of this."""
AT_LIMIT = 0.01
"""Where a larger share of the steps has as many requests as may run, more may have waited."""
WORTH = 0.01
"""A smaller value has to bring a larger share of the KV cache's tokens."""


@dataclass(frozen=True)
class Running:
    """Requests that ran at once, as far as the traffic says.

    Attributes:
        low: the most that a step is sure to have had.
        high: the most that a step may have had.
        at_limit: share of the steps that had as many as are let in, or more.
        above: share of the steps that had more.
        unknown: share of the steps whose requests the source leaves open.
    """

    low: int
    high: int
    at_limit: float
    above: float
    unknown: float


@dataclass(frozen=True)
class SeqsRow:
    """One value of max_num_seqs with its best list; `found` None: why_not says why."""

    max_num_seqs: int
    found: Candidate | None
    why_not: str = ""


@dataclass(frozen=True)
class RequestLimit:
    """What the traffic says of max_num_seqs.

    Attributes:
        today: its value, which the first answer has.
        first: the first answer, on the steps that the rows are compared on.
        running: requests that ran at once.
        needed: the least value that has the margin over `running.high`.
        rows: other values, ascending.
        recommended: of `rows`, never below `running.high`; None: today's value stays.
        reason: why, in whole sentences.
        flags: of the recommended value, sizes included.
    """

    today: int
    first: Candidate
    running: Running
    needed: int
    rows: tuple[SeqsRow, ...]
    recommended: SeqsRow | None
    reason: str
    flags: Flags | None


def request_limit(bench: Bench) -> RequestLimit:
    """What the traffic needs, and what a smaller and a larger value do."""
    today = bench.resolution.max_num_seqs
    running = running_in(bench.entries, bench.resolution)
    needed = needed_for(running.high)
    smaller = needed if needed < today else today // 2
    values = {2 * today, needed if running.low > today else 2 * today}
    if smaller >= running.low:
        values.add(smaller)
    made = {value: _listed(bench, value) for value in sorted(values)}
    trials = trials_of(bench, made.values())
    rows = tuple(
        SeqsRow(value, None, one) if isinstance(one, str) else SeqsRow(value, compared(bench, one, trials))
        for value, one in made.items()
    )
    recommended, reason = _choose(bench, rows, running, needed)
    flags = None
    if recommended is not None and recommended.found is not None:
        sizes = recommended.found.resolution.capture_sizes
        flags = flags_of(bench.deployment, sizes, max_num_seqs=recommended.max_num_seqs)
    return RequestLimit(today, first_of(bench, trials), running, needed, rows, recommended, reason, flags)


def needed_for(most: int) -> int:
    """`most` requests and a quarter, rounded up."""
    return round_up(ceil(most * MARGIN), STEP)


def running_in(entries: Iterable[Batches], resolution: Resolution) -> Running:
    """Requests that ran at once in steps that ran under `resolution`.

    Of a decode batch they follow from its tokens. A step with a prefill may have had as many as it has tokens, within
    max_num_seqs, where its source does not count them.
    """
    low = high = 1
    at_limit = above = unknown = whole = 0.0
    for item in entries:
        least, most = _requests(item, resolution)
        whole += item.count
        low, high = max(low, least), max(high, most)
        at_limit += item.count if least >= resolution.max_num_seqs else 0.0
        above += item.count if least > resolution.max_num_seqs else 0.0
        unknown += item.count if least < most else 0.0
    return Running(low, high, at_limit / whole, above / whole, unknown / whole)


def _requests(item: Batches, resolution: Resolution) -> tuple[int, int]:
    """The fewest and the most requests that a step of the entry may have had."""
    limit, tokens = resolution.max_num_seqs, item.tokens
    if item.requests is not None:
        low, most = item.requests
        return low, max(low, limit) if most is None else most
    if item.kind == "decode":
        # Of a dynamic number of drafts the length is between a token and the longest.
        longest = item.query_len or resolution.uniform_decode_query_len
        shortest = 1 if item.query_len is None and resolution.schedule is not None else longest
        least = max(1, -(-tokens.low // longest))
        most = limit if tokens.high is None else tokens.high // shortest
        return least, max(least, most if tokens.is_point and shortest == longest else min(most, limit))
    return 1, max(1, limit if tokens.high is None else min(tokens.high, limit))


def _listed(bench: Bench, value: int) -> Listed | str:
    found = listed(bench, with_max_num_seqs(bench, value), as_good=True)
    if not isinstance(found, str) and found.resolution.cudagraph_mode is not bench.resolution.cudagraph_mode:
        return f"the mode becomes {found.resolution.cudagraph_mode}"
    return found


def with_max_num_seqs(bench: Bench, value: int) -> Deployment:
    """The deployment with this value, and lists that end where today's does."""
    deployment = bench.deployment.model_copy(update={"max_num_seqs": value})
    return with_sizes(deployment, bench.chosen.sizes)


def _choose(bench: Bench, rows: tuple[SeqsRow, ...], running: Running, needed: int) -> tuple[SeqsRow | None, str]:
    today = bench.resolution.max_num_seqs
    if not bench.counted:
        return None, f"{today} stays: {bench.doubt()}."
    row = next((one for one in rows if one.max_num_seqs == needed), None)
    if running.above > AT_LIMIT:
        why = (
            f"{running.above:.1%} of the steps had more requests than the {today} that are let in, up to {running.high}"
        )
        doubt = bench.doubt()
        if row is not None and _is_usable(bench, row) and not doubt:
            return row, f"{_sentence(why)}."
        return None, f"{today} stays, although {why}: {doubt or _why_unusable(bench, row)}."
    if running.at_limit > AT_LIMIT:
        return None, (
            f"{today} stays: {running.at_limit:.1%} of the steps had as many. More may have waited, which no count of "
            "steps says; vllm:num_requests_waiting does."
        )
    if needed >= today:
        return None, f"{today} stays: {_seen(running)}, and a quarter more is asked for."
    if doubt := bench.doubt():
        return None, f"{today} stays: {_seen(running)}, but {doubt}."
    if row is None or not _is_usable(bench, row):
        return None, f"{today} stays: {_why_unusable(bench, row)}."
    gained = _gained(bench, row)
    if gained is None or gained < WORTH:
        brings = (
            "it is not known what fewer bring"
            if gained is None
            else f"{needed} would bring {max(gained, 0.0):.1%} of the KV cache"
        )
        return None, f"{today} stays: {_seen(running)}, but {brings}."
    return row, (
        f"{_sentence(_seen(running))}; {needed} is a quarter more, and brings {gained:.1%} of the KV cache. "
        "More requests than that would wait."
    )


def _is_usable(bench: Bench, row: SeqsRow) -> bool:
    """It keeps to the limits, and no step that was seen is the worse for it."""
    if row.found is None or not keeps(row.found.point, bench.limits, bench.today):
        return False
    if row.max_num_seqs > bench.resolution.max_num_seqs:
        return True
    return row.found.same_runs and row.found.gain is not None and row.found.gain >= -SAME


def _why_unusable(bench: Bench, row: SeqsRow | None) -> str:
    if row is None or not row.why_not:
        return "another value does not keep to the limits, or costs the steps that were seen more"
    return f"with {row.max_num_seqs}, {row.why_not}"


def _gained(bench: Bench, row: SeqsRow) -> float | None:
    """The share of the KV cache's tokens that it brings."""
    if row.found is None or row.found.point.kv_tokens is None or not bench.chosen.kv_tokens:
        return None
    return row.found.point.kv_tokens / bench.chosen.kv_tokens - 1


def _seen(running: Running) -> str:
    if running.low == running.high:
        return f"no step had more than {running.high} requests"
    return (
        f"steps had up to {running.low} requests for sure; {running.unknown:.1%} of them, whose requests the source "
        f"does not count, may have had up to {running.high}"
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
