"""Traffic of several sources as one: parts with their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .gathered import Settings
from .histogram import Workload, merge


@dataclass(frozen=True)
class Traffic:
    """One part of a mixture.

    Attributes:
        name: for a person.
        workload: its steps.
        weight: its share of the mixture, beside the weights of the others; None: as many steps as it has.
        is_measured: the counts are of steps that ran, so that chance had a part in them.
        notes: what a reader has to know of the source.
        settings: modes and sizes that the source says the server had.
    """

    name: str
    workload: Workload
    weight: float | None = None
    is_measured: bool = True
    notes: tuple[str, ...] = ()
    settings: tuple[Settings, ...] = ()


def weighed(parts: Sequence[Traffic]) -> tuple[Traffic, ...]:
    """The parts with counts in proportion: as counted, or by their weights where one has any; 1 is that of the rest."""
    if all(part.weight is None for part in parts):
        return tuple(parts)
    steps = sum(part.workload.steps for part in parts)
    weights = [1.0 if part.weight is None else part.weight for part in parts]
    whole = sum(weights)
    return tuple(
        replace(part, workload=part.workload.scaled(steps * (weight / whole) / part.workload.steps))
        for part, weight in zip(parts, weights, strict=True)
    )


def mixture(parts: Sequence[Traffic]) -> Workload:
    """All steps of the parts."""
    return merge(part.workload for part in weighed(parts))
