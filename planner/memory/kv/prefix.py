"""Where a prefix may be found again: the token steps of the scheduler, of the block hashes and of the hits.

Source: vllm/v1/core/kv_cache_utils.py:740-950.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from ...errors import StartupError
from ...light_dataclass import dataclass
from ...trace import Rule
from ..kv_specs import AttentionSpec, FullAttentionSpec, KVCacheSpec, MambaSpec
from .merge import Facts

GROUPS_UNDER_CP = Rule(
    "CG582",
    title="Until 0.25 context parallelism needed a single KV cache group.",
    why="The scheduler had no block size for groups that are sharded differently.",
    example="gemma-3-27b-it with --decode-context-parallel-size 2 does not start on 0.25.1.",
    instead="Leave --decode-context-parallel-size out, or run 0.26 or later.",
    source="vllm/v1/core/kv_cache_utils.py:634-638",
    since="0.20.2",
    until="0.25.1",
    release="0.25.1",
)
COMPRESSION = Rule(
    "CG583",
    title="A prefix must end where a compressed state ends.",
    why="A state of several tokens cannot be shared in part.",
    example="DeepSeek V4 with blocks shorter than the 128 tokens of its most compressed layers.",
    instead="Leave --block-size out.",
    source="vllm/v1/core/kv_cache_utils.py:899-917",
    since="0.29.0",
)


@dataclass(frozen=True)
class PrefixSteps:
    """Steps in tokens.

    Attributes:
        scheduler: what the scheduler rounds computed tokens to.
        hashes: of the block hashes.
        hits: a prefix is found again in multiples of this many tokens.
    """

    scheduler: int
    hashes: int
    hits: int


def prefix_steps(
    groups: Sequence[KVCacheSpec],
    block_size: int,
    context_shards: int,
    prefix_caching: bool,
    has_connector: bool,
    facts: Facts,
) -> PrefixSteps:
    """The steps of a server whose groups have these specs.

    Args:
        groups: of the scheduler: a bundle stands for its first layer.
        block_size: cache_config.block_size at the end.
        context_shards: ranks that share a request's tokens.
        prefix_caching, has_connector: who reads the hashes.

    Raises:
        StartupError: CG582, CG583.
    """
    how = facts["prefix_cache"]
    if len(groups) <= 1 or not how["resolved"]:
        sharded = context_shards if not groups or _is_sharded(groups[0], facts) else 1
        return PrefixSteps(*(block_size * sharded,) * 3)
    if context_shards > 1 and how["refuses_context_parallel_groups"]:
        raise _refused(GROUPS_UNDER_CP, "context parallelism does not work with several KV cache groups", facts)
    sizes = [_span(spec, context_shards, facts) for spec in groups]
    whole = lcm(*sizes)
    if not (prefix_caching or has_connector) or any(_is_unaligned(spec, block_size, facts) for spec in groups):
        return PrefixSteps(whole, whole, whole)
    hashed = [size for size, spec in zip(sizes, groups, strict=True) if spec.prefix_cacheable] or sizes
    hashes = gcd(*hashed)
    partial = any(_is_partial(spec, hashes, context_shards) for spec in groups)
    if how["checks_compression"]:
        _check_compression(groups, hashes if partial else whole, facts)
    fine = partial and how["fine_hits"] and prefix_caching
    if fine:
        fine = all(_takes_parts(spec) or size == hashes for spec, size in zip(groups, sizes, strict=True))
    return PrefixSteps(whole, hashes, hashes if fine else whole)


def _is_sharded(spec: KVCacheSpec, facts: Facts) -> bool:
    return spec.dcp_sharded if facts["merging"]["compares_dcp_sharding"] else True


def _span(spec: KVCacheSpec, context_shards: int, facts: Facts) -> int:
    """Tokens that a block covers over all ranks."""
    spread = {
        "sharded": spec.dcp_sharded,
        "full": isinstance(spec, FullAttentionSpec),
        "attention": isinstance(spec, AttentionSpec),
        "none": False,
    }
    return spec.block_size * (context_shards if spread[facts["prefix_cache"]["spread"]] else 1)


def _is_unaligned(spec: KVCacheSpec, block_size: int, facts: Facts) -> bool:
    if not isinstance(spec, MambaSpec):
        return False
    if facts["prefix_cache"]["unaligned_states"] == "by mode":
        return spec.mamba_cache_mode != "align"
    return spec.block_size != block_size


def _is_partial(spec: KVCacheSpec, hashes: int, context_shards: int) -> bool:
    """Whether the states of the group are found within a block."""
    if not isinstance(spec, MambaSpec) or spec.mamba_cache_mode != "align":
        return False
    return spec.block_size > hashes if context_shards == 1 else spec.block_size >= hashes


def _takes_parts(spec: KVCacheSpec) -> bool:
    return not spec.prefix_cacheable or isinstance(spec, (FullAttentionSpec, MambaSpec))


def _check_compression(groups: Sequence[KVCacheSpec], step: int, facts: Facts) -> None:
    for spec in groups:
        if isinstance(spec, AttentionSpec) and spec.prefix_cacheable and step % max(spec.tokens_per_state, 1):
            message = f"prefixes end every {step} tokens, a compressed state every {spec.tokens_per_state}"
            raise _refused(COMPRESSION, message, facts)


def _refused(rule: Rule, message: str, facts: Facts) -> StartupError:
    return StartupError(
        message,
        code=rule.code,
        stage="initialize_kv_caches" if facts["prefix_cache"]["within_sizing"] else "init_scheduler",
        raised_as="ValueError",
        raised_in="resolve_kv_cache_block_sizes",
        where="--decode-context-parallel-size" if rule is GROUPS_UNDER_CP else "--block-size",
        fix=rule.instead,
    )
