"""Groups of layers whose pages differ in size and lie side by side in one block: DeepSeek V4, and since 0.29 any model
whose layout has the blocks outermost.

Source: vllm/v1/core/kv_cache_planning.py:879-1041; until 0.28 vllm/v1/core/kv_cache_utils.py:1499-1670 @ 0.25.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import StartupError
from ...light_dataclass import dataclass
from ...trace import Rule
from ..kv_specs import (
    AttentionSpec,
    CircularBufferSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from .merge import Facts, UniformTypeKVCacheSpecs, bundle, is_same_type

LAYERS_LOST = Rule(
    "CG573",
    title="Packed groups must take all layers.",
    why="Windows or states of different page sizes are dealt out in whole repeats; a rest has no place, and vLLM"
    " asserts that there is none.",
    example="Sliding layers of two page sizes, of one more than of the other, beside full layers of a third.",
    instead="Choose a layout with the layers outermost: VLLM_KV_CACHE_LAYOUT=LBNHC, where the backends take it.",
    source="vllm/v1/core/kv_cache_planning.py:1218-1234",
    since="0.29.0",
)

NO_TUPLES = Rule(
    "CG587",
    title="Until 0.28 the windows of DeepSeek V4 must pair with its full layers.",
    why="Layers were laid out in tuples, one of each page size. No place is left for a window whose page exceeds"
    " every full page, nor for page sizes of unequally many layers.",
    example="DeepSeek-V4-Flash with --block-size 128 stops with an AssertionError on 0.25.1.",
    instead="Leave --block-size out.",
    source="vllm/v1/core/kv_cache_utils.py:1626-1652",
    since="0.20.2",
    until="0.28.0",
    release="0.25.1",
)


@dataclass(frozen=True, eq=False)
class _Bucket:
    """Layers of one type, before they are split."""

    whole: UniformTypeKVCacheSpecs

    @property
    def pages(self) -> dict[int, list[str]]:
        return self.whole.by_page_size()

    @property
    def is_balanced(self) -> bool:
        """Whether each page size has as many layers: the layers repeat a pattern."""
        return len({len(names) for names in self.pages.values()}) == 1

    def widest(self, parts: int) -> int:
        """Bytes of the largest of `parts` parts."""
        return sum(_cdiv(len(names), parts) * page for page, names in self.pages.items())

    def split(self, parts: int, facts: Facts) -> list[UniformTypeKVCacheSpecs]:
        """The layers dealt out in turn, whole repeats of the pattern at a time."""
        if parts == 1:
            return [self.whole]
        repeats = list(zip(*self.pages.values(), strict=False))
        found = []
        for i in range(parts):
            names = [name for repeat in repeats[i::parts] for name in repeat]
            part = bundle({name: self.whole.specs[name] for name in names}, facts)
            assert part is not None
            found.append(part)
        return found


def packed(specs: Mapping[str, KVCacheSpec], facts: Facts) -> list[UniformTypeKVCacheSpecs] | None:
    """The groups where the blocks are outermost; None where all pages have one size."""
    if len({spec.page_size_bytes for spec in specs.values()}) <= 1:
        return None
    buckets = [_Bucket(whole) for whole in _buckets(specs, facts)]
    repeats = _repeats_per_group(buckets)
    parts = [_parts(bucket, repeats) for bucket in buckets]
    states = [_is_state(bucket.whole.first_spec, repeats, facts) for bucket in buckets]
    # What a block must hold however the states are split: they may go down to one a group.
    anchor = max(
        bucket.widest(len(bucket.whole.specs) if is_state else part)
        for bucket, part, is_state in zip(buckets, parts, states, strict=True)
    )
    groups = []
    for bucket, part, is_state in zip(buckets, parts, states, strict=True):
        if anchor and is_state:
            fitting = max(anchor // bucket.whole.first_spec.page_size_bytes, 1)
            part = max(part, _cdiv(len(bucket.whole.specs), fitting))
        groups += bucket.split(part, facts)
    if sum(len(group.specs) for group in groups) != len(specs):
        raise StartupError(
            "layers of different page sizes cannot be split into groups evenly",
            code=LAYERS_LOST.code,
            stage="initialize_kv_caches",
            raised_as="AssertionError",
            raised_in="_check_exact_partition",
            where="--model",
            fix=LAYERS_LOST.instead,
        )
    return groups


def _buckets(specs: Mapping[str, KVCacheSpec], facts: Facts) -> list[UniformTypeKVCacheSpecs]:
    found: list[UniformTypeKVCacheSpecs] = []
    for name, spec in specs.items():
        for bucket in found:
            if is_same_type(bucket.first_spec, spec, facts):
                bucket.specs[name] = spec
                break
        else:
            found.append(UniformTypeKVCacheSpecs(spec.block_size, {name: spec}))
    return found


def _repeats_per_group(buckets: Sequence[_Bucket]) -> int | None:
    """Repeats of the layer pattern that each group takes; None where no pattern mixes page sizes."""
    balanced = [bucket for bucket in buckets if bucket.is_balanced]
    mixed = [b.whole.most_layers_of_one_page_size() for b in balanced if len(b.pages) > 1]
    if not mixed:
        return None
    return approximate_gcd([b.whole.most_layers_of_one_page_size() for b in balanced], at_least=max(mixed))


def _parts(bucket: _Bucket, repeats: int | None) -> int:
    if repeats is None or not bucket.is_balanced:
        return 1
    return _cdiv(bucket.whole.most_layers_of_one_page_size(), repeats)


def _is_state(spec: KVCacheSpec, repeats: int | None, facts: Facts) -> bool:
    if isinstance(spec, MambaSpec):
        return True
    if not facts["packing"]["splits_windows"]:
        return False
    return isinstance(spec, CircularBufferSpec) or (repeats is None and isinstance(spec, SlidingWindowSpec))


def approximate_gcd(values: Sequence[int], *, at_least: int) -> int:
    """The size from `at_least` up to the largest value that needs the least padding; of several the largest."""
    sizes = range(max(at_least, 1), max(values) + 1)
    if not sizes:
        return max(at_least, 1)
    return min(sizes, key=lambda size: (sum(-value % size for value in values), -size))


def in_layer_tuples(specs: Mapping[str, KVCacheSpec], facts: Facts) -> list[UniformTypeKVCacheSpecs] | None:
    """DeepSeek V4's groups until 0.28: a full group, and sliding groups of as many layers of each page size."""
    if not any(isinstance(spec, SlidingWindowMLASpec) for spec in specs.values()):
        return None
    if facts["packing"]["tuples_need_mixed_pages"] and len({s.page_size_bytes for s in specs.values()}) <= 1:
        return None
    full: dict[str, KVCacheSpec] = {}
    sliding: dict[tuple[int, int], dict[str, KVCacheSpec]] = {}
    for name, spec in specs.items():
        if isinstance(spec, SlidingWindowMLASpec):
            sliding.setdefault((spec.block_size, spec.sliding_window), {})[name] = spec
        elif isinstance(spec, MLAAttentionSpec):
            full[name] = spec
    whole = bundle(full, facts) if full else None
    if whole is None:
        return None
    parts = [UniformTypeKVCacheSpecs(block_size, part) for (block_size, _), part in sliding.items()]
    counts = [part.most_layers_of_one_page_size() for part in (whole, *parts)]
    size = approximate_gcd(counts, at_least=counts[0])
    buckets = [_sliding_bucket(part, whole, facts) for part in parts]
    groups = [whole]
    for bucket in buckets:
        groups += bucket.split(_cdiv(bucket.whole.most_layers_of_one_page_size(), size), facts)
    return groups


def _sliding_bucket(part: UniformTypeKVCacheSpecs, full: UniformTypeKVCacheSpecs, facts: Facts) -> _Bucket:
    specs = part.specs
    fits = True
    if facts["packing"]["tuples_pad_pages"]:
        sizes = full.page_sizes()
        fits = all(spec.page_size_bytes <= sizes[-1] for spec in specs.values())
        specs = {name: _padded(spec, sizes) for name, spec in specs.items()}
    bucket = _Bucket(UniformTypeKVCacheSpecs(part.block_size, specs))
    if fits and bucket.is_balanced:
        return bucket
    raise StartupError(
        "the windows of DeepSeek V4 do not pair with its full layers",
        code=NO_TUPLES.code,
        stage="initialize_kv_caches",
        raised_as="AssertionError",
        raised_in="_get_kv_cache_groups_uniform_groups",
        where="--block-size",
        fix=NO_TUPLES.instead,
    )


def _padded(spec: KVCacheSpec, sizes: Sequence[int]) -> KVCacheSpec:
    """The layer with the next page size of the full group."""
    page = next((size for size in sizes if size >= spec.page_size_bytes), spec.page_size_bytes)
    if page == spec.page_size_bytes or not isinstance(spec, AttentionSpec):
        return spec
    padded = replace(spec)
    # A copy made by replace would round the page to the layer's own alignment again.
    object.__setattr__(padded, "page_size_padded", page)
    return padded


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)
