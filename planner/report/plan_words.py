"""What the screen and the Markdown page of `cgplan plan` say: rows, and lines of text without markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..memory.budget.suggestion import suggestion
from ..memory.estimates import GIB, MIB, Interval
from ..memory.limits import MOST_SEQS
from ..memory.plan import CapacityPlan, capacity_in, capture_time, vllm_estimate
from ..memory.what_if import BuyBack, Outcome
from ..resolve.memory_deduction import VARIABLE
from ..vocabulary import CUDAGraphMode


class Row(NamedTuple):
    """A line of the budget. Texts; `sign` is what it does to the KV cache: "", "-" or "="."""

    sign: str
    name: str
    low: str
    best: str
    high: str
    source: str


BUDGET_HEAD = ("", "GiB of one GPU", "low", "best", "high", "from")


def gib(size: float) -> str:
    """Bytes as GiB with two digits; a little is not nothing."""
    text = f"{size / GIB:.2f}"
    return "0.00" if text == "-0.00" else text


def signed(size: int) -> str:
    """A difference, in GiB, or MiB where it is small."""
    if abs(size) < GIB // 10:
        return f"{size / MIB:+.0f} MiB"
    return f"{size / GIB:+.2f} GiB"


def number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def headline(made: CapacityPlan) -> tuple[str, str]:
    """Whether it starts, in a sentence, and its style."""
    if made.starts == "yes":
        return "It starts.", "info"
    if made.starts == "no":
        return "It does not start.", "error"
    if made.fits:
        return "It starts by the best estimate; within the bounds it may not.", "warning"
    return "It does not start by the best estimate; within the bounds it may.", "warning"


def budget_rows(made: CapacityPlan) -> list[Row]:
    """The budget, from the GPU's memory to the KV cache, and what is outside of it."""
    budget = made.budget
    if budget is None:
        return []
    stage = budget.tightest
    rows = [_row("", "GPU", budget.total), _row("", "free at the start", budget.free)]
    if budget.is_manual:
        rows.append(_row("=", "KV cache", stage.kv_cache))
        rows += [_row("", "weights", stage.weights), _row("", "activations, peak", stage.activation)]
        rows.append(_row("", "outside torch", stage.non_torch))
    else:
        rows.append(_row("", "asked for", budget.requested))
        rows += [_row("-", "weights", stage.weights), _row("-", "activations, peak", stage.activation)]
        rows.append(_row("-", "outside torch", stage.non_torch))
        if stage.counts_buffers:
            rows.append(_row("-", "buffers", stage.buffers))
        if stage.deducted.best:
            rows.append(_row("-", "graphs, vLLM's estimate", stage.deducted))
        reserve = made.request.flags.reserve_bytes
        if reserve:
            rows.append(Row("-", "decoding images", gib(reserve), gib(reserve), gib(reserve), "--mm-ipc-gpu-memory-gb"))
        rows.append(_row("=", "KV cache", stage.kv_cache))
    if not stage.counts_buffers or budget.is_manual:
        rows.append(_row("", "buffers, on top", stage.buffers))
    rows += [_row("", "graphs, capture takes", stage.graphs), _row("", "stays free while idle", stage.unused)]
    return rows


def _row(sign: str, name: str, value: Interval) -> Row:
    if value.is_exact:
        return Row(sign, name, "", gib(value.best), "", value.source)
    return Row(sign, name, gib(value.low), gib(value.best), gib(value.high), value.source)


def graph_lines(made: CapacityPlan) -> Iterator[str]:
    """What vLLM will say of its graphs, what they take, and what the difference is worth."""
    budget = made.budget
    if budget is None:
        return
    stage, mode = budget.tightest, made.resolution.cudagraph_mode
    if mode is CUDAGraphMode.NONE:
        yield "No CUDA graphs are captured."
        return
    estimate = vllm_estimate(made)
    if estimate is None:
        yield f"vLLM estimates nothing for its graphs: {budget.deduction.reason}"
    else:
        yield f"vLLM will estimate about {gib(estimate.best)} GiB ({gib(estimate.low)} to {gib(estimate.high)})."
    taken = stage.graphs
    yield f"Capture really takes about {gib(taken.best)} GiB ({gib(taken.low)} to {gib(taken.high)})."
    if budget.is_manual:
        yield "Nothing is taken off for them: --kv-cache-memory-bytes sets the KV cache."
    elif stage.deducted.best:
        off = stage.deducted.best - stage.graphs.best
        tokens = _tokens_of(made, abs(off))
        worth = f", {tokens:,} tokens of KV cache" if tokens else ""
        if tokens and abs(off) >= MIB:
            kind = "too much" if off > 0 else "too little"
            yield f"The KV cache gives the estimate up: {signed(abs(off)).lstrip('+')}{worth}, {kind}."
        else:
            yield "The KV cache gives the estimate up, which is about what capture takes."
    else:
        yield f"The KV cache gives up nothing for them ({budget.deduction.reason.rstrip('.')}): they come on top."
    found = suggestion(budget, stage, made.deployment.vllm)
    if found is not None and found.counts_twice and found.right > 0:
        yield (
            f"vLLM's log will suggest --kv-cache-memory={found.printed}, {gib(found.printed)} GiB, which takes the"
            f" graphs off twice; {found.right}, {gib(found.right)} GiB, is right."
        )


def time_line(made: CapacityPlan) -> str:
    """How long capture takes; "" without graphs."""
    found = capture_time(made)
    if found is None:
        return ""
    least, middle, most = found.share
    return (
        f"Capture takes about {found.best:.0f} s ({found.low:.0f} to {found.high:.0f}), {middle:.0%} of the engine's"
        f" start ({least:.0%} to {most:.0%}), going by {found.basis}."
    )


def _tokens_of(made: CapacityPlan, size: int) -> int:
    """The tokens of KV cache that `size` bytes of every rank are worth."""
    plan = made.best.plan
    if plan is None or plan.tokens is None or not size:
        return 0
    more = [kv + size for kv in made.best.kv_bytes]
    other = capacity_in(made.deployment, made.resolution, more, made.request.auto_fit).plan
    return abs((other.tokens if other is not None and other.tokens is not None else plan.tokens) - plan.tokens)


def cache_lines(made: CapacityPlan) -> Iterator[tuple[str, str]]:
    """The KV cache: a name and what it is."""
    plan = made.best.plan
    if plan is None:
        yield "KV cache", f"{gib(min(made.best.kv_bytes))} GiB: no cache that serves the length asked for"
    elif plan.tokens is None:
        yield "KV cache", "the model keeps none"
    else:
        yield "KV cache", f"{gib(min(made.best.kv_bytes))} GiB, {plan.num_blocks:,} blocks of {plan.block_size} tokens"
        yield "Tokens", f"{plan.tokens:,}{_spread_of_tokens(made)}"
        yield "Concurrency", f"{plan.max_concurrency:.2f}x of {plan.max_model_len:,} tokens a request"
    longest = made.max_model_len_that_fits
    yield "Longest", f"--max-model-len {longest} is the longest that starts" if longest else "no --max-model-len starts"
    yield "Requests", _most_requests(made)
    if made.least_utilization is not None:
        yield "Utilization", f"--gpu-memory-utilization {made.least_utilization:.2f} is the least that starts"


def _spread_of_tokens(made: CapacityPlan) -> str:
    ends = [end.plan.tokens if end.plan is not None else None for end in (made.low, made.high)]
    if ends[0] == ends[1] or ends[1] is None:
        return ""
    return f" ({ends[0]:,} to {ends[1]:,})" if ends[0] is not None else f" (none to {ends[1]:,})"


def _most_requests(made: CapacityPlan) -> str:
    most, asked = made.max_num_seqs_that_fits, made.resolution.max_num_seqs
    if most == 0:
        return f"no --max-num-seqs starts; {asked} is asked for"
    if most >= MOST_SEQS:
        return f"--max-num-seqs {asked} is asked for; {most} would start, too"
    return f"--max-num-seqs {most} is the largest that starts; {asked} is asked for"


def lengths(made: CapacityPlan) -> list[tuple[str, str]]:
    """Tokens of a request, and how many such requests fit at once."""
    return [(f"{held.length:,}", f"{held.requests:,.1f}") for held in made.requests_by_length]


BOUGHT_HEAD = ("instead", "graphs", "GiB", "KV cache", "tokens", "")


def bought_rows(bought: Sequence[BuyBack]) -> list[tuple[str, ...]]:
    """What other CUDA graphs give back."""
    rows: list[tuple[str, ...]] = []
    for one in bought:
        tokens = "" if one.tokens is None else f"{one.tokens:+,}"
        taken = "" if one.outcome.graph_bytes is None else gib(one.outcome.graph_bytes)
        change = f"--env {one.change}" if one.change.startswith(VARIABLE) else one.change
        gained = signed(one.kv_bytes or 0)
        rows.append((change, str(one.outcome.graphs), taken, gained, tokens, one.cost))
    return rows


OUTCOME_HEAD = ("starts", "KV GiB", "blocks", "tokens", "concurrency", "graphs", "graphs GiB")


def outcome_row(name: str, one: Outcome) -> tuple[str, ...]:
    """One variant of --what-if."""
    return (
        name,
        "yes" if one.fits else f"no {one.why_not[0]}".strip(),
        "" if one.kv_bytes is None else gib(one.kv_bytes),
        "" if one.num_blocks is None else f"{one.num_blocks:,}",
        "" if one.tokens is None else f"{one.tokens:,}",
        "" if one.max_concurrency is None else f"{one.max_concurrency:.2f}x",
        str(one.graphs),
        "" if one.graph_bytes is None else gib(one.graph_bytes),
    )


def compared_rows(first: CapacityPlan, second: CapacityPlan) -> list[tuple[str, str, str, str]]:
    """Two deployments side by side: what, the first, the second, and the difference."""
    rows: list[tuple[str, str, str, str]] = [("starts", first.starts, second.starts, "")]
    rows += _settings(first, second)
    if first.budget is not None and second.budget is not None:
        one, two = first.budget.tightest, second.budget.tightest
        pairs = [
            ("asked for", first.budget.requested, second.budget.requested),
            ("weights", one.weights, two.weights),
            ("activations, peak", one.activation, two.activation),
            ("outside torch", one.non_torch, two.non_torch),
            ("buffers", one.buffers, two.buffers),
            ("graphs, vLLM's estimate taken off", one.deducted, two.deducted),
            ("graphs, capture takes", one.graphs, two.graphs),
            ("KV cache", one.kv_cache, two.kv_cache),
            ("stays free while idle", one.unused, two.unused),
        ]
        for name, a, b in pairs:
            more = signed(b.best - a.best) if a.best != b.best else ""
            rows.append((f"{name}, GiB", gib(a.best), gib(b.best), more))
    for name, left, right in _cache_pairs(first, second):
        more = f"{right - left:+,.10g}" if left is not None and right is not None and left != right else ""
        rows.append((name, _plain(left), _plain(right), more))
    return rows


def _settings(first: CapacityPlan, second: CapacityPlan) -> Iterator[tuple[str, str, str, str]]:
    one, two = first.resolution, second.resolution
    pairs = [
        ("vLLM", one.vllm_version, two.vllm_version),
        ("GPU", first.deployment.gpu.name, second.deployment.gpu.name),
        ("model", first.deployment.model.name or "", second.deployment.model.name or ""),
        ("max_num_seqs", f"{one.max_num_seqs:,}", f"{two.max_num_seqs:,}"),
        ("max_num_batched_tokens", f"{one.max_num_batched_tokens:,}", f"{two.max_num_batched_tokens:,}"),
        ("max_model_len", f"{one.max_model_len:,}", f"{two.max_model_len:,}"),
        ("CUDA graphs", one.cudagraph_mode.value, two.cudagraph_mode.value),
    ]
    for name, a, b in pairs:
        if a != b:
            yield name, a, b, ""


def _cache_pairs(first: CapacityPlan, second: CapacityPlan) -> Iterator[tuple[str, float | None, float | None]]:
    one, two = first.best.plan, second.best.plan
    for name, field in (("KV blocks", "num_blocks"), ("KV tokens", "tokens"), ("concurrency", "max_concurrency")):
        a, b = (getattr(plan, field) if plan is not None else None for plan in (one, two))
        yield name, _rounded(a), _rounded(b)
    yield "longest that starts", first.max_model_len_that_fits, second.max_model_len_that_fits
    yield "largest max_num_seqs that starts", first.max_num_seqs_that_fits, second.max_num_seqs_that_fits
    yield "CUDA graphs, number", first.resolution.graph_count(), second.resolution.graph_count()


def _rounded(value: float | None) -> float | None:
    return round(value, 2) if isinstance(value, float) else value


def _plain(value: float | None) -> str:
    return "none" if value is None else f"{value:,}"
