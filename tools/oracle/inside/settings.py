"""The resolved configuration as a record holds it. A field that a release lacks, or that is None, is left out."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
from typing import Any

PASSES = (
    "fuse_attn_quant",
    "enable_sp",
    "fuse_gemm_comms",
    "fuse_allreduce_rms",
    "fuse_norm_quant",
    "fuse_act_quant",
    "sp_min_token_num",
)


def settings(config: Any, attention_ops: list[str]) -> dict[str, Any]:
    """The fields of a VllmConfig that decide CUDA graphs, or follow from what does."""
    found = {
        **_scheduler(config.scheduler_config),
        **_model(config.model_config),
        "optimization_level": int(config.optimization_level),
        "performance_mode": getattr(config, "performance_mode", None),
        **_compilation(config.compilation_config, attention_ops),
        "use_v2_model_runner": uses_v2(config),
        **_speculative(config),
        "max_loras": config.lora_config.max_loras if config.lora_config else None,
        "breakable_cudagraph": os.environ.get("VLLM_USE_BREAKABLE_CUDAGRAPH"),
        **_parallel(config.parallel_config),
        "block_size": config.cache_config.block_size,
    }
    return {name: value for name, value in found.items() if value is not None}


def uses_v2(config: Any) -> bool:
    """Whether the engine would take model runner V2."""
    if hasattr(type(config), "use_v2_model_runner"):
        return bool(config.use_v2_model_runner)
    from vllm import envs

    return bool(getattr(envs, "VLLM_USE_V2_MODEL_RUNNER", False))


def draft_tokens(config: Any) -> int:
    """Tokens that the drafter proposes for each step; 0 without one."""
    known = getattr(config, "num_speculative_tokens", None)
    if known is not None:
        return int(known)
    speculative = config.speculative_config
    return int(speculative.num_speculative_tokens) if speculative else 0


def _scheduler(scheduler: Any) -> dict[str, Any]:
    names = (
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_num_scheduled_tokens",
        "max_num_active_seqs",
        "enable_chunked_prefill",
        "async_scheduling",
    )
    return {name: getattr(scheduler, name, None) for name in names}


def _model(model: Any) -> dict[str, Any]:
    return {
        "max_model_len": model.max_model_len,
        "runner_type": model.runner_type,
        "is_moe": bool(getattr(model, "is_moe", False)),
        "use_mla": bool(model.use_mla),
        "is_hybrid": bool(getattr(model, "is_hybrid", False)),
        "is_encoder_decoder": bool(model.is_encoder_decoder),
        "is_multimodal": bool(getattr(model, "is_multimodal_model", False)),
        "has_pooler_config": model.pooler_config is not None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "hidden_size": model.get_hidden_size(),
        "enforce_eager": model.enforce_eager,
    }


def _compilation(compilation: Any, attention_ops: list[str]) -> dict[str, Any]:
    old_name = getattr(compilation, "compile_ranges_split_points", None)
    passes = compilation.pass_config
    return {
        "mode": getattr(compilation.mode, "name", compilation.mode),
        "backend": compilation.backend,
        "cudagraph_mode": getattr(compilation.cudagraph_mode, "name", compilation.cudagraph_mode),
        "splitting_ops": _abbreviate(compilation.splitting_ops, attention_ops),
        "use_inductor_graph_partition": compilation.use_inductor_graph_partition,
        "cudagraph_capture_sizes": list(compilation.cudagraph_capture_sizes or []),
        "max_cudagraph_capture_size": compilation.max_cudagraph_capture_size,
        "compile_sizes": list(compilation.compile_sizes or []),
        "compile_ranges_endpoints": getattr(compilation, "compile_ranges_endpoints", old_name),
        "custom_ops": list(compilation.custom_ops),
        "cudagraph_num_of_warmups": compilation.cudagraph_num_of_warmups,
        "cudagraph_specialize_lora": getattr(compilation, "cudagraph_specialize_lora", None),
        "pass_config": {name: getattr(passes, name) for name in PASSES if hasattr(passes, name)},
    }


def _speculative(config: Any) -> dict[str, Any]:
    speculative = config.speculative_config
    return {
        "num_speculative_tokens": draft_tokens(config),
        "dynamic_sd_schedule": getattr(speculative, "num_speculative_tokens_per_batch_size", None),
        "spec_method": getattr(speculative, "method", None),
    }


def _parallel(parallel: Any) -> dict[str, Any]:
    return {
        "world_size": parallel.world_size,
        "data_parallel_size": parallel.data_parallel_size,
        "all2all_backend": getattr(parallel, "all2all_backend", None),
        "use_ubatching": bool(getattr(parallel, "use_ubatching", False)),
    }


def _abbreviate(given: Any, attention_ops: list[str]) -> list[str] | None:
    """The release's long default list of attention ops as one word."""
    if given is None:
        return None
    ops: list[str] = list(given)
    if attention_ops and ops[: len(attention_ops)] == attention_ops:
        return ["<attention_ops>", *ops[len(attention_ops) :]]
    return ops
