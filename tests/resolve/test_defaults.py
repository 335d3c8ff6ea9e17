"""Defaults and limits of the batch, model length and dtype."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    A100_80,
    B200,
    B300,
    GB10,
    GIB,
    H100,
    L4,
    MLA,
    MOE,
    RTX5090,
    T4,
    WHISPER,
    codes,
    drafting,
    finding_codes,
    outcome,
    refused,
)

from cgplan import Gpu, ModelShape, UsageContext

SERVER, OFFLINE = UsageContext.OPENAI_API_SERVER, UsageContext.LLM_CLASS
SMALL_MODEL = ModelShape(max_model_len=512)


def limits(**fields: Any) -> tuple[int, int]:
    found = outcome(**fields)
    return found.max_num_batched_tokens, found.max_num_seqs


def gpu(gib: float, name: str = "NVIDIA TestGPU", capability: tuple[int, int] = (9, 0)) -> Gpu:
    return Gpu(name=name, capability=capability, memory_bytes=int(gib * GIB))


@pytest.mark.parametrize(
    ("device", "server", "offline"),
    [
        (gpu(160), (16384, 1024), (16384, 1024)),
        (Gpu(name="NVIDIA TestGPU", memory_bytes=160 * GIB - 1), (8192, 1024), (16384, 1024)),
        (gpu(70), (8192, 1024), (16384, 1024)),
        (Gpu(name="NVIDIA TestGPU", memory_bytes=70 * GIB - 1), (2048, 256), (8192, 256)),
        (H100, (8192, 1024), (16384, 1024)),
        (B200, (16384, 1024), (16384, 1024)),
        (B300, (16384, 1024), (16384, 1024)),
        (A100_80, (2048, 256), (8192, 256)),
        (gpu(79, "NVIDIA A800-SXM4-80GB", (8, 0)), (8192, 1024), (16384, 1024)),
        (gpu(160, "NVIDIA A100-TEST-160GB", (8, 0)), (16384, 1024), (16384, 1024)),
        (GB10, (2048, 256), (8192, 256)),
        (gpu(180, "NVIDIA GB10", (12, 1)), (16384, 1024), (16384, 1024)),
        (gpu(95, "NVIDIA RTX PRO 6000", (12, 0)), (8192, 1024), (16384, 1024)),
        (L4, (2048, 256), (8192, 256)),
        (T4, (2048, 256), (8192, 256)),
        (RTX5090, (2048, 256), (8192, 256)),
    ],
    ids=lambda value: value.name if isinstance(value, Gpu) else str(value),
)
def test_b15_the_table(device: Gpu, server: tuple[int, int], offline: tuple[int, int]) -> None:
    """The document knows two rows for every use; 0.33.0 has a tier at 160 GiB and asks who starts the engine."""
    assert limits(gpu=device, usage_context=SERVER) == server
    assert limits(gpu=device, usage_context=OFFLINE) == offline


@pytest.mark.parametrize(
    "context", [UsageContext.ENGINE_CONTEXT, UsageContext.OPENAI_BATCH_RUNNER, UsageContext.UNKNOWN_CONTEXT, None]
)
@pytest.mark.parametrize("device", [H100, B200, A100_80], ids=lambda device: device.name)
def test_b15_other_contexts_get_the_scheduler_defaults(context: UsageContext | None, device: Gpu) -> None:
    assert limits(gpu=device, usage_context=context) == (2048, 128)


@pytest.mark.parametrize(
    ("context", "tp", "pp", "expected"),
    [
        (OFFLINE, 1, 1, (4096, 256)),
        (SERVER, 1, 1, (2048, 128)),
        (SERVER, 2, 2, (8192, 512)),
        (OFFLINE, 4, 1, (16384, 1024)),
    ],
)
def test_cpu_limits_grow_with_the_workers(context: UsageContext, tp: int, pp: int, expected: tuple[int, int]) -> None:
    device = Gpu(name="cpu", platform="cpu", memory_bytes=64 * GIB)
    fields = {"tensor_parallel_size": tp, "pipeline_parallel_size": pp}
    assert limits(gpu=device, usage_context=context, **fields) == expected


@pytest.mark.parametrize(
    ("chip", "server", "offline"),
    [("V6E", 1024, 2048), ("V5E", 512, 1024), ("V5P", 256, 512), ("V4", 2048, 8192)],
)
def test_tpu_limits_by_chip(chip: str, server: int, offline: int) -> None:
    device = Gpu(name=chip, platform="tpu", memory_bytes=32 * GIB)
    assert limits(gpu=device, usage_context=SERVER)[0] == server
    assert limits(gpu=device, usage_context=OFFLINE)[0] == offline


@pytest.mark.parametrize("backend", ["deepep_low_latency", "nixl_ep"])
def test_batched_data_parallel_moe_starts_from_256_tokens(backend: str) -> None:
    fields = {"model": MOE, "all2all_backend": backend, "data_parallel_size": 2, "enable_expert_parallel": True}
    assert limits(**fields) == (256, 256)
    assert limits(**{**fields, "max_num_batched_tokens": 4096})[0] == 4096
    assert limits(**{**fields, "performance_mode": "throughput"}) == (512, 512)


@pytest.mark.parametrize(
    "change",
    [{"all2all_backend": "allgather_reducescatter"}, {"data_parallel_size": 1}, {"enable_expert_parallel": False}],
)
def test_batched_data_parallel_moe_needs_all_three(change: dict[str, Any]) -> None:
    fields = {"all2all_backend": "nixl_ep", "data_parallel_size": 2, "enable_expert_parallel": True}
    assert limits(model=MOE, **{**fields, **change}) == (8192, 1024)


def test_throughput_mode_doubles_what_the_user_left_open() -> None:
    assert limits(performance_mode="throughput") == (16384, 2048)
    assert limits(performance_mode="throughput", max_num_seqs=100) == (16384, 100)
    assert limits(performance_mode="throughput", max_num_batched_tokens=3000) == (3000, 2048)
    assert limits(performance_mode="interactivity") == (8192, 1024)


def test_without_chunked_prefill_the_default_holds_a_whole_prompt() -> None:
    assert limits(enable_chunked_prefill=False) == (131072, 1024)
    assert limits(enable_chunked_prefill=False, model=SMALL_MODEL) == (8192, 1024)


def test_default_tokens_stay_within_what_the_sequences_hold() -> None:
    assert limits(max_num_seqs=4, model=SMALL_MODEL) == (2048, 4)
    assert limits(max_num_seqs=4, model=SMALL_MODEL, max_num_batched_tokens=4096) == (4096, 4)


def test_throughput_comes_before_the_bound_of_the_sequences() -> None:
    assert limits(max_num_seqs=20, model=SMALL_MODEL, performance_mode="throughput") == (10240, 20)


def test_default_sequences_stay_within_the_tokens() -> None:
    found = outcome(max_num_batched_tokens=512)
    assert found.max_num_seqs == 512
    assert "CG107" in codes(found)


def test_every_default_is_traced_with_its_source() -> None:
    found = outcome()
    decided = {d.field: d for d in found.decisions if d.code == "CG101"}
    assert set(decided) == {"max_num_batched_tokens", "max_num_seqs"}
    assert decided["max_num_seqs"].before is None
    assert decided["max_num_seqs"].source.startswith("vllm/engine/arg_utils.py:")
    assert "CG101" not in codes(outcome(max_num_seqs=1, max_num_batched_tokens=64))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_num_batched_tokens": 64, "max_num_seqs": 128}, "CG120"),
        ({"max_num_batched_tokens": 2048, "enable_chunked_prefill": False}, "CG121"),
        ({"max_num_active_seqs": 300, "max_num_seqs": 256}, "CG122"),
        ({"long_prefill_token_threshold": 200000}, "CG123"),
    ],
)
def test_contradictory_limits_do_not_start(fields: dict[str, Any], code: str) -> None:
    error = refused(**fields)
    assert (error.code, error.raised_in, error.raised_as) == (code, "SchedulerConfig", "ValidationError")


def test_limits_at_the_edge_start() -> None:
    assert limits(max_num_batched_tokens=128, max_num_seqs=128) == (128, 128)
    assert outcome(max_num_active_seqs=256, max_num_seqs=256).config["max_num_active_seqs"] == 256
    assert outcome(long_prefill_token_threshold=131072).max_model_len == 131072
    fields = {"max_num_batched_tokens": 512, "enable_chunked_prefill": False}
    assert limits(model=SMALL_MODEL, **fields) == (512, 512)


def test_active_sequences_never_touch_the_grid() -> None:
    assert outcome(max_num_seqs=64, max_num_active_seqs=3).capture_sizes == outcome(max_num_seqs=64).capture_sizes


def test_unused_tokens_are_a_hint_only() -> None:
    found = outcome(max_num_seqs=1, model=SMALL_MODEL, max_num_batched_tokens=4096)
    assert "CG124" in finding_codes(found)
    assert found.max_num_batched_tokens == 4096


def test_encoder_decoder_models_run_without_chunked_prefill() -> None:
    found = outcome(model=WHISPER, enable_chunked_prefill=True)
    assert found.config["enable_chunked_prefill"] is False
    assert outcome(model=WHISPER, long_prefill_token_threshold=4000).max_model_len == 448
    assert refused(model=WHISPER, max_num_batched_tokens=400).code == "CG121"


def test_lora_with_drafts_needs_room_for_every_draft() -> None:
    fields = {"enable_lora": True, "max_num_seqs": 512, "speculative_config": drafting(tokens=3)}
    error = refused(max_num_batched_tokens=2047, **fields)
    assert (error.code, error.raised_as, error.raised_in) == ("CG412", "ValueError", "EngineArgs")
    assert limits(max_num_batched_tokens=2048, **fields) == (2048, 512)
    without_lora = {**fields, "enable_lora": False}
    assert limits(max_num_batched_tokens=2047, **without_lora) == (2047, 512)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"cudagraph_capture_sizes": [1], "compilation_config": {"cudagraph_capture_sizes": [1]}}, "sizes"),
        ({"max_cudagraph_capture_size": 8, "compilation_config": {"max_cudagraph_capture_size": 8}}, "max"),
        ({"attention_backend": "FLASH_ATTN", "attention_config": {"backend": "FLASH_ATTN"}}, "backend"),
    ],
)
def test_a_setting_given_twice_does_not_start(fields: dict[str, Any], where: str) -> None:
    error = refused(**fields)
    assert (error.code, error.raised_as) == ("CG125", "ValueError")
    assert where in str(error.where)


def test_model_length_above_the_checkpoint_is_refused_unless_forced() -> None:
    assert refused(max_model_len=200000).code == "CG129"
    for value in ("1", "true", "True"):
        forced = outcome(max_model_len=200000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": value})
        assert forced.max_model_len == 200000
    assert refused(max_model_len=200000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}).code == "CG129"
    assert outcome(max_model_len=4096).max_model_len == 4096


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({}, "bfloat16"),
        ({"gpu": T4}, "float16"),
        ({"gpu": T4, "model": ModelShape(model_type="gemma2")}, "float32"),
        ({"gpu": T4, "dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "half"}, "float16"),
        ({"dtype": "float"}, "float32"),
        ({"dtype": "FLOAT16"}, "float16"),
        ({"model": ModelShape(dtype="float16")}, "float16"),
    ],
)
def test_dtype(fields: dict[str, Any], dtype: str) -> None:
    assert outcome(**fields).config["dtype"] == dtype


@pytest.mark.parametrize(
    "fields", [{"dtype": "int8"}, {"dtype": "float16", "model": ModelShape(model_type="gemma3_text")}]
)
def test_impossible_dtypes_do_not_start(fields: dict[str, Any]) -> None:
    assert refused(**fields).code == "CG132"


def test_a_prefix_lm_names_what_is_not_modelled() -> None:
    model = ModelShape(is_multimodal_model=True, is_mm_prefix_lm=True)
    assert "CG105" in finding_codes(outcome(model=model))
    assert "CG105" not in finding_codes(outcome(model=model, max_num_batched_tokens=8192))


@pytest.mark.parametrize(("name", "starts"), [("DeepseekV32ForCausalLM", True), ("DeepseekV3ForCausalLM", False)])
def test_a_bfloat16_cache_is_auto_for_deepseek_v3_2(name: str, starts: bool) -> None:
    """vllm/model_executor/models/config.py:74-86: its hook runs before the comparison with the model's dtype."""
    fields = {"model": MLA.model_copy(update={"architectures": (name,)}), "dtype": "float16"}
    if starts:
        assert outcome(kv_cache_dtype="bfloat16", **fields).config["dtype"] == "float16"
    else:
        assert refused(kv_cache_dtype="bfloat16", **fields).code == "CG135"
