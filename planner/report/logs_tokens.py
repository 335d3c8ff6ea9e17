"""What a token of the KV cache takes by the log, and by the plan of it; what tokens mean where layers differ."""

from __future__ import annotations

from ..memory.kv.token_bytes import token_bytes
from ..startup.analysis import StartReport
from ..startup.findings import has_gated_delta_name
from ..startup.known import deducts, sized, tightest
from ..startup.record import Rank, Start
from ..startup.requests import cache_of, is_aligned
from .plan_requests import KIB, request_lines

FROM_THE_PLAN = ("A token", "A request", "Groups")
NEAR = 0.02
"""Bytes of a token by the log and by the shape that are nearer than that share are the same."""
BLOCK = 16
"""Tokens of a block, where nothing sets it otherwise."""


def token_rows(report: StartReport) -> list[tuple[str, str]]:
    """Rows below that of the KV cache; (): the log does not say how many tokens it holds."""
    start, comparison = report.start, report.comparison
    rank = tightest(start.ranks)
    if not start.kv_tokens or rank is None or not rank.kv_bytes or rank.kv_bytes <= 0:
        return []
    plan = cache_of(start, comparison)
    groups = len(plan.groups) if plan is not None else 2 if has_groups(start) else 1
    rows = []
    if groups > 1:
        rows.append(("", _several(start)))
    elif (sized(start, "pipeline_parallel_size") or 1) == 1:
        shape = token_bytes(plan) if plan is not None else None
        rows.append(("", _each(start, rank, rank.kv_bytes / start.kv_tokens, shape)))
    made = comparison.plan if comparison is not None else None
    if made is not None and plan is not None:
        rows += [(name, text) for name, text in request_lines(made, plan) if name in FROM_THE_PLAN]
    return [(name, text) for name, text in rows if text]


def has_groups(start: Start) -> bool:
    """Whether the log shows that layers of several kinds share the KV cache."""
    if is_aligned(start) or has_gated_delta_name(start):
        return True
    if any("padding layers, may waste" in message.text for message in start.messages):
        return True
    tokens, times, length = start.kv_tokens, start.max_concurrency, start.concurrency_length
    if tokens is not None and times and length and int(times * length) > 1.1 * tokens:
        return True
    shards = sized(start, "decode_context_parallel_size") or 1
    blocks = start.num_gpu_blocks
    return bool(tokens and blocks and shards == 1 and blocks * (start.block_size or BLOCK) > 1.1 * tokens)


def _several(start: Start) -> str:
    tokens, times, length = start.kv_tokens or 0, start.max_concurrency, start.concurrency_length
    if times is None or length is None or not 0.9 < tokens / max(1.0, times * length) < 1.1:
        return ""
    return (
        f"tokens are the concurrency times the length, {times:.2f} x {length:,}, and no room of so many: layers of"
        " several kinds share the blocks, so requests are the figure to use"
    )


def _each(start: Start, rank: Rank, each: float, shape: int | None) -> str:
    several = len(start.ranks) > 1 or (sized(start, "tensor_parallel_size") or 1) > 1
    text = f"{each / KIB:,.1f} KiB a token{' of each GPU' if several else ''} by the log"
    estimate = rank.graph_estimate_bytes
    if estimate and estimate > 0 and deducts(start, rank):
        text += f"; the graphs' estimate is {estimate / each:,.0f} tokens"
    if shape is None:
        return text
    if abs(each - shape) <= NEAR * shape:
        return f"{text}, as the model's shape has it"
    return f"{text}, and the model's shape has {shape / KIB:,.1f}: another KV cache dtype, layout or model"
