"""From the options to a Deployment, with what had to be assumed."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cgplan import Deployment, Gpu, ModelShape, Software
from cgplan.errors import InputError, did_you_mean, shorten
from cgplan.releases import assume, table
from cgplan.report.words import sentence

from . import environment, no_effect, values
from .naming import SHORT, flag
from .options import DeploymentOptions
from .parsing import check_not_empty

PASSED_ON = (
    "runner", "dtype", "quantization", "vllm", "usage_context", "enable_chunked_prefill", "enable_prefix_caching",
    "async_scheduling", "performance_mode", "enforce_eager", "attention_backend", "attention_support",
    "kv_cache_dtype", "distributed_executor_backend", "enable_expert_parallel", "all2all_backend", "enable_dbo",
    "enable_lora", "specialize_active_lora",
)  # fmt: skip
"""Options whose value is the Deployment field of the same name."""

WHOLE = (
    "gpus_per_node", "max_num_active_seqs", "long_prefill_token_threshold", "max_cudagraph_capture_size",
    "block_size", "num_gpu_blocks", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "decode_context_parallel_size", "prefill_context_parallel_size", "nnodes", "ubatch_size",
    "dbo_decode_token_threshold", "dbo_prefill_token_threshold", "max_loras", "max_lora_rank",
)  # fmt: skip
"""The same for whole numbers."""

EXECUTORS = ("mp", "ray", "uni", "external_launcher")
"""vLLM also takes the dotted path of a class."""

MAY_BE_EMPTY = ("compilation_config.backend",)
"""vLLM's default is the empty text."""

PACKAGES = ("aiter", "amx", "b12x", "hpc", "ray", "tokenspeed_mla")
"""Optional packages, and AMX, that unlock a backend or an executor."""

OTHER_GPUS = "`cgplan gpus` lists those known, all of NVIDIA; Deployment(gpu=Gpu(...)) in Python describes another"

_OTHER_MAKER = re.compile(r"(amd|intel|instinct|radeon|mi[0-9]{2,3}|gfx|gaudi|hpu|arc|xpu|max|tpu|ascend|cpu|rx)", re.I)

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")

HUMAN = ("max_num_seqs", "max_num_batched_tokens", "max_num_scheduled_tokens")


class Asked(NamedTuple):
    """What was asked.

    Attributes:
        deployment: the request.
        assumptions: what was not said and is assumed, one line each.
        ignored: settings that vLLM takes and that are not modelled, one line each.
        model, gpu: how the screen names them.
    """

    deployment: Deployment
    assumptions: tuple[str, ...]
    ignored: tuple[str, ...]
    model: str
    gpu: str

    @property
    def layout(self) -> str:
        """How many GPUs share the work, in vLLM's short words; "" for one."""
        d = self.deployment
        sizes = {
            "tp": d.tensor_parallel_size,
            "pp": d.pipeline_parallel_size,
            "dp": d.data_parallel_size,
            "dcp": d.decode_context_parallel_size,
            "pcp": d.prefill_context_parallel_size,
            "nodes": d.nnodes,
        }
        return " ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)


def deployment_of(options: DeploymentOptions) -> Asked:
    """The deployment that the options describe.

    Raises:
        InputError: an option's value cannot be read or is not known.
        StartupError: vLLM would refuse it.
    """
    assumptions: list[str] = []
    ignored: list[str] = []
    fields: dict[str, Any] = {name: value for name in PASSED_ON if (value := getattr(options, name)) is not None}
    if options.assume_release is not None:
        fields["vllm"], assumed = assume(options.vllm, options.assume_release)
        assumptions += [assumed] if assumed is not None else []
    _add_numbers(options, fields, assumptions)
    _check_executor(options.distributed_executor_backend)
    fields["gpu"] = _gpu(options, fields, assumptions)
    fields["model"] = _model(options, assumptions)
    fields["software"] = _software(options, assumptions)
    fields["env"] = values.pairs(options.env or (), "--env")
    environment.check(fields["env"])
    assumptions += environment.notes(fields["env"])
    if options.usage_context is None:
        assumptions.append("Started by `vllm serve` (usage context OPENAI_API_SERVER); --usage-context changes it.")
    _add_configs(options, fields, ignored)
    model = fields["model"]
    assumptions += no_effect.notes(fields, model)
    deployment = Deployment(**fields)
    return Asked(
        deployment, tuple(sentence(text) for text in assumptions), tuple(ignored), model.name or "", fields["gpu"].name
    )


def _gpu(options: DeploymentOptions, fields: dict[str, Any], assumptions: list[str]) -> Gpu:
    from cgplan.releases.gpus import gpu

    if options.gpu is not None:
        try:
            found = gpu(options.gpu)
        except InputError as error:
            if _OTHER_MAKER.match(options.gpu):
                error.fix = OTHER_GPUS
            raise
    else:
        found = _gpu_here(fields, assumptions)
    if options.gpu_memory_bytes is not None:
        bytes_ = values.human(options.gpu_memory_bytes, "--gpu-memory-bytes")
        if bytes_ < 1:
            raise InputError("a GPU needs memory", code="CG903", where="--gpu-memory-bytes", fix="give a larger number")
        found = found.model_copy(update={"memory_bytes": bytes_})
    return found


def _gpu_here(fields: dict[str, Any], assumptions: list[str]) -> Gpu:
    from cgplan.inputs.devices import detect

    here = detect()
    if here is None:
        assumptions.append("GPU: NVIDIA H100 80GB HBM3, since none is here; --gpu names another.")
        return Gpu()
    found, count = here
    fields.setdefault("gpus_per_node", count)
    assumptions.append(f"GPU: {count} x {found.name}, found in this machine; --gpu names another.")
    return found


def _model(options: DeploymentOptions, assumptions: list[str]) -> ModelShape:
    if options.model is not None and options.model_tag is not None and options.model != options.model_tag:
        raise InputError(
            "the model is given twice, by position and by --model",
            code="CG907",
            where="--model",
            fix="drop one of the two",
        )
    name = options.model if options.model is not None else options.model_tag
    if name is None:
        assumptions.append("Model: a dense 8B decoder (the shape of Llama 3.1 8B); --model names yours.")
        return ModelShape()
    return _shape(name, "--model", options.runner or "auto")


def _shape(name: str, flag: str, runner: str = "auto") -> ModelShape:
    from cgplan.inputs.catalogue import load_model

    try:
        return load_model(name, runner=runner)
    except InputError as error:
        if error.where in (None, "model"):
            error.where = flag
        raise


def _software(options: DeploymentOptions, assumptions: list[str]) -> Software:
    if not options.software:
        assumptions.append("Software: the official CUDA image of the release, with FlashInfer; --software changes it.")
        return Software()
    given: dict[str, Any] = {}
    for name, text in values.pairs(options.software, "--software").items():
        default = getattr(Software(), name, None)
        if name not in Software.model_fields:
            raise InputError(
                f"unknown software {shorten(name, 40)}",
                code="CG901",
                where="--software",
                fix=did_you_mean(name, Software.model_fields) or f"known: {', '.join(Software.model_fields)}",
            )
        if isinstance(default, bool):
            given[name] = _yes_or_no(text, name)
        elif isinstance(default, tuple):
            given[name] = tuple(_package(part.strip()) for part in text.split(","))
        elif _VERSION.match(text):
            given[name] = text
        else:
            raise InputError(
                f"{shorten(text, 40)!r} is no version",
                code="CG906",
                where="--software",
                fix=f"write --software {name}=2.11.0",
            )
    return Software(**given)


def _package(name: str) -> str:
    if name in PACKAGES:
        return name
    raise InputError(
        f"no package {shorten(name, 40)!r} is looked at",
        code="CG901",
        where="--software",
        fix=did_you_mean(name, PACKAGES) or f"known: {', '.join(PACKAGES)}",
    )


def _yes_or_no(text: str, name: str) -> bool:
    if text.lower() in ("true", "yes", "1", "on"):
        return True
    if text.lower() in ("false", "no", "0", "off"):
        return False
    raise InputError(
        f"{shorten(text, 40)!r} is neither true nor false",
        code="CG906",
        where="--software",
        fix=f"write --software {name}=true or {name}=false",
    )


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


def _add_configs(options: DeploymentOptions, fields: dict[str, Any], ignored: list[str]) -> None:
    for name in ("compilation_config", "attention_config", "kv_transfer_config"):
        documents = getattr(options, name)
        if documents:
            fields[name] = _config(documents, name, ignored)
    if options.cudagraph_mode is not None:
        config = fields.setdefault("compilation_config", {})
        inner = config.get("cudagraph_mode")
        if inner is not None and str(inner).upper() != options.cudagraph_mode.upper():
            raise _twice("--cudagraph-mode", options.cudagraph_mode, "-cc.cudagraph_mode", inner)
        config["cudagraph_mode"] = options.cudagraph_mode
    speculative = _speculative(options, ignored)
    if speculative is not None:
        fields["speculative_config"] = speculative


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
    if config.get("method") is None and config.get("model") is None:
        raise InputError(
            "speculative decoding needs a method or a draft model",
            code="CG903",
            where="--speculative-config" if options.speculative_config else "--spec-tokens",
            fix="give --spec-method, for example --spec-method ngram, or --spec-model",
        )
    if isinstance(config.get("model"), str):
        config["model"] = _draft(config["model"], str(config.get("method")))
    return config


def _draft(name: str, method: str) -> ModelShape | None:
    """The draft model. `ngram` and its like are written in the place of a model, too."""
    if name in ("ngram", "[ngram]", "suffix") or method in ("ngram", "ngram_gpu", "suffix"):
        return None
    return _shape(name, "--spec-model", "draft")


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
