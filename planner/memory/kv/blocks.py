"""Blocks: the bytes of one block of a rank's pool, and the blocks that one request needs.

Source: vllm/v1/core/kv_cache_planning.py:574-641 and 1254-1286; until 0.28 vllm/v1/core/kv_cache_utils.py:950-972 and
1801-1860 @ 0.25.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import gcd, lcm
from typing import TYPE_CHECKING

from ...errors import StartupError
from ...light_dataclass import dataclass
from ...trace import Rule
from ..kv_specs import AttentionSpec, KVCacheSpec, MambaSpec, RequestLimits, SlidingWindowSpec
from .groups import GroupSpec, KVCacheGroup
from .layout import check_expressible
from .merge import Facts, UniformTypeKVCacheSpecs

if TYPE_CHECKING:
    from .layout import KVCacheLayout

POOL = Rule(
    "CG584",
    title="A block of the KV cache holds a page of each layer of the longest group.",
    why="All groups draw blocks of one pool, so a block must do for any of them.",
    example="32 layers, 8 KV heads of 128 in bfloat16, blocks of 16: 32 pages of 65,536 bytes, 2 MiB a block.",
    instead="Nothing: it follows from the model, --block-size and --kv-cache-dtype.",
    source="vllm/v1/core/kv_cache_planning.py:574-605",
)
SLIDING_UNDER_DCP = Rule(
    "CG564",
    title="Decode context parallelism cannot shard a sliding window.",
    why="The window moves over the ranks that hold the tokens; vLLM asserts that it does not.",
    example="DeepSeek-V4-Pro with --decode-context-parallel-size 8 does not start.",
    instead="Leave --decode-context-parallel-size out.",
    source="vllm/v1/kv_cache_interface.py:946-950",
)
EMPTY_PAGE = Rule(
    "CG565",
    title="A block must hold at least one state.",
    why="Compressed layers store one state for several tokens; a shorter block stores none, and vLLM divides by zero.",
    example="DeepSeek-V4-Flash with --block-size 8: its compressed layers store a state for 128 tokens.",
    instead="Leave --block-size out.",
    source="vllm/v1/kv_cache_interface.py:1381-1385",
)

_STAGE = "initialize_kv_caches"


@dataclass(frozen=True)
class PoolRules:
    """What the size of a block depends on besides the groups.

    Attributes:
        facts: `kv_planning` of the release.
        layout: since 0.29, as resolved.
        decode_context_parallel_size: ranks that share the tokens of a request.
    """

    facts: Facts
    layout: KVCacheLayout | None = None
    decode_context_parallel_size: int = 1


def project(groups: Iterable[KVCacheGroup], stage: Mapping[str, KVCacheSpec]) -> list[KVCacheGroup]:
    """The groups as a rank of one pipeline stage has them; a group may have no layer there."""
    found = []
    for group in groups:
        names = tuple(name for name in group.layer_names if name in stage)
        spec = group.spec
        if names and isinstance(spec, UniformTypeKVCacheSpecs):
            spec = UniformTypeKVCacheSpecs(spec.block_size, {name: spec.specs[name] for name in names})
        found.append(KVCacheGroup(names, spec))
    return found


def bytes_per_block(groups: Sequence[KVCacheGroup], rules: PoolRules) -> int:
    """Bytes of one block of the pool that all groups of a rank share.

    Raises:
        StartupError: the layout cannot hold the groups.
    """
    if rules.layout is not None:
        pages = {group.spec_of(name).page_size_bytes for group in groups for name in group.layer_names}
        check_expressible(rules.layout, pages, len(groups))
    how = rules.facts["blocks"]
    if how["widest_group"]:
        return _widest(groups, rules)
    first = groups[0].spec
    if len(groups) == 1 and isinstance(first, UniformTypeKVCacheSpecs):
        return first.page_size_bytes
    if all(isinstance(group.spec, UniformTypeKVCacheSpecs) for group in groups):
        return _BUNDLES[how["bundles"]](groups)
    return first.page_size_bytes * max(len(group.layer_names) for group in groups)


def _widest(groups: Sequence[KVCacheGroup], rules: PoolRules) -> int:
    """The bytes of the group that needs most, and the padding of its strides."""
    aligns, layout = rules.facts["blocks"]["aligns"], rules.layout
    if aligns == "layer" and not (layout is not None and layout.is_block_outermost):
        return max(sum(_stride(group.spec_of(name)) for name in group.layer_names) for group in groups)
    size = _widest_pages(groups)
    if aligns == "no":
        return size
    multiple = lcm(*(g.spec_of(name).stride_alignment_bytes for g in groups for name in g.layer_names))
    return _round_up(size, multiple)


def _stride(spec: KVCacheSpec) -> int:
    return _round_up(spec.page_size_bytes, spec.stride_alignment_bytes)


def _widest_pages(groups: Sequence[KVCacheGroup]) -> int:
    return max(sum(group.spec_of(name).page_size_bytes for name in group.layer_names) for group in groups)


def _slots(groups: Sequence[KVCacheGroup]) -> int:
    """For each page size the most layers that a group has of it."""
    most: dict[int, int] = {}
    for group in groups:
        counts: dict[int, int] = {}
        for name in group.layer_names:
            page = group.spec_of(name).page_size_bytes
            counts[page] = counts.get(page, 0) + 1
        for page, count in counts.items():
            most[page] = max(most.get(page, 0), count)
    return sum(page * count for page, count in most.items())


def _tuples(groups: Sequence[KVCacheGroup]) -> int:
    """A page of each size of the first group, times the most layers of a size in any group."""
    bundles = [group.spec for group in groups if isinstance(group.spec, UniformTypeKVCacheSpecs)]
    return sum(bundles[0].page_sizes()) * max(part.most_layers_of_one_page_size() for part in bundles)


_BUNDLES = {"widest": _widest_pages, "slots": _slots, "tuples": _tuples}


def blocks_of_request(spec: GroupSpec, limits: RequestLimits, rules: PoolRules) -> int:
    """The most blocks that one request takes of a group.

    Raises:
        StartupError: CG564, CG565.
    """
    if isinstance(spec, UniformTypeKVCacheSpecs):
        return max(_blocks_of_layer(part, limits, rules) for part in dict.fromkeys(spec.specs.values()))
    return _blocks_of_layer(spec, limits, rules)


def _blocks_of_layer(spec: KVCacheSpec, limits: RequestLimits, rules: PoolRules) -> int:
    how = rules.facts["blocks"]
    is_sharded = rules.decode_context_parallel_size > 1 and (spec.dcp_sharded or not how["sliding_asks_sharding"])
    if isinstance(spec, SlidingWindowSpec) and is_sharded:
        message = "decode context parallelism cannot shard a sliding window"
        raise _refused(SLIDING_UNDER_DCP, message, "AssertionError")
    if spec.page_size_bytes == 0:
        message = f"a block of {spec.block_size} tokens holds no state of a compressed layer"
        raise _refused(EMPTY_PAGE, message, "ZeroDivisionError")
    if isinstance(spec, MambaSpec) and limits.mamba_cache_mode == "all" and not how["all_mode_counts_drafts"]:
        spec = replace(spec, num_speculative_blocks=0)
    return spec.max_blocks(limits)


def _refused(rule: Rule, message: str, raised_as: str) -> StartupError:
    return StartupError(
        message,
        code=rule.code,
        stage=_STAGE,
        raised_as=raised_as,
        raised_in="max_memory_usage_bytes" if rule is SLIDING_UNDER_DCP else "cdiv",
        where="--decode-context-parallel-size" if rule is SLIDING_UNDER_DCP else "--block-size",
        fix=rule.instead,
    )


def bytes_of_request(groups: Sequence[KVCacheGroup], limits: RequestLimits, rules: PoolRules) -> int:
    """Bytes of the pool that the longest request keeps from others.

    Raises:
        StartupError: CG564, CG565.
    """
    return _request_bytes(groups, rules)(limits)


def _request_bytes(groups: Sequence[KVCacheGroup], rules: PoolRules) -> Callable[[RequestLimits], int]:
    """`bytes_of_request` for many lengths: the bytes of a block do not depend on them."""
    how, first = rules.facts["blocks"], groups[0].spec
    if not how["widest_group"]:
        if len(groups) == 1 and isinstance(first, UniformTypeKVCacheSpecs):
            parts = [part for part in first.specs.values() if part.page_size_bytes]
            return lambda limits: sum(_blocks_of_layer(part, limits, rules) * part.page_size_bytes for part in parts)
        if all(isinstance(group.spec, UniformTypeKVCacheSpecs) for group in groups):
            tuples = _tuples(groups)
            return lambda limits: tuples * sum(blocks_of_request(group.spec, limits, rules) for group in groups)
    block = bytes_per_block(groups, rules)
    return lambda limits: block * sum(blocks_of_request(group.spec, limits, rules) for group in groups)


def longest_request(groups: Sequence[KVCacheGroup], available: int, limits: RequestLimits, rules: PoolRules) -> int:
    """The longest request of up to `limits.max_model_len` tokens that `available` bytes hold; 0: not one token.

    Raises:
        StartupError: CG564, CG565.
    """
    bytes_of = _request_bytes(groups, rules)

    def fits(length: int) -> bool:
        return bytes_of(replace(limits, max_model_len=length)) <= available

    low, high = 0, limits.max_model_len
    if not fits(1):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def tensor_parallel_replicas(specs: Iterable[KVCacheSpec], tensor_parallel_size: int, rules: PoolRules) -> int:
    """Neighbouring tensor parallel ranks that hold the same cache; 1: none."""
    layers = tuple(specs)
    if not layers or not rules.facts["capacity"]["tp_replicas"]:
        return 1
    dcp = rules.decode_context_parallel_size
    return reduce(gcd, (_replicas(spec, tensor_parallel_size, dcp) for spec in layers), tensor_parallel_size)


def _replicas(spec: KVCacheSpec, tensor_parallel_size: int, dcp: int) -> int:
    if not isinstance(spec, AttentionSpec) or spec.max_tp_shards is None or (spec.dcp_sharded and dcp > 1):
        return 1
    return max(1, tensor_parallel_size // spec.max_tp_shards)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
