"""The plan of a start's deployment against what the log has: each figure with its bounds, by rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import CgplanError
from ..memory.budget.budget import StageBudget
from ..memory.budget.measured import Measured
from ..memory.capacity_plan import Capacity, CapacityPlan, capacity_in, capture_time
from ..memory.estimates import Interval, exactly
from ..memory.plan import plan_of
from ..memory.request import MemoryRequest
from ..resolve import Resolution, resolve
from ..trace import Finding
from ..vocabulary import CUDAGraphMode
from . import lighter, list_of_graphs, missing_graphs
from .deployment import Served, other_gpu, runner_of
from .known import GIB, ROUNDING, tightest, transient
from .record import Rank, Start
from .rules import DIFFERENT_GRAPHS, OTHER_REQUESTS, OUTSIDE_BOUNDS
from .stages import engine_of, kv_bytes_by_stage, stage_of

Verdict = Literal["exact", "inside", "outside", "same", "different"]


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        name: for people; key: in JSON.
        unit: "bytes", "tokens", "blocks", "times", in hundredths, "seconds", in tenths, "graphs", or "" for words.
        ranks: that measured it; (): it is of the server.
        planned: None for words, which are in `said`.
        measured: None for words, which are in `found`.
        verdict: "exact": the plan knows it, and the log has it; "inside" its bounds, "outside" them; of words "same",
            "different".
        given: what the plan took from the log for this row, in words.
    """

    name: str
    key: str
    unit: str
    verdict: Verdict
    planned: Interval | None = None
    measured: float | None = None
    said: str = ""
    found: str = ""
    ranks: tuple[str, ...] = ()
    given: str = ""

    @property
    def percent(self) -> float | None:
        """How far the plan's best value is from what was measured, per cent of the latter."""
        if self.planned is None or self.measured is None or self.measured <= 0:
            return None  # A share of nothing, or of a negative number, says nothing.
        return 100.0 * (self.planned.best - self.measured) / abs(self.measured)

    @property
    def off(self) -> float | None:
        """The plan's best value less what was measured."""
        return None if self.planned is None or self.measured is None else self.planned.best - self.measured


@dataclass(frozen=True)
class Comparison:
    """The plan against a start.

    Attributes:
        served: the deployment.
        resolution, plan: None where they could not be made.
        rows: what both have.
        findings: where they part.
        why_not: why there is no plan, or only a part of one; None: it is whole.
    """

    served: Served
    resolution: Resolution | None = None
    plan: CapacityPlan | None = None
    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    why_not: str | None = None
    fix: str | None = None


def compare(start: Start, served: Served) -> Comparison:
    """Plan the deployment of `start`, and hold the log against it."""
    if served.deployment is None:
        return Comparison(served, why_not=served.why_not, fix=served.fix)
    why_not, fix = served.why_not, served.fix
    try:
        resolution = resolve(served.deployment)
    except CgplanError as error:
        return Comparison(served, why_not=error.message, fix=error.fix)
    plan = None
    if served.has_weights:
        request = MemoryRequest(served.flags, Measured(), None, None, served.auto_fit)
        try:
            plan = plan_of(served.deployment, request, advise=False)
        except CgplanError as error:
            why_not, fix = error.message, error.fix
    other_list = list_of_graphs.finding_of(start, served, resolution)
    rows: tuple[Row, ...] = (
        *_graph_rows(start, served, resolution),
        *_memory_rows(start, plan),
        *_time_rows(start, plan),
        *_engine_rows(start, served, resolution),
    )
    if other_list is not None:
        rows = tuple(row for row in rows if row.key not in OF_THE_LIST)
    other = other_gpu(start, served.deployment)
    lacking = missing_graphs.finding_of(start, served.deployment, resolution)
    own = [one for one in (other_list, lacking) if one is not None]
    findings = (*served.findings, *own, *_findings(rows, served, start, plan))
    if other_list is not None:
        findings = tuple(dict.fromkeys(findings))
    if other is not None:
        findings = (other, *(finding for finding in findings if finding.code != OUTSIDE_BOUNDS.code))
    if start.platform_plugin is not None:
        findings = served.findings  # The plan does not hold, which `plugins` says.
    return Comparison(served, resolution, plan, rows, findings, why_not, fix)


def _graph_rows(start: Start, served: Served, resolution: Resolution) -> Iterator[Row]:
    """What was asked for as the log has it is not held against the log, where nothing changed it; nor are graphs from
    which the plan's requests were solved back."""
    for row in _of_graphs(start, resolution):
        if served.is_solved and row.unit == "graphs" and row.verdict != "different":
            continue
        if not (served.of_the_log and row.verdict == "same" and row.key in ("cudagraph_mode", "capture_sizes")):
            yield row


def _of_graphs(start: Start, resolution: Resolution) -> Iterator[Row]:
    if start.cudagraph_mode is not None:
        yield _words("CUDA graph mode", "cudagraph_mode", resolution.cudagraph_mode.value, start.cudagraph_mode)
    shown = runner_of(start)
    if shown is not None:
        yield _words("runner", "runner", resolution.runner.value, shown)
    if start.capture_sizes is not None and resolution.cudagraph_mode is not CUDAGraphMode.NONE:
        yield _words("capture sizes", "capture_sizes", _sizes(resolution.capture_sizes), _sizes(start.capture_sizes))
    for kind, count in start.graphs.items():
        if kind in ("FULL", "PIECEWISE"):
            planned = resolution.graph_count(CUDAGraphMode(kind))
            yield _count(f"{kind} graphs", f"graphs.{kind}", "graphs", planned, count)
    for kind, planned in missing_graphs.missing(start, resolution).items():
        yield Row(f"{kind} graphs", f"graphs.{kind}", "graphs", "different", exactly(planned, ""), 0)


def _words(name: str, key: str, said: str, found: str) -> Row:
    return Row(name, key, "", "same" if said == found else "different", said=said, found=found)


def _sizes(sizes: tuple[int, ...]) -> str:
    if len(sizes) <= 8:
        return " ".join(map(str, sizes)) or "none"
    return f"{len(sizes)} sizes, {' '.join(map(str, sizes[:4]))} … {sizes[-1]}"


def _count(name: str, key: str, unit: str, planned: int, measured: int, given: str = "") -> Row:
    verdict: Verdict = "exact" if planned == measured else "outside"
    return Row(name, key, unit, verdict, exactly(planned, ""), measured, given=given)


OF_THE_LIST = ("graph_estimate_bytes", "graph_bytes", "capture_seconds")
"""Rows that say nothing where the log's graphs are of another list of sizes."""

_Figure = tuple[str, str, Interval, int | None]


def _memory_rows(start: Start, plan: CapacityPlan | None) -> Iterator[Row]:
    """Figures of each rank; ranks that have the same ones share a row."""
    if plan is None or plan.budget is None:
        return
    found: dict[tuple[str, int, int], list[str]] = {}
    rows: dict[tuple[str, int, int], _Figure] = {}
    for rank in start.ranks:
        stage = stage_of(rank, start, len(plan.budget.stages))
        for figure in _figures(rank, plan, plan.budget.stages[stage]):
            if figure[3] is None:
                continue
            where = (figure[1], figure[3], figure[2].best)
            found.setdefault(where, []).append(rank.name)
            rows[where] = figure
    order = {key: at for at, (_, key, _, _) in enumerate(_ORDER)}
    for where in sorted(rows, key=lambda one: order.get(one[0], 99)):
        name, key, planned, measured = rows[where]
        yield _bytes_row(name, key, planned, measured or 0, tuple(found[where]))


def _figures(rank: Rank, plan: CapacityPlan, stage: StageBudget) -> Iterator[_Figure]:
    budget = plan.budget
    assert budget is not None
    estimate = stage.deducted
    if plan.graphs is not None and plan.graphs.estimate is not None:
        estimate = plan.graphs.estimate
    held = stage.weights.plus(stage.non_torch).plus(stage.buffers)
    yield "weights", "weights_bytes", stage.weights, rank.weights_bytes
    yield "peak activation", "activation_bytes", stage.activation, transient(rank)
    yield "outside torch", "non_torch_bytes", stage.non_torch, rank.non_torch_bytes
    yield "consumed", "consumed_bytes", held, rank.consumed_bytes
    yield "graphs, vLLM's estimate", "graph_estimate_bytes", estimate, rank.graph_estimate_bytes
    yield "graphs, capture takes", "graph_bytes", stage.graphs, rank.graph_actual_bytes
    yield "asked for", "requested_bytes", budget.requested, rank.requested_bytes
    yield "free before", "free_bytes", budget.free, rank.free_bytes
    yield "KV cache", "kv_bytes", stage.kv_cache, rank.kv_bytes


_ORDER = (
    ("free before", "free_bytes", "", ""),
    ("asked for", "requested_bytes", "", ""),
    ("weights", "weights_bytes", "", ""),
    ("peak activation", "activation_bytes", "", ""),
    ("outside torch", "non_torch_bytes", "", ""),
    ("consumed", "consumed_bytes", "", ""),
    ("graphs, vLLM's estimate", "graph_estimate_bytes", "", ""),
    ("KV cache", "kv_bytes", "", ""),
    ("graphs, capture takes", "graph_bytes", "", ""),
)


def _time_rows(start: Start, plan: CapacityPlan | None) -> Iterator[Row]:
    """Seconds of capture, of the slowest rank, where the log has the graphs that are planned."""
    taken = max((rank.capture_seconds for rank in start.ranks if rank.capture_seconds is not None), default=None)
    found = capture_time(plan) if plan is not None and taken is not None else None
    if plan is None or taken is None or found is None:
        return
    if (
        start.graphs
        and sum(start.graphs.get(kind, 0) for kind in missing_graphs.KINDS) != plan.resolution.graph_count()
    ):
        return
    low, best, high = (round(10 * seconds) for seconds in (found.low, found.best, found.high))
    # vLLM prints whole seconds.
    verdict: Verdict = "inside" if low - 5 <= 10 * taken <= high + 5 else "outside"
    yield Row(
        "seconds of capture", "capture_seconds", "seconds", verdict, Interval(low, best, high, found.basis), 10 * taken
    )


def _bytes_row(name: str, key: str, planned: Interval, measured: int, ranks: tuple[str, ...]) -> Row:
    inside = planned.low - ROUNDING <= measured <= planned.high + ROUNDING
    exact = planned.is_exact and inside
    verdict: Verdict = "exact" if exact else "inside" if inside else "outside"
    return Row(name, key, "bytes", verdict, planned, measured, ranks=ranks)


def _engine_rows(start: Start, served: Served, resolution: Resolution) -> Iterator[Row]:
    """Of each data parallel engine that says other figures than the first, rows of its own."""
    engines = [(name, tokens, times) for label, tokens, times in start.kv_printed if (name := engine_of(label))]
    if len({(tokens, times) for _, tokens, times in engines}) < 2:
        yield from _cache_rows(start, served, resolution)
        return
    seen: dict[tuple[int, float | None], list[str]] = {}
    for name, tokens, times in engines:
        seen.setdefault((tokens, times), []).append(name)
    for at, ((tokens, times), names) in enumerate(seen.items()):
        own = replace(start, kv_tokens=tokens, max_concurrency=times)
        if at:
            # What is printed once is of the first engine, or of all.
            own = replace(own, num_gpu_blocks=None, block_size=None, max_model_len=None)
        for row in _cache_rows(own, served, resolution, names[0]):
            yield row if row.key in ("block_size", "max_model_len") else replace(row, ranks=tuple(names))


def _cache_rows(start: Start, served: Served, resolution: Resolution, engine: str | None = None) -> Iterator[Row]:
    """The KV cache in the bytes that the log has: blocks and tokens are known to the last one, but for rounding."""
    if served.deployment is None:
        return
    sizes = kv_bytes_by_stage(start, served.deployment, engine)
    if sizes is None:
        return
    low, best, high = (_capacity(served, resolution, [size + by for size in sizes]) for by in (-ROUNDING, 0, ROUNDING))
    if best is None or best.plan is None:
        return
    plan = best.plan
    ends = [end.plan for end in (low, high) if end is not None and end.plan is not None] or [plan]
    given = "in the bytes of the log"
    if start.block_size is not None:
        yield _count("block size", "block_size", "tokens", plan.block_size, start.block_size)
    if start.num_gpu_blocks is not None:
        bounds = _between(plan.num_blocks, [end.num_blocks for end in ends])
        yield _near("blocks", "num_gpu_blocks", "blocks", bounds, start.num_gpu_blocks, given)
    if start.max_model_len is not None:
        yield _count("longest request", "max_model_len", "tokens", plan.max_model_len, start.max_model_len)
    if start.kv_tokens is not None and plan.tokens is not None and not _counts_one_group(start, plan.max_model_len):
        bounds = _between(plan.tokens, [end.tokens or 0 for end in ends])
        yield _near("KV tokens", "kv_tokens", "tokens", bounds, start.kv_tokens, given)
    if start.max_concurrency is not None and plan.max_concurrency is not None:
        times = [round(100 * (end.max_concurrency or 0)) for end in ends]
        bounds = _between(round(100 * plan.max_concurrency), times)
        row = _near("concurrency", "max_concurrency", "times", bounds, round(100 * start.max_concurrency), given)
        yield Row(row.name, row.key, row.unit, row.verdict, bounds, 100 * start.max_concurrency, given=given)


def _counts_one_group(start: Start, length: int) -> bool:
    """Whether the tokens printed are of one group of layers, and do not go with the concurrency beside them."""
    if start.kv_tokens is None or start.max_concurrency is None:
        return False
    whole = start.max_concurrency * (start.concurrency_length or length)
    return whole > 0 and not 0.9 < start.kv_tokens / whole < 1.1


def _near(name: str, key: str, unit: str, planned: Interval, measured: int, given: str) -> Row:
    """Within what the rounding of the printed bytes allows, the plan is exact."""
    verdict: Verdict = "exact" if planned.low <= measured <= planned.high else "outside"
    return Row(name, key, unit, verdict, planned, measured, given=given)


def _between(best: int, ends: list[int]) -> Interval:
    return Interval(min(best, *ends), best, max(best, *ends), "")


def _capacity(served: Served, resolution: Resolution, sizes: list[int]) -> Capacity | None:
    assert served.deployment is not None
    if min(sizes) <= 0:
        return None
    try:
        return capacity_in(served.deployment, resolution, sizes, served.auto_fit)
    except CgplanError:
        return None


def _findings(rows: tuple[Row, ...], served: Served, start: Start, plan: CapacityPlan | None) -> Iterator[Finding]:
    """Where they part. Graphs of other requests, or of another list, are told by what they come of."""
    told = any(finding.code == OTHER_REQUESTS.code for finding in served.findings)
    if plan is not None:
        told = told or list_of_graphs.finding_of(start, served, plan.resolution) is not None
    rows = tuple(row for row in rows if not (told and row.unit == "graphs"))
    parted = [row for row in rows if row.verdict == "different" and row.unit != "graphs"]
    if parted:
        text = "; ".join(f"{row.name}: {row.said} planned, {row.found} in the log" for row in parted)
        yield Finding(DIFFERENT_GRAPHS.code, "warning", text, DIFFERENT_GRAPHS.instead)
    outside: dict[str, list[Row]] = {}
    for row in rows:
        if row.verdict == "outside":
            outside.setdefault(row.name, []).append(row)
    if outside:
        text = "outside the bounds of the plan: " + "; ".join(_outside(some) for some in outside.values())
        less = lighter.lighter(start, plan)
        text += f". {less[0].upper()}{less[1:]}" if less is not None else WHY_OUTSIDE
        yield Finding(OUTSIDE_BOUNDS.code, "info", text, lighter.FIX if less is not None else _kept(start, outside))


WHY_OUTSIDE = (
    ". What the log does not show may differ: the checkpoint, software, drafts or adapters, other processes on the GPU;"
    " or no run like it was measured"
)


def _kept(start: Start, outside: Mapping[str, object]) -> str:
    """How to plan with the log's own values; of a log whose bytes --save cannot keep, what to give instead."""
    rank = tightest(start.ranks) or next(iter(start.ranks), None)
    has_bytes = rank is not None and any(
        size is not None and size >= 0
        for size in (rank.weights_bytes, rank.activation_bytes, rank.graph_actual_bytes, rank.non_torch_bytes)
    )
    if has_bytes:
        return OUTSIDE_BOUNDS.instead
    graphs = ", --graph-estimate-bytes" if "graphs, vLLM's estimate" in outside else ""
    return (
        "give what the log does not show; these lines have no bytes that --save keeps, so plan with --kv-bytes"
        f"{graphs} of the log, or give the whole log"
    )


def _outside(rows: list[Row]) -> str:
    """One figure, of all ranks where it is outside: a range where they differ."""
    first = rows[0]
    names = [name for row in rows for name in row.ranks]
    ranks = f" ({', '.join(names)})" if 0 < len(names) < 4 else f" ({len(names)} ranks)" if names else ""
    part, digits = {"bytes": (GIB, 2), "times": (100, 2), "seconds": (10, 0)}.get(first.unit, (1, 0))
    if first.unit == "seconds" and any((row.planned.best if row.planned else row.measured or 0) < 10 for row in rows):
        digits = 1  # As in the table: below a second with a decimal.
    planned = _range([row.planned.best / part for row in rows if row.planned is not None], digits)
    found = _range([row.measured / part for row in rows if row.measured is not None], digits)
    return f"{first.name}{ranks} {planned} planned, {found}{' GiB' if first.unit == 'bytes' else ''} in the log"


def _range(values: list[float], digits: int) -> str:
    least, most = (f"{end:,.{digits}f}" for end in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"
