"""What the screen and the Markdown page of `cgplan plan` say: rows, and lines of text without markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..memory.advice import CODES
from ..memory.budget.budget import Budget, StageBudget
from ..memory.budget.estimate_rules import IMPLAUSIBLE
from ..memory.budget.non_torch import FREE_FROM
from ..memory.capacity_plan import CapacityPlan
from ..memory.estimates import MIB, Interval
from ..memory.kv.cache_plan import KVCachePlan
from ..memory.kv.capacity import KVCacheTooSmall
from ..memory.kv.token_bytes import request_bytes
from ..memory.other_runner import OtherRunner, other_runner
from ..memory.reach import MOST_SEQS
from ..memory.verdict import TOO_LITTLE
from ..memory.what_if import BuyBack
from ..resolve.memory_deduction import VARIABLE
from .plan_answer import headline, is_pressing
from .plan_bar import FREE, IN_USE, parts_of
from .plan_numbers import gib, number, seconds, signed
from .plan_requests import queue_line, request_lines, tokens_of_blocks

__all__ = ["gib", "headline", "is_pressing", "number", "signed"]


class Row(NamedTuple):
    """A line of the budget. Texts; `sign` is what it does to the KV cache: "", "-" or "="."""

    sign: str
    name: str
    low: str
    best: str
    high: str
    source: str


BUDGET_HEAD = ("", "GiB of one GPU", "low", "best", "high", "from")


def budget_rows(made: CapacityPlan) -> list[Row]:
    """The budget, from the GPU's memory to the KV cache, and what is outside of it."""
    budget = made.budget
    if budget is None:
        return []
    stage = budget.tightest
    rows = [_row("", "GPU", budget.total), _in_use(budget), _row("", "free at the start", budget.free)]
    if budget.is_manual:
        rows.append(_row("=", "KV cache" if stage.blocks is None else "asked for", stage.kv_cache))
        rows += [*_weight_rows("", stage), _row("", "activations, peak", stage.activation)]
        rows.append(_row("", "outside torch", stage.non_torch))
    else:
        rows.append(_row("", "asked for", budget.requested))
        rows += [*_weight_rows("-", stage), _row("-", "activations, peak", stage.activation)]
        rows.append(_row("-", "outside torch", stage.non_torch))
        if stage.counts_buffers:
            rows.append(_row("-", "buffers", stage.buffers))
        if stage.deducted.best:
            rows.append(_row("-", "graphs, vLLM's estimate", stage.deducted))
        reserve = made.request.flags.reserve_bytes
        if reserve:
            rows.append(Row("-", "decoding images", gib(reserve), gib(reserve), gib(reserve), "--mm-ipc-gpu-memory-gb"))
        rows.append(_row("=", "KV cache" if stage.blocks is None else "left for the KV cache", stage.kv_cache))
    if stage.blocks is not None:
        rows.append(_row("", "KV cache", stage.held))
    if not stage.counts_buffers or budget.is_manual:
        rows.append(_row("", "buffers, on top", stage.buffers))
    if stage.held.best <= 0:
        return rows
    rows.append(_row("", "graphs, capture takes", stage.graphs))
    peak = gib(parts_of(budget, stage)[-1].size) if parts_of(budget, stage)[-1].name == FREE else "0.00"
    rows.append(Row("", FREE, "", peak, "", "the GPU less all of the above"))
    rows.append(_row("", "free while idle", stage.unused))
    return rows


def _weight_rows(sign: str, stage: StageBudget) -> list[Row]:
    rows = [_row(sign, "weights", stage.weights)]
    if stage.adapters:
        rows.append(Row("", "  of them LoRA's buffers", "", gib(stage.adapters), "", "--max-loras, --max-lora-rank"))
    return rows


def _in_use(budget: Budget) -> Row:
    taken = Interval(
        max(0, budget.total.low - budget.free.high),
        max(0, budget.total.best - budget.free.best),
        max(0, budget.total.high - budget.free.low),
        _taken_by(budget),
    )
    return _row("", IN_USE, taken)


def _taken_by(budget: Budget) -> str:
    if budget.free.is_exact or budget.free.source != FREE_FROM[False]:
        return "the GPU less what is free"
    return "the CUDA context; no other process"


def _row(sign: str, name: str, value: Interval) -> Row:
    if value.is_exact:
        return Row(sign, name, "", gib(value.best), "", value.source)
    return Row(sign, name, gib(value.low), gib(value.best), gib(value.high), value.source)


def cache_lines(made: CapacityPlan) -> Iterator[tuple[str, str]]:
    """The KV cache: a name and what it is. Limits that nothing satisfies are left out: the findings say why."""
    if _are_several_fixes(made):
        yield "Fixes", "each by itself, with all that it names, lets it start"
    plan = made.best.plan
    left = gib(min(made.best.kv_bytes))
    stage = _stage(made)
    if plan is None:
        if min(made.best.kv_bytes) > 0:
            yield "KV cache", f"{left} GiB are left{stage}{_whole_blocks(made)}, too little for the length asked for"
    elif plan.tokens is None:
        yield "KV cache", "the model keeps none"
    else:
        each = " of each GPU" if not stage and made.deployment.tensor_parallel_size > 1 else ""
        yield "KV cache", f"{left} GiB{each}{stage}, {_blocks(plan)}"
        yield "KV tokens", f"{plan.tokens:,}{_spread_of_tokens(made)}{_as_counted(plan)}"
        yield "Concurrency", f"{plan.max_concurrency:.2f}x of {plan.max_model_len:,} tokens a request"
        queue = queue_line(made, plan)
        if queue:
            yield "At once", queue
    sure = made.max_model_len_that_surely_starts
    best = made.max_model_len_that_fits if sure or _length_alone(made) else 0
    longest = _limit("--max-model-len", sure, best)
    if longest:
        yield "Longest", longest
    requests = _most_requests(made)
    if requests:
        yield "Requests", requests
    if made.least_utilization is not None:
        yield "Utilization", f"--gpu-memory-utilization {made.least_utilization:.2f} is the least that starts"
    if plan is not None and plan.tokens is not None:
        yield from request_lines(made, plan)
    if made.hybrid_manager is not None:
        yield "Windows", _windows(made)
    yield "Runner", _runner(made)


WITH_MANAGER = "layers with a window keep that alone: the hybrid KV cache manager is on"
WITHOUT_MANAGER = (
    "layers with a window are charged at the full length, as the others are: the hybrid KV cache manager is off"
)


def _are_several_fixes(made: CapacityPlan) -> bool:
    """Whether errors of memory have fixes that differ: `advice` tries each of them alone."""
    fixes = [one.fix or "" for one in made.findings if one.severity == "error" and one.code in CODES]
    return len(set(fixes)) > 1 and all(fix.startswith("--") for fix in fixes)


def _whole_blocks(made: CapacityPlan) -> str:
    """What the refusal counts, which is less than what is left; "": it is the same, or not known."""
    refusal = made.best.refusal
    if not isinstance(refusal, KVCacheTooSmall):
        return ""
    counted = gib(refusal.available_bytes)
    return "" if counted == gib(min(made.best.kv_bytes)) else f", {counted} in whole blocks"


def _runner(made: CapacityPlan) -> str:
    """The model runner and why it, and what the other one would leave for the KV cache."""
    why = [decision.why for decision in made.resolution.decisions if decision.field == "runner"]
    said = why[-1].removesuffix(".") if why else ""
    if said[1:2].islower():
        said = said[:1].lower() + said[1:]
    text = f"{made.resolution.runner}{f', {said}' if said else ''}"
    other = other_runner(made)
    return text if other is None else f"{text}; {_of_other(other, other.kv_bytes - min(made.best.kv_bytes))}"


def _of_other(other: OtherRunner, more: int) -> str:
    """The other runner, with what makes up the difference of its KV cache."""
    parts = [(signed(size), name) for name, size in other.parts if abs(size) >= MIB]
    if other.kv_bytes <= 0:
        return f"{other.runner} by --env {other.change}: {other.graphs} graphs, and no KV cache"
    if abs(more) < MIB and not parts:
        same = "the same KV cache"
    else:
        of = parts[0][1] if len(parts) == 1 else ", ".join(f"{size} {name}" for size, name in parts)
        same = f"{gib(other.kv_bytes)} GiB of KV cache ({signed(more)}{f': {of}' if of else ''})"
    return f"{other.runner} by --env {other.change}: {other.graphs} graphs, {same}"


def _windows(made: CapacityPlan) -> str:
    """Which way windows are kept, and what a request takes the other way."""
    on = bool(made.hybrid_manager)
    text = WITH_MANAGER if on else WITHOUT_MANAGER
    length = made.best.plan.max_model_len if made.best.plan is not None else made.resolution.max_model_len
    own, other = (request_bytes(made.deployment, made.resolution, length, hybrid=hybrid) for hybrid in (on, not on))
    if own is None or other is None:
        return text
    how = "with it off, by a flag or a KV connector," if on else "with it on"
    return f"{text}; a request of {length:,} tokens takes {gib(own)} GiB, and {how} {gib(other)}"


def _stage(made: CapacityPlan) -> str:
    """Which pipeline stage the least KV cache is that of; "" where there is one, or all have the same."""
    sizes = made.best.kv_bytes
    if len(set(sizes)) < 2:
        return ""
    return f" on pipeline stage {sizes.index(min(sizes)) + 1} of {len(sizes)}"


def budget_head(made: CapacityPlan) -> tuple[str, ...]:
    """The head of the budget, which is that of the pipeline stage with the least KV cache."""
    budget = made.budget
    if budget is None or len(budget.stages) < 2:
        return BUDGET_HEAD
    number = budget.stages.index(budget.tightest) + 1
    return ("", f"GiB of one GPU, stage {number} of {len(budget.stages)}", *BUDGET_HEAD[2:])


def _length_alone(made: CapacityPlan) -> bool:
    """Whether nothing but the length keeps it from starting."""
    return made.fits or all(found.code in TOO_LITTLE for found in made.findings if found.severity != "info")


def _limit(flag: str, sure: int, best: int) -> str:
    """The value that surely starts, and how far the best estimate goes."""
    if sure and best > sure:
        return f"{flag} {sure} is the longest that surely starts, up to {best} may"
    if sure:
        return f"{flag} {sure} is the longest that starts"
    return f"{flag} {best} may start, by the best estimate" if best else ""


def _blocks(plan: KVCachePlan) -> str:
    if len(plan.groups) > 1:
        of = tokens_of_blocks(plan)
        return f"{plan.num_blocks:,} blocks of {of} that {len(plan.groups)} groups of layers share"
    return f"{plan.num_blocks:,} blocks of {plan.block_size} tokens"


def _as_counted(plan: KVCachePlan) -> str:
    """Windows and states make the tokens of the log more, or less, than those of the blocks."""
    if plan.tokens is None or abs(plan.tokens - plan.num_blocks * plan.block_size) <= plan.max_model_len // 100:
        return ""
    held = int((plan.max_concurrency or 0) * plan.max_model_len)
    if len(plan.groups) > 1 and held and abs(held - plan.tokens) > plan.max_model_len // 100:
        # Until 0.19 vLLM prints the share of one group, which is not what the concurrency beside it says.
        return f", as the log counts them, of one group of layers alone; in requests of the full length {held:,}"
    return f", counted in requests of the full length: {plan.max_concurrency or 0:.2f} x {plan.max_model_len:,}"


def _spread_of_tokens(made: CapacityPlan) -> str:
    ends = [end.plan.tokens if end.plan is not None else None for end in (made.low, made.high)]
    if ends[0] == ends[1] or ends[1] is None:
        return ""
    return f" ({ends[0]:,} to {ends[1]:,})" if ends[0] is not None else f" (none to {ends[1]:,})"


def _most_requests(made: CapacityPlan) -> str:
    sure, best, asked = made.max_num_seqs_that_surely_starts, made.max_num_seqs_that_fits, made.resolution.max_num_seqs
    if not best:
        return ""
    if not sure and asked <= best and not made.fits:
        return ""
    if not sure:
        return f"--max-num-seqs {best} alone may start, by the best estimate; {asked} is asked for"
    if sure >= MOST_SEQS:
        return f"--max-num-seqs {asked} is asked for; {sure} would start, too"
    most = f"{MOST_SEQS} and more" if best >= MOST_SEQS else f"up to {best}"
    may = f", {most} may" if best > sure else ""
    return f"--max-num-seqs {sure} is the largest that surely starts{may}; {asked} is asked for"


def lengths(made: CapacityPlan) -> list[tuple[str, str]]:
    """Tokens of a request, and how many such requests fit at once."""
    return [(f"{held.length:,}", f"{int(held.requests):,}") for held in made.requests_by_length]


def are_flat(made: CapacityPlan) -> bool:
    """Whether long requests take about as much as short ones."""
    held = made.requests_by_length
    return len(held) > 2 and held[-1].requests * 2 > held[-3].requests


FLAT = "Windows and states take the same of a longer request, so about as many fit."


BOUGHT_HEAD = ("instead", "graphs", "GiB", "capture s", "KV cache", "tokens", "")


def bought_title(made: CapacityPlan) -> str:
    """What stands over `bought_rows`."""
    known = made.request.known
    if known.graph_estimate is not None and any(found.code == IMPLAUSIBLE.code for found in made.findings):
        return "What other CUDA graphs give the KV cache, predicted: the estimate given is no measure of graphs"
    scaled = known.graphs is not None or known.graph_estimate is not None
    on_top = made.budget is not None and not made.budget.tightest.deducted.best
    return ("What other CUDA graphs leave free" if on_top else "What other CUDA graphs give the KV cache") + (
        ", predicted and scaled by what was measured" if scaled else ""
    )


def bought_rows(bought: Sequence[BuyBack]) -> list[tuple[str, ...]]:
    """What other CUDA graphs give back."""
    rows: list[tuple[str, ...]] = []
    for one in bought:
        tokens = "" if one.tokens is None else f"{one.tokens:+,}"
        taken = "" if one.outcome.graph_bytes is None else gib(one.outcome.graph_bytes)
        change = f"--env {one.change}" if one.change.startswith(VARIABLE) else one.change
        gained = signed(one.kv_bytes or 0)
        if one.freed_bytes >= MIB and abs(one.kv_bytes or 0) < MIB:
            gained, tokens = f"leaves {signed(one.freed_bytes).lstrip('+')} more free", ""
        rows.append((change, str(one.outcome.graphs), taken, seconds(one.outcome), gained, tokens, one.cost))
    return rows
