"""What a log shows of memory that its operator should know: estimates that mislead, suggestions that are wrong, ranks
that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..memory.budget.estimate_findings import WORTH_SAYING
from ..memory.budget.estimate_rules import (
    ENCODER_GRAPHS,
    FROM_TWO_SIZES,
    GATED_DELTA,
    IMPLAUSIBLE,
    SHARED_MEMORY,
    SUGGESTED_TWICE,
)
from ..memory.graphs.estimate import gated_delta_bytes
from ..releases import holds
from ..resolve.memory_deduction import VARIABLE
from ..trace import Finding
from . import advice
from .against_plan import Comparison
from .arguments import model_of
from .corrected import Common, common, correct, said_of
from .deployment import other_gpu, runner_of
from .estimate import is_implausible, outlier, size_without
from .known import argument, deducts, gib, is_manual, release_of, requested_of, tightest, total_of, utilization
from .record import Rank, Start
from .rules import FAR_OFF, OUTSIDE_THE_BUDGET, RANKS_DIFFER, TAKES_MORE, TOKENS_OF_HYBRID
from .scene import LEAST_OUTSIDE, down
from .stages import engine_of

GATED_DELTA_MODELS = ("Qwen3Next", "Qwen3_5", "Qwen3_6", "KimiLinear", "OlmoHybrid")
"""Beginnings of the names of classes with gated delta layers, where no plan says it."""
GDN_RELEASES = ("0.26.0", "0.28.0")
FAR = 1.5
NEAR = 1.25
"""Where the difference is half a GiB or more, which is worth a flag."""
LEAST_OFF = 160 << 20
"""Bytes: more than vLLM's own reserve, so that the flag gains something."""
DIFFER = 0.01
"""Ranks whose values are nearer than that share print the same."""


def findings_of(start: Start, comparison: Comparison | None = None) -> tuple[Finding, ...]:
    """Findings about the memory of a start, the most pressing first; each once, though several ranks show it."""
    found: dict[str, Finding] = {}
    whole = common(start)
    for rank in _least_first(start.ranks, whole):
        for finding in _of_rank(start, rank, whole, comparison):
            found.setdefault(finding.code, finding)
    for finding in _tokens(start):
        found.setdefault(finding.code, finding)
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted((*found.values(), *_ranks_differ(start)), key=lambda finding: order[finding.severity]))


def _least_first(ranks: Sequence[Rank], whole: Common | None) -> list[Rank]:
    """The rank that decides for all before the others: by the size that is right for it, else by its KV cache."""
    least = whole.least.rank if whole is not None else None
    return sorted(ranks, key=lambda rank: (rank.name != least, rank.kv_bytes is None, rank.kv_bytes or 0))


def _of_rank(start: Start, rank: Rank, whole: Common | None, comparison: Comparison | None) -> Iterator[Finding]:
    estimate, actual = rank.graph_estimate_bytes, rank.graph_actual_bytes
    total = total_of(start, rank) or named_gpu_bytes(start, comparison)
    where = rank.name
    correction = correct(start, rank)
    implausible = is_implausible(estimate, actual, total)
    if implausible and estimate is not None:
        yield _not_plausible(start, rank, estimate, whole, total)
    if (actual is not None and actual < 0) or _is_integrated(comparison):
        yield _shared(start, rank, whole)
    if actual is None and not implausible and (found := _for_gated_delta(start, rank, comparison)) is not None:
        yield found
    if correction is not None and correction.counts_twice:
        fix = (whole.as_flags() if whole is not None else None) or SUGGESTED_TWICE.instead
        alone = "" if whole is None or (whole.is_known and whole.least.rank == where) else f" for {where} alone"
        yield Finding(
            SUGGESTED_TWICE.code, "warning", f"{said_of(correction)}{alone}: {correction.as_text()}", fix, where
        )
    if (
        not implausible
        and (found := advice.finding_of(start, rank, _flags_of(whole), _free(start, comparison))) is not None
    ):
        yield found
    if estimate is None or actual is None or actual < 0 or implausible:
        if estimate in (None, 0) and actual:
            yield from _outside_budget(start, rank, actual, total)
        return
    if estimate - actual > WORTH_SAYING // 2 and estimate > 2 * actual and deducts(start, rank):
        yield _far_above(start, rank, estimate - actual, whole, comparison)
    elif _is_far_off(estimate, actual) and (deducts(start, rank) or estimate - actual > WORTH_SAYING // 2):
        yield _far_off(start, rank, estimate, actual, whole)
    if actual - estimate > WORTH_SAYING // 2 and deducts(start, rank):
        yield _takes_more(start, rank, whole)
    if not deducts(start, rank):
        yield from _outside_budget(start, rank, actual, total)


def named_gpu_bytes(start: Start, comparison: Comparison | None) -> int | None:
    """Memory of the GPU that was named; None: none was, or the log's is another."""
    deployment = comparison.served.deployment if comparison is not None else None
    if deployment is None or other_gpu(start, deployment) is not None:
        return None
    return deployment.gpu.memory_bytes


def _not_plausible(start: Start, rank: Rank, estimate: int, whole: Common | None, total: int | None) -> Finding:
    what = "more" if estimate < 0 else "less"
    took = f" for graphs that took {gib(rank.graph_actual_bytes)}" if rank.graph_actual_bytes is not None else ""
    share = f", {100 * estimate / total:.0f}% of the GPU," if total and estimate > 0 else ""
    text = f"an estimate of {gib(estimate)}{share} is implausible{took}"
    if deducts(start, rank):
        text += f": the KV cache gets {gib(abs(estimate))} {what} for it"
    parts = [f"{VARIABLE}=0 with some memory left outside the budget"]
    size = _size_without(start, whole)
    if size is not None:
        # Where the KV cache gained by the estimate, it has to get smaller, and the bytes say by how much.
        parts.insert(1 if estimate > 0 else 0, f"--kv-cache-memory-bytes {size} ({gib(size)})")
    fix = ", or ".join(parts)
    return Finding(IMPLAUSIBLE.code, "warning", text, fix, rank.name)


def _size_without(start: Start, whole: Common | None) -> int | None:
    """The KV cache that fits on every rank, whatever the estimate says; None: it cannot be worked out."""
    if whole is not None:
        return whole.right if whole.right > 0 and whole.is_known else None
    return size_without(start)


def _shared(start: Start, rank: Rank, whole: Common | None) -> Finding:
    actual = rank.graph_actual_bytes
    taken = f", and capture took {gib(actual)}" if actual is not None else ""
    text = f"memory is shared with the CPU: the estimate is {_gib_or_none(rank.graph_estimate_bytes)}{taken}"
    if actual is not None and actual < 0:
        text = (
            f"capture took {gib(actual)}, less than nothing: free memory changed for another reason, as on GPUs that"
            " share it with the CPU; the estimate is no better"
        )
    least = tightest(start.ranks)
    size = least.kv_bytes if least is not None else None
    if whole is not None:
        size = whole.right if whole.right > 0 and whole.is_known else None
    estimate = rank.graph_estimate_bytes
    if actual is not None and estimate is not None and actual > 0 and abs(estimate - actual) <= AGREE:
        text += ". This time they agree; it may be otherwise where another process takes or frees memory meanwhile"
        return Finding(SHARED_MEMORY.code, "info", text, "nothing, while they agree", rank.name)
    if actual is not None and estimate is not None and estimate > 0 > actual and deducts(start, rank):
        text += f". The KV cache gets {gib(estimate)} less for it{_in_tokens(start, rank, estimate)}"
    fix = f"--kv-cache-memory-bytes {size}, which does not depend on either" if size else SHARED_MEMORY.instead
    if deducts(start, rank) and size:
        fix += f", or {VARIABLE}=0 where --gpu-memory-utilization leaves room for the graphs beside the budget"
    return Finding(SHARED_MEMORY.code, "warning", text, fix, rank.name)


AGREE = 160 << 20
"""Bytes between estimate and capture that are no difference: about vLLM's own reserve."""


def _gib_or_none(size: int | None) -> str:
    return "not printed" if size is None else gib(size)


def _is_integrated(comparison: Comparison | None) -> bool:
    deployment = comparison.served.deployment if comparison is not None else None
    return deployment is not None and deployment.gpu.integrated


def _far_above(start: Start, rank: Rank, lacks: int, whole: Common | None, comparison: Comparison | None) -> Finding:
    estimate, actual = gib(rank.graph_estimate_bytes or 0), gib(rank.graph_actual_bytes or 0)
    text = f"{estimate} were kept back for graphs that took {actual}: the KV cache lacks {gib(lacks)}"
    text += _in_tokens(start, rank, lacks)
    if _has_gated_delta(start, comparison):
        text += ", for transient memory of gated delta layers is taken for a graph"
        return Finding(GATED_DELTA.code, "warning", text, _fewer_tokens(start), rank.name)
    return Finding(FROM_TWO_SIZES.code, "warning", text, _gain(whole), rank.name)


def _is_far_off(estimate: int, actual: int) -> bool:
    """By half of the lesser, or by a quarter and half a GiB; half a GiB more in capture is CG535."""
    least, most = sorted((estimate, actual))
    off = most - least
    far = least < most / FAR and off >= LEAST_OFF
    near = least < most / NEAR and off > WORTH_SAYING // 2
    return least > 0 and (far or near) and actual - estimate <= WORTH_SAYING // 2


def _far_off(start: Start, rank: Rank, estimate: int, actual: int, whole: Common | None) -> Finding:
    by = 100 * (estimate - actual) / actual
    text = f"the estimate of {gib(estimate)} is {by:+.0f}% off the {gib(actual)} that capture took"
    text += outlier(rank)
    if not deducts(start, rank):
        fix = "nothing: here it is only printed; plan with what capture took, as --save keeps it beside the estimate"
        return Finding(FAR_OFF.code, "info", f"{text}; nothing was taken off the KV cache for it", fix, rank.name)
    text += ": the KV cache"
    text += f" {'lacks' if by > 0 else 'has'} {gib(abs(estimate - actual))}{_in_tokens(start, rank, estimate - actual)}"
    return Finding(FAR_OFF.code, "info", text if by > 0 else f"{text} too much", _gain(whole), rank.name)


def _in_tokens(start: Start, rank: Rank, size: int) -> str:
    """ ", 1,966 tokens" of this start's KV cache; "": the log does not say what a token takes."""
    if start.kv_tokens is None or not rank.kv_bytes or rank.kv_bytes <= 0:
        return ""
    return f", {abs(size) * start.kv_tokens / rank.kv_bytes:,.0f} tokens ({100 * abs(size) / rank.kv_bytes:.1f}%)"


def _flags_of(whole: Common | None) -> str | None:
    return whole.as_flags() if whole is not None else None


def _gain(whole: Common | None) -> str:
    """How to get the memory back that the estimate keeps, on all ranks."""
    found = whole.as_flags() if whole is not None else None
    return found or "a higher --gpu-memory-utilization, by what stays unused on the rank where that is least"


def _fewer_tokens(start: Start) -> str:
    tokens = start.max_num_batched_tokens
    if tokens is not None and tokens > 2048:
        return f"--max-num-batched-tokens {max(2048, tokens // 2)}, or {VARIABLE}=0 where room is left"
    return f"lower --max-num-batched-tokens, or {VARIABLE}=0 where room is left"


def _for_gated_delta(start: Start, rank: Rank, comparison: Comparison | None) -> Finding | None:
    """The same before capture is over, where the estimate is too large for graphs alone; None: it may be theirs."""
    estimate = rank.graph_estimate_bytes
    if estimate is None or estimate < WORTH_SAYING or not deducts(start, rank):
        return None
    if not _has_gated_delta(start, comparison):
        return None
    known = comparison.resolution if comparison is not None else None
    deployment = comparison.served.deployment if comparison is not None else None
    taken = gated_delta_bytes(deployment, known) if deployment is not None and known is not None else None
    much = f"about {gib(min(taken, estimate))} of it are" if taken is not None else "a large part of it may be"
    text = (
        f"the estimate keeps {gib(estimate)}{_in_tokens(start, rank, estimate)}, and {much} transient memory of gated"
        " delta layers, which goes with the batched tokens, not with the graphs"
    )
    return Finding(GATED_DELTA.code, "warning", text, _fewer_tokens(start), rank.name)


def _free(start: Start, comparison: Comparison | None) -> float | None:
    """The share of the GPU that is free before the start by the plan; None: there is none, or the log's is another."""
    plan = comparison.plan if comparison is not None else None
    if plan is None or plan.budget is None or named_gpu_bytes(start, comparison) is None:
        return None
    return plan.budget.free.high / plan.budget.total.high


def _has_gated_delta(start: Start, comparison: Comparison | None) -> bool:
    release = release_of(start)
    if release is None or not holds(release, *GDN_RELEASES):
        return False
    if comparison is not None and comparison.resolution is not None and comparison.served.deployment is not None:
        return gated_delta_bytes(comparison.served.deployment, comparison.resolution) > 0
    return runner_of(start) != "V2" and has_gated_delta_name(start)


def has_gated_delta_name(start: Start) -> bool:
    """Whether the class of the model, the log's or that of the model that was named, is one with gated delta layers."""
    return str(start.architecture or argument(start, "architecture") or "").startswith(GATED_DELTA_MODELS)


def _takes_more(start: Start, rank: Rank, whole: Common | None) -> Finding:
    taken, kept = gib(rank.graph_actual_bytes or 0), gib(rank.graph_estimate_bytes or 0)
    text = f"capture took {taken}, and {kept} were kept back for it"
    fix = (whole.as_flags() if whole is not None else None) or TAKES_MORE.instead.removesuffix(".")
    if _has_encoder_graphs(start, rank):
        text += ": the graphs of the vision encoder are not in the estimate"
        return Finding(ENCODER_GRAPHS.code, "warning", text, fix, rank.name)
    if _may_have_encoder_graphs(start, rank):
        text += (
            "; so much more is what graphs of a vision encoder take (cudagraph_mm_encoder), which the estimate leaves"
            f" out until 0.22: where they are on, that is the cause ({ENCODER_GRAPHS.code}); else memory that is set up"
            " at sizes which the estimate does not try, or after the profile run"
        )
        fix += ", or -cc.cudagraph_mm_encoder=false where the encoder's graphs are on"
    return Finding(TAKES_MORE.code, "warning", text, fix, rank.name)


MANY_TIMES = 4
"""What capture took over the estimate; other causes that are known stay below it but for ROCm."""


def _may_have_encoder_graphs(start: Start, rank: Rank) -> bool:
    """Whether the log leaves it open, and the model may have an encoder."""
    release, names = release_of(start), (start.architecture or "", model_of(start) or "")
    if release is not None and holds(release, "0.23.0"):
        return False
    if any(name.startswith("ROCM") for name in rank.attention_backends) or start.arguments.get("compilation_config"):
        return False
    many = (rank.graph_actual_bytes or 0) > MANY_TIMES * max(1, rank.graph_estimate_bytes or 0)
    return many and (not any(names) or any("ConditionalGeneration" in name or "VL" in name for name in names))


def _has_encoder_graphs(start: Start, rank: Rank) -> bool:
    kinds = {bar.kind for bar in (*rank.captured, *rank.profiled, *start.captured)}
    configs = (argument(start, "compilation_config"), start.engine.get("compilation_config"))
    return "ENCODER" in kinds or any(isinstance(c, dict) and c.get("cudagraph_mm_encoder") is True for c in configs)


def _outside_budget(start: Start, rank: Rank, actual: int, total: int | None) -> Iterator[Finding]:
    """Graphs that nothing was kept back for, where little is free beside the budget."""
    asked = requested_of(start, rank)
    free = rank.free_bytes if rank.free_bytes is not None else total
    if asked is None or free is None or not total or is_manual(start, rank):
        return
    left = free - asked - actual
    if left >= LEAST_OUTSIDE:
        return
    share = min(_share_outside(start, one) for one in (rank, *start.ranks))
    text = f"graphs took {gib(actual)} that are not in the budget, and {gib(max(0, left))} of the GPU stayed free"
    own = utilization(start, rank)
    fix = f"--gpu-memory-utilization {share:g} or less"
    if own is not None and share >= own:
        fix = f"--gpu-memory-utilization {own:g} as it is, and no more"
    yield Finding(OUTSIDE_THE_BUDGET.code, "warning", text, fix, rank.name)


def _share_outside(start: Start, rank: Rank) -> float:
    """The utilization with which half a GiB beside the graphs stays free on a rank; 1.0: it does not say."""
    total, actual = total_of(start, rank), rank.graph_actual_bytes
    free = rank.free_bytes if rank.free_bytes is not None else total
    if actual is None or free is None or not total:
        return 1.0
    return down((free - actual - LEAST_OUTSIDE) / total)


def _ranks_differ(start: Start) -> Iterator[Finding]:
    """Within an engine the least rank decides; engines of data parallelism have each a KV cache of its own."""
    engines: dict[str, list[Rank]] = {}
    for rank in start.ranks:
        engines.setdefault(engine_of(rank.name) or "", []).append(rank)
    for name, ranks in engines.items():
        yield from _least_decides(start, name, ranks)


def _least_decides(start: Start, engine: str, ranks: Sequence[Rank]) -> Iterator[Finding]:
    least = tightest(ranks)
    sized = [rank for rank in ranks if rank.kv_bytes is not None]
    if least is None or len(sized) < 2 or least.kv_bytes is None:
        return
    most = max(sized, key=lambda rank: rank.kv_bytes or 0)
    if (most.kv_bytes or 0) - least.kv_bytes <= DIFFER * abs(most.kv_bytes or 0):
        return
    text = (
        f"{least.name} has {gib(least.kv_bytes)} for the KV cache and {most.name} {gib(most.kv_bytes or 0)}:"
        f" {least.name} decides for all{f' of {engine}' if engine else ''}"
    )
    stages = argument(start, "pipeline_parallel_size") or start.engine.get("pipeline_parallel_size")
    has_stages = (isinstance(stages, int) and stages > 1) or any("PP" in rank.name for rank in ranks)
    fix = RANKS_DIFFER.instead if has_stages else "look at what else is in memory on the GPU of that rank"
    yield Finding(RANKS_DIFFER.code, "info", text, fix, least.name)


def _tokens(start: Start) -> Iterator[Finding]:
    """Tokens of one group of layers beside a concurrency of full requests."""
    tokens, times, length = start.kv_tokens, start.max_concurrency, start.concurrency_length
    if tokens is None or times is None or length is None:
        return
    whole = int(times * length)
    if whole > 1.1 * tokens:
        text = f"the line says {tokens:,} tokens; by the concurrency of {times:.2f} for {length:,} they are {whole:,}"
        fix = f"go by the concurrency: their product is no room of so many tokens in requests shorter than {length:,}"
        yield Finding(TOKENS_OF_HYBRID.code, "info", text, fix)
