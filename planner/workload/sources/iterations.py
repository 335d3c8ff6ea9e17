"""The lines of --enable-logging-iteration-details: one a step, with requests and tokens of prefill and decode.

    (EngineCore pid=7) INFO 11-30 05:00:00 [core.py:361] Iteration(41): 0 context requests, 0 context tokens,
    8 generation requests, 8 generation tokens, iteration elapsed time: 9.81 ms

on one line. 0.19 to 0.25: by the engine's process; since 0.26 by the frontend, after "Engine 000: ". Scheduled tokens,
so draft tokens are in them. Lines that end in "(dummy)" are steps of a rank that has nothing to do.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ..gathered import Gathered, Part
from ..histogram import Batches, Range, Workload, workload_of

MARK = b"Iteration("
MAX_DISTINCT = 200_000

_REST = re.compile(
    rb"[0-9]{1,12}\): ([0-9]{1,9}) context requests, ([0-9]{1,9}) context tokens, "
    rb"([0-9]{1,9}) generation requests, ([0-9]{1,9}) generation tokens, "
    rb"iteration elapsed time: [0-9.]{1,16} ms( \(dummy\))?"
)
_ENGINE = re.compile(rb"Engine ([0-9]{3,6}): $")
_CORE = re.compile(rb"\(EngineCore(?:_DP|_)?([0-9]{1,6})?[^()]{0,40} pid=[0-9]{1,10}\)")

_Step = tuple[bytes, bytes, bytes, bytes]


@dataclass
class IterationReader:
    """Counts steps by engine. Memory grows with distinct steps only."""

    not_recognised: int = 0
    left_out: int = 0
    _counts: dict[str, Counter[_Step]] = field(default_factory=dict)

    def feed(self, data: bytes) -> None:
        """Take whole lines of a log."""
        before, *rest = data.split(MARK)
        for after in rest:
            match = _REST.match(after)
            if match is not None:
                self._count(_engine(before), match)
            elif after[:1].isdigit() and b"context requests" in after[:60]:
                self.not_recognised += 1
            before = after

    def _count(self, engine: str, match: re.Match[bytes]) -> None:
        if match[5]:  # a dummy step
            return
        step = (match[1], match[2], match[3], match[4])
        counts = self._counts.setdefault(engine, Counter())
        if step not in counts and sum(map(len, self._counts.values())) >= MAX_DISTINCT:
            self.left_out += 1
            return
        counts[step] += 1

    def gathered(self) -> Gathered:
        """One part an engine."""
        parts = []
        for engine, counts in self._counts.items():
            workload = _workload(counts)
            if workload is not None:
                parts.append(Part(engine, workload, "iterations"))
        remarks: tuple[str, ...] = ()
        if self.left_out:
            remarks = (f"{self.left_out} iteration lines were left out: over {MAX_DISTINCT} different ones",)
        return Gathered(tuple(parts), remarks, self.not_recognised)


def _engine(before: bytes) -> str:
    tail = before[-320:].rpartition(b"\n")[2]
    if match := _ENGINE.search(tail):
        return f"engine {int(match[1])}"
    cores = _CORE.findall(tail)
    return f"engine {int(cores[-1] or 0)}" if cores else ""


def _workload(counts: Counter[_Step]) -> Workload | None:
    batches = []
    for step, count in counts.items():
        prefills, prefill_tokens, decodes, decode_tokens = map(int, step)
        tokens, requests = prefill_tokens + decode_tokens, prefills + decodes
        if not tokens or requests > tokens:
            continue
        is_decode = not prefills and decode_tokens % decodes == 0
        batches.append(
            Batches(
                "decode" if is_decode else "mixed",
                Range(tokens, tokens),
                count,
                Range(requests, requests) if requests else None,
                decode_tokens // decodes if is_decode else None,
            )
        )
    return workload_of(batches, f"{sum(counts.values())} iteration lines") if batches else None
