"""Everything that is said of a log: by start, how it ended, what it shows, and how it stands against the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..deployment import Deployment
from ..errors import CgplanError
from ..inputs.launches.asked import Context
from ..memory.budget.gdn_prefill import most_of_prefill
from ..memory.capacity_plan import capacity_in
from ..memory.kv.capacity import KVCacheTooSmall
from ..memory.kv.promotion import MANAGER_OFF
from ..memory.limits import constraints
from ..resolve.other_backend import remedy
from ..trace import Finding
from . import any_gpu, times, upgrade
from .against_plan import Comparison, compare
from .corrected import Correction, correct
from .deployment import Served, other_than, served
from .diagnosis import Diagnosis, came_up, diagnose, unfinished, with_findings
from .ends import with_limits_of_its_end, with_sure_end
from .findings import findings_of, named_gpu_bytes
from .known import release_of, tightest
from .missing_graphs import without_plan
from .part import meanings
from .plugins import plugin_finding
from .record import Start, StartupLog
from .requests import fewer_fit
from .rules import OTHER_GPU, OUTSIDE_BOUNDS
from .scene import down
from .siblings import cause, had_too_much
from .solved import without_plan as requests_without_plan
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
    # Of the others, too: what failed there is no fix here.
    starts = [_with_model(with_sure_end(one), context) for one in starts if one is not start]
    start = _with_model(with_limits_of_its_end(with_sure_end(start)), context)
    comparison = compare(start, served(start, context)) if context is not None else None
    diagnosis = None
    of_the_plan: tuple[Finding, ...] = ()
    if start.crash is not None:
        diagnosis = diagnose(
            start, starts, needed_of(comparison), beside_of(comparison), most_of(comparison),
            named_gpu_bytes(start, comparison), graphs_of(comparison), seqs_of(comparison),
            tokens_of(comparison), prefill_of(comparison),
        )  # fmt: skip
    if diagnosis is not None and comparison is not None and context is not None:
        plans = any_gpu.planned(start, context) if comparison.served.deployment is None else []
        further = _constraints(start, comparison) if not plans else any_gpu.broken(start, plans)
        if start.platform_plugin is not None:
            further = []  # It has rules of its own.
        if is_laid_out(start):
            of_the_plan = tuple(map(_of_the_plan, further[:1]))
        else:
            diagnosis = with_findings(diagnosis, [_in_the_cache(one) for one in further])
        known = comparison.served.deployment or (plans[0][0].deployment if plans else None)
        diagnosis = with_findings(diagnosis, _charged(diagnosis, known, start.platform_plugin))
    corrections = tuple(found for rank in start.ranks if (found := correct(start, rank)) is not None)
    if diagnosis is not None and _is_too_large(diagnosis, corrections):
        corrections = ()  # The fix keeps more free than capture alone needs.
    ended = unfinished(start)
    is_planned = comparison is not None and comparison.resolution is not None
    plugin = plugin_finding(start, is_planned)
    alone = None if is_planned or context is None else without_plan(start, context.gpu)
    solved = None if is_planned or start.platform_plugin is not None else requests_without_plan(start)
    findings = [
        *(one for one in (plugin, alone, solved) if one is not None),
        *findings_of(start, comparison),
        *(one for one in _of_numbers(start, comparison, context) if one is not None),
        *meanings(start),
        *explained(start, _mode_fix(comparison)),
        *(comparison.findings if comparison is not None else ()),
        *of_the_plan,
        *([ended] if ended is not None else []),
    ]
    return StartReport(
        start, number, release_of(start), came_up(start), diagnosis, comparison, corrections, _pressing(findings)
    )


def _of_numbers(start: Start, comparison: Comparison | None, context: Context | None) -> Iterator[Finding | None]:
    """What the log's own numbers say of requests, time, an upgrade and the GPU."""
    yield fewer_fit(start, comparison)
    yield from times.findings_of(start, comparison)
    least = tightest(start.ranks)
    if least is not None and not had_too_much(start):
        yield upgrade.finding_of(start, least, comparison.plan if comparison is not None else None)
    gpu = context.gpu if context is not None and context.gpu_memory is None else None
    if gpu is not None and (comparison is None or comparison.served.deployment is None):
        yield other_than(start, gpu, is_planned=False)


def _with_model(start: Start, context: Context | None) -> Start:
    """The start with the class of the model that the user names, where the log has none."""
    named = context.model if context is not None else None
    if named is None or start.architecture is not None or not named.architectures:
        return start
    return replace(start, said={**start.said, "architecture": named.architectures[0]})


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


def seqs_of(comparison: Comparison | None) -> int | None:
    """How many requests may run, by the plan; None: not known."""
    return comparison.resolution.max_num_seqs if comparison is not None and comparison.resolution is not None else None


def tokens_of(comparison: Comparison | None) -> int | None:
    """Batched tokens, by the plan; None: not known."""
    resolution = comparison.resolution if comparison is not None else None
    return resolution.max_num_batched_tokens if resolution is not None else None


def prefill_of(comparison: Comparison | None) -> int | None:
    """What a prefill of gated delta layers takes at most beyond the profile run; 0: not known; None: no such layers, or
    no plan."""
    deployment = comparison.served.deployment if comparison is not None else None
    cache = deployment.model.cache if deployment is not None else None
    if comparison is None or deployment is None or cache is None or all(one.kind != "gdn" for one in cache.layers):
        return None
    budget = comparison.plan.budget if comparison.plan is not None else None
    if budget is None or comparison.resolution is None:
        return 0
    return most_of_prefill(deployment, comparison.resolution, budget.tightest) or 0


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
    sizes = any_gpu.sizes_of(start, known.deployment)
    if sizes is None:
        return []
    try:
        return list(constraints(known.deployment, comparison.resolution, sizes, known.auto_fit).broken)
    except CgplanError:
        return []


def _in_the_cache(one: Finding) -> Finding:
    return Finding(one.code, one.severity, f"in the KV cache of the log, too: {one.message}", one.fix, one.where)


def is_laid_out(start: Start) -> bool:
    """Whether vLLM has laid out the KV cache, and with it checked the length and the requests itself."""
    if any(rank.graph_actual_bytes is not None or rank.captured for rank in start.ranks) or start.captured:
        return True
    return start.kv_tokens is not None and not is_of_limits(start)


def is_of_limits(start: Start) -> bool:
    """Whether the start ended at a limit of its KV cache, of which tokens may be printed before."""
    return start.crash is not None and cause(start, start.crash)[0] in ("model_len", "no_blocks", "mamba_blocks")


def _of_the_plan(one: Finding) -> Finding:
    """A constraint that the plan finds and vLLM did not: it is the plan that is wrong."""
    text = (
        f"by the plan the KV cache of the log is too small ({one.message}), and vLLM went on with it: what a token or a"
        " request takes differs from the plan's"
    )
    fix = "--kv-cache-dtype and --model as the server had them; nothing to change there"
    return Finding(OUTSIDE_BOUNDS.code, "info", text, fix)


def _charged(found: Diagnosis, deployment: Deployment | None, plugin: str | None) -> list[Finding]:
    """Why a request needs so much, where the hybrid KV cache manager is off."""
    length, needed = found.values.get("max_model_len"), found.values.get("needed_bytes")
    if found.kind != "model_len" or deployment is None or not length or not needed:
        return []
    charged = any_gpu.charged_in_full(deployment, length, needed, plugin, found.values.get("available_bytes"))
    return [] if charged is None else [Finding(MANAGER_OFF.code, "info", charged.text, charged.fix)]


def _is_too_large(found: Diagnosis, corrections: Sequence[Correction]) -> bool:
    """Whether what fits beside the graphs is more than the fix leaves for the KV cache."""
    size = found.largest.get("kv_cache_memory_bytes")
    return size is not None and any(one.right > size for one in corrections)


def _pressing(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: order[finding.severity]))
