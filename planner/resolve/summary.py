"""What the resolution says beside the graphs: resolved settings, cliffs, and what is left out."""

from __future__ import annotations

from typing import Any

from ..vocabulary import CUDAGraphMode, Runner
from .engine import Engine, plain

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


def settings(engine: Engine, runner: Runner) -> dict[str, Any]:
    """vLLM's resolved configuration, by its own names; JSON values, None where vLLM holds None."""
    d, speculation = engine.deployment, engine.speculation
    return {
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "max_num_scheduled_tokens": engine.max_num_scheduled_tokens,
        "max_num_active_seqs": engine.max_num_active_seqs,
        "max_model_len": engine.max_model_len,
        "enable_chunked_prefill": engine.enable_chunked_prefill,
        "async_scheduling": engine.async_scheduling,
        "runner_type": engine.runner_type,
        "is_moe": d.model.is_moe,
        "use_mla": d.model.use_mla,
        "is_hybrid": d.model.is_hybrid,
        "is_encoder_decoder": d.model.is_encoder_decoder,
        "is_multimodal": d.model.is_multimodal_model,
        "has_pooler_config": engine.runner_type == "pooling",
        "dtype": engine.dtype,
        "hidden_size": d.model.hidden_size,
        "enforce_eager": d.enforce_eager,
        "optimization_level": engine.optimization_level,
        "performance_mode": engine.performance_mode,
        "mode": plain(engine.mode),
        "backend": engine.backend,
        "cudagraph_mode": plain(engine.cudagraph_mode),
        "splitting_ops": list(engine.splitting_ops or ()),
        "use_inductor_graph_partition": engine.use_inductor_graph_partition,
        "cudagraph_capture_sizes": list(engine.cudagraph_capture_sizes or ()),
        "max_cudagraph_capture_size": engine.max_cudagraph_capture_size,
        "compile_sizes": engine.compile_sizes,
        "compile_ranges_endpoints": engine.compile_ranges_endpoints,
        "custom_ops": engine.custom_ops,
        "cudagraph_num_of_warmups": engine.cudagraph_num_of_warmups,
        "cudagraph_specialize_lora": d.compilation_config.cudagraph_specialize_lora,
        "pass_config": _pass_config(engine),
        "use_v2_model_runner": runner is Runner.V2,
        "num_speculative_tokens": engine.num_speculative_tokens,
        "dynamic_sd_schedule": plain(speculation.schedule) if speculation is not None else None,
        "spec_method": speculation.method if speculation is not None else None,
        "max_loras": engine.max_loras,
        "breakable_cudagraph": engine.breakable_env,
        "world_size": d.pipeline_parallel_size * d.tensor_parallel_size * d.prefill_context_parallel_size,
        "data_parallel_size": engine.data_parallel_size,
        "all2all_backend": engine.all2all_backend,
        "use_ubatching": engine.use_ubatching,
        "block_size": None if _block_size_is_open(engine) else d.block_size or 16,
    }


def _block_size_is_open(engine: Engine) -> bool:
    """0.19 takes it from the size of the Mamba state, which the model's class knows."""
    return engine.deployment.model.is_hybrid and bool(engine.facts["mamba"]["block_size_from_state"])


def _pass_config(engine: Engine) -> dict[str, Any]:
    if engine.facts["levels"]["sequence_parallel_passes"]:
        return engine.passes | {"sp_min_token_num": engine.sp_min_token_num}
    return engine.passes


def not_modelled(engine: Engine, runner: Runner) -> tuple[str, ...]:
    """What the answer leaves out, one line each."""
    d = engine.deployment
    left = []
    if d.compilation_config.cudagraph_mm_encoder and d.model.is_multimodal_model:
        left.append("graphs of the vision encoder (cudagraph_mm_encoder)")
    if d.mm_encoder_only:
        left.append("an engine that runs the encoder alone: it has no KV cache, and what is said of one does not hold")
    if d.model.architecture == "DeepseekV41ForCausalLM":
        left.append("DeepSeek V4.1 decoder replay graphs")
    if engine.use_ubatching and runner is Runner.V1:
        left.append(
            f"microbatches of runner V1: a FULL decode graph of {d.dbo_decode_token_threshold} tokens or more is"
            " captured split alone, and counts as an unsplit one; a step that cannot be split may run eager"
        )
    if _block_size_is_open(engine):
        left.append("the KV block size of a hybrid model in 0.19")
    if d.gpu.platform != "cuda":
        left.append(f"platform {d.gpu.platform}: only what the CUDA rules share with it")
    return tuple(left)
