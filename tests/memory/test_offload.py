"""Weights that stay on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, load_model, plan
from cgplan.errors import StartupError
from cgplan.memory.budget.tensors import weights_of
from cgplan.memory.budget.weights import StageWeights, estimate_weights
from cgplan.releases.gpus import gpu
from cgplan.weight_shape import Tensor

GIB = 1 << 30
QWEN = load_model("Qwen/Qwen3-8B")


def stage_of(**fields: Any) -> StageWeights:
    return estimate_weights(Deployment(**{"model": QWEN, **fields})).stages[0]


def moved(**fields: Any) -> int:
    release = {"vllm": fields["vllm"]} if "vllm" in fields else {}
    model = {"model": fields["model"]} if "model" in fields else {}
    return stage_of(**release, **model).total.best - stage_of(**fields).total.best


LAYERS = sum(size for part, size in stage_of().parts.items() if part in ("attention", "mlp"))


class TestUVA:
    def test_so_many_bytes_of_each_gpu(self) -> None:
        assert moved(cpu_offload_gb=10.0) == 10 * GIB
        half = Deployment(model=QWEN, tensor_parallel_size=2)
        less = half.model_copy(update={"cpu_offload_gb": 3.0})
        assert estimate_weights(half).heaviest.best - estimate_weights(less).heaviest.best == 3 * GIB

    def test_embedding_and_head_stay(self) -> None:
        left = stage_of(cpu_offload_gb=100.0)
        assert left.total.best >= left.parts["embedding"] + left.parts["head"]
        assert moved(cpu_offload_gb=100.0) == pytest.approx(LAYERS, rel=0.01)

    def test_only_what_is_named(self) -> None:
        assert moved(cpu_offload_gb=100.0, cpu_offload_params=("mlp",)) < moved(cpu_offload_gb=100.0)
        assert moved(cpu_offload_gb=100.0, cpu_offload_params=("nothing",)) == 0
        # Whole words between dots.
        assert moved(cpu_offload_gb=100.0, cpu_offload_params=("ml",)) == 0

    def test_the_encoder_since_0_29(self) -> None:
        model = load_model("google/gemma-3-27b-it")
        before, since = (moved(model=model, vllm=release, cpu_offload_gb=100.0) for release in ("0.28.0", "0.29.0"))
        assert since - before == pytest.approx(stage_of(model=model).parts["vision"], rel=0.01)

    def test_a_small_card_starts_with_it(self) -> None:
        line = Deployment(model=QWEN, gpu=gpu("t4"), dtype="half", max_model_len=4096, max_num_seqs=64)
        assert plan(line).starts == "no"
        assert plan(line.model_copy(update={"cpu_offload_gb": 10.0})).fits

    def test_from_files(self) -> None:
        tensors = [
            Tensor("model.embed_tokens.weight", "BF16", (1024, 1024), 2 << 20),
            Tensor("model.layers.0.mlp.up_proj.weight", "BF16", (4096, 1024), 8 << 20),
            Tensor("model.layers.0.self_attn.o_proj.weight", "BF16", (1024, 1024), 2 << 20),
        ]
        whole, less, named = (
            weights_of(Deployment(model=QWEN, **fields), tensors, "files").stages[0].total.best
            for fields in ({}, {"cpu_offload_gb": 1.0}, {"cpu_offload_gb": 1.0, "cpu_offload_params": ("mlp",)})
        )
        assert (whole, less, named) == (12 << 20, 2 << 20, 4 << 20)


class TestPrefetch:
    def test_the_last_layers_of_each_group_less_their_buffers(self) -> None:
        # 36 layers, 2 of each 4 are moved, and one layer's buffers come back.
        each = LAYERS // 36
        assert moved(offload_group_size=4, offload_num_in_group=2) == pytest.approx(17 * each, rel=0.01)
        ahead = moved(offload_group_size=4, offload_num_in_group=2, offload_prefetch_step=3)
        assert ahead == pytest.approx(15 * each, rel=0.01)

    def test_it_wins_where_nothing_is_said(self) -> None:
        both = {"offload_group_size": 4, "cpu_offload_gb": 1.0}
        assert moved(**both) == moved(offload_group_size=4)
        assert moved(**both, offload_backend="uva") == GIB
        assert moved(cpu_offload_gb=1.0, offload_backend="prefetch", offload_group_size=1) != GIB

    def test_impossible_groups(self) -> None:
        with pytest.raises(StartupError, match="offload_num_in_group"):
            stage_of(offload_group_size=2, offload_num_in_group=3)
        with pytest.raises(StartupError, match="offload_prefetch_step"):
            stage_of(offload_group_size=2, offload_prefetch_step=0)


def test_memory_of_a_second_kv_cache_is_not_taken_off() -> None:
    from cgplan.inputs.serve_args import parse_serve
    from cgplan.inputs.serve_args_deployment import to_deployment

    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--kv-offloading-size", "8", "--cpu-offload-gb", "2"]
    served = to_deployment(parse_serve(words, release="0.33.0"))
    assert served.deployment.cpu_offload_gb == 2
    assert [text.partition(":")[0] for text in served.ignored] == ["kv_offloading_size"]
