"""The layers that are kept from plan to plan are those that would be built anew."""

from __future__ import annotations

from typing import Any

import pytest
from kv_cases import A100, H200, deployment

from cgplan import Deployment, resolve
from cgplan.memory.kv import cache
from cgplan.memory.kv.cache import kv_cache
from cgplan.memory.layers.kv_layers import kv_layers

GIB = 1 << 30
MODELS = (
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "ibm-granite/granite-4.0-h-small",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "deepseek-ai/DeepSeek-V3",
)
WITHOUT_LAYERS: tuple[dict[str, Any], ...] = (
    {"max_num_seqs": 7},
    {"max_num_batched_tokens": 16384},
    {"cudagraph_capture_sizes": (1, 2, 4)},
    {"max_cudagraph_capture_size": 64},
    {"num_gpu_blocks": 4096},
    {"num_gpu_blocks_override": 5000},
)
OF_LAYERS: tuple[dict[str, Any], ...] = (
    {"kv_cache_dtype": "fp8"},
    {"block_size": 64},
    {"tensor_parallel_size": 2},
    {"pipeline_parallel_size": 2},
    {"enable_prefix_caching": False},
    {"vllm": "0.25.1"},
    {"gpu": A100},
    {"dtype": "float16"},
)
LENGTHS: tuple[dict[str, Any], ...] = ({"max_model_len": 4096}, {"max_model_len": 9000})


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("caching", [True, False])
def test_the_layers_of_a_variant_are_its_own(model: str, caching: bool) -> None:
    first = deployment(model, gpu=H200, tensor_parallel_size=4, enable_prefix_caching=caching)
    for change in (*WITHOUT_LAYERS, *OF_LAYERS, *LENGTHS):
        kv_cache(first, resolve(first), [60 * GIB], auto_fit=True)
        changed = first.model_copy(update=change)
        resolution = resolve(changed)
        kept = kv_cache(changed, resolution, [60 * GIB], auto_fit=True).layers
        assert kept == kv_layers(changed, resolution), change


def _built(monkeypatch: pytest.MonkeyPatch, first: Deployment, changes: tuple[dict[str, Any], ...]) -> int:
    """How often layers are built for variants of `first`."""
    built: list[Deployment] = []

    def counted(one: Deployment, *args: Any, **kwargs: Any) -> Any:
        built.append(one)
        return kv_layers(one, *args, **kwargs)

    monkeypatch.setattr(cache, "kv_layers", counted)
    monkeypatch.setattr(cache, "_lately", [])
    for change in ({}, *changes):
        changed = first.model_copy(update=change)
        kv_cache(changed, resolve(changed), [60 * GIB], auto_fit=True)
    return len(built)


def test_variants_that_differ_in_limits_share_their_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    first = deployment("Qwen/Qwen3-8B", gpu=H200)
    assert _built(monkeypatch, first, (*WITHOUT_LAYERS, *LENGTHS)) == 1
    assert _built(monkeypatch, first, OF_LAYERS) == 1 + len(OF_LAYERS)


def test_states_are_as_long_as_the_longest_request(monkeypatch: pytest.MonkeyPatch) -> None:
    first = deployment("ibm-granite/granite-4.0-h-small", gpu=H200, enable_prefix_caching=False)
    assert _built(monkeypatch, first, LENGTHS) == 3
