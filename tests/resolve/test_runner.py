"""The choice between the runners V1 and V2, and async scheduling."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    EMBEDDER,
    JAMBA,
    MLA,
    MOE,
    SPARSE_MLA,
    V1,
    V2,
    compiling,
    drafting,
    outcome,
    refused,
)

from cgplan import InputError, ModelShape, Runner, Software, resolve

DBO: dict[str, Any] = {
    "model": MOE,
    "enable_dbo": True,
    "data_parallel_size": 2,
    "all2all_backend": "deepep_low_latency",
}
STEP5 = ModelShape(architectures=("Step5ForCausalLM",))
DIFFUSION = ModelShape(architectures=("DiffusionGemmaForBlockDiffusion",), is_diffusion=True, canvas_length=16)


def runner_of(**fields: Any) -> str:
    return outcome(**fields).runner.value


@pytest.mark.parametrize("model", [ModelShape(), MOE, MLA, SPARSE_MLA, JAMBA, EMBEDDER])
def test_v2_is_the_default_of_every_model(model: ModelShape) -> None:
    assert runner_of(model=model) == "V2"


@pytest.mark.parametrize(("value", "runner"), [("0", "V1"), ("1", "V2"), ("2", "V2"), ("-1", "V2")])
def test_the_environment_decides(value: str, runner: str) -> None:
    assert runner_of(env={"VLLM_USE_V2_MODEL_RUNNER": value}) == runner


@pytest.mark.parametrize("value", ["yes", "", "1.0"])
def test_the_environment_must_be_a_number(value: str) -> None:
    with pytest.raises(InputError) as caught:
        outcome(env={"VLLM_USE_V2_MODEL_RUNNER": value})
    assert caught.value.where == "VLLM_USE_V2_MODEL_RUNNER"


def test_without_triton_v1_serves_unless_forced() -> None:
    software = Software(triton=False)
    assert runner_of(software=software) == "V1"
    assert runner_of(software=software, env=V2) == "V2"


V2_LACKS: list[dict[str, Any]] = [
    {"distributed_executor_backend": "external_launcher", "pipeline_parallel_size": 2},
    {"speculative_config": drafting("suffix")},
    {"speculative_config": drafting("custom_class")},
    {"speculative_config": drafting("eagle", parallel_drafting=True)},
    {"speculative_config": drafting("draft_model", use_heterogeneous_vocab=True)},
]


@pytest.mark.parametrize("fields", V2_LACKS)
def test_what_v2_lacks_runs_on_v1(fields: dict[str, Any]) -> None:
    assert runner_of(**fields) == "V1"
    error = refused(**fields, env=V2)
    assert (error.code, error.raised_in, error.raised_as) == ("CG610", "VllmConfig", "ValidationError")


@pytest.mark.parametrize(
    "fields",
    [
        {"distributed_executor_backend": "external_launcher"},
        {"pipeline_parallel_size": 2},
        {"speculative_config": drafting("dflash", parallel_drafting=True)},
        {"speculative_config": drafting("ngram_gpu")},
    ],
)
def test_what_v2_has(fields: dict[str, Any]) -> None:
    assert runner_of(**fields) == "V2"


V1_LACKS: list[dict[str, Any]] = [
    {"model": MLA, "prefill_context_parallel_size": 2},
    {"model": MLA, "speculative_config": drafting("dspark", model=MLA)},
    {"speculative_config": drafting("dflash", model=ModelShape(architectures=("Qwen3XPressModel",)))},
    {"speculative_config": drafting("dflash", model=ModelShape(architectures=("DFlash2DraftModel",)))},
    {"speculative_config": drafting("dflash", model=ModelShape(architectures=("LiLiCorrDraftModel",)))},
    {"speculative_config": drafting("eagle", enable_adaptive_verification=True)},
    {"speculative_config": drafting("eagle", draft_lm_head_quantization="fp8")},
    {"speculative_config": drafting("mtp", model=ModelShape(architectures=("ParseAuxMTPModel",), model_type="mtp"))},
    {"model": DIFFUSION},
    {"model": STEP5},
]


@pytest.mark.parametrize("fields", V1_LACKS)
def test_what_v1_lacks_does_not_start_there(fields: dict[str, Any]) -> None:
    assert refused(**fields, env=V1).code == "CG610"
    assert runner_of(**fields) == "V2"


@pytest.mark.parametrize("fields", [{}, {"speculative_config": drafting("dflash")}, {"pipeline_parallel_size": 2}])
def test_what_v1_has(fields: dict[str, Any]) -> None:
    assert runner_of(**fields, env=V1) == "V1"


def test_dual_batch_overlap_needs_v2_by_name() -> None:
    assert runner_of(**DBO) == "V1"
    assert runner_of(**DBO, env=V2) == "V2"
    assert runner_of(model=MOE, ubatch_size=2, data_parallel_size=2, all2all_backend="nixl_ep") == "V1"
    assert runner_of(model=MOE, ubatch_size=1, data_parallel_size=2, all2all_backend="nixl_ep") == "V2"


@pytest.mark.parametrize(
    "change",
    [
        {"enable_lora": True},
        {"speculative_config": drafting()},
        {"pipeline_parallel_size": 2},
        {"model": MLA, "tensor_parallel_size": 2, "decode_context_parallel_size": 2},
        {"model": MLA, "prefill_context_parallel_size": 2},
        {"model": MOE.model_copy(update={"is_multimodal_model": True})},
        {"model": MOE.model_copy(update={"is_encoder_decoder": True, "chunked_prefill_default": False})},
        {"model": MOE.model_copy(update={"is_hybrid": True})},
        {"compilation_config": compiling(cudagraph_mode="PIECEWISE")},
    ],
)
def test_dual_batch_overlap_on_v2_goes_with_few_features(change: dict[str, Any]) -> None:
    assert refused(**{**DBO, **change}, env=V2).code == "CG610"


def test_the_mode_that_counts_for_overlap_is_the_final_configured_one() -> None:
    """-O1 stands for PIECEWISE, which overlap on V2 does not take."""
    assert refused(**DBO, env=V2, optimization_level=1).code == "CG610"
    assert runner_of(**DBO, env=V2, compilation_config=compiling(cudagraph_mode="FULL")) == "V2"


@pytest.mark.parametrize(
    ("fields", "on"),
    [
        ({}, True),
        ({"async_scheduling": False}, False),
        ({"async_scheduling": True}, True),
        ({"model": EMBEDDER}, False),
        ({"model": EMBEDDER, "async_scheduling": True}, True),
        ({"env": V1}, True),
        ({"env": V1, "pipeline_parallel_size": 2}, False),
        ({"env": V2, "pipeline_parallel_size": 2}, True),
        ({"env": V1, "speculative_config": drafting("ngram")}, False),
        ({"env": V2, "speculative_config": drafting("ngram")}, True),
        ({"env": V1, "speculative_config": drafting("ngram_gpu")}, True),
        ({"env": V1, "speculative_config": drafting("eagle")}, True),
        ({"env": V1, "speculative_config": drafting("eagle", disable_padded_drafter_batch=True)}, False),
        ({"env": V2, "speculative_config": drafting("eagle", disable_padded_drafter_batch=True)}, True),
    ],
)
def test_async_scheduling(fields: dict[str, Any], on: bool) -> None:
    assert outcome(**fields).config["async_scheduling"] is on


@pytest.mark.parametrize(
    "fields",
    [
        {"pipeline_parallel_size": 2},
        {"speculative_config": drafting("ngram")},
        {"speculative_config": drafting("eagle", disable_padded_drafter_batch=True)},
    ],
)
def test_async_scheduling_by_name_must_be_possible(fields: dict[str, Any]) -> None:
    assert refused(**fields, env=V1, async_scheduling=True).code == "CG802"


def test_the_choice_is_part_of_the_resolved_settings() -> None:
    for env, runner in ((V1, Runner.V1), (V2, Runner.V2)):
        found = outcome(env=env)
        assert (found.runner, found.config["use_v2_model_runner"]) == (runner, runner is Runner.V2)


def test_the_public_function_is_the_package() -> None:
    assert resolve.__name__.startswith("cgplan")
