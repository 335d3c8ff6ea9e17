"""Findings about decode batches that no graph covers, read off the coverage."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from ..light_dataclass import dataclass
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from .coverage import (
    CLIFF,
    DECODE_WITHOUT_FULL,
    MUCH_PADDING,
    SPEC_CLIFF,
    TOKENS_NOT_REQUESTS,
    Coverage,
    CoverageRange,
)
from .grid import MAX_GRAPH_TOKENS, grid_up_to
from .padding import round_up

MUCH = 0.75
"""Share of padding from which on a gap in named sizes is worth a word; the default grid never exceeds 44%."""

WORTH_A_WORD = 0.2
"""Share of padding of a further gap that is named beside the worst."""
MOST_GAPS = 2
SMALL = 4
"""Sizes up to here are not rounded to multiples of 8."""

DEFAULT_LARGEST = 512
"""Where vLLM's own grid ends, tokens, on GPUs on which its own max_num_seqs outgrows it."""

GRID_STEP = 16
"""Every multiple of it is in the grid, whatever the largest size."""


@dataclass(frozen=True)
class FullestBatch:
    """The largest decode batch, and what decides whether a larger grid would reach it.

    Attributes:
        num_reqs, num_tokens: of that batch.
        token_budget: most tokens of a step; no size exceeds it.
        sizes_are_named: the user listed the capture sizes.
        rounds_sizes: all sizes are multiples of the query length (runner V1).
        mixed_graphs: mixed batches have graphs, which decode batches fall back to.
        limits_are_default: vLLM chose both max_num_seqs and the largest size.
        captured_later: the release from which on an inferred list has max_num_seqs itself; None: this one does.
    """

    num_reqs: int
    num_tokens: int
    token_budget: int
    sizes_are_named: bool
    rounds_sizes: bool
    mixed_graphs: bool
    limits_are_default: bool = False
    captured_later: str | None = None


def findings(decode: Coverage, max_num_seqs: int, fullest: FullestBatch) -> tuple[Finding, ...]:
    """Where decode batches have no graph, only PIECEWISE ones, or graphs that are mostly padding; and what to set."""
    found = (_eager(decode, max_num_seqs, fullest), _without_full(decode, fullest), _much_padding(decode, fullest))
    return tuple(finding for finding in found if finding is not None)


def told_once(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """These findings without the cliff of drafts where CG440 tells it of the sizes that were named."""
    counted = any(one.code == TOKENS_NOT_REQUESTS.code for one in found)
    return tuple(one for one in found if not (counted and one.code == SPEC_CLIFF.code))


def _eager(decode: Coverage, max_num_seqs: int, fullest: FullestBatch) -> Finding | None:
    cliff = decode.first_cliff
    if cliff is None:
        return None
    rule = SPEC_CLIFF if fullest.num_tokens > fullest.num_reqs else CLIFF
    few = "request" if cliff == 2 else "requests"
    which = f"decode batches above {cliff - 1} {few} run" if cliff > 1 else "every decode batch runs"
    message = f"{which} without a graph; max_num_seqs is {max_num_seqs}"
    ways = [_more_sizes(fullest, (cliff - 1) * fullest.num_tokens // fullest.num_reqs)]
    if cliff > 1:
        ways.append(f"set --max-num-seqs {cliff - 1}")
    fix = ", or ".join(way for way in ways if way) or rule.instead
    # Where nothing was asked for, vLLM's defaults let more requests in than they have graphs for.
    severity = "info" if rule is CLIFF and fullest.limits_are_default else "warning"
    return Finding(rule.code, severity, message, fix, "--max-num-seqs")


def _without_full(decode: Coverage, fullest: FullestBatch) -> Finding | None:
    """PIECEWISE behind the last FULL graph; where the sizes end there is a cliff anyway."""
    ranges = decode.ranges
    last = ranges[-1] if ranges else None
    if last is None or last.mode is not CUDAGraphMode.PIECEWISE or ranges[0].mode is not CUDAGraphMode.FULL:
        return None
    first = next(r.first for r in reversed(ranges) if r.mode is CUDAGraphMode.FULL and r.last < last.first)
    low = max(r.last for r in ranges if r.mode is CUDAGraphMode.FULL and r.first >= first)
    needed = fullest.num_tokens
    if fullest.sizes_are_named:
        fix = f"add {needed} to --cudagraph-capture-sizes, or set --max-num-seqs {low}"
    else:
        fix = f"set --max-num-seqs {low}"
        if last.padded is not None and last.padded % last.query_len == 0:
            fix += f" or {last.padded // last.query_len}"
        if fullest.num_tokens == fullest.num_reqs:
            fix += f", or name the sizes, with {needed} among them"
            if fullest.captured_later is not None:
                fix += f"; from {fullest.captured_later} on {needed} is captured where no size is named"
    message = f"decode batches of {_count(low + 1, last.last)} lose their FULL graph to PIECEWISE"
    return Finding(DECODE_WITHOUT_FULL.code, "warning", message, fix, "--max-num-seqs")


def _much_padding(decode: Coverage, fullest: FullestBatch) -> Finding | None:
    worst = decode.worst
    if worst is None or worst.padded is None or not fullest.sizes_are_named or worst.waste < MUCH:
        return None
    runs = "request runs" if worst.first == 1 else "requests run"
    message = f"{worst.first} decode {runs} as {worst.padded} tokens: {worst.waste:.1%} of the step is padding"
    others = other_gaps(decode)
    if others:
        message += f"; {' and '.join(f'{r.first} as {r.padded} ({r.waste:.1%})' for r in others)}"
    fix = f"add {listed(gap_sizes(decode))} to --cudagraph-capture-sizes"
    return Finding(MUCH_PADDING.code, "info", message, fix, "--cudagraph-capture-sizes")


def other_gaps(decode: Coverage) -> tuple[CoverageRange, ...]:
    """Beside the worst, the gaps in which a batch brings the most padding, tokens; each by the batch behind the gap."""
    wide = [r for r in decode.ranges if r != decode.worst and r.waste >= WORTH_A_WORD and _padding(r) >= GRID_STEP]
    wide.sort(key=_padding, reverse=True)
    return tuple(sorted(wide[:MOST_GAPS], key=lambda r: r.first))


def _padding(part: CoverageRange) -> float:
    """Most tokens of padding in a batch of the range."""
    return (part.padded or 0) * part.waste


def gap_sizes(decode: Coverage) -> list[int]:
    """Sizes that fill the worst gap by doubling, and halve the others of `other_gaps`, ascending."""
    sizes: set[int] = set()
    worst = decode.worst
    if worst is not None and worst.padded is not None:
        size = worst.first * worst.query_len
        size = size if size <= SMALL else round_up(size, 8)
        while size < worst.padded:
            sizes.add(size)
            size *= 2
    for gap in other_gaps(decode):
        sizes.add(round_up((gap.first * gap.query_len + (gap.padded or 0)) // 2, 8))
    return sorted(sizes)


def listed(numbers: Sequence[int], last: str = "and") -> str:
    """ "1", "1 and 2", or "1, 2 and 4"; with `last` "or" for a choice."""
    *front, end = map(str, numbers)
    return f"{', '.join(front)} {last} {end}" if front else end


def _count(first: int, last: int) -> str:
    """ "9 requests", or "9 to 12 requests"."""
    if first == last:
        return f"{first} request{'' if first == 1 else 's'}"
    return f"{first} to {last} requests"


def _more_sizes(fullest: FullestBatch, covered: int) -> str:
    """How the sizes would reach the fullest batch; nothing where no grid has a graph for just that many tokens.
    `covered`: tokens of the largest decode batch that has a graph.
    """
    needed = fullest.num_tokens
    if fullest.sizes_are_named:
        # A single size far above the others would be nearly all padding for the batches between.
        return f"add {'sizes up to ' if needed > 2 * covered else ''}{needed} to --cudagraph-capture-sizes"
    query_len = needed // fullest.num_reqs
    if needed > min(MAX_GRAPH_TOKENS, fullest.token_budget):
        return ""
    for largest in grid_up_to(round_up(needed, lcm(GRID_STEP, query_len))):
        if needed <= largest <= fullest.token_budget and _reaches(largest, needed, query_len, fullest):
            return f"set --max-cudagraph-capture-size {largest}"
    return ""


def _reaches(largest: int, needed: int, query_len: int, fullest: FullestBatch) -> bool:
    """Whether the grid up to `largest` has a graph for `needed` tokens."""
    rounded = [round_up(size, query_len) for size in grid_up_to(largest)]
    if not fullest.mixed_graphs:
        return needed in rounded
    return not fullest.rounds_sizes or any(needed <= size <= largest for size in rounded)
