"""Parallelism: what starts, and where it costs CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    GIB,
    MLA,
    MOE,
    SPARSE_MLA,
    V1,
    V2,
    codes,
    compiling,
    configured,
    drafting,
    mode_of,
    outcome,
    refused,
)

from cgplan import CUDAGraphMode, Gpu, ModelShape

ROCM = Gpu(name="AMD Instinct MI300X", platform="rocm", capability=(9, 4), memory_bytes=192 * GIB)
HIGH_THROUGHPUT = {"all2all_backend": "deepep_high_throughput"}


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"model": MOE, "data_parallel_size": 2}, "NONE"),
        ({"model": MOE}, "FULL_AND_PIECEWISE"),
        ({"data_parallel_size": 2}, "FULL_AND_PIECEWISE"),
        ({"model": SPARSE_MLA, "data_parallel_size": 2}, "FULL_AND_PIECEWISE"),
        ({"model": MOE, "data_parallel_size": 2, "compilation_config": compiling(mode="NONE")}, "FULL_DECODE_ONLY"),
        ({"model": MOE, "data_parallel_size": 2, "compilation_config": compiling(cudagraph_mode="NONE")}, "NONE"),
    ],
)
def test_f2_deepep_high_throughput(fields: dict[str, Any], mode: str) -> None:
    """The document names DP alone; the rule needs a MoE model, and VLLM_COMPILE."""
    assert configured(**HIGH_THROUGHPUT, **fields).value == mode


def test_f2_sizes_stay_but_are_never_captured() -> None:
    found = outcome(model=MOE, data_parallel_size=2, **HIGH_THROUGHPUT)
    assert (found.max_capture_size, found.graph_count()) == (512, 0)
    assert "CG601" in codes(found)


@pytest.mark.parametrize("backend", ["deepep_low_latency", "nixl_ep", "allgather_reducescatter", "naive", "pplx"])
def test_other_kernels_keep_their_graphs(backend: str) -> None:
    assert configured(model=MOE, data_parallel_size=2, all2all_backend=backend) is CUDAGraphMode.FULL_AND_PIECEWISE


@pytest.mark.parametrize("backend", ["naive", "pplx", None])
def test_retired_kernels_mean_the_default(backend: str | None) -> None:
    assert outcome(all2all_backend=backend).config["all2all_backend"] == "allgather_reducescatter"


MOONEP = {"all2all_backend": "moonep"}


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"data_parallel_size": 2}, "NONE"),
        ({}, "FULL_AND_PIECEWISE"),
        ({"enable_expert_parallel": True, "tensor_parallel_size": 2}, "FULL_AND_PIECEWISE"),
        ({"data_parallel_size": 2, "compilation_config": compiling(mode="NONE")}, "NONE"),
    ],
)
def test_moonep_runs_eager_wherever_tokens_travel(fields: dict[str, Any], mode: str) -> None:
    assert configured(model=MOE, **MOONEP, **fields).value == mode


def test_moonep_holds_for_breakable_graphs_and_for_context_parallelism() -> None:
    assert configured(model=SPARSE_MLA, data_parallel_size=2, **MOONEP) is CUDAGraphMode.NONE
    fields = {"model": MLA, "enable_expert_parallel": True, "prefill_context_parallel_size": 2}
    assert configured(**MOONEP, **fields) is CUDAGraphMode.NONE
    fields["enable_expert_parallel"] = False
    assert configured(**MOONEP, **fields) is CUDAGraphMode.FULL_AND_PIECEWISE


@pytest.mark.parametrize(
    "fields",
    [{"dtype": "float16"}, {"quantization": "fp8"}, {"model": MOE.model_copy(update={"quantization": "fp8"})}],
)
def test_moonep_needs_plain_bfloat16(fields: dict[str, Any]) -> None:
    error = refused(**{"model": MOE, **MOONEP, **fields})
    assert (error.code, error.raised_in) == ("CG612", "VllmConfig")


@pytest.mark.parametrize(
    ("backend", "starts"),
    [
        ("deepep_low_latency", True),
        ("deepep_high_throughput", True),
        ("nixl_ep", True),
        ("allgather_reducescatter", False),
        (None, False),
    ],
)
def test_microbatching_needs_kernels_in_two_halves(backend: str | None, starts: bool) -> None:
    fields = {"model": MOE, "enable_dbo": True, "data_parallel_size": 2, "all2all_backend": backend}
    if starts:
        assert outcome(**fields).config["use_ubatching"] is True
    else:
        error = refused(**fields)
        assert (error.code, error.raised_in) == ("CG603", "VllmConfig")


def test_microbatching_on_rocm_takes_the_default_kernels_too() -> None:
    """vllm/config/vllm.py:2180-2190."""
    fields = {"model": MOE, "enable_dbo": True, "data_parallel_size": 2}
    assert outcome(gpu=ROCM, **fields).config["use_ubatching"] is True


@pytest.mark.parametrize(
    ("fields", "starts"),
    [
        ({"enable_dbo": True, "dbo_decode_token_threshold": 1}, False),
        ({"enable_dbo": True, "dbo_decode_token_threshold": 2}, True),
        ({"enable_dbo": True, "dbo_prefill_token_threshold": 1}, False),
        ({"ubatch_size": 4, "dbo_decode_token_threshold": 3}, False),
        ({"ubatch_size": 4, "dbo_decode_token_threshold": 4}, True),
        ({"ubatch_size": 1, "dbo_decode_token_threshold": 0}, True),
    ],
)
def test_a_microbatch_holds_a_token(fields: dict[str, Any], starts: bool) -> None:
    fields = {"model": MOE, "data_parallel_size": 2, "all2all_backend": "nixl_ep", **fields}
    if starts:
        assert outcome(**fields).data_parallel_ranks == 2
    else:
        assert refused(**fields).code == "CG604"


@pytest.mark.parametrize(
    ("fields", "starts"),
    [
        ({"tensor_parallel_size": 16}, False),
        ({"tensor_parallel_size": 16, "nnodes": 2}, True),
        ({"tensor_parallel_size": 16, "distributed_executor_backend": "ray"}, True),
        ({"tensor_parallel_size": 8}, True),
        ({"tensor_parallel_size": 4, "pipeline_parallel_size": 4}, False),
        ({"tensor_parallel_size": 2, "gpus_per_node": 1}, False),
        ({"data_parallel_size": 16}, True),
    ],
)
def test_the_ranks_of_a_replica_fit_the_node(fields: dict[str, Any], starts: bool) -> None:
    if starts:
        assert outcome(**fields).runner is not None
    else:
        error = refused(**fields)
        assert (error.code, error.raised_in) == ("CG605", "ParallelConfig")


@pytest.mark.parametrize(("heads", "tp", "starts"), [(32, 8, True), (28, 8, False), (28, 4, True), (0, 8, True)])
def test_heads_divide(heads: int, tp: int, starts: bool) -> None:
    model = ModelShape(num_attention_heads=heads, num_kv_heads=4)
    if starts:
        assert outcome(model=model, tensor_parallel_size=tp).config["world_size"] == tp
    else:
        assert refused(model=model, tensor_parallel_size=tp).code == "CG606"


@pytest.mark.parametrize(
    ("model", "tp", "dcp", "starts"),
    [
        (ModelShape(), 8, 2, False),
        (ModelShape(num_kv_heads=4), 8, 2, True),
        (ModelShape(num_kv_heads=4), 8, 4, False),
        (ModelShape(num_kv_heads=2, num_attention_heads=8), 8, 4, True),
        (ModelShape(num_kv_heads=2, num_attention_heads=24), 8, 4, True),
        (ModelShape(num_kv_heads=1, num_attention_heads=6), 6, 4, False),
        (ModelShape(num_kv_heads=4), 8, 3, False),
        (MLA, 8, 2, True),
        (MLA, 8, 8, True),
        (MLA, 8, 3, False),
    ],
)
def test_decode_context_parallelism(model: ModelShape, tp: int, dcp: int, starts: bool) -> None:
    fields = {"model": model, "tensor_parallel_size": tp, "decode_context_parallel_size": dcp}
    if starts:
        assert configured(**fields) is CUDAGraphMode.FULL_AND_PIECEWISE
    else:
        assert refused(**fields).code == "CG607"


def test_experts_are_needed_for_expert_parallelism() -> None:
    assert refused(enable_expert_parallel=True).code == "CG608"
    assert outcome(model=MOE, enable_expert_parallel=True).config["is_moe"] is True


@pytest.mark.parametrize(
    ("pcp", "dcp", "starts"), [(2, 1, True), (2, 2, True), (2, 4, True), (2, 3, False), (4, 2, False), (4, 8, True)]
)
def test_context_parallel_sizes_fit_each_other(pcp: int, dcp: int, starts: bool) -> None:
    fields = {
        "model": SPARSE_MLA,
        "tensor_parallel_size": 2,
        "prefill_context_parallel_size": pcp,
        "decode_context_parallel_size": dcp,
    }
    if starts:
        assert outcome(**fields).config["world_size"] == 2 * pcp
    else:
        assert refused(**fields).code == "CG607"


PCP = {"prefill_context_parallel_size": 2}


@pytest.mark.parametrize("mode", ["NONE", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"])
def test_prefill_context_parallelism_takes_every_mode_but_full(mode: str) -> None:
    assert mode_of(model=MLA, compilation_config=compiling(cudagraph_mode=mode), **PCP).value == mode


@pytest.mark.parametrize(
    "fields",
    [
        {"model": ModelShape()},
        {"model": MLA.model_copy(update={"is_multimodal_model": True})},
        {"model": MLA.model_copy(update={"is_encoder_decoder": True, "chunked_prefill_default": False})},
        {"model": MLA, "enable_lora": True},
        {"model": MLA, "speculative_config": drafting("ngram")},
        {"model": MLA, "speculative_config": drafting("eagle", model=MLA)},
        {
            "model": MLA,
            "speculative_config": drafting("mtp", 2, model=MLA.model_copy(update={"num_nextn_predict_layers": 2})),
        },
        {"model": MLA, "decode_context_parallel_size": 2},
        {"model": SPARSE_MLA.model_copy(update={"model_type": "deepseek_v4"})},
        {"model": MLA, "compilation_config": compiling(cudagraph_mode="FULL")},
    ],
)
def test_prefill_context_parallelism_refusals(fields: dict[str, Any]) -> None:
    error = refused(**PCP, **fields)
    assert (error.code, error.stage, error.raised_as) == ("CG611", "v2_runner_init", "NotImplementedError")


@pytest.mark.parametrize(
    "fields",
    [
        {"model": MLA, "speculative_config": drafting("dspark", model=MLA)},
        {"model": MLA, "speculative_config": drafting("mtp", 1)},
        {"model": SPARSE_MLA},
        {"model": SPARSE_MLA.model_copy(update={"model_type": "glm_moe_dsa"})},
        {"model": SPARSE_MLA, "decode_context_parallel_size": 2},
        {
            "model": SPARSE_MLA.model_copy(update={"model_type": "deepseek_v4"}),
            "compilation_config": compiling(cudagraph_mode="NONE"),
        },
        {"model": SPARSE_MLA.model_copy(update={"model_type": "deepseek_v4"}), "decode_context_parallel_size": 2},
    ],
)
def test_prefill_context_parallelism_starts(fields: dict[str, Any]) -> None:
    assert outcome(**PCP, **fields).runner.value == "V2"


def test_prefill_context_parallelism_needs_v2() -> None:
    assert refused(model=MLA, env=V1, **PCP).code == "CG610"
    assert outcome(model=MLA, env=V2, **PCP).runner.value == "V2"


@pytest.mark.parametrize(("dcp", "starts"), [(1, True), (2, True), (4, False)])
def test_dspark_under_both_context_parallelisms(dcp: int, starts: bool) -> None:
    """vllm/v1/worker/gpu/pcp_manager.py:176-187: with an MLA draft DCP is 1 or PCP."""
    fields = {
        "model": SPARSE_MLA,
        "tensor_parallel_size": 2,
        "decode_context_parallel_size": dcp,
        "speculative_config": drafting("dspark", model=MLA),
    }
    if starts:
        assert outcome(**PCP, **fields).runner.value == "V2"
    else:
        assert refused(**PCP, **fields).code == "CG611"


@pytest.mark.parametrize(("model", "ranks"), [(MOE, 4), (ModelShape(), 1)])
def test_f7_only_moe_ranks_wait_for_each_other(model: ModelShape, ranks: int) -> None:
    assert outcome(model=model, data_parallel_size=4).data_parallel_ranks == ranks


def test_the_vocabulary_must_divide() -> None:
    """vllm/model_executor/layers/vocab_parallel_embedding.py:304: 151,936 entries on 5 ranks."""
    model = ModelShape(vocab_size=151936, num_attention_heads=40, num_kv_heads=40)
    found = [f for f in outcome(model=model, tensor_parallel_size=5).findings if f.code == "CG615"]
    assert [(f.severity, f.fix) for f in found] == [("error", "use -tp 1, 2, 4 or 8")]
    assert not [f for f in outcome(model=model, tensor_parallel_size=8).findings if f.code == "CG615"]
