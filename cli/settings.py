"""From the options to fields of a Deployment, but for the machine, the model and the environment."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from cgplan import ModelShape
from cgplan.errors import InputError, did_you_mean, shorten
from cgplan.releases import table

from . import values
from .naming import SHORT, flag
from .options import DeploymentOptions
from .parsing import check_not_empty

if TYPE_CHECKING:
    from cgplan.inputs.served_model import NamedModel

PASSED_ON = (
    "runner", "dtype", "quantization", "vllm", "usage_context", "enable_chunked_prefill", "enable_prefix_caching",
    "async_scheduling", "performance_mode", "enforce_eager", "attention_backend", "attention_support",
    "kv_cache_dtype", "distributed_executor_backend", "enable_expert_parallel", "all2all_backend", "enable_dbo",
    "enable_lora", "specialize_active_lora", "disable_hybrid_kv_cache_manager", "mamba_cache_dtype",
    "mamba_ssm_cache_dtype", "mamba_cache_mode", "language_model_only", "mm_encoder_only", "mm_encoder_tp_mode",
    "skip_mm_profiling", "offload_backend",
)  # fmt: skip
"""Options whose value is the Deployment field of the same name."""

WHOLE = (
    "gpus_per_node", "max_num_active_seqs", "long_prefill_token_threshold", "max_cudagraph_capture_size",
    "block_size", "num_gpu_blocks", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "decode_context_parallel_size", "prefill_context_parallel_size", "nnodes", "ubatch_size",
    "dbo_decode_token_threshold", "dbo_prefill_token_threshold", "max_loras", "max_lora_rank",
    "num_gpu_blocks_override", "mamba_block_size", "offload_group_size", "offload_num_in_group",
    "offload_prefetch_step",
)  # fmt: skip
"""The same for whole numbers."""

EXECUTORS = ("mp", "ray", "uni", "external_launcher")
"""vLLM also takes the dotted path of a class."""

MAY_BE_EMPTY = ("compilation_config.backend",)
"""vLLM's default is the empty text."""

NAMES = ("kv_cache_dtype_skip_layers", "cpu_offload_params", "offload_params")
"""Lists of names, between blanks or commas."""

OBJECTS = ("limit_mm_per_prompt", "mm_processor_kwargs")
"""JSON objects that are fields themselves."""

HUMAN = ("max_num_seqs", "max_num_batched_tokens", "max_num_scheduled_tokens")

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def scalars(options: DeploymentOptions, assumptions: list[str]) -> dict[str, Any]:
    """The fields of the options that are one value each."""
    fields: dict[str, Any] = {name: value for name in PASSED_ON if (value := getattr(options, name)) is not None}
    _add_numbers(options, fields, assumptions)
    _check_executor(options.distributed_executor_backend)
    return fields


def _add_numbers(options: DeploymentOptions, fields: dict[str, Any], assumptions: list[str]) -> None:
    for name in (*HUMAN, *WHOLE):
        text = getattr(options, name)
        if text is not None:
            fields[name] = (values.human if name in HUMAN else values.whole)(text, flag(name))
    if options.max_model_len is not None:
        if options.max_model_len.strip().lower() in ("auto", "-1"):
            assumptions.append("max_model_len auto: the model's own length is taken; what fits is not looked at.")
        else:
            fields["max_model_len"] = values.human(options.max_model_len, "--max-model-len")
    if fields.get("num_gpu_blocks_override", 0) > 0:
        fields.setdefault("num_gpu_blocks", fields["num_gpu_blocks_override"])
    for name in NAMES:
        if getattr(options, name) is not None:
            fields[name] = tuple(getattr(options, name).replace(",", " ").split())
    if options.cpu_offload_gb is not None:
        fields["cpu_offload_gb"] = values.number(options.cpu_offload_gb, "--cpu-offload-gb")
    if options.optimization_level is not None:
        fields["optimization_level"] = values.level(options.optimization_level)
    if options.cudagraph_capture_sizes is not None:
        sizes = values.numbers(options.cudagraph_capture_sizes, "--cudagraph-capture-sizes")
        fields["cudagraph_capture_sizes"] = sizes


def _check_executor(name: str | None) -> None:
    if name is None or name in EXECUTORS or _CLASS_PATH.fullmatch(name):
        return
    raise InputError(
        f"unknown executor {shorten(name, 40)!r}",
        code="CG902",
        where="--distributed-executor-backend",
        fix=did_you_mean(name, EXECUTORS) or f"give {', '.join(EXECUTORS)}, or the dotted path of a class",
    )


def sections(options: DeploymentOptions, ignored: list[str]) -> dict[str, Any]:
    """The fields of the options that are JSON objects, each with the keys given."""
    fields: dict[str, Any] = {}
    for name in ("compilation_config", "attention_config", "kv_transfer_config"):
        documents = getattr(options, name)
        if documents:
            fields[name] = _config(documents, name, ignored)
    for name in OBJECTS:
        documents = getattr(options, name)
        if documents:
            fields[name] = values.merged(documents, flag(name))
    if options.cudagraph_mode is not None:
        config = fields.setdefault("compilation_config", {})
        inner = config.get("cudagraph_mode")
        if inner is not None and str(inner).upper() != options.cudagraph_mode.upper():
            raise _twice("--cudagraph-mode", options.cudagraph_mode, "-cc.cudagraph_mode", inner)
        config["cudagraph_mode"] = options.cudagraph_mode
    speculative = _speculative(options, ignored)
    if speculative is not None:
        fields["speculative_config"] = speculative
    return fields


def _speculative(options: DeploymentOptions, ignored: list[str]) -> dict[str, Any] | None:
    tokens = None if options.spec_tokens is None else values.whole(options.spec_tokens, "--spec-tokens")
    config = _config(options.speculative_config or [], "speculative_config", ignored)
    for name, key, value in (
        ("--spec-method", "method", options.spec_method),
        ("--spec-tokens", "num_speculative_tokens", tokens),
        ("--spec-model", "model", options.spec_model),
    ):
        if value is not None:
            if config.get(key) not in (None, value):
                raise _twice(name, value, f"-sc.{key}", config[key])
            config[key] = value
    if not config and not options.speculative_config:
        return None
    from cgplan.inputs.drafts import with_draft

    return with_draft(config, lambda name: shape(name, "--spec-model", "draft"))


def check_speculative(config: dict[str, Any], options: DeploymentOptions) -> None:
    """Refuse drafts of nobody: vLLM needs to know who makes them."""
    if config.get("method") is None and config.get("model") is None:
        raise InputError(
            "speculative decoding needs a method or a draft model",
            code="CG903",
            where="--speculative-config" if options.speculative_config else "--spec-tokens",
            fix="give --spec-method, for example --spec-method ngram, or --spec-model",
        )


def _config(documents: list[str], name: str, ignored: list[str]) -> dict[str, Any]:
    config = values.merged(documents, SHORT[name])
    known = table("config_fields")[name]["fields"]
    for key in [key for key in config if key in known]:
        del config[key]
        ignored.append(f"{name}.{key}: vLLM reads it; what it does to CUDA graphs is not modelled.")
    for key, value in config.items():
        if f"{name}.{key}" not in MAY_BE_EMPTY:
            check_not_empty(value, f"{SHORT[name]}.{shorten(key, 60)}")
    return config


def _twice(first: str, value: object, second: str, other: object) -> InputError:
    return InputError(
        f"{first} {shorten(value, 40)} and {second} {shorten(other, 40)} are one setting",
        code="CG907",
        where=first,
        fix="drop one of the two",
    )


def shape(name: str, flag: str, runner: str = "auto") -> ModelShape:
    """The shape of the model of that name; an error speaks of the option `flag`."""
    from cgplan.inputs.catalogue import load_model

    _check_is_a_name(name, flag)
    try:
        return load_model(name, runner=runner)
    except InputError as error:
        if error.where in (None, "model"):
            error.where = flag
        raise


def shape_or_stand_in(name: str, flag: str, runner: str, assumptions: list[str]) -> ModelShape:
    """The shape of the model of that name, or what stands in for one that is neither here nor in the catalogue, which
    is added to `assumptions`.

    Raises:
        InputError: the model's files cannot be used, or its name tells too little.
    """
    try:
        return shape(name, flag, runner)
    except InputError as error:
        found = _stand_in(name, runner) if error.code == "CG915" else None
        if found is None:
            raise
        assumptions.append(
            f"Model: {found.instead} in the place of {found.name}, which is neither here nor in the catalogue."
        )
        return found.shape


def _stand_in(name: str, runner: str) -> NamedModel | None:
    """What stands in for a model that is neither here nor in the catalogue; None: the name tells too little.

    That is the same model but for its organisation and the storage of its weights, one of the same family and size, or
    for an embedding model anything that pools: it has the same graphs.
    """
    from cgplan.inputs.served_model import named_model, pools_by_name

    found = named_model(name, runner)
    return found if found.like is not None or pools_by_name(name) else None


def _check_is_a_name(name: str, flag: str) -> None:
    """Refuse a line or a sentence: its last word may be the id of a model. The path of a file may have blanks."""
    words = name.split()
    if len(words) < 2 or os.path.exists(name):
        return
    is_line = "serve" in words[:3] or any(word.startswith("-") for word in words)
    raise InputError(
        f"{shorten(name, 80)!r} has blanks and is no path",
        code="CG906",
        where=flag,
        fix="put the line behind --, without quotes: -- vllm serve ..." if is_line else "give the model's name alone",
    )
