"""The choice of capture sizes for a workload: what `tune` gives."""

from __future__ import annotations

from dataclasses import dataclass

from ...deployment import Deployment
from ...resolve.resolution import Resolution
from ...trace import Finding
from ..choices.other_choices import OtherChoices
from ..mixture import Traffic
from ..sizes.densities import Density
from ..sizes.effect import Point
from ..sizes.flags import flags_of
from ..sizes.limits import Limits, Verdict
from ..sizes.neighbours import Near
from ..sizes.prices import Prices
from ..sizes.robust import Interval, PartGain, Shift


@dataclass(frozen=True)
class Tuning:
    """The choice of capture sizes for a workload.

    Attributes:
        deployment: as it is today.
        resolution: its CUDA graphs today.
        tuned: the graphs with the chosen list.
        traffic: the parts of the mixture.
        prices: what the cost counts.
        spread: share of steps of any size that lists are chosen for.
        fixed: sizes that every list has, whatever the traffic.
        multiple: every size is one of this.
        limits: as they were taken.
        today: the list of today.
        points: the curve, by rising number of sizes.
        chosen: of `points`; today's list where that is best.
        knee: of `points`, where the curve bends most; None: it has too few points.
        verdict: "better": it costs less; "fewer graphs": it costs the same; "best already": today's list stays;
            "within limits": today's list is not allowed, and the chosen one costs more.
        beats_from: fewest sizes that cost no more than today's list; None: no number of sizes does.
        eager_anyway: share of the steps that run without a graph whatever the sizes; they are in no figure.
        gain: share of the cost that the chosen list saves.
        held_out: the same on one half of the steps, of as many sizes chosen for the other half; None: no measurement.
        chance: where the gain lies by chance in the counts; None: the traffic is no measurement.
        buckets: where it lies as the source knows sizes by bucket only; None: it knows them.
        near: sizes that every list has as the traffic does not say how far it spreads.
        densities: lists by how dense they are, today's and the chosen one among them.
        shifts: the gain where the traffic moves.
        parts: the gain of each part of a mixture; () for one part.
        others: what else could be changed, each beside the chosen list.
        findings: what the operator should know.
        notes: what was assumed, one line each.
    """

    deployment: Deployment
    resolution: Resolution
    tuned: Resolution
    traffic: tuple[Traffic, ...]
    prices: Prices
    spread: float
    fixed: tuple[int, ...]
    multiple: int
    limits: Limits
    today: Point
    points: tuple[Point, ...]
    chosen: Point
    knee: Point | None
    verdict: Verdict
    beats_from: int | None
    eager_anyway: float
    gain: float
    held_out: float | None
    chance: Interval | None
    buckets: Interval | None
    near: Near
    densities: tuple[Density, ...]
    shifts: tuple[Shift, ...]
    parts: tuple[PartGain, ...]
    others: OtherChoices
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def replaces(self) -> tuple[str, ...]:
        """What of the launch of today the option of `flag` replaces, in words."""
        return flags_of(self.deployment, self.chosen.sizes).replaces

    @property
    def flag(self) -> str:
        """The option of `vllm serve` that sets the chosen list."""
        return f"--cudagraph-capture-sizes {' '.join(map(str, self.chosen.sizes))}"
