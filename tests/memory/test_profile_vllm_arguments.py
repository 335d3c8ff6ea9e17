"""What vLLM's LLM() is given for a profile."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, InputError, gpu, load_model, resolve
from cgplan.memory.profile.vllm_arguments import NO_OPTIONS, arguments_of
from cgplan.vocabulary import CompilationMode, UsageContext

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def deployment(**fields: Any) -> Deployment:
    return Deployment(model=load_model(MODEL), gpu=gpu("h200"), vllm="0.25.1", **fields)


def given(**fields: Any) -> dict[str, Any]:
    return arguments_of(deployment(**fields), MODEL)[1]


def test_nothing_given_is_nothing_said() -> None:
    assert given() == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"enable_lora": True, "max_loras": 2}, {"enable_lora": True, "max_loras": 2}),
        ({"quantization": "fp8"}, {"quantization": "fp8"}),
        ({"cudagraph_capture_sizes": (1, 2, 4)}, {"cudagraph_capture_sizes": [1, 2, 4]}),
        ({"kv_cache_dtype": "fp8", "block_size": 32}, {"kv_cache_dtype": "fp8", "block_size": 32}),
        ({"attention_backend": "TRITON_ATTN"}, {"attention_config": {"backend": "TRITON_ATTN"}}),
        ({"attention_config": {"flash_attn_version": 2}}, {"attention_config": {"flash_attn_version": 2}}),
        (
            {"compilation_config": {"cudagraph_mode": "PIECEWISE", "mode": 3}},
            {"compilation_config": {"cudagraph_mode": "PIECEWISE", "mode": 3}},
        ),
        (
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
        ),
    ],
)
def test_what_decides_graphs_is_handed_on(fields: dict[str, Any], said: dict[str, Any]) -> None:
    assert given(**fields) == said


def test_a_draft_model_is_named() -> None:
    draft = load_model("meta-llama/Llama-3.2-1B-Instruct")
    found = given(speculative_config={"method": "draft_model", "num_speculative_tokens": 3, "model": draft})
    assert found["speculative_config"]["model"] == "meta-llama/Llama-3.2-1B-Instruct"


def test_batches_are_those_that_were_resolved() -> None:
    """LLM() takes 16,384 tokens a step on such a GPU, and `vllm serve` 8,192."""
    asked = deployment()
    found = arguments_of(asked, MODEL, resolve(asked))[1]
    assert (found["max_num_seqs"], found["max_num_batched_tokens"]) == (1024, 8192)
    other = deployment(usage_context=UsageContext.LLM_CLASS)
    assert arguments_of(other, MODEL, resolve(other))[1]["max_num_batched_tokens"] == 16384


def test_the_environment_is_that_of_the_deployment() -> None:
    asked = deployment(env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
    assert arguments_of(asked, MODEL)[2] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}


@pytest.mark.parametrize("field", ["tensor_parallel_size", "data_parallel_size", "decode_context_parallel_size"])
def test_several_gpus_are_refused_with_the_option(field: str) -> None:
    with pytest.raises(InputError, match="runs on one GPU") as raised:
        arguments_of(deployment().model_copy(update={field: 2}), MODEL)
    assert raised.value.where == f"--{field.replace('_', '-')}"


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="needs the model itself"):
        arguments_of(deployment(), None)


def test_every_field_that_is_no_option_exists() -> None:
    assert set(NO_OPTIONS) <= set(Deployment.model_fields)


def test_modes_are_numbered_as_vllms() -> None:
    """vllm/config/compilation.py: NONE 0, STOCK_TORCH_COMPILE 1, DYNAMO_TRACE_ONCE 2, VLLM_COMPILE 3."""
    names = ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"]
    assert [mode.name for mode in CompilationMode] == names
