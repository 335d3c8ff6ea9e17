"""The layers of a model in groups: every group has a block table of its own, and all draw blocks of one pool.

Source: vllm/v1/core/kv_cache_planning.py:416-558 and 1113-1200.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from ...errors import InputError, StartupError
from ...light_dataclass import dataclass
from ...trace import Finding, Rule
from ..kv_dtypes import dtype_bytes
from ..kv_specs import AttentionSpec, HiddenStateCacheSpec, KVCacheSpec, MambaSpec, MLAAttentionSpec
from .merge import Facts, UniformTypeKVCacheSpecs, are_alike, bundle, merged
from .packing import in_layer_tuples, packed
from .pages import one_page_size
from .promotion import full_allocation, without_hybrid_manager

if TYPE_CHECKING:
    from .layout import KVCacheLayout

GROUPS = Rule(
    "CG586",
    title="Layers that keep the same tokens share a block table: a KV cache group.",
    why="A sliding window frees blocks that full attention still needs. Groups are made about equally long, because a"
    " block has room for the longest.",
    example="gpt-oss-20b: 12 full and 12 sliding layers are two groups of 12.",
    instead="--disable-hybrid-kv-cache-manager makes one group, which keeps all tokens of all layers.",
    source="vllm/v1/core/kv_cache_planning.py:416-558",
)
PADDING_LAYERS = Rule(
    "CG575",
    title="Groups of unequal length waste the difference.",
    why="A block of the pool holds one page of each layer of the longest group; a shorter group leaves the rest empty.",
    example="10 full and 52 sliding layers: groups of 10, 9, 9, 9, 9, 8 and 8, and up to 15.38% wasted.",
    instead="Nothing: the layers are the model's. A draft model with layers of the rarer kind evens the groups out.",
    source="vllm/v1/core/kv_cache_planning.py:520-541",
)
GLM5_NEXT = Rule(
    "CG574",
    title="The grouping of GLM-5-Next on 0.30 and 0.31 is not modelled.",
    why="vLLM had a grouping for this one model; since 0.32 the packed layout serves it.",
    example="A model with Mamba layers, MLA layers and compressed indexer layers on 0.31.0.",
    instead="Ask with --assume-release 0.32.0 for an estimate.",
    source="vllm/v1/core/kv_cache_utils.py:1213-1290",
    since="0.30.0",
    until="0.31.0",
    release="0.31.0",
)

GroupSpec = KVCacheSpec | UniformTypeKVCacheSpecs
"""The spec of a group: one for all its layers, or a bundle of one each."""


@dataclass(frozen=True, eq=False)
class KVCacheGroup:
    """Layers that share a block table.

    Attributes:
        layer_names: in layer order; on one pipeline stage it may be empty.
        spec: of the layers.
    """

    layer_names: tuple[str, ...]
    spec: GroupSpec

    def spec_of(self, name: str) -> KVCacheSpec:
        """The spec of one layer."""
        return self.spec.specs[name] if isinstance(self.spec, UniformTypeKVCacheSpecs) else self.spec

    @property
    def layer_specs(self) -> tuple[KVCacheSpec, ...]:
        """The distinct specs of the group; a group without a bundle has one."""
        if isinstance(self.spec, UniformTypeKVCacheSpecs):
            return tuple(dict.fromkeys(self.spec.specs.values()))
        return (self.spec,)


def group_layers(
    specs: Mapping[str, KVCacheSpec],
    facts: Facts,
    layout: KVCacheLayout | None,
    hybrid_manager: bool,
    found: list[Finding],
) -> list[KVCacheGroup]:
    """The groups of a whole model, all pipeline stages together.

    Args:
        specs: layer name to spec, in the order in which the workers report them.
        facts: `kv_planning` of the release.
        layout: since 0.29, as resolved.
        hybrid_manager: False: the hybrid KV cache manager is off.
        found: takes warnings.

    Raises:
        StartupError: vLLM cannot group these layers.
        InputError: cgplan does not model it.
    """
    layers = dict(specs)
    if not hybrid_manager:
        layers = without_hybrid_manager(layers, facts, found)
    if not layers:
        return []
    common = merged(tuple(layers.values()), facts)
    if common is not None:
        return [KVCacheGroup(tuple(layers), common)]
    whole = bundle(layers, facts)
    if whole is not None:
        return [_of_bundle(whole)]
    if facts["packing"]["layer_tuples"]:
        tuples = in_layer_tuples(layers, facts)
        if tuples is not None:
            return [_of_bundle(part) for part in tuples]
    _refuse_glm5_next(layers.values(), facts)
    return _with_hidden_states(layers, facts, layout, found)


def _of_bundle(whole: UniformTypeKVCacheSpecs) -> KVCacheGroup:
    return KVCacheGroup(tuple(whole.specs), whole)


def _with_hidden_states(
    layers: dict[str, KVCacheSpec], facts: Facts, layout: KVCacheLayout | None, found: list[Finding]
) -> list[KVCacheGroup]:
    """Groups of pages of one size, or packed ones; each layer of hidden states is a group of its own."""
    hidden: dict[str, HiddenStateCacheSpec] = {}
    if facts["hidden_states"]["own_group"]:
        hidden = {name: spec for name, spec in layers.items() if isinstance(spec, HiddenStateCacheSpec)}
    others = {name: spec for name, spec in layers.items() if name not in hidden}
    if facts["packing"]["by_layout"] and layout is not None and layout.is_block_outermost and others:
        parts = packed(others, facts)
        if parts is not None:
            return [_of_bundle(part) for part in parts] + [KVCacheGroup((n,), s) for n, s in hidden.items()]
    try:
        others = one_page_size(others, facts)
    except StartupError as error:
        whole = full_allocation(layers, facts, found) if error.raised_as == "NotImplementedError" else None
        if whole is None:
            raise
        return [_of_bundle(whole)]
    groups = _dealt_out(others, facts, found)
    return _add_hidden_states(groups, hidden, facts) if hidden else groups


def _dealt_out(specs: dict[str, KVCacheSpec], facts: Facts, found: list[Finding]) -> list[KVCacheGroup]:
    """Groups of about as many layers; the layers of a kind are dealt out in turn, so that stages get some of each."""
    buckets = _buckets(specs, facts)
    shortest, longest = min(map(len, buckets)), max(map(len, buckets))
    # Padding the shorter kinds is better than twice the groups where the lengths are near.
    size = longest if longest < shortest * 1.5 else shortest
    groups = []
    for names in buckets:
        missing = -len(names) % size
        if missing:
            found.append(_padding(missing, len(names)))
        count = -(-len(names) // size)
        groups += [_group(names[i::count], specs, facts) for i in range(count)]
    return groups


def _padding(missing: int, layers: int) -> Finding:
    percent = missing / layers * 100
    return Finding(
        PADDING_LAYERS.code,
        "warning",
        f"{missing} padding layers may waste at most {percent:.2f}% of the KV cache memory",
        PADDING_LAYERS.instead,
    )


def _group(names: Sequence[str], specs: Mapping[str, KVCacheSpec], facts: Facts) -> KVCacheGroup:
    spec = merged([specs[name] for name in names], facts)
    assert spec is not None
    return KVCacheGroup(tuple(names), spec)


def _buckets(specs: Mapping[str, KVCacheSpec], facts: Facts) -> list[list[str]]:
    """Layer names by spec; since 0.27.1 of specs that merge."""
    equal: dict[KVCacheSpec, list[str]] = {}
    for name, spec in specs.items():
        equal.setdefault(spec, []).append(name)
    if not facts["merging"]["buckets_of_alike"]:
        return list(equal.values())
    buckets: list[tuple[list[KVCacheSpec], list[str]]] = []
    for spec, names in equal.items():
        for kinds, members in buckets:
            if are_alike([*kinds, spec], facts):
                kinds.append(spec)
                members += names
                break
        else:
            buckets.append(([spec], list(names)))
    return [members for _, members in buckets]


def _add_hidden_states(
    groups: list[KVCacheGroup], hidden: Mapping[str, HiddenStateCacheSpec], facts: Facts
) -> list[KVCacheGroup]:
    """The groups, and one a layer of hidden states, in blocks that fit their page."""
    how = facts["hidden_states"]
    needs = {n: s.num_kv_heads * s.head_size * dtype_bytes(s.dtype) for n, s in hidden.items()}
    scale = -(-max(needs.values()) // groups[0].spec.page_size_bytes) if how["scales_page"] else 1
    if scale > 1:
        groups = [_scaled(group, scale) for group in groups]
    page = groups[0].spec.page_size_bytes
    common = gcd(*(group.spec.block_size for group in groups))
    for name, spec in hidden.items():
        size = max(page // needs[name], 1)
        if how["block_size_divides"]:
            size = next(n for n in range(min(size, common), 0, -1) if common % n == 0)
        groups = [*groups, KVCacheGroup((name,), replace(spec, block_size=size, page_size_padded=page))]
    return groups


def _scaled(group: KVCacheGroup, scale: int) -> KVCacheGroup:
    spec = group.spec
    assert isinstance(spec, KVCacheSpec)
    grown = spec.copy_with_new_block_size(spec.block_size * scale)
    if isinstance(grown, (AttentionSpec, MambaSpec)) and grown.page_size_padded is not None:
        grown = replace(grown, page_size_padded=grown.page_size_padded * scale)
    return KVCacheGroup(group.layer_names, grown)


def _refuse_glm5_next(specs: Iterable[KVCacheSpec], facts: Facts) -> None:
    if not facts["blocks"]["glm5_next"]:
        return
    kinds = tuple(specs)
    attention = [spec for spec in kinds if isinstance(spec, AttentionSpec)]
    if (
        any(isinstance(spec, MambaSpec) for spec in kinds)
        and all(type(spec) is MLAAttentionSpec for spec in attention)
        and any(spec.tokens_per_state > 1 for spec in attention)
    ):
        raise InputError(
            "the KV cache of Mamba layers beside a compressed indexer is not modelled for this release",
            code=GLM5_NEXT.code,
            where="--model",
            fix=GLM5_NEXT.instead,
        )
