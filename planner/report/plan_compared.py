"""Two plans side by side, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator

from ..memory.capacity_plan import CapacityPlan
from ..memory.estimates import GIB
from .plan_words import gib, signed


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
            ("graph estimate taken off", one.deducted, two.deducted),
            ("graphs, capture takes", one.graphs, two.graphs),
            ("KV cache", one.held, two.held),
            ("free while idle", one.unused, two.unused),
        ]
        for name, a, b in pairs:
            more = _difference(a.best, b.best)
            rows.append((f"{name}, GiB", gib(a.best), gib(b.best), more))
    for name, left, right in _cache_pairs(first, second):
        more = f"{right - left:+,.10g}" if left is not None and right is not None and left != right else ""
        rows.append((name, _plain(left), _plain(right), more))
    return rows


def _difference(a: int, b: int) -> str:
    """Of the two numbers as they stand beside it."""
    if a == b:
        return ""
    if abs(b - a) < GIB // 10:
        return signed(b - a)
    return f"{round(b / GIB, 2) - round(a / GIB, 2):+.2f} GiB"


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
    longest = [one.max_model_len_that_surely_starts or None for one in (first, second)]
    yield "longest that starts", longest[0], longest[1]
    most = [one.max_num_seqs_that_surely_starts or None for one in (first, second)]
    yield "largest max_num_seqs that starts", most[0], most[1]
    yield "CUDA graphs, number", first.resolution.graph_count(), second.resolution.graph_count()


def _rounded(value: float | None) -> float | None:
    return round(value, 2) if isinstance(value, float) else value


def _plain(value: float | None) -> str:
    return "none" if value is None else f"{value:,}"
