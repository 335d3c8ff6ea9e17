"""A workload held against a resolution: what its steps run in, what is padding, what missed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import NamedTuple

from ...resolve.resolution import Resolution
from ...trace import Finding
from ...vocabulary import CUDAGraphMode
from ..histogram import Batches, Kind, Range, Seen, Workload
from . import replay_findings
from .outcomes import Outcome, Outcomes, agrees, seen
from .reasons import Reason, reason_of
from .tally import Bounds, Tally, Weighed, tally


class Counted(NamedTuple):
    """Batches of one size, and the steps that have them."""

    tokens: Range
    steps: float


class Padding(NamedTuple):
    """Tokens of padding that batches of one size bring in all."""

    kind: Kind
    tokens: int
    computed: int
    padding: float


@dataclass(frozen=True)
class Missed:
    """Steps that ran without the graph that was wanted for them, for one reason.

    Attributes:
        kind, mode: of the batches, and what they ran in.
        reason: code, words, what to do.
        steps: bounds, equal where it is certain.
        batches: by falling count; all of them.
    """

    kind: Kind
    mode: CUDAGraphMode
    reason: Reason
    steps: Bounds
    batches: tuple[Counted, ...]


@dataclass(frozen=True)
class Difference:
    """Batches that the source saw in something else than the resolution says."""

    tokens: Range
    count: float
    seen: Seen
    resolved: Outcome

    @property
    def is_of_mode(self) -> bool:
        """In another mode; else only padded to another size."""
        return self.seen.mode is not self.resolved.mode


@dataclass(frozen=True)
class Replay:
    """What the steps of a workload run in under one resolution.

    Attributes:
        workload, resolution: what was held against what.
        total: all steps.
        by_kind: the same by kind of batch: of "any" it may be both, and it makes a difference for none.
        missed: by falling count.
        differences: by falling count.
        beyond: steps that the deployment would not let in.
        paddings: by size, of batches whose size and padding are known.
        findings: what the operator should know.
    """

    workload: Workload
    resolution: Resolution
    total: Tally
    by_kind: dict[Kind, Tally]
    missed: tuple[Missed, ...]
    differences: tuple[Difference, ...]
    beyond: float
    paddings: tuple[Padding, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def exact(self) -> bool:
        return self.total.is_exact


def replay(workload: Workload, resolution: Resolution) -> Replay:
    """`workload` under `resolution`. Each rank is taken by itself: that ranks agree on a size is not followed."""
    outcomes = Outcomes(resolution)
    ways = [(item, outcomes.of(item)) for item in workload.batches]
    total = tally(_weighed(ways))
    missed = _missed(ways, resolution)
    differences = _differences(ways)
    beyond = fsum(item.count for item, found in ways if not any(one.fits for one in found))
    made = Replay(workload, resolution, total, _by_kind(ways), missed, differences, beyond, _paddings(ways))
    return replace(made, findings=replay_findings.of(made))


def seen_tally(workload: Workload) -> Tally | None:
    """What the source itself says that the steps ran in; None where it does not say so of every step."""
    ways = [(item, seen(item)) for item in workload.batches]
    return tally(_weighed(ways)) if all(found for _, found in ways) else None


def settled(workload: Workload, resolution: Resolution) -> Workload:
    """The same steps, with the kind of each where `resolution`, under which they ran, leaves one kind only.

    A table does not say whether a batch was of decode requests; the mode that it ran in mostly does.
    """
    outcomes = Outcomes(resolution)
    found = []
    for item in workload.batches:
        ways = outcomes.of(item)
        kinds = {one.kind for one in ways}
        if item.kind == "any" and len(kinds) == 1 and (item.seen is None or any(agrees(one, item) for one in ways)):
            item = Batches(ways[0].kind, item.tokens, item.count, item.requests, None, item.loras, item.seen)
        found.append(item)
    return Workload(tuple(found), workload.source)


_Ways = Sequence[tuple[Batches, Sequence[Outcome]]]


def _weighed(ways: _Ways) -> list[Weighed]:
    return [(item.count, found) for item, found in ways]


def kind_of(found: Sequence[Outcome]) -> Kind:
    kinds = {one.kind for one in found}
    return found[0].kind if len(kinds) == 1 else "any"


def _by_kind(ways: _Ways) -> dict[Kind, Tally]:
    parts: dict[Kind, list[Weighed]] = {}
    for item, found in ways:
        parts.setdefault(kind_of(found), []).append((item.count, found))
    return {kind: tally(parts[kind]) for kind in ("decode", "mixed", "any") if kind in parts}


def _missed(ways: _Ways, resolution: Resolution) -> tuple[Missed, ...]:
    low: dict[tuple[Kind, CUDAGraphMode, Reason], list[float]] = {}
    high: dict[tuple[Kind, CUDAGraphMode, Reason], list[Counted]] = {}
    for item, found in ways:
        told = [(one.mode, reason_of(one, resolution, item.loras)) for one in found]
        # What to do may differ by kind; the reason is the same, and is told once.
        first = {(mode, why.code, why.message): why for mode, why in reversed(told) if why is not None}
        reasons = [(mode, None if why is None else first[mode, why.code, why.message]) for mode, why in told]
        certain = len(set(reasons)) == 1
        kind = kind_of(found)
        for mode, reason in dict.fromkeys(reasons):
            if reason is not None:
                key = (kind, mode, reason)
                high.setdefault(key, []).append(Counted(item.tokens, item.count))
                low.setdefault(key, []).append(item.count if certain else 0)
    made = [
        Missed(*key, Bounds(fsum(low[key]), fsum(one.steps for one in counted)), _ordered(counted))
        for key, counted in high.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.steps.high, one.reason.code, one.kind)))


def _ordered(counted: Iterable[Counted]) -> tuple[Counted, ...]:
    sums: dict[Range, float] = {}
    for one in counted:
        sums[one.tokens] = sums.get(one.tokens, 0) + one.steps
    ordered = sorted(sums.items(), key=lambda one: (-one[1], one[0].low))
    return tuple(Counted(tokens, steps) for tokens, steps in ordered)


def _paddings(ways: _Ways) -> tuple[Padding, ...]:
    found: dict[tuple[Kind, int, int], float] = {}
    for item, outcomes in ways:
        sizes = {(one.tokens, one.computed) for one in outcomes}
        if len(sizes) == 1 and outcomes[0].padding:
            size = (kind_of(outcomes), *sizes.pop())
            found[size] = found.get(size, 0) + outcomes[0].padding * item.count
    return tuple(Padding(*size, padding) for size, padding in found.items())


def _differences(ways: _Ways) -> tuple[Difference, ...]:
    found = []
    for item, outcomes in ways:
        if item.seen is not None and not any(agrees(one, item) for one in outcomes):
            found.append(Difference(item.tokens, item.count, item.seen, outcomes[0]))
    return tuple(sorted(found, key=lambda one: (-one.count, one.tokens.low)))
