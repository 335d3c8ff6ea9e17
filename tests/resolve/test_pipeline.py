"""The order of the rules, and what a refusal carries."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    EMBEDDER,
    MLA,
    MOE,
    SPARSE_MLA,
    V1,
    V2,
    codes,
    compiling,
    drafting,
    given,
    mode_of,
    outcome,
    refused,
)

from cgplan import (
    AttentionCGSupport,
    CUDAGraphMode,
    Deployment,
    InputError,
    KVTransferOptions,
    ModelShape,
    Overrides,
    StartupError,
    resolve,
)
from cgplan.trace import RULES

LAYERWISE = KVTransferOptions(
    kv_connector="LMCacheConnectorV1", kv_role="kv_both", kv_connector_extra_config={"use_layerwise": True}
)


def test_the_same_deployment_gives_the_same_answer() -> None:
    deployment = given(max_num_seqs=77, speculative_config=drafting("eagle"), enable_lora=True)
    assert resolve(deployment) == resolve(deployment)


def test_a_release_may_be_named_short_but_must_be_known() -> None:
    assert resolve(given(vllm="0.33")).vllm_version == "0.33.0"
    assert resolve(given(vllm="v0.33.0")).vllm_version == "0.33.0"
    for release in ("9.9.9", "latest", "", "0.33.0.dev1+garbage" * 10):
        with pytest.raises(InputError) as caught:
            resolve(given(vllm=release))
        assert "0.33.0" in str(caught.value.fix)


def test_requested_configured_and_final_mode_are_three_things() -> None:
    found = outcome(
        compilation_config=compiling(cudagraph_mode="FULL_AND_PIECEWISE", splitting_ops=[]),
        attention_support="UNIFORM_BATCH",
    )
    modes = (found.requested_mode, found.configured_mode, found.cudagraph_mode)
    assert [mode.value for mode in modes] == ["FULL_AND_PIECEWISE", "FULL", "FULL_DECODE_ONLY"]
    assert (found.decode_mode, found.mixed_mode) == (CUDAGraphMode.FULL, CUDAGraphMode.NONE)


def test_the_requested_mode_of_an_eager_start_is_none() -> None:
    found = outcome(enforce_eager=True, compilation_config=compiling(cudagraph_mode="FULL"))
    assert found.requested_mode is CUDAGraphMode.FULL
    assert outcome(enforce_eager=True).cudagraph_mode is CUDAGraphMode.NONE


def test_uncompiled_connectors_fall_through_both_normalisations() -> None:
    """FULL becomes PIECEWISE because of the connector, and then NONE because nothing is compiled."""
    found = outcome(kv_transfer_config=LAYERWISE, compilation_config=compiling(mode="NONE"))
    assert found.configured_mode is CUDAGraphMode.NONE
    order = [d.code for d in found.decisions if d.field == "cudagraph_mode"]
    assert order == ["CG202", "CG206", "CG209", "CG206"]


def test_the_grid_stands_before_late_rules_switch_graphs_off() -> None:
    for late in ({"all2all_backend": "moonep"}, {"all2all_backend": "deepep_high_throughput"}):
        found = outcome(model=MOE, data_parallel_size=2, **late)
        assert (found.configured_mode, found.max_capture_size) == (CUDAGraphMode.NONE, 512)


def test_moonep_comes_before_the_splitting_rules() -> None:
    """With graphs off already, an empty list of splitting ops changes nothing more."""
    options = compiling(splitting_ops=[])
    found = outcome(model=MOE, data_parallel_size=2, all2all_backend="moonep", compilation_config=options)
    assert "CG602" in codes(found)
    assert "CG214" not in codes(found)


def test_the_runner_check_comes_before_adaptive_verification() -> None:
    options = drafting("eagle", enable_adaptive_verification=True)
    fields = {"speculative_config": options, "enable_lora": True, "max_num_seqs": 64}
    assert refused(**fields, env=V1).code == "CG610"
    assert refused(**fields, env=V2).code == "CG410"


def test_the_batch_limits_are_checked_before_the_model_hooks() -> None:
    error = refused(max_num_batched_tokens=64, max_num_seqs=128, enable_expert_parallel=True)
    assert error.code == "CG120"


def test_the_compilation_config_is_checked_first_of_all() -> None:
    options = compiling(custom_ops=["all", "none"])
    error = refused(max_num_batched_tokens=64, max_num_seqs=128, compilation_config=options)
    assert error.code == "CG226"


def test_a_refusal_of_the_worker_carries_the_settings() -> None:
    error = refused(compilation_config=compiling(cudagraph_mode="FULL"), attention_support="NEVER", max_num_seqs=64)
    assert error.settings is not None
    assert (error.settings["max_num_seqs"], error.settings["max_cudagraph_capture_size"]) == (64, 128)


def test_a_refusal_of_the_configuration_carries_none() -> None:
    assert refused(max_cudagraph_capture_size=0).settings is None


def test_overrides_replace_the_deployment_s_support_level() -> None:
    deployment = given(attention_support="ALWAYS")
    assert resolve(deployment, Overrides(support=AttentionCGSupport.NEVER)).cudagraph_mode.value == "PIECEWISE"
    assert resolve(deployment).support is AttentionCGSupport.ALWAYS


def test_varlen_decode_by_override() -> None:
    found = resolve(given(env=V2, speculative_config=drafting()), Overrides(varlen_decode=True))
    assert {graph.max_query_len for graph in found.captures[CUDAGraphMode.FULL]} == {4}


def test_adaptive_mode_by_override() -> None:
    options = drafting("eagle", enable_adaptive_verification=True)
    deployment = given(speculative_config=options, compilation_config=compiling(cudagraph_mode="FULL"))
    assert resolve(deployment).cudagraph_mode.value == "FULL_AND_PIECEWISE"
    assert resolve(deployment, Overrides(adaptive_mode=False)).cudagraph_mode.value == "FULL"


@pytest.mark.parametrize("mode", list(CUDAGraphMode))
@pytest.mark.parametrize("runner", ["0", "1"])
@pytest.mark.parametrize("model", [ModelShape(), MLA, MOE, SPARSE_MLA, EMBEDDER])
def test_every_final_mode_can_be_captured(mode: CUDAGraphMode, runner: str, model: ModelShape) -> None:
    """Consistency: pieces need a compiler or breakable graphs; the last size is the maximum."""
    found = outcome(
        model=model,
        env={"VLLM_USE_V2_MODEL_RUNNER": runner},
        compilation_config=compiling(cudagraph_mode=mode.value),
    )
    if found.cudagraph_mode.has_piecewise:
        assert found.compilation_mode.value == "VLLM_COMPILE" or found.config["breakable_cudagraph"] == "1"
    assert found.max_capture_size == (found.capture_sizes[-1] if found.capture_sizes else 0)


def test_every_decision_cites_a_known_rule() -> None:
    found = outcome(
        model=SPARSE_MLA, enable_lora=True, performance_mode="throughput", speculative_config=drafting("mtp", 1)
    )
    assert found.decisions
    for decision in found.decisions:
        rule = RULES[decision.code]
        assert decision.source == f"{rule.source} @ {rule.release}"
        assert decision.before != decision.after


def test_cheap_questions_stay_cheap() -> None:
    """A named limit of two thousand million sequences must not make a list that long."""
    found = outcome(max_num_seqs=2**31 - 1, max_num_batched_tokens=2**31 - 1)
    assert found.max_capture_size == 512
    assert len(found.uniform_decode_coverage().ranges) < 100
    dynamic = drafting(tokens=4, num_speculative_tokens_per_batch_size=[[1, 2**31 - 1, 4]])
    assert outcome(max_num_seqs=2**30, max_num_batched_tokens=2**31 - 1, speculative_config=dynamic).schedule


def test_a4_a3_a1_in_one_line_each() -> None:
    assert mode_of(optimization_level=0).value == "NONE"
    assert mode_of(enforce_eager=True).value == "NONE"
    assert mode_of().value == "FULL_AND_PIECEWISE"


def test_a_backend_is_chosen_where_no_level_is_given() -> None:
    found = resolve(Deployment(attention_backend="FLASHINFER"))
    assert found.backend.name.upper() == "FLASHINFER"
    assert found.backend.groups


def test_startup_errors_are_the_public_type() -> None:
    with pytest.raises(StartupError) as caught:
        resolve(given(max_cudagraph_capture_size=0))
    assert set(caught.value.as_dict()) == {"code", "message", "where", "fix", "stage", "raised_as", "raised_in"}


@pytest.mark.parametrize("wrong", [None, {}, "x", 3])
def test_resolve_takes_a_deployment(wrong: Any) -> None:
    with pytest.raises(InputError, match="takes a Deployment"):
        resolve(wrong)
