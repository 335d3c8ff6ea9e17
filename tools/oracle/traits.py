"""Traits: each fills one corner of a record's input at random. A family is a set of traits and their odds."""

from __future__ import annotations

from collections.abc import Callable

from oracle.draft import COMMON, DEVICES, Draft, Draw

Trait = Callable[[Draft, Draw], None]

GRAPH_MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
DECODERS = ("llama", "llama_short", "qwen2", "qwen3", "gemma2", "gemma3_text", "mixtral", "qwen3_moe", "deepseek_v3")
HYBRIDS = ("jamba", "mamba2", "qwen3_next", "nemotron_h", "bamba")
OTHERS = ("deepseek_v32", "bert", "qwen3_embed", "whisper", "qwen2_5_vl")
SMALL_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 21, 24, 32, 40, 64, 100, 128, 200, 256, 300, 512, 600, 1024)
PLAIN_BACKENDS = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
MLA_BACKENDS = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "CUTLASS_MLA", "TRITON_MLA")
SPARSE_BACKENDS = ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE")
ALL2ALL = ("deepep_high_throughput", "deepep_low_latency", "nixl_ep", "allgather_reducescatter", "naive")


def hardware(draft: Draft, draw: Draw) -> None:
    """GPU, model and who starts the engine. Every record has this trait."""
    draft.device = draw.one(COMMON) if draw.chance(0.6) else draw.one(tuple(DEVICES))
    odds = draw.whole(0, 99)
    draft.model = "llama" if odds < 45 else draw.one(DECODERS if odds < 80 else HYBRIDS if odds < 90 else OTHERS)
    draft.context = draw.one(("OPENAI_API_SERVER", "OPENAI_API_SERVER", "LLM_CLASS", "LLM_CLASS", None))


def batch(draft: Draft, draw: Draw) -> None:
    """Limits of the scheduler."""
    args = draft.args
    if draw.chance(0.85):
        args["max_num_seqs"] = draw.size(2048)
    if draw.chance(0.45):
        tokens = draw.size(16384)
        args["max_num_batched_tokens"] = tokens if draw.chance(0.1) else max(tokens, draft.max_num_seqs)
    if draw.chance(0.15):
        args["max_model_len"] = draw.size(8192) if draw.chance(0.9) else 200000
    if draw.chance(0.3):
        args["performance_mode"] = draw.one(("balanced", "interactivity", "throughput"))
    if draw.chance(0.1):
        args["enable_chunked_prefill"] = draw.chance(0.3)
    if draw.chance(0.04):
        args["long_prefill_token_threshold"] = draw.size(4096)


def scheduling(draft: Draft, draw: Draw) -> None:
    """Settings of the scheduler and the cache that rules read in passing."""
    args = draft.args
    if draw.chance(0.4):
        args["async_scheduling"] = draw.chance(0.5)
    if draw.chance(0.3):
        args["enable_prefix_caching"] = draw.chance(0.5)
    if draw.chance(0.2):
        args["block_size"] = draw.one((16, 32, 64, 128))
    if draw.chance(0.15):
        args["max_num_scheduled_tokens"] = draw.size(8192)
    if draw.chance(0.1):
        args["max_num_active_seqs"] = draw.size(512)
    if draw.chance(0.15):
        args["dtype"] = draw.one(("bfloat16", "float16", "half", "auto"))


def mode(draft: Draft, draw: Draw) -> None:
    """Optimisation level, graph mode, compilation mode and what goes with them."""
    compilation = draft.compilation
    if draw.chance(0.6):
        draft.args["optimization_level"] = draw.one((0, 1, 2, 2, 3))
    if draw.chance(0.08):
        draft.args["enforce_eager"] = True
    if draw.chance(0.65):
        compilation["cudagraph_mode"] = draw.one(GRAPH_MODES)
    if draw.chance(0.4):
        compilation["mode"] = draw.whole(0, 3)
    if draw.chance(0.05):
        compilation["backend"] = draw.one(("eager", "inductor"))
    if draw.chance(0.1):
        compilation["custom_ops"] = draw.one(
            (["all"], ["none"], ["none", "+rms_norm"], ["+quant_fp8"], ["-silu_and_mul"])
        )


def splitting(draft: Draft, draw: Draw) -> None:
    """Where the compiled graph is split."""
    compilation = draft.compilation
    if draw.chance(0.7):
        compilation["splitting_ops"] = draw.one(
            (
                [],
                ["<attention_ops>"],
                ["vllm::unified_attention_with_output"],
                ["<attention_ops>", "vllm::an_op"],
                ["vllm::an_op"],
            )
        )
    if draw.chance(0.5):
        compilation["use_inductor_graph_partition"] = draw.chance(0.75)


def fusion(draft: Draft, draw: Draw) -> None:
    """Compiler passes; sequence parallelism is one of them up to 0.31."""
    for name in ("fuse_attn_quant", "fuse_norm_quant", "fuse_act_quant", "fuse_allreduce_rms"):
        if draw.chance(0.25):
            draft.passes[name] = draw.chance(0.7)
    if draw.chance(0.5 if draft.release <= (0, 31) else 0.02):
        draft.passes["enable_sp"] = draw.chance(0.9)
        draft.args.setdefault("tensor_parallel_size", draw.one((1, 2, 4, 8)))
        if draw.chance(0.3):
            draft.passes["sp_min_token_num"] = draw.one((0, 1, 16, 64, 1024))
        if draw.chance(0.3):
            draft.passes["fuse_gemm_comms"] = draw.chance(0.8)


def sizes(draft: Draft, draw: Draw) -> None:
    """Capture sizes, their maximum and the sizes that are compiled."""
    compilation = draft.compilation
    where = draft.args if draw.chance(0.15) else compilation
    odds = draw.whole(0, 99)
    if odds < 30:
        where["max_cudagraph_capture_size"] = draw.size(2048)
    elif odds < 65:
        chosen = draw.some(SMALL_SIZES, 8)
        if draw.chance(0.3):
            chosen = [*chosen, draw.one(chosen), draw.size(2048)]
        where["cudagraph_capture_sizes"] = chosen
        if draw.chance(0.4):
            where["max_cudagraph_capture_size"] = max(chosen) if draw.chance(0.6) else draw.size(1024)
    elif odds < 68:
        where["cudagraph_capture_sizes"] = []
    elif odds < 71:
        where["max_cudagraph_capture_size"] = draw.one((0, -1))
    if draw.chance(0.25):
        compilation["compile_sizes"] = draw.one(
            ([1, 2, 4], ["cudagraph_capture_sizes"], [3, 8], [8, 8, 16], ["cudagraph_capture_sizes", 999], [])
        )
    if draw.chance(0.08):
        name = "compile_ranges_endpoints" if draft.release >= (0, 20) else "compile_ranges_split_points"
        compilation[name] = draw.some((8, 64, 256, 1000, 4096), 3)
    if draw.chance(0.06):
        compilation["cudagraph_num_of_warmups"] = draw.whole(0, 3)


def runner(draft: Draft, draw: Draw) -> None:
    """Environment variables: the runner above all."""
    odds = draw.whole(0, 99)
    if odds < 60:
        draft.env["VLLM_USE_V2_MODEL_RUNNER"] = "0" if odds < 38 else "1"
    odds = draw.whole(0, 99)
    if odds < 6:
        draft.env["VLLM_USE_BREAKABLE_CUDAGRAPH"] = draw.one(("0", "1"))
    elif odds < 9:
        draft.env["TORCH_COMPILE_DISABLE"] = "1"
    elif odds < 12:
        draft.env["VLLM_BATCH_INVARIANT"] = "1"
    elif odds < 14:
        draft.env["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"


def lora(draft: Draft, draw: Draw) -> None:
    """LoRA adapters; on models that take them, mostly."""
    if draw.chance(0.9):
        draft.model = draw.one(("llama", "llama", "qwen2", "qwen3", "mixtral"))
    draft.args.update(enable_lora=True, max_loras=draw.whole(1, 9), max_lora_rank=16)
    if draw.chance(0.5):
        draft.args["specialize_active_lora"] = draw.chance(0.8)
    if draw.chance(0.4):
        draft.compilation["cudagraph_specialize_lora"] = draw.chance(0.4)


def speculation(draft: Draft, draw: Draw) -> None:
    """A drafter that fits the model, mostly."""
    method, model, draft_model = draw.one(
        (
            ("ngram", None, None),
            ("ngram", None, None),
            ("eagle", "llama", "draft_eagle"),
            ("eagle", "llama", "draft_eagle"),
            ("eagle3", "llama", "draft_eagle3"),
            ("draft_model", "llama", "draft_llama"),
            ("mtp", "deepseek_v3", None),
            ("mtp", "qwen3_next", None),
        )
    )
    tokens = draw.whole(1, 16) if draw.chance(0.4) else draw.whole(1, 5)
    speculative = draft.speculative
    speculative.update(method=method, num_speculative_tokens=tokens)
    draft.model = model or draft.model
    if method == "ngram":
        speculative["prompt_lookup_max"] = draw.whole(2, 5)
    if draft_model is not None:
        speculative["model"] = draft_model
    if draw.chance(0.25):
        speculative["num_speculative_tokens_per_batch_size"] = _schedule(draft, draw, tokens)
    for name, odds in (
        ("enable_adaptive_verification", 0.05),
        ("enforce_eager", 0.05),
        ("disable_padded_drafter_batch", 0.04),
        ("parallel_drafting", 0.02),
    ):
        if draw.chance(odds):
            speculative[name] = True
    if draw.chance(0.1):
        draft.graph["varlen_decode"] = True


def _schedule(draft: Draft, draw: Draw, tokens: int) -> list[list[int]]:
    """Rows of dynamic speculative decoding, now and then with a hole or an end that is too early."""
    most = max(draft.max_num_seqs, 8)
    cuts = draw.some(range(1, most), 3)
    rows, first, count = [], 1, tokens
    for last in [*cuts, most if draw.chance(0.6) else 10000]:
        rows.append([first, last, count])
        first, count = last + 1, max(0, count - draw.whole(0, 4))
    return rows[1:] if draw.chance(0.08) else rows


def parallel(draft: Draft, draw: Draw) -> None:
    """Ranks, experts and micro-batches."""
    args = draft.args
    args["tensor_parallel_size"] = draw.one((1, 1, 2, 4, 8))
    odds = draw.whole(0, 99)
    if odds < 45:
        draft.model = draw.one(("qwen3_moe", "deepseek_v3", "mixtral", draft.model))
        args["data_parallel_size"] = draw.one((2, 2, 4))
        if draw.chance(0.75):
            args["all2all_backend"] = draw.one(ALL2ALL)
        if draw.chance(0.7):
            args["enable_expert_parallel"] = True
        if draw.chance(0.3):
            _micro_batches(draft, draw)
    elif odds < 60:
        args["decode_context_parallel_size"] = draw.one((1, 2, args["tensor_parallel_size"]))
        draft.model = draw.one(("deepseek_v3", "qwen3_moe", draft.model))
    elif odds < 75:
        args["pipeline_parallel_size"] = draw.one((2, 4))
    elif odds < 78:
        args["distributed_executor_backend"] = draw.one(("mp", "uni"))
    elif odds < 80:
        # Other models are refused when their layers are built, which the oracle does not do.
        draft.model = "deepseek_v3"
        args["prefill_context_parallel_size"] = 2


def _micro_batches(draft: Draft, draw: Draw) -> None:
    args = draft.args
    args["enable_dbo"] = True
    if draw.chance(0.7):
        args["all2all_backend"] = "deepep_low_latency"
    if draw.chance(0.3):
        args["dbo_decode_token_threshold"] = draw.one((1, 4, 16, 64))
    if draw.chance(0.1):
        args["ubatch_size"] = draw.one((0, 2, 3))


def backend(draft: Draft, draw: Draw) -> None:
    """The attention backend and what its choice depends on."""
    names: tuple[str, ...] = PLAIN_BACKENDS
    if draft.model == "deepseek_v32":
        names = SPARSE_BACKENDS
    elif draft.model == "deepseek_v3":
        names = MLA_BACKENDS
    if draw.chance(0.6):
        name = draw.one(names)
        if draw.chance(0.2):
            draft.attention["backend"] = name
        else:
            draft.args["attention_backend"] = name
    if draw.chance(0.25):
        draft.args["kv_cache_dtype"] = draw.one(("fp8", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16"))
    if draw.chance(0.15):
        draft.attention["flash_attn_version"] = draw.whole(2, 4)
    if draw.chance(0.08):
        draft.attention["use_trtllm_attention"] = draw.chance(0.5)


def hybrid(draft: Draft, draw: Draw) -> None:
    """Models with recurrent layers, and the number of cache blocks."""
    if draw.chance(0.9):
        draft.model = draw.one(HYBRIDS)
    most = draft.max_num_seqs
    if draw.chance(0.8):
        draft.graph["kv_num_blocks"] = max(1, draw.one((1, most - 1, most, most + 1, draw.size(1024), 4000)))
    if draw.chance(0.15):
        draft.graph["is_profiling"] = True


def transfer(draft: Draft, draw: Draw) -> None:
    """KV connectors; a layer-wise one forbids full graphs."""
    role = {"kv_role": draw.one(("kv_both", "kv_both", "kv_producer", "kv_consumer"))}
    plain = {"kv_connector": "LMCacheConnectorV1", **role}
    layerwise = {**plain, "kv_connector_extra_config": {"use_layerwise": draw.chance(0.8)}}
    several = {
        "kv_connector": "MultiConnector",
        **role,
        "kv_connector_extra_config": {"connectors": [layerwise, plain]},
    }
    draft.args["kv_transfer_config"] = draw.one((plain, layerwise, several))


TRAITS: dict[str, Trait] = {
    "batch": batch,
    "mode": mode,
    "lora": lora,
    "speculation": speculation,
    "parallel": parallel,
    "hybrid": hybrid,
    "backend": backend,
    "splitting": splitting,
    "fusion": fusion,
    "sizes": sizes,
    "scheduling": scheduling,
    "transfer": transfer,
    "runner": runner,
}
"""In the order in which they are applied: a trait reads what those before it chose."""
