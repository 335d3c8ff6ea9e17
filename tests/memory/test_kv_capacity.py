"""Plans for whole servers; the first table was printed by the planner of vLLM 0.33.0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kv_examples import GIB, deepseek_v4, full, layers, mamba, mla, settings, sliding

from cgplan import StartupError
from cgplan.memory.kv.capacity import KVCacheTooSmall, plan_kv_cache
from cgplan.memory.kv.layout import KVCacheLayout
from cgplan.memory.kv_specs import KVCacheSpec
from cgplan.releases import SUPPORTED

MIB = 1 << 20
BLOCK = 2 * MIB
DENSE = layers(full=(32, full()))


def refused(stages: list[dict[str, KVCacheSpec]], memory: list[int], **fields: Any) -> StartupError:
    with pytest.raises(StartupError) as caught:
        plan_kv_cache(stages, memory, settings(**fields))
    return caught.value


class TestPlansOfTheNewestRelease:
    @pytest.mark.parametrize(
        ("memory", "fields", "blocks", "tokens", "concurrency", "length"),
        [
            (10 * GIB, {}, 5120, 81920, 10.0, 8192),
            (GIB + BLOCK, {}, 513, 8208, 1.001953125, 8192),
            (GIB, {"auto_fit": True}, 512, 8192, 1.0019569, 8176),
            (GIB, {"auto_fit": True, "num_gpu_blocks_override": 100}, 100, 1600, 1.0101010, 1584),
            (GIB, {"length": 1584, "num_gpu_blocks_override": 100}, 100, 1600, 1.0101010, 1584),
        ],
    )
    def test_dense(
        self, memory: int, fields: dict[str, Any], blocks: int, tokens: int, concurrency: float, length: int
    ) -> None:
        plan = plan_kv_cache([DENSE], [memory], settings(**fields))
        assert (plan.num_blocks, plan.tokens, plan.max_model_len) == (blocks, tokens, length)
        assert plan.max_concurrency == pytest.approx(concurrency)
        assert plan.bytes_per_block == (BLOCK,)

    @pytest.mark.parametrize(
        ("counts", "memory", "blocks", "tokens", "concurrency"),
        [((16, 16), (4, 3), 3072, 49152, 6.0), ((12, 20), (4, 4), 3276, 52416, 6.3984375)],
    )
    def test_pipeline_stages_share_the_fewest_blocks(
        self, counts: tuple[int, int], memory: tuple[int, int], blocks: int, tokens: int, concurrency: float
    ) -> None:
        stages = [{f"full.{i}": full() for i in range(counts[0])}]
        stages += [{f"full.{i}": full() for i in range(counts[0], sum(counts))}]
        plan = plan_kv_cache(stages, [m * GIB for m in memory], settings())
        assert (plan.num_blocks, plan.tokens, plan.max_concurrency) == (blocks, tokens, concurrency)
        assert plan.groups[0].layers_per_stage == counts

    @pytest.mark.parametrize(("batch", "tokens", "blocks"), [(8192, 193986, 1033), (2048, 211602, 265)])
    def test_a_window_keeps_the_tokens_in_flight(self, batch: int, tokens: int, blocks: int) -> None:
        plan = plan_kv_cache([layers(full=(12, full()), sliding=(12, sliding()))], [10 * GIB], settings(131072, batch))
        assert (plan.num_blocks, plan.tokens) == (13653, tokens)
        assert [group.blocks_per_request for group in plan.groups] == [8192, blocks]
        assert plan.blocks_per_request == 8192 + blocks

    def test_a_length_between_blocks_takes_a_whole_block(self) -> None:
        assert plan_kv_cache([DENSE], [1000 * BLOCK], settings(8190)).tokens == 15996
        assert plan_kv_cache([DENSE], [1000 * BLOCK], settings(8192)).tokens == 16000

    def test_no_layers(self) -> None:
        plan = plan_kv_cache([{}], [GIB], settings(4096, block_size=32))
        assert (plan.num_blocks, plan.block_size, plan.tokens, plan.groups) == (1, 32, None, ())


class TestRefusals:
    def test_a_request_that_lacks_the_null_block(self) -> None:
        error = refused([DENSE], [GIB])
        assert isinstance(error, KVCacheTooSmall)
        assert (error.needed_bytes, error.available_bytes) == (GIB, GIB - BLOCK)
        assert error.estimated_max_model_len == 8176
        assert (error.code, error.stage, error.raised_as) == ("CG561", "initialize_kv_caches", "ValueError")
        assert "--max-model-len 8176" in str(error.fix)

    def test_before_0_29_there_is_no_null_block(self) -> None:
        assert plan_kv_cache([DENSE], [GIB], settings(release="0.28.0")).num_blocks == 512

    @pytest.mark.parametrize("memory", [0, BLOCK, -GIB])
    def test_no_memory(self, memory: int) -> None:
        assert refused([DENSE], [memory]).code == "CG560"

    def test_the_override_is_checked_as_well(self) -> None:
        error = refused([DENSE], [GIB], num_gpu_blocks_override=100)
        assert isinstance(error, KVCacheTooSmall)
        assert error.estimated_max_model_len == 1584

    def test_until_0_19_the_override_comes_after_the_checks(self) -> None:
        plan = plan_kv_cache([DENSE], [GIB], settings(release="0.19.1", num_gpu_blocks_override=100))
        assert plan.num_blocks == 100
        assert plan.tokens == 1600

    def test_no_length_fits(self) -> None:
        assert refused([DENSE], [BLOCK], auto_fit=True).code == "CG562"

    def test_not_one_token_fits(self) -> None:
        error = refused([layers(sliding=(8, sliding()))], [2 * 8 * 65536])
        assert isinstance(error, KVCacheTooSmall)
        assert error.estimated_max_model_len == 0
        assert "would fit" not in str(error)

    def test_every_rank_is_checked(self) -> None:
        stages = [layers(full=(16, full())), {f"full.{i}": full() for i in range(16, 32)}]
        assert plan_kv_cache(stages, [4 * GIB, GIB], settings()).num_blocks == 1024
        assert refused(stages, [4 * GIB, GIB // 2]).code == "CG561"

    def test_memories_and_stages_must_agree(self) -> None:
        with pytest.raises(ValueError, match="1 pipeline stages, but 2 memories"):
            plan_kv_cache([DENSE], [GIB, GIB], settings())


class TestReports:
    @pytest.mark.parametrize(("release", "adds_up"), [("0.26.0", False), ("0.27.1", True), ("0.33.0", True)])
    def test_until_0_26_all_groups_were_counted_in_pages_of_the_first(self, release: str, adds_up: bool) -> None:
        plan = plan_kv_cache([deepseek_v4()], [GIB], settings(4096, 512, release, layouts=(KVCacheLayout.BLHNC,)))
        assert (plan.blocks_per_request == sum(group.blocks_per_request for group in plan.groups)) == adds_up

    def test_tokens_until_0_19_are_blocks_of_a_group(self) -> None:
        stage = layers(full=(4, full()), sliding=(4, sliding()))
        plan = plan_kv_cache([stage], [GIB], settings(4096, 512, "0.19.1"))
        assert plan.tokens == plan.num_blocks // 2 * 16

    def test_the_override_is_reported(self) -> None:
        plan = plan_kv_cache([DENSE], [GIB], settings(1024, num_gpu_blocks_override=1000))
        assert [(f.code, f.severity) for f in plan.warnings] == [("CG577", "warning")]
        plan = plan_kv_cache([DENSE], [GIB], settings(1024, num_gpu_blocks_override=100))
        assert [(f.code, f.severity) for f in plan.warnings] == [("CG577", "info")]

    def test_the_block_size_is_the_smallest_of_the_groups(self) -> None:
        small, large = sliding(num_kv_heads=8), full(num_kv_heads=4)
        plan = plan_kv_cache([layers(full=(4, large), sliding=(4, small))], [GIB], settings(4096))
        assert {group.spec.block_size for group in plan.groups} == {16, 32}
        assert plan.block_size == 16

    def test_dcp_shares_the_tokens(self) -> None:
        plan = plan_kv_cache([DENSE], [10 * GIB], settings(decode_context_parallel_size=2))
        assert plan.blocks_per_request == 256
        assert plan.tokens == 2 * 81920

    def test_replicas(self) -> None:
        stage = layers(mla=(4, mla(max_tp_shards=1)))
        assert plan_kv_cache([stage], [GIB], settings(tensor_parallel_size=8)).tp_replicas == 8
        assert plan_kv_cache([stage], [GIB], settings(tensor_parallel_size=8, release="0.30.0")).tp_replicas == 1
        sharded = settings(tensor_parallel_size=8, decode_context_parallel_size=4)
        assert plan_kv_cache([stage], [GIB], sharded).tp_replicas == 1

    def test_windows_keep_what_chained_modules_read(self) -> None:
        stage = layers(sliding=(4, sliding(128)))
        few = plan_kv_cache([stage], [GIB], settings(8192, 512))
        more = plan_kv_cache([stage], [GIB], settings(8192, 512, extra_retained_tokens=17))
        assert more.blocks_per_request == few.blocks_per_request + 1


class TestLaws:
    @given(
        release=st.sampled_from(SUPPORTED),
        memory=st.integers(1, 64).map(lambda n: n * 256 * MIB),
        length=st.integers(1, 40000),
        mixed=st.booleans(),
    )
    def test_more_memory_never_means_less(self, release: str, memory: int, length: int, mixed: bool) -> None:
        stage = layers(full=(8, full()), sliding=(16 if mixed else 0, sliding()))
        wanted = settings(length, 512, release, auto_fit=True)
        less, more = (plan_kv_cache([stage], [size], wanted) for size in (memory, 2 * memory))
        assert less.num_blocks <= more.num_blocks
        assert less.max_model_len <= more.max_model_len <= length
        assert less.num_blocks * less.bytes_per_block[0] <= memory

    @given(release=st.sampled_from(SUPPORTED), blocks=st.integers(3, 400), length=st.integers(1, 100000))
    def test_the_estimate_fits_and_one_more_token_does_not(self, release: str, blocks: int, length: int) -> None:
        stage = layers(full=(3, full()), sliding=(5, sliding(256)))
        memory = [blocks * 5 * 65536]
        try:
            plan_kv_cache([stage], memory, settings(length, 64, release))
        except KVCacheTooSmall as error:
            found = error.estimated_max_model_len
            assert found < length
            if found:
                plan_kv_cache([stage], memory, settings(found, 64, release))
            with pytest.raises(KVCacheTooSmall):
                plan_kv_cache([stage], memory, settings(found + 1, 64, release))

    @given(release=st.sampled_from(SUPPORTED), blocks=st.integers(2, 400))
    def test_fitting_finds_what_the_refusal_names(self, release: str, blocks: int) -> None:
        memory = [blocks * BLOCK]
        fitted = plan_kv_cache([DENSE], memory, settings(1 << 20, release=release, auto_fit=True))
        with pytest.raises(KVCacheTooSmall) as caught:
            plan_kv_cache([DENSE], memory, settings(1 << 20, release=release))
        assert caught.value.estimated_max_model_len == fitted.max_model_len

    @given(release=st.sampled_from(SUPPORTED), count=st.integers(1, 40))
    def test_mamba_requests_do_not_grow(self, release: str, count: int) -> None:
        state = mamba(mamba_cache_mode="align", num_speculative_blocks=3)
        plan = plan_kv_cache(
            [layers(mamba=(count, state))], [GIB], settings(1 << 20, release=release, mamba_cache_mode="align")
        )
        assert plan.blocks_per_request == 5
