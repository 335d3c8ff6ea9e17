"""What batches may run in: one outcome where everything is known, the bounds of all that is possible where not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ...resolve.graphs import Batch, Dispatch
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..histogram import Batches, Kind, Range

NONE = CUDAGraphMode.NONE


class Outcome(NamedTuple):
    """One way in which a step may have gone. Tokens.

    Attributes:
        kind: "decode" or "mixed"; "any" of what the source itself says.
        mode: what it runs in.
        tokens, computed: of the batch, before and after padding.
        requests: of a decode batch, else 0.
        fits: the deployment lets the batch in.
    """

    kind: Kind
    mode: CUDAGraphMode
    tokens: int
    computed: int
    requests: int = 0
    fits: bool = True

    @property
    def padding(self) -> int:
        return self.computed - self.tokens


@dataclass(frozen=True)
class Outcomes:
    """Asks a resolution for the outcomes of batches."""

    resolution: Resolution

    @cached_property
    def _sizes(self) -> list[int]:
        """Sizes at which the answer may change."""
        return sorted({graph.num_tokens for graphs in self.resolution.captures.values() for graph in graphs})

    def of(self, item: Batches) -> tuple[Outcome, ...]:
        """The extreme outcomes: with every mode that is possible, the least and the most padding of it.

        A batch whose mode the source saw has only outcomes of that mode, if the resolution has any; else those that
        the resolution has, and `agrees` is false for each.
        """
        found = self._possible(item)
        if item.seen is not None:
            agreeing = tuple(one for one in found if agrees(one, item))
            return agreeing or tuple(one for one in found if one.mode is item.seen.mode) or found
        return found

    def _possible(self, item: Batches) -> tuple[Outcome, ...]:
        found = list(self._decode(item)) if item.kind != "mixed" else []
        if item.kind != "decode" or not found:
            found += self._mixed(item)
        # Of two kinds that it may be, it is the one that the deployment lets in.
        fitting = tuple(one for one in found if one.fits)
        if item.kind != "any":
            return tuple(found)
        return fitting or tuple(one for one in found if one.kind == "mixed")

    def _decode(self, item: Batches) -> Iterator[Outcome]:
        """As batches of decode requests with one query length; nothing where the tokens do not divide so."""
        for first, last, length in self._lengths(item):
            low, high = -(-item.tokens.low // length), self._most_requests(item.tokens, length)
            if item.requests is not None:
                low = max(low, item.requests.low)
                high = min(high, item.requests.high if item.requests.high is not None else high)
            low, high = max(low, first), high if last is None else min(high, last)
            start = low
            while start <= high:
                end = min(high, self._cut(start * length) // length)
                for requests in sorted({start, end}):
                    batch = Batch(requests * length, requests, length, item.loras)
                    yield self._outcome("decode", batch, requests, requests <= self.resolution.max_num_seqs)
                start = end + 1

    def _lengths(self, item: Batches) -> list[tuple[int, int | None, int]]:
        """(first requests, last requests or None, query length)."""
        if item.query_len is not None:
            return [(1, None, item.query_len)]
        if item.tokens.is_point and item.requests is not None and item.requests.is_point and item.kind == "decode":
            return [(1, None, item.tokens.low // item.requests.low)]
        schedule = self.resolution.schedule
        if schedule is None:
            return [(1, None, self.resolution.uniform_decode_query_len)]
        firsts = [1, *(last + 1 for last, _ in schedule[:-1])]
        lasts: list[int | None] = [last for last, _ in schedule[:-1]]
        return [
            (first, last, drafts + 1) for first, last, (_, drafts) in zip(firsts, [*lasts, None], schedule, strict=True)
        ]

    def _most_requests(self, tokens: Range, length: int) -> int:
        """The most requests of so many tokens; where they are not bounded, or only the bucket is, the deployment is."""
        limit = min(self.resolution.max_num_seqs, self.resolution.max_num_batched_tokens // length)
        if tokens.high is None:
            return max(limit, -(-tokens.low // length))
        most = tokens.high // length
        return most if tokens.is_point or limit < -(-tokens.low // length) else min(most, limit)

    def _mixed(self, item: Batches) -> Iterator[Outcome]:
        start, high = self._mixed_tokens(item.tokens)
        requests = item.requests.low if item.requests is not None else 1
        while start <= high:
            end = min(high, self._cut(start))
            for tokens in sorted({start, end}):
                # One request whose length differs from the total marks the batch as not uniform.
                batch = Batch(tokens, min(requests, tokens), tokens + 1, item.loras, has_prefill=True)
                yield self._outcome("mixed", batch, 0, requests <= self.resolution.max_num_seqs)
            start = end + 1

    def _mixed_tokens(self, tokens: Range) -> tuple[int, int]:
        """A bucket above what a step may have counts a prompt whose last part the step ran: any size up to that."""
        budget = self.resolution.max_num_batched_tokens
        if tokens.is_point:
            return tokens.low, tokens.low
        high = budget if tokens.high is None else min(tokens.high, budget)
        return (1, budget) if high < tokens.low else (tokens.low, high)

    def _cut(self, tokens: int) -> int:
        """The size at which the answer for `tokens` ends; far away where it does not."""
        at = bisect_left(self._sizes, tokens)
        return self._sizes[at] if at < len(self._sizes) else 1 << 62

    def _outcome(self, kind: Kind, batch: Batch, requests: int, few_enough: bool) -> Outcome:
        found: Dispatch = self.resolution.dispatch_batch(batch)
        fits = few_enough and batch.num_tokens <= self.resolution.max_num_batched_tokens
        return Outcome(kind, found.mode, batch.num_tokens, found.num_tokens, requests, fits)


def agrees(one: Outcome, item: Batches) -> bool:
    """Whether an outcome is what the source saw."""
    return item.seen is not None and (one.mode, one.computed) == (item.seen.mode, item.seen.padded)


def seen(item: Batches) -> tuple[Outcome, ...]:
    """What the source itself says; nothing where it does not."""
    if item.seen is None or not item.tokens.is_point:
        return ()
    return (Outcome(item.kind, item.seen.mode, item.tokens.low, item.seen.padded),)
