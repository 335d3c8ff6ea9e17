"""Everything that is said of a log: by start, how it ended, what it shows, and how it stands against the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import CgplanError
from ..inputs.launches.asked import Context
from ..memory.kv.capacity import KVCacheTooSmall
from ..memory.limits import constraints
from ..memory.plan import capacity_in
from ..resolve.other_backend import remedy
from ..trace import Finding
from .against_plan import Comparison, compare
from .corrected import Correction, correct
from .deployment import Served, served
from .diagnosis import Diagnosis, came_up, diagnose, unfinished, with_findings
from .findings import findings_of, named_gpu_bytes
from .known import release_of
from .missing_graphs import without_plan
from .plugins import plugin_finding
from .record import Start, StartupLog
from .rules import OTHER_GPU
from .scene import down
from .stages import kv_bytes_by_stage
from .warnings import explained

MARGIN = 150 << 20
"""Bytes that vLLM itself leaves beside the KV cache where it works out what fits."""
LITTLE = 256 << 20
"""Bytes that hold a block of any model, and no long request: what one needs is in vLLM's refusal."""


@dataclass(frozen=True)
class StartReport:
    """What is said of one start.

    Attributes:
        start: as the log has it; number: from 1.
        release: by whose rules it was read; None: not known.
        came_up: as far as the log says.
        diagnosis: how it ended, or None.
        comparison: the plan against it; None: none was asked for.
        corrections: the right sizes of the KV cache, by rank.
        findings: the most pressing first.
    """

    start: Start
    number: int
    release: str | None
    came_up: bool
    diagnosis: Diagnosis | None = None
    comparison: Comparison | None = None
    corrections: tuple[Correction, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    @property
    def worst(self) -> str | None:
        """The highest severity; a crash is an error."""
        found = {finding.severity for finding in self.findings}
        if self.diagnosis is not None:
            found.add("error")
        return next((severity for severity in ("error", "warning", "info") if severity in found), None)


def analyse(log: StartupLog, context: Context | None = None) -> tuple[StartReport, ...]:
    """The reports of all starts.

    Args:
        context: what the user says beside the log; None: no plan is made.

    Raises:
        InputError: what the user says cannot be used.
    """
    return tuple(report_of(start, at, log.starts, context) for at, start in enumerate(log.starts, 1))


def report_of(start: Start, number: int, starts: Sequence[Start], context: Context | None) -> StartReport:
    """The report of one of `starts`."""
    comparison = compare(start, served(start, context)) if context is not None else None
    diagnosis = None
    if start.crash is not None:
        diagnosis = diagnose(
            start, starts, needed_of(comparison), beside_of(comparison), most_of(comparison),
            named_gpu_bytes(start, comparison), graphs_of(comparison),
        )  # fmt: skip
    if diagnosis is not None and comparison is not None:
        diagnosis = with_findings(diagnosis, _constraints(start, comparison))
    corrections = tuple(found for rank in start.ranks if (found := correct(start, rank)) is not None)
    ended = unfinished(start)
    is_planned = comparison is not None and comparison.resolution is not None
    plugin = plugin_finding(start, is_planned)
    alone = None if is_planned or context is None else without_plan(start, context.gpu)
    findings = [
        *(one for one in (plugin, alone) if one is not None),
        *findings_of(start, comparison),
        *explained(start, _mode_fix(comparison)),
        *(comparison.findings if comparison is not None else ()),
        *([ended] if ended is not None else []),
    ]
    return StartReport(
        start, number, release_of(start), came_up(start), diagnosis, comparison, corrections, _pressing(findings)
    )


def _mode_fix(comparison: Comparison | None) -> str | None:
    """What keeps a mode that the attention backend lowers, as `check` says it; None: nothing is lowered."""
    if comparison is None or comparison.resolution is None or comparison.served.deployment is None:
        return None
    return remedy(comparison.served.deployment, comparison.resolution)


def needed_of(comparison: Comparison | None) -> int | None:
    """Bytes of KV cache that a request of the full length takes, of one rank; None: not known."""
    if comparison is None or comparison.resolution is None or comparison.served.deployment is None:
        return None
    stages = comparison.served.deployment.pipeline_parallel_size
    try:
        refusal = capacity_in(comparison.served.deployment, comparison.resolution, [LITTLE] * stages).refusal
    except CgplanError:
        return None
    return refusal.needed_bytes if isinstance(refusal, KVCacheTooSmall) else None


def beside_of(comparison: Comparison | None) -> int | None:
    """Bytes that the largest step and the graphs take beside the KV cache, of the stage that takes most; None: not
    known."""
    budget = comparison.plan.budget if comparison is not None and comparison.plan is not None else None
    if budget is None or not budget.stages:
        return None
    return max(stage.activation.best + stage.graphs.best for stage in budget.stages) + MARGIN


def graphs_of(comparison: Comparison | None) -> int | None:
    """Bytes that capture takes at most, of the stage that takes most; None: not known."""
    budget = comparison.plan.budget if comparison is not None and comparison.plan is not None else None
    return max((stage.graphs.high for stage in budget.stages), default=None) if budget is not None else None


def most_of(comparison: Comparison | None) -> float | None:
    """The largest share of the GPU that is surely free before the start, two decimals, as `plan` and `check` name it;
    None: not known, or the plan is of another GPU."""
    budget = comparison.plan.budget if comparison is not None and comparison.plan is not None else None
    if comparison is None or budget is None or not budget.total.high:
        return None
    if any(finding.code == OTHER_GPU.code for finding in comparison.findings):
        return None
    return down(budget.free.low / budget.total.high)


def _constraints(start: Start, comparison: Comparison) -> list[Finding]:
    """All that does not hold in the KV cache that the log has: vLLM stops at the first."""
    known: Served = comparison.served
    if known.deployment is None or comparison.resolution is None:
        return []
    sizes = kv_bytes_by_stage(start, known.deployment)
    if sizes is None:
        return []
    try:
        broken = constraints(known.deployment, comparison.resolution, sizes, known.auto_fit).broken
    except CgplanError:
        return []
    return [
        Finding(one.code, one.severity, f"in the KV cache of the log, too: {one.message}", one.fix, one.where)
        for one in broken
    ]


def _pressing(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: order[finding.severity]))
