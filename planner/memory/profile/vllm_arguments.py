"""A Deployment as the arguments of vLLM's LLM()."""

from __future__ import annotations

from typing import Any

from ...deployment import Deployment
from ...errors import InputError


def arguments_of(deployment: Deployment, model: str | None) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The model, the arguments and the environment.

    Raises:
        InputError: CG995, the model is not named, or several GPUs are asked for.
    """
    if model is None:
        raise InputError(
            "vLLM needs the model itself",
            code="CG995",
            where="--engine vllm",
            fix="--model with a folder that holds config.json, or an id that vLLM can load",
        )
    if deployment.tensor_parallel_size > 1 or deployment.pipeline_parallel_size > 1:
        raise InputError(
            "the engine vllm runs on one GPU",
            code="CG995",
            where="--tensor-parallel-size",
            fix="use --engine synthetic for several ranks",
        )
    options = {
        "max_model_len": deployment.max_model_len,
        "max_num_seqs": deployment.max_num_seqs,
        "max_num_batched_tokens": deployment.max_num_batched_tokens,
        "dtype": deployment.dtype,
        "kv_cache_dtype": deployment.kv_cache_dtype,
        "compilation_config": _compilation(deployment),
    }
    return model, {name: value for name, value in options.items() if value is not None}, dict(deployment.env)


def _compilation(deployment: Deployment) -> dict[str, Any] | None:
    """The options of graphs that were given."""
    given = deployment.compilation_config
    found = {
        "cudagraph_mode": None if given.cudagraph_mode is None else str(given.cudagraph_mode),
        "cudagraph_capture_sizes": None
        if given.cudagraph_capture_sizes is None
        else list(given.cudagraph_capture_sizes),
        "max_cudagraph_capture_size": given.max_cudagraph_capture_size,
    }
    kept = {name: value for name, value in found.items() if value is not None}
    return kept or None
