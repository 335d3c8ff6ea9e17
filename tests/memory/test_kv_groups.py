"""Groups of layers: which share a block table, and how the rest is dealt out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kv_examples import chunked, deepseek_v4, full, layers, mamba, mla, sliding

from cgplan import InputError, StartupError
from cgplan.memory.kv.groups import KVCacheGroup, group_layers
from cgplan.memory.kv.layout import KVCacheLayout
from cgplan.memory.kv.merge import UniformTypeKVCacheSpecs
from cgplan.memory.kv.packing import approximate_gcd
from cgplan.memory.kv_specs import (
    FullAttentionSpec,
    HiddenStateCacheSpec,
    KVCacheSpec,
    MLAAttentionSpec,
)
from cgplan.releases import SUPPORTED, facts, holds
from cgplan.trace import Finding

NEWEST = "0.33.0"
LAYERS_OUTER, BLOCKS_OUTER = KVCacheLayout.LBNHC, KVCacheLayout.BLHNC


def grouped(
    specs: dict[str, KVCacheSpec],
    release: str = NEWEST,
    layout: KVCacheLayout = LAYERS_OUTER,
    manager: bool = True,
    found: list[Finding] | None = None,
) -> list[KVCacheGroup]:
    known = facts("kv_planning", release)
    return group_layers(
        specs, known, layout if known["layout"]["resolved"] else None, manager, [] if found is None else found
    )


def sizes(groups: list[KVCacheGroup]) -> list[int]:
    return [len(group.layer_names) for group in groups]


def refusal(*args: Any, **fields: Any) -> StartupError:
    with pytest.raises(StartupError) as caught:
        grouped(*args, **fields)
    return caught.value


class TestOneGroup:
    def test_equal_layers(self) -> None:
        groups = grouped(layers(full=(32, full())))
        assert sizes(groups) == [32]
        assert groups[0].spec == full()

    def test_layers_that_differ_in_the_window_only(self) -> None:
        (group,) = grouped({"a": full(), "b": full(sliding_window=512)})
        assert isinstance(group.spec, FullAttentionSpec)
        assert group.spec.sliding_window == 512

    def test_two_windows_do_not_merge(self) -> None:
        assert refusal({"a": full(sliding_window=256), "b": full(sliding_window=512)}).code == "CG572"

    def test_pages_of_other_bytes_are_a_bundle(self) -> None:
        (group,) = grouped({"a": full(), "b": full(num_kv_heads=2)})
        assert isinstance(group.spec, UniformTypeKVCacheSpecs)
        assert group.spec.page_size_bytes == 65536 + 16384

    def test_no_layers(self) -> None:
        assert grouped({}) == []

    def test_latents_of_other_length_merged_until_0_26(self) -> None:
        specs: dict[str, KVCacheSpec] = {"a": mla(), "b": mla(head_size=128)}
        assert isinstance(grouped(specs, "0.26.0")[0].spec, MLAAttentionSpec)
        assert isinstance(grouped(specs, "0.27.1")[0].spec, UniformTypeKVCacheSpecs)


class TestDealtOut:
    @pytest.mark.parametrize(
        ("counts", "expected"),
        [
            ((12, 12), [12, 12]),
            ((8, 9), [8, 9]),
            ((10, 52), [10, 9, 9, 9, 9, 8, 8]),
            ((5, 26), [5, 5, 5, 4, 4, 4, 4]),
            ((1, 3), [1, 1, 1, 1]),
        ],
    )
    @pytest.mark.parametrize("release", SUPPORTED)
    def test_sizes(self, counts: tuple[int, int], expected: list[int], release: str) -> None:
        specs = layers(full=(counts[0], full()), sliding=(counts[1], sliding()))
        assert sizes(grouped(specs, release)) == expected

    @pytest.mark.parametrize(
        ("counts", "expected"),
        [
            ((12, 12), []),
            ((8, 9), ["1 padding layers may waste at most 12.50%"]),
            ((10, 52), ["8 padding layers may waste at most 15.38%"]),
        ],
    )
    def test_padding_is_reported(self, counts: tuple[int, int], expected: list[str]) -> None:
        found: list[Finding] = []
        grouped(layers(full=(counts[0], full()), sliding=(counts[1], sliding())), found=found)
        assert [finding.message.removesuffix(" of the KV cache memory") for finding in found] == expected
        assert {finding.code for finding in found} <= {"CG575"}

    def test_layers_are_dealt_in_turn(self) -> None:
        groups = grouped(layers(full=(2, full()), sliding=(4, sliding())))
        assert [group.layer_names for group in groups[1:]] == [("sliding.0", "sliding.2"), ("sliding.1", "sliding.3")]

    def test_alike_layers_are_one_kind_since_0_27(self) -> None:
        specs = layers(a=(4, full()), b=(4, full(sliding_window=64)), c=(8, sliding()))
        assert len(grouped(specs, "0.27.1")) == 2
        assert len(grouped(specs, "0.26.0")) == 4

    @given(full_count=st.integers(1, 40), sliding_count=st.integers(1, 40), release=st.sampled_from(SUPPORTED))
    def test_each_layer_is_in_one_group(self, full_count: int, sliding_count: int, release: str) -> None:
        specs = layers(full=(full_count, full()), sliding=(sliding_count, sliding()))
        groups = grouped(specs, release)
        assert sorted(name for group in groups for name in group.layer_names) == sorted(specs)
        longest = max(sizes(groups))
        assert longest <= max(full_count, sliding_count)
        assert len({group.spec.page_size_bytes for group in groups}) == 1


class TestPages:
    def test_a_page_grows_by_whole_multiples(self) -> None:
        groups = grouped(layers(full=(2, full()), sliding=(2, sliding(num_kv_heads=2))))
        assert [group.spec.block_size for group in groups] == [16, 64]

    def test_a_page_that_does_not_divide_is_padded(self) -> None:
        specs = layers(full=(2, full()), sliding=(2, sliding(num_kv_heads=3)))
        groups = grouped(specs)
        assert [group.spec.block_size for group in groups] == [16, 16]
        assert {group.spec.page_size_bytes for group in groups} == {65536}
        assert refusal(specs, "0.25.1").raised_as == "NotImplementedError"

    def test_until_0_28_only_where_the_backend_reads_by_stride(self) -> None:
        specs = layers(full=(2, full()), sliding=(2, sliding(num_kv_heads=3, indexes_kv_by_block_stride=True)))
        assert sizes(grouped(specs, "0.25.1")) == [2, 2]
        assert refusal(specs, "0.23.0").code == "CG566"

    def test_states_are_padded_since_0_26(self) -> None:
        specs = layers(full=(2, full(block_size=528)), mamba=(2, mamba()))
        assert {group.spec.page_size_bytes for group in grouped(specs)} == {528 * 4096}
        assert refusal(specs, "0.25.1").code in ("CG566", "CG567")

    def test_padding_that_is_outgrown(self) -> None:
        specs = layers(full=(1, full()), sliding=(1, sliding(num_kv_heads=1, page_size_padded=16384)))
        error = refusal(specs)
        assert (error.code, error.raised_as) == ("CG567", "AssertionError")


class TestWithoutTheHybridManager:
    def test_windows_are_cached_in_full(self) -> None:
        found: list[Finding] = []
        (group,) = grouped(layers(full=(12, full()), sliding=(12, sliding())), manager=False, found=found)
        assert isinstance(group.spec, FullAttentionSpec)
        assert group.spec.sliding_window == 128
        assert [finding.code for finding in found] == ["CG578"]

    def test_nothing_to_change_is_no_warning(self) -> None:
        found: list[Finding] = []
        assert sizes(grouped(layers(full=(12, full())), manager=False, found=found)) == [12]
        assert found == []

    def test_chunks_lost_their_stride_until_0_27(self) -> None:
        specs: dict[str, KVCacheSpec] = layers(
            full=(4, full(indexes_kv_by_block_stride=True)),
            chunked=(12, chunked(indexes_kv_by_block_stride=True)),
        )
        assert isinstance(grouped(specs, "0.25.1", manager=False)[0].spec, UniformTypeKVCacheSpecs)
        assert isinstance(grouped(specs, "0.28.0", manager=False)[0].spec, FullAttentionSpec)

    @pytest.mark.parametrize("release", SUPPORTED)
    def test_states_cannot_be_promoted(self, release: str) -> None:
        error = refusal(layers(full=(4, full()), mamba=(4, mamba())), release, manager=False)
        assert (error.code, error.raised_as) == ("CG563", "ValueError")
        name = "_promote_local_kv_cache_specs" if holds(release, "0.27.1") else "unify_hybrid_kv_cache_specs"
        assert error.raised_in == name

    def test_windows_alone_cannot_either(self) -> None:
        assert refusal({"a": sliding(128), "b": sliding(256)}, manager=False).code == "CG563"

    def test_deepseek_v4_stops_since_0_31(self) -> None:
        specs = deepseek_v4()
        assert sizes(grouped(specs, "0.30.0", manager=False)) == [len(specs)]
        assert refusal(specs, "0.31.0", manager=False).raised_as == "TypeError"


class TestPacked:
    def test_page_sizes_lie_side_by_side(self) -> None:
        groups = grouped(deepseek_v4(), layout=BLOCKS_OUTER)
        assert all(isinstance(group.spec, UniformTypeKVCacheSpecs) for group in groups)
        assert sorted(sizes(groups)) == [4, 4, 4, 12]

    def test_until_0_28_they_come_in_tuples_after_the_full_group(self) -> None:
        groups = grouped(deepseek_v4(), "0.25.1")
        assert sizes(groups)[0] == 12
        assert sorted(sizes(groups)) == [4, 4, 4, 12]

    def test_until_0_26_windows_are_padded_to_a_page_of_the_full_group(self) -> None:
        full_pages = {s.page_size_bytes for s in grouped(deepseek_v4(), "0.25.1")[0].layer_specs}
        for release, padded in (("0.25.1", True), ("0.27.1", False)):
            pages = {s.page_size_bytes for group in grouped(deepseek_v4(), release) for s in group.layer_specs}
            assert (pages <= full_pages) == padded

    @pytest.mark.parametrize(
        ("release", "refused"), [("0.20.2", True), ("0.26.0", True), ("0.27.1", False), ("0.33.0", False)]
    )
    def test_until_0_26_no_window_may_have_the_largest_page(self, release: str, refused: bool) -> None:
        specs = deepseek_v4()
        specs["window.0"] = replace(specs["window.0"], page_size_padded=1 << 20)
        specs.update({f"window.{i}": specs["window.0"] for i in range(8)})
        if refused:
            assert refusal(specs, release).code == "CG587"
        else:
            assert grouped(specs, release, BLOCKS_OUTER)

    def test_until_0_28_page_sizes_of_a_window_go_in_pairs(self) -> None:
        specs = deepseek_v4()
        specs["window.0"] = replace(specs["window.0"], page_size_padded=40000)
        assert refusal(specs, "0.28.0").raised_as == "AssertionError"
        assert grouped(specs, "0.29.0", BLOCKS_OUTER)

    def test_states_never_widen_a_block(self) -> None:
        specs = layers(full=(2, full()), mamba=(12, mamba()))
        groups = grouped(specs, layout=BLOCKS_OUTER)
        anchor = max(2 * 65536, mamba().page_size_bytes)
        assert max(group.spec.page_size_bytes for group in groups) <= anchor

    @given(values=st.lists(st.integers(1, 60), min_size=1, max_size=5), at_least=st.integers(1, 70))
    def test_the_size_of_least_padding(self, values: list[int], at_least: int) -> None:
        found = approximate_gcd(values, at_least=at_least)
        assert found >= at_least
        if at_least <= max(values):
            waste = {size: sum(-value % size for value in values) for size in range(at_least, max(values) + 1)}
            assert waste[found] == min(waste.values())
            assert found == max(size for size, lost in waste.items() if lost == waste[found])


class TestFallback:
    SPECS = layers(mla=(4, mla()), draft=(1, sliding(num_kv_heads=5, block_size=64)))

    def test_mla_beside_a_window_is_cached_in_full(self) -> None:
        found: list[Finding] = []
        (group,) = grouped(self.SPECS, found=found)
        assert isinstance(group.spec, UniformTypeKVCacheSpecs)
        assert [finding.code for finding in found] == ["CG579"]

    def test_until_0_26_it_does_not_start(self) -> None:
        assert refusal(self.SPECS, "0.26.0").code == "CG566"


class TestHiddenStates:
    def specs(self, width: int = 4096) -> dict[str, KVCacheSpec]:
        hidden = HiddenStateCacheSpec(block_size=16, num_kv_heads=1, head_size=width, dtype="bfloat16")
        return {**layers(full=(2, full()), sliding=(2, sliding())), "hidden": hidden}

    def test_they_are_a_group_of_their_own(self) -> None:
        groups = grouped(self.specs())
        assert groups[-1].layer_names == ("hidden",)
        assert groups[-1].spec.block_size == 8
        assert {group.spec.page_size_bytes for group in groups} == {65536}

    def test_a_row_larger_than_the_page_scales_all_blocks_since_0_30(self) -> None:
        groups = grouped(self.specs(40000))
        assert [group.spec.block_size for group in groups] == [32, 32, 1]
        assert {group.spec.page_size_bytes for group in groups} == {2 * 65536}
        assert [group.spec.block_size for group in grouped(self.specs(40000), "0.29.0")][:2] == [16, 16]

    def test_the_block_divides_since_0_28(self) -> None:
        assert [grouped(self.specs(5000), r)[-1].spec.block_size for r in ("0.27.1", "0.28.0")] == [6, 4]


class TestNotModelled:
    def test_glm5_next(self) -> None:
        specs = layers(mamba=(4, mamba()), mla=(4, mla()), indexer=(4, mla(head_size=132, tokens_per_state=4)))
        with pytest.raises(InputError) as caught:
            grouped(specs, "0.31.0", layout=BLOCKS_OUTER)
        assert caught.value.code == "CG574"
        assert grouped(specs, "0.32.0", layout=BLOCKS_OUTER)
