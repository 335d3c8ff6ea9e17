"""The CUDA graph mode before the attention backend is known, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    EMBEDDER,
    GIB,
    MLA,
    SPARSE_MLA,
    V1,
    V2,
    WHISPER,
    codes,
    compiling,
    configured,
    finding_codes,
    mode_of,
    outcome,
    refused,
)

from cgplan import CompilationMode, CUDAGraphMode, Gpu, KVTransferOptions, Software
from cgplan.resolve.mode import demands_piecewise

CPU = Gpu(name="cpu", platform="cpu", memory_bytes=64 * GIB)
TPU = Gpu(name="V6E", platform="tpu", memory_bytes=32 * GIB)
XPU = Gpu(name="Intel Data Center GPU Max", platform="xpu", capability=(12, 60), memory_bytes=64 * GIB)
ROCM = Gpu(name="AMD Instinct MI300X", platform="rocm", capability=(9, 4), memory_bytes=192 * GIB)

MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
UNCOMPILED = ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE"]
WITHOUT_PIECEWISE = {"PIECEWISE": "NONE", "FULL_AND_PIECEWISE": "FULL_DECODE_ONLY"}


@pytest.mark.parametrize("asked", [None, *MODES])
def test_a3_eager_overwrites_every_mode_without_an_error(asked: str | None) -> None:
    options = compiling(cudagraph_mode=asked, mode="VLLM_COMPILE")
    found = outcome(enforce_eager=True, compilation_config=options, max_cudagraph_capture_size=64)
    assert (found.compilation_mode, found.cudagraph_mode) == (CompilationMode.NONE, CUDAGraphMode.NONE)
    assert (found.capture_sizes, found.max_capture_size, found.graph_count()) == ((), 0, 0)
    assert found.config["cudagraph_num_of_warmups"] == 0
    assert "CG203" in codes(found)


def test_warmups_are_one_wherever_graphs_may_be_captured() -> None:
    assert outcome().config["cudagraph_num_of_warmups"] == 1
    assert outcome(compilation_config=compiling(cudagraph_num_of_warmups=5)).config["cudagraph_num_of_warmups"] == 1


@pytest.mark.parametrize("value", ["1", "0", "true"])
def test_torch_compile_disable_is_compared_with_1(value: str) -> None:
    found = outcome(env={"TORCH_COMPILE_DISABLE": value})
    if value == "1":
        assert found.compilation_mode is CompilationMode.NONE
        assert found.configured_mode is CUDAGraphMode.FULL_DECODE_ONLY
        assert "CG204" in codes(found)
    else:
        assert found.compilation_mode is CompilationMode.VLLM_COMPILE


@pytest.mark.parametrize("asked", MODES)
@pytest.mark.parametrize("mode", ["NONE", "DYNAMO_TRACE_ONCE"])
def test_a4_a5_piecewise_needs_vllm_compile(asked: str, mode: str) -> None:
    """Without compilation 0.33.0 keeps FULL decode graphs; up to 0.29.0 nothing was left."""
    found = outcome(compilation_config=compiling(mode=mode, cudagraph_mode=asked))
    assert found.configured_mode.value == WITHOUT_PIECEWISE.get(asked, asked)
    if found.configured_mode is CUDAGraphMode.NONE:
        assert (found.capture_sizes, found.max_capture_size) == ((), 0)


def test_a4_level_1_without_compilation_has_no_graph() -> None:
    assert configured(optimization_level=1, compilation_config=compiling(mode="NONE")) is CUDAGraphMode.NONE
    assert configured(compilation_config=compiling(mode="NONE")) is CUDAGraphMode.FULL_DECODE_ONLY


def test_a4_uncompiled_on_a_backend_without_support_is_none() -> None:
    options = compiling(mode="NONE")
    assert mode_of(compilation_config=options, attention_support="NEVER") is CUDAGraphMode.NONE


@pytest.mark.parametrize("asked", ["FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"])
def test_stock_compile_has_no_graph_on_v2(asked: str) -> None:
    found = outcome(compilation_config=compiling(mode="STOCK_TORCH_COMPILE", cudagraph_mode=asked), env=V2)
    assert (found.configured_mode, found.capture_sizes) == (CUDAGraphMode.NONE, ())
    assert "CG211" in codes(found)


def test_stock_compile_on_v1_keeps_the_name_and_says_that_nothing_is_captured() -> None:
    found = outcome(compilation_config=compiling(mode="STOCK_TORCH_COMPILE"), env=V1)
    assert found.configured_mode is CUDAGraphMode.FULL_DECODE_ONLY
    assert "CG227" in finding_codes(found)


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (None, "PIECEWISE"),
        ("FULL", "PIECEWISE"),
        ("FULL_DECODE_ONLY", "PIECEWISE"),
        ("PIECEWISE", "PIECEWISE"),
        ("NONE", "NONE"),
    ],
)
def test_pooling_models_lose_full_graphs(asked: str | None, after: str) -> None:
    assert configured(model=EMBEDDER, compilation_config=compiling(cudagraph_mode=asked)).value == after


def test_uncompiled_pooling_models_have_no_graph() -> None:
    """FULL becomes PIECEWISE, and the second normalisation finds nothing that could be cut."""
    found = outcome(model=EMBEDDER, compilation_config=compiling(mode="NONE", cudagraph_mode="FULL"))
    assert (found.configured_mode, found.capture_sizes) == (CUDAGraphMode.NONE, ())
    assert {"CG207", "CG206"} <= codes(found)


def test_a_generating_model_pools_when_asked() -> None:
    assert configured(runner="pooling") is CUDAGraphMode.PIECEWISE
    assert configured(model=EMBEDDER, runner="generate") is CUDAGraphMode.FULL_AND_PIECEWISE


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (None, "FULL_DECODE_ONLY"),
        ("FULL", "FULL_DECODE_ONLY"),
        ("PIECEWISE", "FULL_DECODE_ONLY"),
        ("FULL_DECODE_ONLY", "FULL_DECODE_ONLY"),
        ("NONE", "NONE"),
    ],
)
def test_encoder_decoder_models_have_decode_graphs_only(asked: str | None, after: str) -> None:
    found = outcome(model=WHISPER, compilation_config=compiling(cudagraph_mode=asked))
    assert found.configured_mode.value == after
    assert ("CG208" in codes(found)) is (asked not in ("NONE", "FULL_DECODE_ONLY"))


def test_pooling_comes_before_encoder_decoder() -> None:
    model = WHISPER.model_copy(update={"runner_type": "pooling"})
    assert configured(model=model) is CUDAGraphMode.PIECEWISE
    piecewise = compiling(cudagraph_mode="PIECEWISE")
    assert configured(model=model, compilation_config=piecewise) is CUDAGraphMode.FULL_DECODE_ONLY


LAYERWISE: dict[str, Any] = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
LAYERWISE_ON: dict[str, Any] = {**LAYERWISE, "kv_connector_extra_config": {"use_layerwise": True}}
NIXL: dict[str, Any] = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def multi(*children: dict[str, Any]) -> dict[str, Any]:
    extra = {"connectors": list(children)}
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


@pytest.mark.parametrize(
    ("transfer", "forced"),
    [
        (LAYERWISE, False),
        (LAYERWISE_ON, True),
        ({**LAYERWISE, "kv_connector_extra_config": {"use_layerwise": False}}, False),
        (NIXL, False),
        ({**NIXL, "kv_connector_extra_config": {"use_layerwise": True}}, False),
        (multi(NIXL), False),
        (multi(NIXL, LAYERWISE), False),
        (multi(NIXL, LAYERWISE_ON), True),
        (multi(multi(LAYERWISE_ON)), True),
        (multi(), False),
    ],
)
def test_layer_by_layer_connectors_force_piecewise(transfer: dict[str, Any], forced: bool) -> None:
    found = outcome(kv_transfer_config=KVTransferOptions(**transfer))
    assert found.configured_mode.value == ("PIECEWISE" if forced else "FULL_AND_PIECEWISE")
    assert ("CG209" in codes(found)) is forced


@pytest.mark.parametrize(
    ("asked", "mode", "after"),
    [
        ("FULL_DECODE_ONLY", None, "PIECEWISE"),
        ("FULL", "NONE", "NONE"),
        ("NONE", None, "NONE"),
        ("PIECEWISE", None, "PIECEWISE"),
    ],
)
def test_connector_with_other_modes(asked: str, mode: str | None, after: str) -> None:
    options = compiling(cudagraph_mode=asked, mode=mode)
    transfer = KVTransferOptions(**LAYERWISE_ON)
    assert configured(kv_transfer_config=transfer, compilation_config=options).value == after


@pytest.mark.parametrize("transfer", [{"kv_connector": "LMCacheConnectorV1"}, {"kv_role": "kv_both"}])
def test_a_connector_without_a_role_does_not_start(transfer: dict[str, Any]) -> None:
    """vllm/config/kv_transfer.py:117-121; a role without a connector fails in the connector factory."""
    assert refused(kv_transfer_config=KVTransferOptions(**transfer)).raised_in == "VllmConfig"


def test_malformed_children_demand_nothing() -> None:
    facts = {"layerwise": {"L": "use_layerwise"}, "multi": {"M": "connectors"}}
    assert not demands_piecewise("M", {"connectors": "L"}, facts)
    assert not demands_piecewise(
        "M", {"connectors": [7, {"kv_connector": "L", "kv_connector_extra_config": None}]}, facts
    )
    assert demands_piecewise("L", {"use_layerwise": 1}, facts)


@pytest.mark.parametrize("gpu", [CPU, TPU], ids=["cpu", "tpu"])
def test_platforms_without_graphs(gpu: Gpu) -> None:
    found = outcome(gpu=gpu, compilation_config=compiling(cudagraph_mode="FULL"))
    assert found.configured_mode is CUDAGraphMode.NONE
    assert found.graph_count() == 0
    assert "CG210" in codes(found)
    assert any(gpu.platform in line for line in found.not_modelled)


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, "DYNAMO_TRACE_ONCE"),
        ({"enable_lora": True}, "NONE"),
        ({"optimization_level": 0}, "NONE"),
        ({"compilation_config": compiling(mode="STOCK_TORCH_COMPILE")}, "STOCK_TORCH_COMPILE"),
    ],
)
def test_compilation_on_cpu(fields: dict[str, Any], mode: str) -> None:
    found = outcome(gpu=CPU, **fields)
    assert found.compilation_mode.value == mode
    assert found.capture_sizes == ()


def test_named_sizes_are_dropped_on_cpu() -> None:
    assert outcome(gpu=CPU, cudagraph_capture_sizes=[1, 2, 4]).capture_sizes == ()


def test_xpu_keeps_its_graphs() -> None:
    found = outcome(gpu=XPU)
    assert found.configured_mode is CUDAGraphMode.FULL_AND_PIECEWISE
    assert (len(found.capture_sizes), found.max_capture_size) == (51, 512)


@pytest.mark.parametrize(
    ("asked", "pcp", "after"),
    [("FULL_AND_PIECEWISE", 2, "PIECEWISE"), ("FULL_AND_PIECEWISE", 1, "FULL_AND_PIECEWISE"), ("NONE", 2, "NONE")],
)
def test_rocm_has_no_full_graphs_under_prefill_context_parallelism(asked: str, pcp: int, after: str) -> None:
    found = outcome(
        gpu=ROCM, model=MLA, prefill_context_parallel_size=pcp, compilation_config=compiling(cudagraph_mode=asked)
    )
    assert found.configured_mode.value == after


@pytest.mark.parametrize(
    ("release", "gpu", "dcp", "lowered"),
    [("0.28.0", ROCM, 2, True), ("0.29.0", ROCM, 2, False), ("0.28.0", ROCM, 1, False), ("0.28.0", Gpu(), 2, False)],
)
def test_rocm_had_no_full_graphs_under_decode_context_parallelism(
    release: str, gpu: Gpu, dcp: int, lowered: bool
) -> None:
    found = outcome(vllm=release, gpu=gpu, model=MLA, tensor_parallel_size=8, decode_context_parallel_size=dcp)
    assert ("CG248" in codes(found)) is lowered
    assert (found.configured_mode is CUDAGraphMode.PIECEWISE) is lowered


def test_rocm_runs_encoder_decoder_models_eager() -> None:
    """vllm/config/model.py:1487-1496: enforce_eager is set for them."""
    found = outcome(gpu=ROCM, model=WHISPER)
    assert (found.configured_mode, found.compilation_mode) == (CUDAGraphMode.NONE, CompilationMode.NONE)


@pytest.mark.parametrize("mode", UNCOMPILED)
def test_nothing_keeps_piecewise_without_a_way_to_cut(mode: str) -> None:
    for asked in ("PIECEWISE", "FULL_AND_PIECEWISE"):
        options = compiling(mode=mode, cudagraph_mode=asked)
        assert not outcome(compilation_config=options, env=V1).configured_mode.has_piecewise


HISPARSE: dict[str, Any] = {"attention_config": {"hisparse_config": {}}, "model": SPARSE_MLA}


def test_hisparse_runs_on_v2_with_decode_graphs() -> None:
    found = outcome(**HISPARSE)
    assert (found.runner.value, found.configured_mode.value) == ("V2", "FULL_AND_PIECEWISE")


@pytest.mark.parametrize(
    "change",
    [
        {"compilation_config": compiling(cudagraph_mode="FULL")},
        {"pipeline_parallel_size": 2},
        {"decode_context_parallel_size": 2, "tensor_parallel_size": 2},
        {"model": MLA},
        {"gpu": ROCM},
    ],
)
def test_hisparse_refusals(change: dict[str, Any]) -> None:
    error = refused(**{**HISPARSE, **change})
    assert (error.code, error.raised_in) == ("CG218", "VllmConfig")


def test_hisparse_cannot_run_on_v1() -> None:
    assert refused(**HISPARSE, env=V1).code == "CG610"
    no_triton = outcome(**HISPARSE, software=Software(triton=False))
    assert no_triton.runner.value == "V2"


def test_the_hisparse_connector_turns_hisparse_on() -> None:
    """vllm/config/vllm.py:1876-1881."""
    transfer = KVTransferOptions(kv_connector="HiSparseConnector", kv_role="kv_both")
    full = compiling(cudagraph_mode="FULL")
    error = refused(model=SPARSE_MLA, kv_transfer_config=transfer, compilation_config=full)
    assert error.code == "CG218"


def test_modes_are_names_in_any_case_or_numbers() -> None:
    for value in ("full_and_piecewise", "Full_And_Piecewise", "FULL_AND_PIECEWISE"):
        assert configured(compilation_config=compiling(cudagraph_mode=value)) is CUDAGraphMode.FULL_AND_PIECEWISE
    numbers = [configured(compilation_config=compiling(cudagraph_mode=n)).value for n in (0, 1, 2)]
    assert numbers == ["NONE", "PIECEWISE", "FULL"]
    modes = [outcome(compilation_config=compiling(mode=n)).compilation_mode.value for n in range(4)]
    assert modes == ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"]


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_prefix_caching": False},
        {"enable_chunked_prefill": True},
        {"tensor_parallel_size": 4},
        {"pipeline_parallel_size": 2},
        {"model": MLA, "tensor_parallel_size": 8, "decode_context_parallel_size": 2},
    ],
)
def test_features_that_leave_the_mode_alone(fields: dict[str, Any]) -> None:
    assert configured(**fields) is CUDAGraphMode.FULL_AND_PIECEWISE
