"""Bytes of a block, blocks of a request, and the layout that they depend on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kv_examples import chunked, full, layers, mamba, mla, sliding

from cgplan import StartupError
from cgplan.memory.kv.blocks import PoolRules, blocks_of_request, bytes_per_block, longest_request, project
from cgplan.memory.kv.groups import KVCacheGroup, group_layers
from cgplan.memory.kv.layout import DEFAULT_PREFERENCE, KVCacheLayout, resolve_layout, supported_layouts
from cgplan.memory.kv.merge import UniformTypeKVCacheSpecs
from cgplan.memory.kv.prefix import prefix_steps
from cgplan.memory.kv_specs import KVCacheSpec, MultipleOf, RequestLimits
from cgplan.releases import SUPPORTED, facts

NEWEST = "0.33.0"
LAYERS_OUTER, BLOCKS_OUTER = KVCacheLayout.LBNHC, KVCacheLayout.BLHNC


def rules(release: str = NEWEST, layout: KVCacheLayout | None = LAYERS_OUTER, dcp: int = 1) -> PoolRules:
    known = facts("kv_planning", release)
    return PoolRules(known, layout if known["layout"]["resolved"] else None, dcp)


def limits(length: int = 131072, tokens: int = 16384, **fields: Any) -> RequestLimits:
    return RequestLimits(length, tokens, **fields)


def group(*specs: KVCacheSpec) -> KVCacheGroup:
    """A bundle of these layers."""
    names = tuple(f"layer.{i}" for i in range(len(specs)))
    return KVCacheGroup(names, UniformTypeKVCacheSpecs(specs[0].block_size, dict(zip(names, specs, strict=True))))


class TestBlocksOfARequest:
    @pytest.mark.parametrize(
        ("spec", "length", "expected"),
        [
            (full(), 8192, 512),
            (full(), 8193, 513),
            (sliding(128), 1000, 64),
            (sliding(128), 131072, 1033),
            (chunked(8192), 131072, 1536),
            (mla(block_size=64), 131072, 2048),
        ],
    )
    def test_attention(self, spec: KVCacheSpec, length: int, expected: int) -> None:
        assert blocks_of_request(spec, limits(length), rules()) == expected

    @pytest.mark.parametrize(("mode", "checkpoint", "expected"), [("align", 0, 5), ("align", 1, 6), ("none", 0, 4)])
    def test_states(self, mode: str, checkpoint: int, expected: int) -> None:
        spec = mamba(num_speculative_blocks=3, num_prefill_checkpoint_blocks=checkpoint)
        assert blocks_of_request(spec, limits(mamba_cache_mode=mode), rules()) == expected

    @pytest.mark.parametrize(("release", "expected"), [("0.21.0", 8), ("0.22.1", 10)])
    def test_drafts_in_mode_all(self, release: str, expected: int) -> None:
        spec = mamba(block_size=1024, num_speculative_blocks=2)
        assert blocks_of_request(spec, limits(8192, mamba_cache_mode="all"), rules(release)) == expected

    def test_dcp_shares_full_attention(self) -> None:
        assert blocks_of_request(full(), limits(8192, context_shards=2), rules(dcp=2)) == 256
        assert blocks_of_request(full(dcp_sharded=False), limits(8192, context_shards=2), rules(dcp=2)) == 512

    def test_dcp_refuses_a_window(self) -> None:
        with pytest.raises(StartupError) as caught:
            blocks_of_request(sliding(), limits(), rules(dcp=2))
        assert (caught.value.code, caught.value.raised_as) == ("CG564", "AssertionError")

    def test_a_replicated_window_is_allowed_since_0_31(self) -> None:
        spec = sliding(dcp_sharded=False)
        assert blocks_of_request(spec, limits(), rules(dcp=2)) > 0
        with pytest.raises(StartupError):
            blocks_of_request(spec, limits(), rules("0.30.0", dcp=2))

    def test_a_block_without_a_state(self) -> None:
        with pytest.raises(StartupError) as caught:
            blocks_of_request(mla(block_size=64, tokens_per_state=128), limits(), rules())
        assert (caught.value.code, caught.value.raised_as) == ("CG565", "ZeroDivisionError")

    def test_a_bundle_takes_the_most_of_its_layers(self) -> None:
        assert blocks_of_request(group(sliding(128), sliding(4096)).spec, limits(), rules()) == 1281


class TestBytesOfABlock:
    @pytest.mark.parametrize("release", SUPPORTED)
    def test_equal_layers(self, release: str) -> None:
        groups = [KVCacheGroup(("a", "b", "c"), full())]
        assert bytes_per_block(groups, rules(release)) == 3 * 65536

    @pytest.mark.parametrize("release", SUPPORTED)
    def test_the_longest_group_counts(self, release: str) -> None:
        groups = [KVCacheGroup(("a", "b", "c"), full()), KVCacheGroup(("d",), sliding())]
        assert bytes_per_block(groups, rules(release)) == 3 * 65536

    @pytest.mark.parametrize("release", SUPPORTED)
    def test_one_bundle_is_the_sum_of_its_pages(self, release: str) -> None:
        assert bytes_per_block([group(full(), full(num_kv_heads=2))], rules(release)) == 65536 + 16384

    @pytest.mark.parametrize(
        ("release", "expected"),
        [
            ("0.20.2", 3 * (65536 + 16384)),  # tuples: a page of each size, three times
            ("0.25.1", 65536 + 3 * 16384),  # slots: the most of each size
            ("0.28.0", 65536 + 16384),  # the widest group
            ("0.33.0", 65536 + 16384),
        ],
    )
    def test_bundles(self, release: str, expected: int) -> None:
        groups = [group(full(), full(num_kv_heads=2)), group(*[sliding(num_kv_heads=2)] * 3)]
        assert bytes_per_block(groups, rules(release, BLOCKS_OUTER)) == expected

    def test_strides_are_rounded_by_layer_or_by_block(self) -> None:
        spec = full(block_stride_alignment=60000)
        groups = [KVCacheGroup(("a", "b"), spec)]
        assert bytes_per_block(groups, rules("0.30.0")) == 2 * 65536
        assert bytes_per_block(groups, rules("0.31.0")) == 180000
        assert bytes_per_block(groups, rules(NEWEST)) == 2 * 120000
        assert bytes_per_block(groups, rules(NEWEST, BLOCKS_OUTER)) == 180000

    def test_whole_kernel_blocks(self) -> None:
        spec = full(block_size=48, block_stride_alignment=MultipleOf(32))
        assert spec.stride_alignment_bytes == 65536
        assert bytes_per_block([KVCacheGroup(("a",), spec)], rules()) == 3 * 65536

    def test_mixed_pages_need_the_blocks_outermost(self) -> None:
        groups = [group(full(), full(num_kv_heads=2)), group(sliding(num_kv_heads=2))]
        assert bytes_per_block(groups, rules(layout=BLOCKS_OUTER)) > 0
        with pytest.raises(StartupError) as caught:
            bytes_per_block(groups, rules(layout=LAYERS_OUTER))
        assert caught.value.code == "CG570"


class TestStages:
    def test_a_bundle_keeps_the_layers_of_the_stage(self) -> None:
        whole = group(full(), full(num_kv_heads=2), full())
        (part,) = project([whole], {"layer.1": full()})
        assert part.layer_names == ("layer.1",)
        assert part.spec.page_size_bytes == 16384

    def test_a_group_may_have_no_layer_there(self) -> None:
        parts = project([KVCacheGroup(("a",), full()), KVCacheGroup(("b",), sliding())], {"a": full()})
        assert [part.layer_names for part in parts] == [("a",), ()]

    @given(cut=st.integers(0, 12), count=st.integers(1, 12))
    def test_stages_have_each_layer_once(self, cut: int, count: int) -> None:
        specs = layers(full=(4, full()), sliding=(count, sliding()))
        names = list(specs)
        groups = group_layers(specs, rules().facts, LAYERS_OUTER, True, [])
        halves = [{n: specs[n] for n in names[:cut]}, {n: specs[n] for n in names[cut:]}]
        found = [name for half in halves for part in project(groups, half) for name in part.layer_names]
        assert sorted(found) == sorted(names)


class TestTheLongestRequest:
    @given(
        available=st.integers(0, 400).map(lambda n: n * 65536 * 2),
        most=st.integers(1, 5000),
        release=st.sampled_from(SUPPORTED),
    )
    def test_it_is_found_by_counting(self, available: int, most: int, release: str) -> None:
        groups = [KVCacheGroup(("a", "b"), full()), KVCacheGroup(("c", "d"), sliding(64))]
        found = longest_request(groups, available, limits(most, 32), rules(release))

        def needed(length: int) -> int:
            wanted = limits(length, 32)
            return 2 * 65536 * sum(blocks_of_request(part.spec, wanted, rules(release)) for part in groups)

        assert 0 <= found <= most
        assert found == 0 or needed(found) <= available
        assert found == most or needed(found + 1) > available


class TestLayouts:
    KNOWN = facts("kv_planning", NEWEST)

    def test_no_wishes(self) -> None:
        assert supported_layouts(["FLASH_ATTN"], (9, 0), self.KNOWN) == list(DEFAULT_PREFERENCE)

    def test_flashinfer_on_sm_10_takes_heads_first(self) -> None:
        assert supported_layouts(["FLASHINFER"], (10, 0), self.KNOWN)[0] is KVCacheLayout.LBHNC
        assert supported_layouts(["FLASHINFER"], (9, 0), self.KNOWN)[0] is KVCacheLayout.LBNHC

    def test_no_common_layout(self) -> None:
        with pytest.raises(StartupError) as caught:
            supported_layouts(["FLASHINFER", "TURBOQUANT"], (10, 0), self.KNOWN)
        assert (caught.value.code, caught.value.stage) == ("CG568", "get_supported_kv_cache_layouts")
        assert supported_layouts(["FLASHINFER", "TURBOQUANT"], (9, 0), self.KNOWN) == [KVCacheLayout.LBNHC]

    def test_the_indexer_of_deepseek_v4_wants_the_blocks_outermost(self) -> None:
        found = supported_layouts(["FLASHMLA_SPARSE_DSV4", "DEEPSEEK_V4_INDEXER"], (9, 0), self.KNOWN)
        assert found == [KVCacheLayout.BLHNC, KVCacheLayout.BLNHC]

    def test_the_first_wish_of_most_wins(self) -> None:
        found = supported_layouts(["B12X", "TRITON_FLASHINFER", "DEEPSEEK_V4_INDEXER"], (9, 0), self.KNOWN)
        assert found[0] is KVCacheLayout.BLHNC

    @pytest.mark.parametrize(("asked", "expected"), [(None, "LBNHC"), ("HND", "LBHNC"), ("BLHNC", "BLHNC")])
    def test_the_variable_is_obeyed(self, asked: str | None, expected: str) -> None:
        assert resolve_layout(DEFAULT_PREFERENCE, [full()], asked, self.KNOWN).name == expected

    def test_the_variable_must_suit_the_backends(self) -> None:
        with pytest.raises(StartupError) as caught:
            resolve_layout([KVCacheLayout.LBNHC], [full()], "HND", self.KNOWN)
        assert caught.value.code == "CG569"

    def test_pages_of_different_shapes_stay_whole(self) -> None:
        only = [KVCacheLayout.LHBNC, KVCacheLayout.BHLNC]
        assert resolve_layout(only, [full()], None, self.KNOWN) is KVCacheLayout.LHBNC
        with pytest.raises(StartupError):
            resolve_layout(only, [full(), full(num_kv_heads=2)], None, self.KNOWN)

    def test_sharded_and_replicated_caches_lie_side_by_side(self) -> None:
        specs = [mla(), full(dcp_sharded=False)]
        assert resolve_layout(DEFAULT_PREFERENCE, specs, None, self.KNOWN) is KVCacheLayout.BLNHC
        older = facts("kv_planning", "0.30.0")
        assert resolve_layout(DEFAULT_PREFERENCE, specs, None, older) is KVCacheLayout.LBNHC


class TestPrefixSteps:
    def steps(self, specs: list[KVCacheSpec], release: str = NEWEST, shards: int = 1, caching: bool = True) -> Any:
        size = min(spec.block_size for spec in specs)
        found = prefix_steps(specs, size, shards, caching, False, facts("kv_planning", release))
        return found.scheduler, found.hashes, found.hits

    def test_one_group(self) -> None:
        assert self.steps([full()]) == (16, 16, 16)
        assert self.steps([full()], shards=2) == (32, 32, 32)
        assert self.steps([full(dcp_sharded=False)], shards=2) == (16, 16, 16)

    def test_several_groups(self) -> None:
        assert self.steps([full(), sliding(block_size=48)]) == (48, 16, 48)

    def test_without_prefix_caching_hashes_are_not_finer(self) -> None:
        assert self.steps([full(), sliding(block_size=48)], caching=False) == (48, 48, 48)

    def test_states_are_found_within_a_block_since_0_32(self) -> None:
        specs: list[KVCacheSpec] = [full(block_size=16), mamba(block_size=528, mamba_cache_mode="align")]
        assert self.steps(specs) == (528, 16, 16)
        assert self.steps(specs, "0.31.0") == (528, 16, 528)

    def test_unaligned_states_take_whole_steps(self) -> None:
        assert self.steps([full(), mamba(block_size=4096)]) == (4096, 4096, 4096)

    def test_compressed_states_must_end_with_the_step(self) -> None:
        compressed = mla(block_size=256, tokens_per_state=128)
        assert self.steps([compressed, sliding(block_size=64)]) == (256, 64, 256)
        with pytest.raises(StartupError) as caught:
            self.steps([replace(compressed, block_size=64), sliding(block_size=64)])
        assert caught.value.code == "CG583"

    @pytest.mark.parametrize(("release", "refused"), [("0.19.1", False), ("0.25.1", True), ("0.26.0", False)])
    def test_context_parallelism_of_groups(self, release: str, refused: bool) -> None:
        specs: list[KVCacheSpec] = [full(), mamba(block_size=16)]
        if not refused:
            assert self.steps(specs, release, shards=2)
            return
        with pytest.raises(StartupError) as caught:
            self.steps(specs, release, shards=2)
        assert (caught.value.code, caught.value.stage) == ("CG582", "init_scheduler")
