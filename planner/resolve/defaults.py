"""Defaults and limits of max_num_seqs, max_num_batched_tokens, max_model_len and dtype.

Source: vllm/engine/arg_utils.py:2945-3240, vllm/config/scheduler.py:285-362, vllm/config/model.py:2423-2690 @ 0.33.0.
Token counts, except max_num_seqs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import StartupError
from ..releases import holds
from ..trace import Rule
from ..vocabulary import UsageContext
from . import parallel

if TYPE_CHECKING:
    from .engine import Engine

TABLE = Rule(
    "CG101",
    title="Unset batch limits come from a table of GPU memory and usage context.",
    why="Large GPUs and offline use gain from larger batches.",
    example="`vllm serve` on an H100: 8192 batched tokens, 1024 sequences; on an A100: 2048 and 256.",
    instead="Set --max-num-batched-tokens and --max-num-seqs.",
    source="vllm/engine/arg_utils.py:2945-3039",
)
BATCHED_DP_MOE = Rule(
    "CG102",
    title="Batched data-parallel MoE starts from 256 batched tokens.",
    why="Its low-latency kernels reserve a buffer for every token of every rank.",
    example="deepep_low_latency with expert and data parallelism: 256.",
    instead="Set --max-num-batched-tokens.",
    source="vllm/engine/arg_utils.py:3166-3170",
)
THROUGHPUT = Rule(
    "CG103",
    title="--performance-mode throughput doubles the limits that the user did not set.",
    why="Larger batches trade latency for throughput.",
    example="H100 server: 16384 batched tokens, 2048 sequences.",
    instead="--performance-mode balanced.",
    source="vllm/engine/arg_utils.py:3184-3190",
)
WHOLE_PROMPT = Rule(
    "CG104",
    title="Without chunked prefill the default max_num_batched_tokens holds a whole prompt.",
    why="A prompt that does not fit one step could never be scheduled.",
    example="BERT with 512 positions: at least 512.",
    instead="Set --max-num-batched-tokens, or keep chunked prefill on.",
    source="vllm/engine/arg_utils.py:3192-3200",
)
MM_PREFIX = Rule(
    "CG105",
    title="A multimodal prefix-LM model raises the default to its largest item.",
    why="Its bidirectional image tokens cannot be split over two steps.",
    example="Gemma 4 on an A100: 2496 batched tokens, a video of 32 frames, instead of 2048.",
    instead="Set --max-num-batched-tokens.",
    source="vllm/engine/arg_utils.py:3202-3222",
    since="0.22.1",
)
TOKENS_CLAMP = Rule(
    "CG106",
    title="The default max_num_batched_tokens does not exceed max_num_seqs x max_model_len.",
    why="No batch can hold more.",
    example="4 sequences of at most 512 tokens: 2048.",
    instead="Set --max-num-batched-tokens.",
    source="vllm/engine/arg_utils.py:3224-3231",
)
SEQS_CLAMP = Rule(
    "CG107",
    title="The default max_num_seqs does not exceed max_num_batched_tokens.",
    why="Every sequence needs a token in the step.",
    example="--max-num-batched-tokens 512 on an H100: 512 sequences.",
    instead="Set --max-num-seqs.",
    source="vllm/engine/arg_utils.py:3236-3240",
)
SEQS_ABOVE_TOKENS = Rule(
    "CG120",
    title="max_num_batched_tokens must be at least max_num_seqs.",
    why="Every running sequence takes a token a step.",
    example="--max-num-batched-tokens 64 --max-num-seqs 128 does not start.",
    instead="Raise --max-num-batched-tokens or lower --max-num-seqs.",
    source="vllm/config/scheduler.py:329-334",
)
PROMPT_ABOVE_TOKENS = Rule(
    "CG121",
    title="Without chunked prefill max_num_batched_tokens must hold max_model_len.",
    why="A prompt has to fit one step.",
    example="--no-enable-chunked-prefill --max-num-batched-tokens 2048 with a context of 8192 does not start.",
    instead="Raise --max-num-batched-tokens, lower --max-model-len, or keep chunked prefill on.",
    source="vllm/config/scheduler.py:316-327",
)
ACTIVE_ABOVE_SEQS = Rule(
    "CG122",
    title="max_num_active_seqs must not exceed max_num_seqs.",
    why="It is a tighter limit on the same slots.",
    example="--max-num-active-seqs 300 --max-num-seqs 256 does not start.",
    instead="Lower --max-num-active-seqs.",
    source="vllm/config/scheduler.py:336-343",
    since="0.31.0",
)
LONG_PREFILL = Rule(
    "CG123",
    title="long_prefill_token_threshold must not exceed max_model_len.",
    why="No prompt could be that long.",
    example="--long-prefill-token-threshold 9000 --max-model-len 8192 does not start.",
    instead="Lower --long-prefill-token-threshold.",
    source="vllm/config/scheduler.py:353-358",
    since="0.27.1",
)
TOKENS_UNUSED = Rule(
    "CG124",
    title="max_num_batched_tokens exceeds what the sequences can hold.",
    why="vLLM only warns; the memory profile still runs a batch that large.",
    example="--max-num-seqs 1 --max-model-len 512 --max-num-batched-tokens 4096.",
    instead="Lower --max-num-batched-tokens.",
    source="vllm/config/scheduler.py:345-351",
)
ENCODER_DECODER_PREFILL = Rule(
    "CG128",
    title="Encoder-decoder models run without chunked prefill.",
    why="Cross-attention needs the whole encoder output at once.",
    example="Whisper: chunked prefill off, so max_num_batched_tokens must hold max_model_len.",
    instead="Nothing to do.",
    source="vllm/config/scheduler.py:285-297",
)
MODEL_LEN = Rule(
    "CG129",
    title="max_model_len must not exceed what the model's config.json allows.",
    why="Positions past the trained length give wrong numbers or run out of bounds.",
    example="--max-model-len 9000 on a model of 8192 positions does not start.",
    instead="Lower --max-model-len, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 at your own risk.",
    source="vllm/config/model.py:2655-2683",
)
NO_BFLOAT16 = Rule(
    "CG131",
    title="GPUs before Ampere have no bfloat16; the dtype falls back.",
    why="Compute capability 8.0 brought bfloat16.",
    example="Llama 3.1 on a T4 runs in float16, Gemma 2 in float32.",
    instead="Set --dtype.",
    source="vllm/config/model.py:2423-2464",
)
DTYPE = Rule(
    "CG132",
    title="--dtype must be a type that the model can run in.",
    why="Some models overflow in float16.",
    example="--dtype float16 with Gemma 2 does not start.",
    instead="Use --dtype auto.",
    source="vllm/config/model.py:2413-2420",
)

KV_DTYPE = Rule(
    "CG135",
    title="A float KV cache dtype must be the model's own.",
    why="The attention kernels read both without converting.",
    example="--kv-cache-dtype float16 on a bfloat16 model does not start.",
    instead="Use --kv-cache-dtype auto.",
    source="vllm/config/vllm.py:1492-1508",
    since="0.33.0",
)

GIB = 1 << 30
DTYPES = {
    "half": "float16",
    "float16": "float16",
    "float": "float32",
    "float32": "float32",
    "bfloat16": "bfloat16",
}
NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""Model types that overflow in float16 (vllm/config/model.py:2398-2403)."""


def set_dtype(engine: Engine) -> None:
    """`--dtype`: auto is the checkpoint's type where the GPU has it."""
    d = engine.deployment
    asked = d.dtype.lower()
    if asked == "auto":
        if engine.dtype == "bfloat16" and d.gpu.platform == "cuda" and d.gpu.capability < (8, 0):
            after = "float32" if d.model.model_type in NO_FLOAT16 else "float16"
            engine.set(NO_BFLOAT16, "dtype", after)
        return
    if asked not in DTYPES:
        known = ", ".join(("auto", *DTYPES))
        _refuse(DTYPE, f"unknown dtype {d.dtype[:40]}", "--dtype", f"use one of {known}", "ModelConfig")
    engine.dtype = DTYPES[asked]
    if engine.dtype == "float16" and d.model.model_type in NO_FLOAT16:
        what = f"model type {d.model.model_type} does not run in float16"
        _refuse(DTYPE, what, "--dtype", DTYPE.instead, "ModelConfig")


def check_kv_cache_dtype(engine: Engine) -> None:
    """A float KV cache dtype against the model's (VllmConfig._reject_mismatched_float_kv_cache)."""
    asked = engine.deployment.kv_cache_dtype
    if asked not in ("float16", "bfloat16") or asked == engine.dtype:
        return
    if not holds(engine.release, KV_DTYPE.since):
        return
    if asked == "bfloat16" and engine.deployment.model.architecture in engine.facts["hooks"]["bfloat16_cache_is_auto"]:
        return
    _refuse(
        KV_DTYPE,
        f"kv_cache_dtype {asked} differs from the model's dtype {engine.dtype}",
        "--kv-cache-dtype",
        KV_DTYPE.instead,
        "VllmConfig",
    )


def set_max_model_len(engine: Engine) -> None:
    """`--max-model-len` against the longest that the model allows."""
    asked = engine.deployment.max_model_len
    if asked is None:
        return
    longest = engine.deployment.model.longest_model_len
    allowed = engine.deployment.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0").strip().lower() in ("1", "true")
    if longest is not None and asked > longest and not allowed:
        _refuse(
            MODEL_LEN,
            f"max_model_len {asked} exceeds the {longest} tokens that the model allows",
            "--max-model-len",
            f"use at most {longest}, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 at your own risk",
            "ModelConfig",
        )
    engine.max_model_len = asked


def set_batch_limits(engine: Engine) -> None:
    """Fill in and adjust the two limits, in vLLM's order (arg_utils.py:3163-3240)."""
    d = engine.deployment
    tokens, seqs = table_limits(engine)
    if d.max_num_batched_tokens is None:
        if parallel.uses_batched_dp_moe(engine):
            reserved = engine.facts["batch_limits"]["batched_dp_moe_tokens"]
            _fill(engine, BATCHED_DP_MOE, "max_num_batched_tokens", reserved)
        else:
            _fill(engine, TABLE, "max_num_batched_tokens", tokens)
    if d.max_num_seqs is None:
        _fill(engine, TABLE, "max_num_seqs", seqs)
    if engine.performance_mode == "throughput":
        if d.max_num_batched_tokens is None:
            engine.set(THROUGHPUT, "max_num_batched_tokens", 2 * engine.max_num_batched_tokens)
        if d.max_num_seqs is None:
            engine.set(THROUGHPUT, "max_num_seqs", 2 * engine.max_num_seqs)
    if d.max_num_batched_tokens is None:
        _fit_tokens_to_model(engine)
    if d.max_num_seqs is None and engine.max_num_batched_tokens < engine.max_num_seqs:
        engine.set(SEQS_CLAMP, "max_num_seqs", engine.max_num_batched_tokens)


def table_limits(engine: Engine) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of the table for this GPU and usage context."""
    d = engine.deployment
    facts = engine.facts["batch_limits"]
    if d.usage_context not in (UsageContext.LLM_CLASS, UsageContext.OPENAI_API_SERVER):
        tokens, seqs = facts["other_context"]
        return tokens, seqs
    offline = d.usage_context is UsageContext.LLM_CLASS
    if d.gpu.platform == "cpu":
        workers = d.pipeline_parallel_size * d.tensor_parallel_size
        llm_tokens, server_tokens, llm_seqs, server_seqs = facts["cpu_per_worker"]
        return (llm_tokens if offline else server_tokens) * workers, (llm_seqs if offline else server_seqs) * workers
    row = next(row for row in facts["rows"] if _row_holds(row, engine))
    llm_tokens, server_tokens, seqs = row["limits"]
    if d.gpu.platform == "tpu" and d.gpu.name in facts["tpu_tokens"]:
        llm_tokens, server_tokens = facts["tpu_tokens"][d.gpu.name]
    return (llm_tokens if offline else server_tokens), seqs


def check_scheduler(engine: Engine) -> None:
    """SchedulerConfig's checks, in its order."""
    if engine.deployment.model.is_encoder_decoder:
        engine.set(ENCODER_DECODER_PREFILL, "enable_chunked_prefill", False)
        engine.long_prefill_token_threshold = 0
    tokens, seqs, length = engine.max_num_batched_tokens, engine.max_num_seqs, engine.max_model_len
    if tokens < length and not engine.enable_chunked_prefill:
        _refuse(
            PROMPT_ABOVE_TOKENS,
            f"max_num_batched_tokens {tokens} is below max_model_len {length}, and chunked prefill is off",
            "--max-num-batched-tokens",
            f"set --max-num-batched-tokens {length} or --max-model-len {tokens}",
        )
    if tokens < seqs:
        _refuse(
            SEQS_ABOVE_TOKENS,
            f"max_num_batched_tokens {tokens} is below max_num_seqs {seqs}",
            "--max-num-batched-tokens",
            f"set --max-num-batched-tokens {seqs} or --max-num-seqs {tokens}",
        )
    active = engine.max_num_active_seqs
    if active is not None and active > seqs:
        _refuse(
            ACTIVE_ABOVE_SEQS,
            f"max_num_active_seqs {active} is above max_num_seqs {seqs}",
            "--max-num-active-seqs",
            f"set --max-num-active-seqs {seqs} or less",
        )
    if tokens > seqs * length:
        engine.trace.find(
            TOKENS_UNUSED,
            "info",
            f"max_num_batched_tokens {tokens} exceeds max_num_seqs x max_model_len, {seqs * length}",
            fix=TOKENS_UNUSED.instead,
            where="--max-num-batched-tokens",
        )
    if engine.has(LONG_PREFILL) and engine.long_prefill_token_threshold > length:
        _refuse(
            LONG_PREFILL,
            f"long_prefill_token_threshold {engine.long_prefill_token_threshold} is above max_model_len {length}",
            "--long-prefill-token-threshold",
            f"use at most {length}",
        )


def _fill(engine: Engine, rule: Rule, field: str, value: int) -> None:
    setattr(engine, field, value)
    engine.trace.decide(rule, field, None, value)


def _fit_tokens_to_model(engine: Engine) -> None:
    if not engine.enable_chunked_prefill and engine.max_model_len > engine.max_num_batched_tokens:
        engine.set(WHOLE_PROMPT, "max_num_batched_tokens", engine.max_model_len)
    model = engine.deployment.model
    if model.is_multimodal_model and model.is_mm_prefix_lm and model.largest_mm_item is not None:
        if engine.has(MM_PREFIX) and model.largest_mm_item > engine.max_num_batched_tokens:
            engine.set(MM_PREFIX, "max_num_batched_tokens", model.largest_mm_item)
    elif model.is_multimodal_model and model.is_mm_prefix_lm and engine.has(MM_PREFIX):
        engine.trace.find(
            MM_PREFIX,
            "info",
            "vLLM may raise max_num_batched_tokens to the model's largest multimodal item; this is not modelled",
            fix=MM_PREFIX.instead,
            where="--max-num-batched-tokens",
        )
    most = engine.max_num_seqs * engine.max_model_len
    if most < engine.max_num_batched_tokens:
        engine.set(TOKENS_CLAMP, "max_num_batched_tokens", most)


def _row_holds(row: Mapping[str, Any], engine: Engine) -> bool:
    gpu = engine.deployment.gpu
    return (
        gpu.memory_bytes >= row.get("min_gib", 0) * GIB
        and ("not_named" not in row or row["not_named"] not in gpu.name.lower())
        and ("not_capability" not in row or tuple(row["not_capability"]) != gpu.capability)
    )


def _refuse(rule: Rule, what: str, where: str, fix: str, raised_in: str = "SchedulerConfig") -> NoReturn:
    raise StartupError(what, code=rule.code, raised_in=raised_in, where=where, fix=fix)
