"""A deployment: frozen, strict, and refused in one line with the nearest name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from cgplan import (
    AttentionCGSupport,
    AttentionOptions,
    CgplanError,
    CompilationOptions,
    CUDAGraphMode,
    Deployment,
    Gpu,
    InputError,
    KVTransferOptions,
    ModelShape,
    PassOptions,
    Software,
    SpeculativeOptions,
    StartupError,
    UsageContext,
)
from cgplan.deployment import ALL2ALL_BACKENDS
from cgplan.sections import MAX_COUNT


def refusal(**fields: Any) -> CgplanError:
    with pytest.raises(CgplanError) as caught:
        Deployment(**fields)
    return caught.value


def test_the_default_is_an_h100_with_an_8b_model() -> None:
    default = Deployment()
    assert (default.gpu.name, default.gpu.capability) == ("NVIDIA H100 80GB HBM3", (9, 0))
    assert default.model.architecture == "LlamaForCausalLM"
    assert default.usage_context is UsageContext.OPENAI_API_SERVER


def test_it_is_frozen_in_depth() -> None:
    with pytest.raises(ValidationError):
        Deployment().max_num_seqs = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Deployment().gpu.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(),
        Deployment(max_num_seqs=3, cudagraph_capture_sizes=[1, 2, 4], usage_context="llm_class"),
        Deployment(
            gpu=Gpu(name="NVIDIA B200", capability=(10, 0)),
            model=ModelShape(mamba_backends=("MAMBA2",), architectures=("A", "B")),
            software=Software(packages=("hpc",)),
            compilation_config=CompilationOptions(
                cudagraph_mode=CUDAGraphMode.FULL,
                compile_sizes=(1, "cudagraph_capture_sizes"),
                pass_config=PassOptions(fuse_attn_quant=True),
            ),
            speculative_config=SpeculativeOptions(
                method="ngram",
                num_speculative_tokens=3,
                num_speculative_tokens_per_batch_size=((1, 8, 3), (9, 64, 1)),
            ),
            kv_transfer_config=KVTransferOptions(kv_connector="NixlConnector", kv_role="kv_both"),
            attention_config=AttentionOptions(backend="FLASHINFER"),
            attention_support="ALWAYS",
            env={"VLLM_USE_V2_MODEL_RUNNER": "1"},
        ),
    ],
)
def test_json_round_trip(deployment: Deployment) -> None:
    assert Deployment.from_json(deployment.model_dump_json()) == deployment
    assert Deployment.from_json(deployment.model_dump_json().encode()) == deployment


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "1", '{"max_num_seqs": "8"}', '{"nope": 1}', b"\xff\xfe", "[" * 100_000]
)
def test_broken_json_is_one_readable_line(text: str | bytes) -> None:
    with pytest.raises(InputError) as caught:
        Deployment.from_json(text)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("field", "near"),
    [
        ("max_num_seq", "max_num_seqs"),
        ("max-num-seqs", "max_num_seqs"),
        ("tensor_paralel_size", "tensor_parallel_size"),
    ],
)
def test_an_unknown_field_names_the_nearest(field: str, near: str) -> None:
    error = refusal(**{field: 1})
    assert isinstance(error, InputError)
    assert error.code == "CG901"
    assert near in str(error.fix)


@pytest.mark.parametrize(
    ("section", "field", "raised_in"),
    [
        (CompilationOptions, "cudagraph_modes", "CompilationConfig"),
        (AttentionOptions, "backends", "AttentionConfig"),
        (SpeculativeOptions, "num_tokens", "SpeculativeConfig"),
        (KVTransferOptions, "kv_roles", "KVTransferConfig"),
    ],
)
def test_vllm_itself_refuses_unknown_fields_of_its_sections(section: type[Any], field: str, raised_in: str) -> None:
    with pytest.raises(StartupError) as caught:
        section(**{field: 1})
    assert (caught.value.code, caught.value.raised_in) == ("CG901", raised_in)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"max_num_seqs": "8"}, "max_num_seqs"),
        ({"max_num_seqs": 8.5}, "max_num_seqs"),
        ({"max_num_seqs": True}, "max_num_seqs"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_seqs": -1}, "max_num_seqs"),
        ({"max_num_seqs": MAX_COUNT + 1}, "max_num_seqs"),
        ({"max_num_seqs": 10**40}, "max_num_seqs"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size"),
        ({"enforce_eager": 1}, "enforce_eager"),
        ({"enforce_eager": "yes"}, "enforce_eager"),
        ({"optimization_level": 4}, "optimization_level"),
        ({"optimization_level": -1}, "optimization_level"),
        ({"performance_mode": "fast"}, "performance_mode"),
        ({"runner": "auto2"}, "runner"),
        ({"env": {"A": 1}}, "env"),
        ({"gpu": {"memory_bytes": 0}}, "gpu"),
        ({"gpu": {"capability": [9]}}, "gpu"),
        ({"model": {"hidden_size": 0}}, "model"),
        ({"max_loras": 0}, "max_loras"),
        ({"num_gpu_blocks": -1}, "num_gpu_blocks"),
        ({"cudagraph_capture_sizes": "1,2"}, "cudagraph_capture_sizes"),
        ({"cudagraph_capture_sizes": [1.5]}, "cudagraph_capture_sizes"),
        ({"cudagraph_capture_sizes": [10**30]}, "cudagraph_capture_sizes"),
        ({"speculative_config": {"num_speculative_tokens": 0}}, "speculative_config"),
    ],
)
def test_wrong_types_and_absurd_numbers(fields: dict[str, Any], where: str) -> None:
    error = refusal(**fields)
    assert isinstance(error, InputError)
    assert (error.code, str(error.where).split(".")[0]) == ("CG903", where)
    assert error.fix
    assert "\n" not in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize(
    ("fields", "near"),
    [
        ({"compilation_config": {"cudagraph_mode": "full_decode"}}, "FULL_DECODE_ONLY"),
        ({"compilation_config": {"mode": "vllm"}}, "VLLM_COMPILE"),
        ({"attention_support": "UNIFORM_BATCHES"}, "UNIFORM_BATCH"),
        ({"usage_context": "api_server"}, "OPENAI_API_SERVER"),
        ({"all2all_backend": "deepep_high"}, "deepep_high_throughput"),
    ],
)
def test_an_unknown_name_names_the_nearest(fields: dict[str, Any], near: str) -> None:
    error = refusal(**fields)
    assert error.code == "CG902"
    assert near in str(error.fix)


def test_a_hopeless_name_lists_the_known_ones() -> None:
    error = refusal(compilation_config={"cudagraph_mode": "zzz" * 1000})
    assert "FULL_AND_PIECEWISE" in str(error.fix)
    assert len(error.message) < 200


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("full", "FULL"),
        ("Full_And_Piecewise", "FULL_AND_PIECEWISE"),
        ("full-decode-only", "FULL_DECODE_ONLY"),
        (0, "NONE"),
        (2, "FULL"),
        (CUDAGraphMode.PIECEWISE, "PIECEWISE"),
    ],
)
def test_modes_by_name_or_number(value: Any, mode: str) -> None:
    options = CompilationOptions(cudagraph_mode=value)
    assert options.cudagraph_mode is CUDAGraphMode(mode)


@pytest.mark.parametrize("value", [3, -1, True, 1.0, [1]])
def test_no_other_mode_is_taken(value: Any) -> None:
    assert refusal(compilation_config={"cudagraph_mode": value}).code in ("CG902", "CG903")


def test_several_complaints_are_counted() -> None:
    error = refusal(max_num_seqs=0, max_num_batched_tokens=0, tensor_parallel_size=0)
    assert "and 2 more" in error.message


def test_lists_become_tuples() -> None:
    deployment = Deployment(cudagraph_capture_sizes=[4, 2])
    assert deployment.cudagraph_capture_sizes == (4, 2)
    assert hash(deployment.gpu) == hash(Gpu())


def test_support_levels_by_name_or_member() -> None:
    assert Deployment(attention_support="always").attention_support is AttentionCGSupport.ALWAYS
    level = AttentionCGSupport.NEVER
    assert Deployment(attention_support=level).attention_support is level


def test_every_all2all_backend_is_taken() -> None:
    for name in ALL2ALL_BACKENDS:
        assert Deployment(all2all_backend=name).all2all_backend == name


def test_json_schema_of_a_deployment_is_valid_json() -> None:
    schema = json.loads(json.dumps(Deployment.model_json_schema()))
    assert schema["additionalProperties"] is False
    assert "max_num_seqs" in schema["properties"]
