"""What vLLM's compilation and attention config classes check and change beyond the types of their fields."""

from __future__ import annotations

from typing import Any

from ..releases import holds
from .serve_args_config_context import Context, Values, getter

ROPE = "+rotary_embedding"
NEEDS_ROPE = ("enable_qk_norm_rope_fusion", "fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache")
ONLY_ROCM = ("fuse_act_padding", "fuse_mla_dual_rms_norm", "fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache")
OPS_CHECKED_SINCE = "0.27.1"
INDUCTOR_BACKENDS = ("", "eager", "inductor")


def passes(values: Values, context: Context, _: str) -> Values:
    """PassConfig: fusions that CUDA lacks are switched off, with a warning."""
    return {key: False if key in ONLY_ROCM and value else value for key, value in values.items()}


def compilation(values: Values, context: Context, _: str) -> Values:
    """CompilationConfig.__post_init__."""
    get = getter(values, context, "CompilationConfig")
    _check_inductor_passes(values)
    ops = list(get("custom_ops") or ())
    pass_config = values.get("pass_config") or {}
    if any(pass_config.get(name) for name in NEEDS_ROPE) and ROPE not in ops:
        ops.append(ROPE)
        values["custom_ops"] = ops
    _check_custom_ops(ops, context.release)
    mode = values.get("mode")
    if mode is not None and mode.name == "VLLM_COMPILE" and get("backend") not in INDUCTOR_BACKENDS:
        raise ValueError(f"backend {str(get('backend'))[:40]!r} does not work with mode VLLM_COMPILE")
    _check_encoder(values, context)
    if values.get("inductor_compile_config") is not None:
        values["inductor_compile_config"] = _inductor_settings(values["inductor_compile_config"])
    if values.get("backend") == "":
        values["backend"] = "inductor"
    return values


def _check_inductor_passes(values: Values) -> None:
    """vLLM imports what these name; nothing is imported here, so that a name with a dot is taken for missing."""
    for name in (values.get("inductor_passes") or {}).values():
        module = name.rpartition(".")[0]
        if not module:
            raise ValueError("an inductor pass is named module.function")
        raise ModuleNotFoundError(f"inductor pass {name[:60]}: the module is imported at start; it is not known here")


def _check_custom_ops(ops: list[str], release: str) -> None:
    bases = [op for op in ops if op in ("all", "none")]
    if len(bases) > 1:
        raise ValueError("custom_ops names all or none more than once")
    checked = holds(release, OPS_CHECKED_SINCE)
    for op in ops:
        if op in bases:
            continue
        # Before, the first letter is looked at without a look at the length: an IndexError.
        if op[:1] not in ("+", "-") if op or checked else op[0]:
            raise ValueError(f"custom op {op[:40]!r} is not all, none, +op or -op")
        if checked and len(op) < 2:
            raise ValueError(f"custom op {op!r} has no name")
    clashing = {op[1:] for op in ops if op[0] == "+"} & {op[1:] for op in ops if op[0] == "-"}
    if checked and clashing:
        raise ValueError(f"custom_ops both enables and disables {', '.join(sorted(clashing))[:60]}")


def _check_encoder(values: Values, context: Context) -> None:
    get = getter(values, context, "CompilationConfig")
    if get("cudagraph_mm_encoder"):
        for name in ("vision_items", "images", "frames"):
            limit = get(f"encoder_cudagraph_max_{name}_per_batch")
            if limit is not None and limit < 0:
                raise ValueError(f"encoder_cudagraph_max_{name}_per_batch cannot be negative")
    sizes = "decoder_replay_cudagraph_capture_sizes"
    lists = [sizes]
    if holds(context.release, "0.22.1"):
        lists.append("encoder_cudagraph_token_budgets")
    for name in lists:
        if any(size <= 0 for size in values.get(name) or ()):
            raise ValueError(f"{name} has to be positive")


def _inductor_settings(given: dict[str, Any]) -> dict[str, Any]:
    found = {**given}
    found.setdefault("enable_auto_functionalized_v2", False)
    if "combo_kernels" not in found and "benchmark_combo_kernel" not in found:
        found["combo_kernels"] = True
        found["benchmark_combo_kernel"] = not found.get("deterministic", False)
    return found


def attention(values: Values, context: Context, _: str) -> Values:
    """AttentionConfig.__post_init__."""
    get = getter(values, context, "AttentionConfig")
    known = context.defaults["AttentionConfig"]
    backend = values.get("backend")
    if backend is not None and "minimax_m3_msa_decode_backend" in known:
        alias = {"CUTLASS_MSA": "cutlass", "TRITON_MSA": "triton"}.get(backend.name)
        if alias is not None:
            values["minimax_m3_msa_decode_backend"] = alias
            values["backend"] = None
    if get("minimax_m3_indexer_cp") and get("indexer_kv_dtype") not in ("auto", "bf16", "fp8", "fp8_e4m3"):
        raise ValueError("minimax_m3_indexer_cp needs an indexer_kv_dtype of bf16 or fp8")
    if "disable_flashinfer_prefill" in known and "mla_prefill_backend" in known:
        _old_prefill_flags(values)
    if values.get("use_fp4_indexer_cache") and holds(context.release, "0.28.0", "0.29.0"):
        if get("indexer_kv_dtype") not in ("auto", "mxfp4"):
            raise ValueError("use_fp4_indexer_cache and indexer_kv_dtype contradict each other")
        values["indexer_kv_dtype"] = "mxfp4"
    return values


def _old_prefill_flags(values: Values) -> None:
    """0.21 turns older switches into mla_prefill_backend."""
    if values.get("mla_prefill_backend") is not None:
        return
    if values.get("use_cudnn_prefill"):
        raise ValueError("the cuDNN prefill backend was removed; give mla_prefill_backend")
    if values.get("use_trtllm_ragged_deepseek_prefill"):
        values["mla_prefill_backend"] = "TRTLLM_RAGGED"
    elif values.get("disable_flashinfer_prefill"):
        values["mla_prefill_backend"] = "FLASH_ATTN"
