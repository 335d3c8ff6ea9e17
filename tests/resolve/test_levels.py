"""Optimisation levels: what they fill in, and that they never replace what the user said."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import B200, H100, L4, RTX5090, codes, compiling, outcome, refused

from cgplan import CompilationMode, CUDAGraphMode, Gpu, ModelShape

NVFP4 = ModelShape(is_nvfp4_quantized=True)
BLOCK_FP8 = ModelShape(weight_block_quantized=True, quantization="fp8")


@pytest.mark.parametrize(
    ("row", "level", "mode", "graphs"),
    [
        ("A4", 0, "NONE", "NONE"),
        ("A2", 1, "VLLM_COMPILE", "PIECEWISE"),
        ("A1", 2, "VLLM_COMPILE", "FULL_AND_PIECEWISE"),
        ("A1", 3, "VLLM_COMPILE", "FULL_AND_PIECEWISE"),
        ("A1", None, "VLLM_COMPILE", "FULL_AND_PIECEWISE"),
    ],
)
def test_modes_of_the_levels(row: str, level: int | None, mode: str, graphs: str) -> None:
    found = outcome(optimization_level=level)
    assert (found.compilation_mode, found.configured_mode) == (CompilationMode(mode), CUDAGraphMode(graphs)), row
    assert found.requested_mode is CUDAGraphMode(graphs)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["NONE", "FULL_DECODE_ONLY", "FULL"])
def test_a_level_never_replaces_a_mode_of_the_user(level: int, mode: str) -> None:
    found = outcome(optimization_level=level, compilation_config=compiling(cudagraph_mode=mode))
    assert found.requested_mode.value == mode
    assert found.configured_mode.value == mode
    assert "CG202" not in codes(found)


def test_a_level_never_replaces_a_compilation_mode_of_the_user() -> None:
    found = outcome(optimization_level=0, compilation_config=compiling(mode="VLLM_COMPILE"))
    assert found.compilation_mode is CompilationMode.VLLM_COMPILE
    assert found.cudagraph_mode is CUDAGraphMode.NONE
    assert "CG201" not in codes(found)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["none"]),
        ({"mode": "NONE"}, ["all"]),
        ({"backend": "eager"}, ["all"]),
        ({"mode": "STOCK_TORCH_COMPILE"}, ["none"]),
        ({"custom_ops": ["+rms_norm"]}, ["+rms_norm", "none"]),
        ({"custom_ops": ["all", "-rms_norm"]}, ["all", "-rms_norm"]),
    ],
)
def test_base_mode_of_custom_ops(options: dict[str, Any], expected: list[str]) -> None:
    assert outcome(compilation_config=compiling(**options)).config["custom_ops"] == expected


def test_block_quantised_weights_switch_quant_fp8_on_twice() -> None:
    """vLLM appends the op at the start and again at the end of its configuration."""
    assert outcome(model=BLOCK_FP8).config["custom_ops"] == ["+quant_fp8", "none", "+quant_fp8"]
    given = compiling(custom_ops=["-quant_fp8"])
    assert outcome(model=BLOCK_FP8, compilation_config=given).config["custom_ops"] == ["-quant_fp8", "none"]


@pytest.mark.parametrize(
    "options",
    [
        {"custom_ops": ["rms_norm"]},
        {"custom_ops": ["+"]},
        {"custom_ops": ["all", "none"]},
        {"custom_ops": ["+a", "-a"]},
        {"custom_ops": [""]},
    ],
)
def test_meaningless_custom_ops_do_not_start(options: dict[str, Any]) -> None:
    error = refused(compilation_config=compiling(**options))
    assert (error.code, error.raised_in) == ("CG226", "CompilationConfig")


@pytest.mark.parametrize(
    ("backend", "starts"), [("", True), ("eager", True), ("inductor", True), ("cudagraphs", False)]
)
def test_backends_of_vllm_compile(backend: str, starts: bool) -> None:
    options = compiling(mode="VLLM_COMPILE", backend=backend)
    if starts:
        assert outcome(compilation_config=options).config["backend"] == (backend or "inductor")
    else:
        assert refused(compilation_config=options).code == "CG223"


def test_the_backend_is_only_checked_for_a_mode_that_the_user_named() -> None:
    assert outcome(compilation_config=compiling(backend="cudagraphs")).compilation_mode is CompilationMode.VLLM_COMPILE


def passes(**fields: Any) -> dict[str, bool]:
    found: dict[str, bool] = outcome(**fields).config["pass_config"]
    return found


@pytest.mark.parametrize(
    ("level", "options", "on"),
    [
        (2, {}, False),
        (2, {"custom_ops": ["+rms_norm"]}, True),
        (1, {"custom_ops": ["+rms_norm"]}, True),
        (0, {"custom_ops": ["+rms_norm"]}, False),
        (2, {"custom_ops": ["+quant_fp8"]}, True),
        (2, {"custom_ops": ["all"]}, True),
        (2, {"custom_ops": ["all", "-rms_norm", "-quant_fp8"]}, False),
        (2, {"backend": "eager"}, True),
        (2, {"mode": "NONE"}, True),
    ],
)
def test_norm_quant_fusion(level: int, options: dict[str, Any], on: bool) -> None:
    assert passes(optimization_level=level, compilation_config=compiling(**options))["fuse_norm_quant"] is on


def test_norm_quant_fusion_with_oink_kernels() -> None:
    assert passes(env={"VLLM_USE_OINK_OPS": "1"})["fuse_norm_quant"] is True


@pytest.mark.parametrize(
    ("fields", "on"),
    [
        ({}, False),
        ({"model": NVFP4}, True),
        ({"model": NVFP4, "optimization_level": 1}, True),
        ({"model": NVFP4, "optimization_level": 0}, False),
        ({"compilation_config": compiling(custom_ops=["+silu_and_mul"])}, True),
        ({"model": BLOCK_FP8}, True),
    ],
)
def test_activation_quant_fusion(fields: dict[str, Any], on: bool) -> None:
    assert passes(**fields)["fuse_act_quant"] is on


@pytest.mark.parametrize(
    ("gpu", "tp", "level", "env", "flashinfer", "on"),
    [
        (H100, 2, 2, {}, True, True),
        (B200, 2, 2, {}, True, True),
        (H100, 2, 3, {}, True, True),
        (H100, 1, 2, {}, True, False),
        (H100, 2, 1, {}, True, False),
        (H100, 2, 2, {}, False, False),
        (H100, 2, 2, {"VLLM_BATCH_INVARIANT": "1"}, True, False),
        (L4, 2, 2, {}, True, False),
        (RTX5090, 2, 2, {}, True, False),
    ],
)
def test_all_reduce_fusion(gpu: Gpu, tp: int, level: int, env: dict[str, str], flashinfer: bool, on: bool) -> None:
    found = passes(
        gpu=gpu,
        tensor_parallel_size=tp,
        optimization_level=level,
        env={**env, "VLLM_USE_BREAKABLE_CUDAGRAPH": "0"},
        software={"flashinfer": flashinfer},
    )
    assert found["fuse_allreduce_rms"] is on


@pytest.mark.parametrize(
    ("level", "options", "on"),
    [
        (2, {}, False),
        (1, {"use_inductor_graph_partition": True}, False),
        (2, {"use_inductor_graph_partition": True}, True),
        (2, {"splitting_ops": []}, True),
        (2, {"splitting_ops": ["vllm::unified_kv_cache_update", "vllm::unified_mla_kv_cache_update"]}, False),
        (2, {"splitting_ops": ["vllm::unified_kv_cache_update"]}, True),
        (2, {"pass_config": {"fuse_attn_quant": True}}, True),
    ],
)
def test_rope_and_mla_cache_fusion(level: int, options: dict[str, Any], on: bool) -> None:
    found = passes(optimization_level=level, compilation_config=compiling(cudagraph_mode="FULL", **options))
    assert found["fuse_rope_kvcache_cat_mla"] is on


@pytest.mark.parametrize("value", [True, False])
def test_a_fusion_of_the_user_stands(value: bool) -> None:
    options = compiling(pass_config={"fuse_allreduce_rms": value, "fuse_norm_quant": value})
    found = passes(optimization_level=0, compilation_config=options)
    assert (found["fuse_allreduce_rms"], found["fuse_norm_quant"]) == (value, value)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_attention_quant_fusion_is_never_a_default(level: int) -> None:
    assert passes(optimization_level=level, model=NVFP4)["fuse_attn_quant"] is False


@pytest.mark.parametrize(
    ("name", "added"),
    [("enable_qk_norm_rope_fusion", True), ("fuse_rope_kvcache", False), ("fuse_qk_norm_rope_kvcache", False)],
)
def test_rotary_fusions_of_the_user_need_the_rotary_op(name: str, added: bool) -> None:
    """The two that write the KV cache exist on ROCm only, and are off on CUDA before the op would be added."""
    found = outcome(compilation_config=compiling(pass_config={name: True}))
    assert found.config["custom_ops"] == (["+rotary_embedding", "none"] if added else ["none"])


def test_level_names_are_traced() -> None:
    found = outcome(optimization_level=1)
    assert [d.after for d in found.decisions if d.code in ("CG201", "CG202")] == ["VLLM_COMPILE", "PIECEWISE"]
