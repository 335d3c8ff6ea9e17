"""What a model refuses when it is loaded, each with a neighbour that loads."""

from __future__ import annotations

from typing import Any

import pytest
from kv_cases import A100, H200, layers_of

from cgplan import StartupError

E5M2 = {"kv_cache_dtype": "fp8_e5m2", "gpu": H200, "tensor_parallel_size": 8}
GLM = {"tensor_parallel_size": 8, "decode_context_parallel_size": 2, "gpu": H200}
KIMI = {"tensor_parallel_size": 8, "gpu": A100, "kv_cache_dtype": "fp8"}
LAGUNA = "poolside/Laguna-XS.2-FP8"


@pytest.mark.parametrize(
    ("model", "fields", "code", "raised_as"),
    [
        ("nvidia/MiniMax-M2.7-NVFP4", E5M2, "CG544", "ValueError"),
        ("nvidia/Gemma-4-31B-IT-NVFP4", {"gpu": A100}, "CG545", "ValueError"),
        ("deepseek-ai/DeepSeek-V3", KIMI, "CG546", "ValueError"),
        ("zai-org/GLM-5.1", {**GLM, "kv_cache_dtype": "bfloat16"}, "CG547", "NotImplementedError"),
        ("google/gemma-2-9b-it", {"attention_backend": "FLEX_ATTENTION"}, "CG548", "NotImplementedError"),
        ("deepseek-ai/DeepSeek-V4-Flash", {"kv_cache_dtype": "bfloat16", "gpu": H200}, "CG549", "ValueError"),
        (LAGUNA, {"tensor_parallel_size": 8}, "CG559", "ValueError"),
        ("deepseek-ai/DeepSeek-V4-Flash", {"vllm": "0.25.1", "gpu": H200}, "CG549", "AssertionError"),
        ("Qwen/Qwen3-235B-A22B-FP8", {"vllm": "0.25.1", "tensor_parallel_size": 8}, "CG559", "ValueError"),
    ],
)
def test_refused(model: str, fields: dict[str, Any], code: str, raised_as: str) -> None:
    with pytest.raises(StartupError) as error:
        layers_of(model, **fields)
    assert (error.value.code, error.value.stage, error.value.raised_as) == (code, "load_model", raised_as)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("MiniMaxAI/MiniMax-M2.7", {**E5M2, "kv_cache_dtype": "fp8"}),
        ("RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", {**E5M2, "tensor_parallel_size": 4}),
        ("nvidia/Gemma-4-31B-IT-NVFP4", {"gpu": A100, "vllm": "0.23.0"}),
        ("deepseek-ai/DeepSeek-V3", {**KIMI, "gpu": H200}),
        ("zai-org/GLM-5.1", {**GLM, "kv_cache_dtype": "fp8"}),
        ("google/gemma-3-12b-it", {"attention_backend": "TRITON_ATTN"}),
        ("deepseek-ai/DeepSeek-V4-Flash", {"gpu": H200}),
        (LAGUNA, {"tensor_parallel_size": 4}),
        ("Qwen/Qwen3-235B-A22B-FP8", {"tensor_parallel_size": 8}),
    ],
)
def test_loads(model: str, fields: dict[str, Any]) -> None:
    assert layers_of(model, **fields).stages[0]
