"""A Deployment as the arguments of LLM(): every option that was given, so that vLLM captures what is asked for."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ...deployment import Deployment
from ...errors import InputError
from ...resolve import Resolution
from ...sections import SpeculativeOptions
from ...vocabulary import CompilationMode

NO_OPTIONS = ("vllm", "gpu", "gpus_per_node", "model", "software", "usage_context", "env", "num_gpu_blocks",
              "attention_support", "attention_backend", "attention_config", "compilation_config",
              "speculative_config")  # fmt: skip
"""Fields that are no option of vLLM, or that are given in another form. All others are fields of EngineArgs of the same
name, from 0.23.0 to 0.33.0 (vllm/engine/arg_utils.py)."""

OF_SEVERAL_GPUS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
                   "decode_context_parallel_size", "prefill_context_parallel_size", "nnodes")  # fmt: skip


def arguments_of(
    deployment: Deployment, model: str | None, resolution: Resolution | None = None
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The model, the arguments and the environment.

    Args:
        resolution: of the same deployment. LLM() has other defaults of batches than `vllm serve`; with it those that
            were resolved are given.

    Raises:
        InputError: CG995, the model is not named, or vLLM cannot be given an option here.
    """
    if model is None:
        raise InputError(
            "vLLM needs the model itself",
            code="CG995",
            where="--engine vllm",
            fix="--model with a folder that holds config.json, or an id that vLLM can load",
        )
    for name in OF_SEVERAL_GPUS:
        if getattr(deployment, name) > 1:
            raise _cannot(
                "the engine vllm runs on one GPU",
                f"--{name.replace('_', '-')}",
                "leave it out; --engine synthetic runs several ranks with -tp",
            )
    found = {
        name: _plain(value)
        for name in sorted(deployment.model_fields_set.difference(NO_OPTIONS))
        if (value := getattr(deployment, name)) is not None
    }
    if resolution is not None:
        found["max_num_seqs"] = resolution.max_num_seqs
        found["max_num_batched_tokens"] = resolution.max_num_batched_tokens
    sections = {
        "compilation_config": _compilation(deployment),
        "attention_config": _attention(deployment),
        "speculative_config": _speculative(deployment.speculative_config),
    }
    return model, {**found, **{name: keys for name, keys in sections.items() if keys}}, dict(deployment.env)


def _compilation(deployment: Deployment) -> dict[str, Any]:
    found = _given(deployment.compilation_config)
    mode = deployment.compilation_config.mode
    if mode is not None:
        found["mode"] = list(CompilationMode).index(mode)
    if any(name.startswith("<") for name in found.get("splitting_ops") or ()):
        raise _cannot("vLLM knows no group of splitting ops", "splitting_ops", "name each op, or leave the key out")
    return found


def _attention(deployment: Deployment) -> dict[str, Any]:
    found = _given(deployment.attention_config)
    if deployment.attention_backend is not None:
        found["backend"] = deployment.attention_backend
    return found


def _speculative(options: SpeculativeOptions | None) -> dict[str, Any]:
    if options is None:
        return {}
    found = _given(options)
    if options.model is not None:
        if options.model.name is None:
            raise _cannot("vLLM needs the draft model itself", "--spec-model", "name its folder or id")
        found["model"] = options.model.name
    return found


def _given(section: BaseModel) -> dict[str, Any]:
    """The keys that were given."""
    return section.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def _plain(value: Any) -> Any:
    """Sections as dictionaries, tuples as lists."""
    if isinstance(value, BaseModel):
        return _given(value)
    return list(value) if isinstance(value, tuple) else value


def _cannot(what: str, where: str, fix: str) -> InputError:
    return InputError(what, code="CG995", where=where, fix=fix)
