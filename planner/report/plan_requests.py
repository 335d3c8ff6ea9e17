"""What `cgplan plan` says of a request: the bytes of a token, how many fit at once, the blocks by group of layers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..memory.capacity_plan import CapacityPlan
from ..memory.estimates import GIB, MIB
from ..memory.kv.cache_plan import KVCachePlan, PlannedGroup
from ..memory.kv.groups import GroupSpec
from ..memory.kv.merge import UniformTypeKVCacheSpecs
from ..memory.kv.token_bytes import growing, keeps_all, token_bytes
from ..memory.kv_dtypes import dtype_bytes
from ..memory.kv_specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

KIB = 1024
_LAYER = re.compile(r"^.*?\blayers\.[0-9]+")


def request_lines(made: CapacityPlan, plan: KVCachePlan) -> Iterator[tuple[str, str]]:
    """Lines of a plan whose KV cache has a size: a name and what it is."""
    token = _token(made, plan)
    if token:
        yield "A token", token
    if len(plan.groups) > 1:
        yield "A request", _by_group(plan)
        yield "Groups", _groups(plan)


def queue_line(made: CapacityPlan, plan: KVCachePlan) -> str:
    """Whether all the requests that --max-num-seqs lets in may be as long as they can be; "": they may."""
    asked, held = made.resolution.max_num_seqs, int(plan.max_concurrency or 0)
    if not held or held >= asked:
        return ""
    return f"{held:,} of the full length; of {asked:,} such (--max-num-seqs) the rest wait"


def _token(made: CapacityPlan, plan: KVCachePlan) -> str:
    """The bytes of a further token, and what they are made of; "" where requests do not grow."""
    size, group = token_bytes(plan), growing(plan)
    if size is None or group is None:
        return ""
    stage = plan.bytes_per_block.index(max(plan.bytes_per_block))
    formula, counted = _formula(group, group.layers_per_stage[stage])
    text = f"{size / KIB:,.4g} KiB{' of each GPU' if made.deployment.tensor_parallel_size > 1 else ''}"
    if formula:
        text += f": {formula}" + ("" if counted == size else ", with padding")
    else:
        noun = "caches" if _has_several_caches(plan) else "layers"
        text += f": the sum of {group.layers_per_stage[stage]} {noun} of several kinds"
    if len(plan.groups) > 1:
        text += "; other groups do not grow"
    shards = made.deployment.decode_context_parallel_size
    if shards > 1:
        text += f"; a rank keeps one token of {shards}"
    stored = made.deployment.quantization or made.deployment.model.quantization
    return f"{text}; --kv-cache-dtype changes it, not --quantization" if stored else text


def _formula(group: PlannedGroup, layers: int) -> tuple[str, int]:
    """The product that gives the bytes of a token, as text and as a number; "" for layers that differ."""
    spec = group.spec
    if not isinstance(spec, AttentionSpec) or spec.tokens_per_state != 1:
        return "", 0
    heads = f" x {spec.num_heads} heads" if spec.num_heads > 1 else ""
    said = f"{layers} layers{heads}"
    if spec.state_content_bytes is not None:
        return f"{said} x {spec.state_content_bytes} bytes", layers * spec.num_heads * spec.state_content_bytes
    key, value = spec.head_size, spec.head_size_v or 0
    elements = f"{key}" if not value else f"{key} x 2" if key == value else f"({key} + {value})"
    wide = dtype_bytes(spec.dtype)
    kind = "1 byte" if wide == 1 else f"{wide} bytes ({spec.dtype})"
    return f"{said} x {elements} x {kind}", layers * spec.num_heads * (key + value) * wide


def _by_group(plan: KVCachePlan) -> str:
    """The blocks of a request of the full length, by group, and what even the shortest takes."""
    counts = [group.blocks_per_request for group in plan.groups]
    each = " + ".join(f"{count:,}" for count in counts)
    text = f"{each} = {sum(counts):,} blocks at the full length"
    states = sum(group.blocks_per_request for group in plan.groups if _is_state(group))
    others = sum(not _is_state(group) for group in plan.groups)
    size = max(plan.bytes_per_block, default=0)
    if states:
        text += f"; {states:,} of them, {_size(states * size)}, are states of any request"
    least = states + others
    return f"{text}; the shortest takes {least:,}, {_size(least * size)}"


def _groups(plan: KVCachePlan) -> str:
    """The groups of layers: those alike in one part, with what they keep and the blocks of a request."""
    parts: dict[tuple[str, int], list[int]] = {}
    noun_of = "caches" if _has_several_caches(plan) else "layers"
    for group in plan.groups:
        kind = f"{noun_of}{_kind(group.spec)}"
        parts.setdefault((kind, group.blocks_per_request), []).append(len(group.layer_names))
    said = []
    for (kind, blocks), layers in parts.items():
        sizes = sorted(set(layers), reverse=True)
        count, each = (f"{len(layers)} x ", " each") if len(layers) > 1 else ("", "")
        noun = "block" if blocks == 1 else "blocks"
        said.append(f"{count}{' or '.join(map(str, sizes))} {kind}, {blocks:,} {noun}{each}")
    text = "; ".join(said)
    if noun_of == "caches":
        text += "; a layer has several caches"
    if any(_is_state(group) for group in plan.groups):
        text += f"; a block is as large as a state, so it holds {tokens_of_blocks(plan)}"
    return text


def _has_several_caches(plan: KVCachePlan) -> bool:
    """Whether a layer has a cache in several groups, such as an indexer's beside its own."""
    found = [_LAYER.search(name) for group in plan.groups for name in group.layer_names]
    numbers = [one[0] for one in found if one is not None]
    return len(set(numbers)) < len(numbers)


def _kind(spec: GroupSpec) -> str:
    """What the layers of a group keep; those with specs of their own, what they have in common."""
    if isinstance(spec, UniformTypeKVCacheSpecs):
        kinds = {_kind(one) for one in spec.specs.values()}
        return kinds.pop() if len(kinds) == 1 else " that keep every token" if keeps_all(spec) else ""
    if isinstance(spec, MambaSpec):
        return " with a state"
    if isinstance(spec, SlidingWindowSpec):
        return f" with a window of {spec.sliding_window:,}"
    if isinstance(spec, ChunkedLocalAttentionSpec):
        return f" with chunks of {spec.attention_chunk_size:,}"
    if isinstance(spec, MLAAttentionSpec):
        return " of MLA that keep every token"
    return " that keep every token" if isinstance(spec, FullAttentionSpec) else ""


def tokens_of_blocks(plan: KVCachePlan) -> str:
    """Tokens of a block. Attention's are made as large as a state, which short requests pay for."""
    sizes = sorted({group.spec.block_size for group in plan.groups if not _is_state(group)} or {plan.block_size})
    return f"{' or '.join(f'{size:,}' for size in sizes)} tokens"


def _is_state(group: PlannedGroup) -> bool:
    return isinstance(group.spec, MambaSpec)


def _size(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB // 10 else f"{size / MIB:.0f} MiB"
