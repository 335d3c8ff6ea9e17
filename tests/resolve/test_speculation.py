"""Speculative decoding: what is validated, and what it does to lengths, limits and modes."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MAMBA, MLA, MOE, V1, V2, codes, compiling, configured, drafting, given, outcome, refused

from cgplan import (
    AttentionCGSupport,
    CUDAGraphMode,
    Deployment,
    ModelShape,
    Overrides,
    SpeculativeOptions,
    StartupError,
    resolve,
)
from cgplan.resolve.speculation import Speculation

DYNAMIC: dict[str, Any] = {"num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 64, 1]]}
SHORT_DRAFT = ModelShape(num_hidden_layers=1, max_model_len=2048)


def config(**fields: Any) -> dict[str, Any]:
    return outcome(**fields).config


@pytest.mark.parametrize("tokens", [1, 3, 7, 16])
def test_f12_query_length_is_one_more_than_the_drafts(tokens: int) -> None:
    assert outcome(speculative_config=drafting(tokens=tokens)).uniform_decode_query_len == tokens + 1
    assert outcome().uniform_decode_query_len == 1


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ("deepseek_mtp", "mtp"),
        ("mtp", "mtp"),
        ("qwen3_next_mtp", "mtp"),
        ("ngram", "ngram"),
        ("ngram_gpu", "ngram_gpu"),
        ("eagle3", "eagle3"),
    ],
)
def test_method_names(asked: str, method: str) -> None:
    assert config(model=MLA, speculative_config=drafting(asked))["spec_method"] == method


def test_a_draft_model_is_the_default_method() -> None:
    options = SpeculativeOptions(model=ModelShape(num_hidden_layers=1), num_speculative_tokens=2)
    assert config(speculative_config=options)["spec_method"] == "draft_model"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (SpeculativeOptions(method="warp", num_speculative_tokens=3), "CG416"),
        (SpeculativeOptions(method="[ngram]", num_speculative_tokens=3), "CG416"),
        (SpeculativeOptions(method="eagle", num_speculative_tokens=3), "CG416"),
        (SpeculativeOptions(method="draft_model", num_speculative_tokens=3), "CG416"),
        (SpeculativeOptions(method="ngram"), "CG416"),
        (drafting("draft_model", model=ModelShape(vocab_size=32000)), "CG418"),
        (drafting("mtp", 5, model=MLA.model_copy(update={"num_nextn_predict_layers": 2})), "CG417"),
    ],
)
def test_refused_configurations(options: SpeculativeOptions, code: str) -> None:
    error = refused(speculative_config=options)
    assert (error.code, error.raised_in, error.raised_as) == (code, "SpeculativeConfig", "ValidationError")


@pytest.mark.parametrize(("tokens", "starts"), [(1, True), (2, True), (4, True), (3, False), (5, False)])
def test_mtp_layers_must_divide_larger_numbers_of_tokens(tokens: int, starts: bool) -> None:
    model = MLA.model_copy(update={"num_nextn_predict_layers": 2})
    if starts:
        found = outcome(model=model, speculative_config=drafting("mtp", tokens))
        assert found.uniform_decode_query_len == tokens + 1
    else:
        assert refused(model=model, speculative_config=drafting("mtp", tokens)).code == "CG417"


def test_mtp_layers_are_the_default_number_of_tokens() -> None:
    model = MLA.model_copy(update={"num_nextn_predict_layers": 2})
    options = SpeculativeOptions(method="mtp", model=model)
    assert config(model=model, speculative_config=options)["num_speculative_tokens"] == 2


def test_another_vocabulary_needs_the_flag_and_runner_v1() -> None:
    draft = ModelShape(vocab_size=32000)
    found = outcome(speculative_config=drafting("draft_model", model=draft, use_heterogeneous_vocab=True))
    assert found.runner.value == "V1"
    assert outcome(speculative_config=drafting("eagle", model=draft)).runner.value == "V2"


@pytest.mark.parametrize(("draft_tp", "starts"), [(None, True), (1, True), (4, True), (2, False), (8, False)])
def test_draft_tensor_parallel_size(draft_tp: int | None, starts: bool) -> None:
    options = drafting("eagle", draft_tensor_parallel_size=draft_tp)
    fields = {"tensor_parallel_size": 4, "speculative_config": options}
    if starts:
        assert outcome(**fields).uniform_decode_query_len == 4
    else:
        assert refused(**fields).code == "CG419"


def test_the_draft_must_divide_too() -> None:
    draft = ModelShape(num_attention_heads=30, num_kv_heads=2)
    error = refused(tensor_parallel_size=4, speculative_config=drafting("eagle", model=draft))
    assert (error.code, error.raised_in) == ("CG606", "SpeculativeConfig")


def test_scheduled_tokens_default_to_the_budget() -> None:
    assert config(speculative_config=drafting())["max_num_scheduled_tokens"] == 8192
    assert config(speculative_config=drafting(), max_num_scheduled_tokens=100)["max_num_scheduled_tokens"] == 100
    assert config()["max_num_scheduled_tokens"] is None


@pytest.mark.parametrize(
    ("method", "tokens", "slots"),
    [("eagle", 3, 3), ("mtp", 3, 3), ("draft_model", 3, 3), ("ngram", 3, 0), ("dflash", 3, 4), ("dspark", 3, 3)],
)
def test_draft_slots_of_a_request(method: str, tokens: int, slots: int) -> None:
    fields = {"model": MLA, "max_num_seqs": 1, "speculative_config": drafting(method, tokens, model=MLA)}
    if method == "ngram":
        fields["speculative_config"] = drafting(method, tokens)
    else:
        assert refused(max_num_batched_tokens=slots, **fields).code == "CG408"
    assert outcome(max_num_batched_tokens=slots + 1, **fields).max_num_batched_tokens == slots + 1


@pytest.mark.parametrize(
    ("method", "tokens", "budget", "active"),
    [("dflash", 15, 2048, 128), ("dflash", 15, 8192, None), ("dspark", 16, 2048, 128), ("eagle", 15, 2048, None)],
)
def test_parallel_drafts_bound_the_active_requests(method: str, tokens: int, budget: int, active: int | None) -> None:
    options = drafting(method, tokens, model=ModelShape(num_hidden_layers=1))
    found = outcome(max_num_seqs=256, max_num_batched_tokens=budget, speculative_config=options)
    assert found.config["max_num_active_seqs"] == active
    assert found.max_num_seqs == 256
    assert found.capture_sizes == outcome(max_num_seqs=256, speculative_config=drafting(tokens=tokens)).capture_sizes


def test_a_smaller_limit_of_the_user_on_active_requests_stands() -> None:
    options = drafting("dflash", 15)
    found = outcome(max_num_batched_tokens=2048, max_num_seqs=256, max_num_active_seqs=7, speculative_config=options)
    assert found.config["max_num_active_seqs"] == 7


@pytest.mark.parametrize(("env", "length"), [(V2, 2048), (V1, 131072)])
def test_a_shorter_draft_model_lowers_the_context_on_v2(env: dict[str, str], length: int) -> None:
    options = drafting("draft_model", model=SHORT_DRAFT)
    assert outcome(env=env, speculative_config=options).max_model_len == length


def test_the_draft_context_of_the_user_counts() -> None:
    options = drafting("draft_model", max_model_len=1024)
    assert outcome(speculative_config=options).max_model_len == 1024


def test_the_draft_context_of_the_user_must_fit_the_draft() -> None:
    """vllm/config/speculative.py:1763-1792, and ModelConfig of the draft before it."""
    options = drafting("draft_model", model=SHORT_DRAFT, max_model_len=4096)
    assert refused(speculative_config=options).raised_in == "SpeculativeConfig"


def test_a_drafter_on_the_target_never_lowers_the_context() -> None:
    options = drafting("eagle", model=SHORT_DRAFT)
    assert outcome(speculative_config=options).max_model_len == 131072


def test_dynamic_decoding_is_dropped_under_data_parallelism() -> None:
    found = outcome(data_parallel_size=2, speculative_config=drafting("eagle", **DYNAMIC))
    assert found.schedule is None
    assert found.uniform_decode_query_len == 4
    assert "CG403" in codes(found)


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("ngram", True),
        ("eagle", True),
        ("eagle3", True),
        ("mtp", True),
        ("draft_model", True),
        ("dflash", True),
        ("ngram_gpu", False),
        ("extract_hidden_states", False),
    ],
)
def test_v1_drops_schedules_of_other_methods(method: str, kept: bool) -> None:
    fields = {"model": MLA, "max_num_seqs": 64, "env": V1}
    found = outcome(speculative_config=drafting(method, **DYNAMIC, **_draft_of(method)), **fields)
    assert (found.schedule is not None) is kept
    assert found.configured_mode.value == ("PIECEWISE" if kept else "FULL_AND_PIECEWISE")


def _draft_of(method: str) -> dict[str, Any]:
    return {"model": MLA} if method in ("eagle", "eagle3", "draft_model", "dflash") else {}


@pytest.mark.parametrize(
    ("mode", "after"),
    [("FULL", "PIECEWISE"), ("FULL_DECODE_ONLY", "PIECEWISE"), ("PIECEWISE", "PIECEWISE"), ("NONE", "NONE")],
)
def test_v1_schedules_allow_piecewise_only(mode: str, after: str) -> None:
    options = drafting(**DYNAMIC)
    assert (
        configured(env=V1, speculative_config=options, compilation_config=compiling(cudagraph_mode=mode)).value == after
    )
    assert (
        configured(env=V2, speculative_config=options, compilation_config=compiling(cudagraph_mode=mode)).value == mode
    )


def test_v1_schedules_without_compilation_have_no_graph() -> None:
    """FULL_AND_PIECEWISE becomes PIECEWISE, and PIECEWISE without compilation nothing."""
    found = outcome(env=V1, speculative_config=drafting(**DYNAMIC), compilation_config=compiling(mode="NONE"))
    assert (found.configured_mode, found.capture_sizes) == (CUDAGraphMode.NONE, ())


def test_an_invalid_schedule_stops_v2_when_it_builds_its_graphs() -> None:
    options = drafting(tokens=4, num_speculative_tokens_per_batch_size=[[9, 64, 1]])
    error = refused(env=V2, speculative_config=options)
    assert (error.code, error.stage, error.raised_as) == ("CG406", "v2_manager_init", "ValueError")
    eager = outcome(env=V2, speculative_config=options, enforce_eager=True)
    assert eager.cudagraph_mode is CUDAGraphMode.NONE
    assert outcome(env=V1, speculative_config=options).cudagraph_mode is CUDAGraphMode.PIECEWISE


ADAPTIVE: dict[str, Any] = {"enable_adaptive_verification": True}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"enable_lora": True, "max_num_seqs": 64}, "CG410"),
        ({"pipeline_parallel_size": 2}, "CG410"),
        ({"compilation_config": compiling(cudagraph_mode="PIECEWISE")}, "CG410"),
        ({"compilation_config": compiling(cudagraph_mode="NONE")}, "CG410"),
        ({"enforce_eager": True}, "CG410"),
        ({"env": V1}, "CG610"),
    ],
)
def test_adaptive_verification_refusals(fields: dict[str, Any], code: str) -> None:
    assert refused(speculative_config=drafting("eagle", **ADAPTIVE), **fields).code == code


@pytest.mark.parametrize(
    ("mode", "pieces", "after"),
    [
        ("FULL", True, "FULL_AND_PIECEWISE"),
        ("FULL_AND_PIECEWISE", True, "FULL_AND_PIECEWISE"),
        ("FULL_DECODE_ONLY", True, "FULL_DECODE_ONLY"),
        ("FULL", False, "FULL_DECODE_ONLY"),
        ("FULL_AND_PIECEWISE", False, "FULL_DECODE_ONLY"),
        ("FULL_DECODE_ONLY", False, "FULL_DECODE_ONLY"),
    ],
)
def test_adaptive_verification_separates_decode(mode: str, pieces: bool, after: str) -> None:
    found = resolve(_adaptive(mode=mode), Overrides(piecewise_available=pieces))
    assert found.cudagraph_mode.value == after
    full = found.captures[CUDAGraphMode.FULL]
    assert {(graph.uniform_query_len, graph.max_query_len) for graph in full} == {(None, 4)}


def _adaptive(mode: str = "FULL_AND_PIECEWISE", support: str = "ALWAYS") -> Deployment:
    options = compiling(cudagraph_mode=mode)
    return given(
        max_num_seqs=64,
        speculative_config=drafting("eagle", **ADAPTIVE),
        compilation_config=options,
        attention_support=support,
    )


@pytest.mark.parametrize("support", ["UNIFORM_BATCH", "UNIFORM_SINGLE_TOKEN_DECODE", "NEVER"])
def test_adaptive_verification_needs_a_backend_for_any_lengths(support: str) -> None:
    with pytest.raises(StartupError) as caught:
        resolve(_adaptive(support=support))
    assert (caught.value.code, caught.value.stage) == ("CG411", "initialize_kv_cache")


def test_adaptive_verification_takes_a_backend_that_bounds_the_lengths() -> None:
    """Mamba 2 is no ALWAYS backend, but replays decode batches of any lengths up to 1 + num_speculative_tokens.

    vllm/v1/attention/backends/mamba2_attn.py:108-143, vllm/v1/worker/gpu/attn_utils.py:363-394.
    """
    options = drafting("ngram", 3, **ADAPTIVE)
    found = resolve(Deployment(model=MAMBA, max_num_seqs=64, speculative_config=options))
    assert found.support is AttentionCGSupport.UNIFORM_BATCH
    assert {graph.max_query_len for graph in found.captures[CUDAGraphMode.FULL]} == {4}


@pytest.mark.parametrize(
    ("method", "layers", "tokens", "several"),
    [
        ("mtp", 2, 2, True),
        ("mtp", 3, 2, True),
        ("mtp", 2, 1, False),
        ("mtp", 1, 4, False),
        ("mtp", None, 4, False),
        ("eagle", 2, 2, False),
    ],
)
def test_multi_module_mtp(method: str, layers: int | None, tokens: int, several: bool) -> None:
    draft = MLA.model_copy(update={"num_nextn_predict_layers": layers})
    found = Speculation(method, tokens, draft, None, SpeculativeOptions())
    assert found.is_multi_module_mtp is several


@pytest.mark.parametrize(("release", "starts"), [("0.29.0", True), ("0.30.0", False), ("0.31.0", True)])
def test_expert_parallelism_and_a_draft_without_experts(release: str, starts: bool) -> None:
    """vllm/config/speculative.py:1757 @ 0.30.0: the flag holds for the draft too, which has no experts."""
    fields = {"vllm": release, "model": MOE, "enable_expert_parallel": True, "speculative_config": drafting("eagle")}
    if starts:
        assert outcome(**fields).vllm_version == release
    else:
        error = refused(**fields)
        assert (error.code, error.raised_in) == ("CG608", "SpeculativeConfig")
