"""What vLLM's config classes check and change beyond the types of their fields.

Each function follows a validator of the class that it is named after; at which release it differs is said where it
does. A ValueError makes the class refuse. A KeyError or IndexError passes through to the user, as in vLLM.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from ..errors import did_you_mean
from ..releases import holds
from .serve_args_compilation import attention, compilation, passes
from .serve_args_config_context import Context, Rule, Values, getter


def _mode(value: Any, context: Context, _: str) -> Any:
    if not isinstance(value, str):
        return value
    modes = context.enums["CompilationMode"]
    name = value.upper()
    if name not in modes.__members__:
        raise ValueError(f"unknown compilation mode {value[:40]!r}; known: {', '.join(modes.__members__)}")
    return modes[name]


def _cudagraph_mode(value: Any, context: Context, _: str) -> Any:
    return context.enums["CUDAGraphMode"][value.upper()] if isinstance(value, str) else value


def _backend(value: Any, context: Context, _: str) -> Any:
    if not isinstance(value, str):
        return value
    return None if value.lower() == "auto" else _attention_backend(value, context)


def _attention_backend(value: str, context: Context) -> Any:
    backends = context.enums["AttentionBackendEnum"]
    name = value.upper()
    if name not in backends.__members__:
        raise ValueError(f"unknown attention backend {value[:40]!r}{_hint(name, backends)}")
    return backends[name]


def _hint(name: str, known: Any) -> str:
    hint = did_you_mean(name[:100], known.__members__)
    return f"; {hint}" if hint else ""


def _mla_prefill_backend(value: Any, context: Context, _: str) -> Any:
    if not isinstance(value, str):
        return value
    backends = context.enums["MLAPrefillBackendEnum"]
    if value.upper() not in backends.__members__:
        raise ValueError(f"unknown MLA prefill backend {value[:40]!r}{_hint(value, backends)}")
    return backends[value.upper()]


def _backend_per_kind(value: Any, context: Context, _: str) -> Any:
    if not isinstance(value, dict):
        return value
    known = context.words["kv_cache_kinds"]
    for kind in value:
        if kind not in known:
            raise ValueError(f"unknown kind of KV cache group {kind[:40]!r}; known: {', '.join(sorted(known))}")
    return {k: _attention_backend(b, context) if isinstance(b, str) else b for k, b in value.items()}


def _lower(value: Any, context: Context, _: str) -> Any:
    return value.lower().replace("-", "_") if isinstance(value, str) else value


def _normal_path(value: Any, context: Context, _: str) -> Any:
    return str(PurePosixPath(value)) if isinstance(value, str) else value


def _op_names(value: Any, context: Context, _: str) -> Any:
    if isinstance(value, str):
        value = value.replace(" ", "").split(",")
    if not all(isinstance(item, str) for item in value):
        raise ValueError("each name has to be text")
    return value


def _quant_spec(value: Any, context: Context, field: str) -> Any:
    if not isinstance(value, str):
        return value
    if value in context.words["online_shorthands"]:
        if value not in context.words[f"online_{field}"]:
            raise ValueError(f"{value} has no {field} form")
        return {}  # what it stands for is beyond the command line
    return {"weight": value}


def _quant_key(value: Any, context: Context, _: str) -> Any:
    if value is not None and not isinstance(value, str):
        raise TypeError("a quantisation name is text")
    if value is None or value in context.words["quant_keys"]:
        return value
    raise ValueError(f"unknown quantisation name {value[:40]!r}")


def _quant_targets(value: Any, context: Context, _: str) -> Any:
    if value is None:
        return value
    if not isinstance(value, dict):
        raise TypeError("targets has to be an object")
    for pattern, shorthand in value.items():
        if not isinstance(shorthand, str) or shorthand not in context.words["online_shorthands"]:
            raise ValueError(f"unknown online quantisation {str(shorthand)[:40]!r}")
        if pattern.startswith("re:"):
            try:
                re.compile(pattern[3:])
            except re.error as error:
                raise ValueError(f"{pattern[:40]} is no regular expression: {error}") from None
    return value


def _pooler_removed(value: Any, context: Context, _: str) -> Any:
    if isinstance(value, dict) and "normalize" in value:
        raise ValueError("normalize was removed; use use_activation")
    return value


def _pooler(values: Values, context: Context, _: str) -> Values:
    for old, new in (("logit_bias", "logit_mean"), ("logit_scale", "logit_sigma")):
        if values.get(old) is None:
            continue
        if values.get(new) is not None:
            raise ValueError(f"{old} and {new} are both given")
        if "logit_mean" not in context.defaults["PoolerConfig"]:
            continue
        if old == "logit_scale" and values[old] == 0:
            raise ValueError("logit_scale cannot be 0")
        values[new] = 1.0 / values[old] if old == "logit_scale" else values[old]
        values[old] = None
    if values.get("logit_sigma") == 0:
        raise ValueError("logit_sigma cannot be 0")
    kind = values.get("pooling_type")
    if kind:
        for other in ("seq_pooling_type", "tok_pooling_type"):
            if values.get(other) is not None:
                raise ValueError(f"pooling_type and {other} are both given")
        values["seq_pooling_type" if kind in ("CLS", "LAST", "MEAN") else "tok_pooling_type"] = kind
    return values


def _eplb(values: Values, context: Context, _: str) -> Values:
    get = getter(values, context, "EPLBConfig")
    if get("use_async") and get("policy") != "default":
        raise ValueError("use_async needs the default policy")
    clashing = ("torch_nccl", "pynccl") if holds(context.release, "0.24.0") else ()
    if get("use_async") and get("communicator") in clashing:
        raise ValueError(f"use_async does not work with {get('communicator')}")
    if get("log_balancedness") and get("log_balancedness_interval") <= 0:
        raise ValueError("log_balancedness_interval has to be above 0")
    return values


def _transfer(prefix: str) -> Callable[[Values, Context, str], Values]:
    def check(values: Values, context: Context, _: str) -> Values:
        if values.get(f"{prefix}_connector") is not None and values.get(f"{prefix}_role") is None:
            raise ValueError(f"{prefix}_connector needs {prefix}_role")
        if values.get("engine_id", "") is None:
            del values["engine_id"]  # vLLM makes one up, as by default
        return values

    return check


def _kv_events(values: Values, context: Context, _: str) -> Values:
    if values.get("publisher") is None:
        values["publisher"] = "zmq" if values.get("enable_kv_cache_events") else "null"
    return values


def _encoder_cache(values: Values, context: Context, _: str) -> Values:
    if values.get("encoder_cache_manager_cls") is None and values.get("manager_config"):
        raise ValueError("manager_config needs encoder_cache_manager_cls")
    return values


def _engram(values: Values, context: Context, _: str) -> Values:
    get = getter(values, context, "EngramConfig")
    if get("dp_shared_memory") and not get("cpu_offload"):
        raise ValueError("dp_shared_memory needs cpu_offload")
    if get("use_thp") and (not get("cpu_offload") or get("dp_shared_memory")):
        raise ValueError("use_thp needs cpu_offload without dp_shared_memory")
    return values


def _structured_outputs(values: Values, context: Context, _: str) -> Values:
    get = getter(values, context, "StructuredOutputsConfig")
    if get("disable_any_whitespace") and get("backend") not in ("xgrammar", "guidance"):
        raise ValueError("disable_any_whitespace works with the backends xgrammar and guidance")
    if get("disable_additional_properties") and get("backend") != "guidance":
        raise ValueError("disable_additional_properties works with the backend guidance")
    return values


def _quantization(values: Values, context: Context, _: str) -> Values:
    if values.get("targets") is not None and (values.get("linear") is not None or values.get("moe") is not None):
        raise ValueError("targets excludes linear and moe")
    return values


def _profiler(values: Values, context: Context, _: str) -> Values:
    get = getter(values, context, "ProfilerConfig")
    profiler = get("profiler")
    activities = get("torch_profiler_activities")
    if activities is not None and profiler != "torch":
        raise ValueError("torch_profiler_activities needs profiler=torch")
    if activities is not None and len(activities) != len(set(activities)):
        raise ValueError("torch_profiler_activities names one twice")
    if get("torch_profiler_dir") and profiler != "torch":
        raise ValueError("torch_profiler_dir needs profiler=torch")
    if profiler == "torch" and not get("torch_profiler_dir"):
        raise ValueError("profiler=torch needs torch_profiler_dir")
    if get("capture_torch_profiler") and profiler != "torch":
        raise ValueError("capture_torch_profiler needs profiler=torch")
    if "proton_profiler_dir" in context.defaults["ProfilerConfig"]:
        _proton(get, values, context)
    return values


def _proton(get: Callable[[str], Any], values: Values, context: Context) -> None:
    own = context.defaults["ProfilerConfig"]
    if get("profiler") != "proton":
        if any(get(name) != default for name, default in own.items() if name.startswith("proton_")):
            raise ValueError("proton options need profiler=proton")
        return
    folder = get("proton_profiler_dir")
    if not folder or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", folder):
        raise ValueError("profiler=proton needs proton_profiler_dir, a local folder")
    if get("proton_graph_attribution"):
        if get("proton_data") != "tree":
            raise ValueError("proton_graph_attribution needs proton_data=tree")
        if (get("proton_mode") or "").partition(":")[0].lower() == "periodic_flushing":
            raise ValueError("proton_graph_attribution excludes periodic_flushing")
    if get("proton_output_format") == "chrome_trace" and get("proton_data") != "trace":
        raise ValueError("chrome_trace needs proton_data=trace")


BEFORE: dict[str, Rule] = {
    "validate_mode_before": _mode,
    "validate_cudagraph_mode_before": _cudagraph_mode,
    "validate_backend_before": _backend,
    "validate_mla_prefill_backend_before": _mla_prefill_backend,
    "validate_backend_per_kind_before": _backend_per_kind,
    "_normalize_moe_backend": _lower,
    "_normalize_linear_backend": _lower,
    "_normalize_sparse_indexer_topk_backend": _lower,
    "_to_list_str": _op_names,
    "_coerce_spec": _quant_spec,
    "_validate_targets": _quant_targets,
    "reject_removed_parameters": _pooler_removed,
    "normal_path": _normal_path,
}
"""By name of vLLM's validator: what it does to a value before its type is checked."""

PLAIN: dict[str, Rule] = {"_coerce_quant_key": _quant_key}
"""Validators that take the place of a type."""

AFTER: dict[str, Rule] = {
    "CompilationConfig": compilation,
    "PassConfig": passes,
    "AttentionConfig": attention,
    "KVEventsConfig": _kv_events,
    "PoolerConfig": _pooler,
    "EPLBConfig": _eplb,
    "KVTransferConfig": _transfer("kv"),
    "ECTransferConfig": _transfer("ec"),
    "EncoderCacheManagerConfig": _encoder_cache,
    "EngramConfig": _engram,
    "StructuredOutputsConfig": _structured_outputs,
    "QuantizationConfigArgs": _quantization,
    "ProfilerConfig": _profiler,
}
"""By class: what it checks and changes once all fields have their types."""
