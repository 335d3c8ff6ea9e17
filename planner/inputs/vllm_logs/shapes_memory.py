"""Lines about memory, graphs and the KV cache, of vLLM 0.19.1 to 0.33.0."""

from __future__ import annotations

from .shapes import Shape

_L12 = (
    "Free memory on device ({free:gib}/{total:gib} GiB) on startup. Desired GPU memory utilization is "
    "({utilization:ratio}, {requested:gib} GiB). Actual usage is "
)
_L12_END = (
    "{activation:gib} GiB for peak activation, {non_torch}and {graph_actual:gib} GiB for CUDAGraph memory. Replace "
    "gpu_memory_utilization config with `--kv-cache-memory={suggested:bytes}` ({suggested_gib:gib} GiB) to fit into "
    "requested memory, or `--kv-cache-memory={suggested_full:bytes}` ({suggested_full_gib:gib} GiB) to fully utilize "
    "gpu memory. Current kv cache memory in use is {kv:gib} GiB."
)
_L4 = (
    "Memory profiling takes {seconds:seconds} seconds. Total non KV cache memory: {non_kv:gib}GiB; torch peak memory "
    "increase: {torch_peak:gib}GiB; "
)
_SNAPSHOT_END = (
    "free_memory={free:gib}GiB, total_memory={total:gib}GiB, {device:word}_memory={device_memory:gib}GiB, "
    "torch_memory={torch:gib}GiB, non_torch_memory={non_torch_snapshot:gib}GiB, timestamp={timestamp:ratio}, "
    "auto_measure={auto:word}"
)

SHAPES = (
    Shape("snapshot", f"worker init memory snapshot: torch_peak={{peak:gib}}GiB, {_SNAPSHOT_END}", until="0.26.0"),
    Shape(
        "snapshot",
        "worker init memory snapshot: torch_peak={peak:gib}GiB, torch_allocated={allocated:gib}GiB, " + _SNAPSHOT_END,
        since="0.27.1",
    ),
    Shape("requested", "worker requested memory: {requested:gib}GiB"),
    Shape("L1", "Model loading took {weights:gib} GiB memory and {seconds:seconds} seconds"),
    Shape("L1", "Model loading took {weights:gib} GiB and {seconds:seconds} seconds", until="0.27.1"),
    Shape(
        "L1",
        "Model loading took {weights:exactgib} GiB[[ memory]] and {seconds:seconds} seconds",
        since="0.7.0",
        until="0.12.0",
    ),
    Shape(
        "L2",
        "Initial free memory: {free:gib} GiB; Requested memory: {utilization:ratio} (util), {requested:gib} GiB",
    ),
    Shape("L3", "Free memory after profiling: {free_after:gib} GiB (total), {within:gib} GiB (within requested)"),
    Shape(
        "L4",
        _L4 + "non-torch forward increase memory: {non_torch:gib}GiB; weights memory: {weights:gib}GiB.",
        until="0.26.0",
    ),
    Shape(
        "L4",
        _L4 + "total consumed (from mem_get_info): {consumed:gib}GiB; weights memory: {weights:gib}GiB.",
        since="0.27.1",
    ),
    Shape(
        "V0",
        "Memory profiling results: total_gpu_memory={total:gib}GiB initial_memory_usage={before:gib}GiB "
        "peak_torch_memory={peak:gib}GiB memory_usage_post_profile={after:gib}GiB non_torch_memory={non_torch:gib}GiB "
        "kv_cache_size={kv:gib}GiB gpu_memory_utilization={utilization:ratio}",
        since="0.6.4",
        until="0.6.5",
    ),
    Shape("L5", "Available KV cache memory: {kv:gib} GiB"),
    Shape("L7", "Estimated CUDA graph memory: {graph_estimate:gib} GiB total"),
    Shape(
        "sample",
        "Estimated {mode:word} CUDA graph memory: {first:mib} MiB first-capture + ({graphs:count}-1) × {per_graph:mib} "
        "MiB per-graph",
    ),
    Shape(
        "encoder", "Estimated encoder CUDA graph memory: {encoder:mib} MiB for {graphs:count} graphs", since="0.23.0"
    ),
    Shape(
        "L8",
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization="
        "{utilization:ratio} is equivalent to --gpu-memory-utilization={equivalent:ratio} without CUDA graph memory "
        "profiling. To maintain the same effective KV cache size as before, increase --gpu-memory-utilization to "
        "{raised:ratio}. To disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.",
        since="0.20.2",
    ),
    Shape(
        "L8",
        "CUDA graph memory profiling is enabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1). This will become the "
        "default in v0.19. The current --gpu-memory-utilization={utilization:ratio} is equivalent to "
        "--gpu-memory-utilization={equivalent:ratio} without CUDA graph memory profiling. To maintain the same "
        "effective KV cache size as before, increase --gpu-memory-utilization to {raised:ratio}.",
        until="0.19.1",
    ),
    Shape(
        "L9",
        "CUDA graph memory profiling is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it, CUDA graph "
        "memory is not accounted for during KV cache allocation, which may require lowering --gpu-memory-utilization "
        "to avoid OOM. Consider re-enabling it (the default as of v0.21.0) and increasing --gpu-memory-utilization "
        "from {utilization:ratio} to {raised:ratio}.",
        since="0.20.2",
    ),
    Shape(
        "L9",
        "In v0.19, CUDA graph memory profiling will be enabled by default "
        "(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1), which more accurately "
        "accounts for CUDA graph memory during KV cache allocation. To try it now, set "
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 and increase --gpu-memory-utilization from {utilization:ratio} to "
        "{raised:ratio} to maintain the same effective KV cache size.",
        until="0.19.1",
    ),
    Shape("L10", "Graph capturing finished in {seconds:seconds} secs, took {graph_actual:gib} GiB"),
    Shape(
        "L11",
        "CUDA graph pool memory: {graph_actual:gib} GiB (actual), {graph_estimate:gib} GiB (estimated), difference: "
        "{difference:gib} GiB ({percent:percent}%).",
    ),
    Shape(
        "L12",
        _L12
        + "{weights:gib} GiB for weight, "
        + _L12_END.replace("{non_torch}", "{non_torch:gib} GiB for non-torch memory, "),
        until="0.26.0",
    ),
    Shape(
        "L12",
        _L12
        + "{weights:gib} GiB for weight, {activation:gib} GiB for peak activation, {non_torch:gib} GiB for non-torch"
        " memory, and {graph_actual:gib} GiB for CUDAGraph memory. Replace gpu_memory_utilization config with"
        " `--kv-cache-memory={suggested:bytes}`[[ ({suggested_gib:gib} GiB)]] to fit into requested memory, or"
        " `--kv-cache-memory={suggested_full:bytes}`[[ ({suggested_full_gib:gib} GiB)]] to fully utilize gpu memory."
        " Current kv cache memory in use is {kv_bytes:bytes} bytes.",
        since="0.10.2",
        until="0.11.0",
    ),
    Shape(
        "L12",
        _L12 + "{consumed:gib} GiB for consumed memory (weights + non-torch), " + _L12_END.replace("{non_torch}", ""),
        since="0.27.1",
    ),
    Shape(
        "L13",
        "{device:word}[[ + host]] KV cache size: {tokens:count} tokens, Maximum concurrency for {length:count} tokens "
        "per request: {concurrency:ratio}x",
        since="0.28.0",
    ),
    Shape("L13a", "GPU KV cache size: {tokens:count} tokens", until="0.27.1"),
    Shape("L13b", "Maximum concurrency for {length:count} tokens per request: {concurrency:ratio}x", until="0.27.1"),
    Shape(
        "L14",
        "Auto-fit max_model_len: reduced from {derived:count} to {length:count} to fit in available KV cache memory "
        "({available:gib} GiB {device:word}[[ + {host:gib} GiB host]])",
        since="0.32.0",
    ),
    Shape(
        "L14",
        "Auto-fit max_model_len: full model context length {length:count} fits in available KV cache memory "
        "({available:gib} GiB {device:word}[[ + {host:gib} GiB host]])",
        since="0.32.0",
    ),
    Shape(
        "L14",
        "Auto-fit max_model_len: reduced from {derived:count} to {length:count} to fit in available GPU memory "
        "({available:gib} GiB available for KV cache)",
        until="0.31.0",
    ),
    Shape(
        "L14",
        "Auto-fit max_model_len: full model context length {length:count} fits in available GPU memory",
        until="0.31.0",
    ),
    Shape("L14", "Auto-fit max_model_len: attention-free model, using derived max_model_len={length:count}"),
    Shape("L15", "Overriding num_gpu_blocks={before:count} with num_gpu_blocks_override={blocks:count}"),
    Shape("L16", "Add {layers:count} padding layers, may waste at most {percent:percent}% KV cache memory"),
    Shape("L17", "Setting kv cache block size to {block_size:count} for {backends:word} backend(s).", since="0.31.0"),
    Shape("L17", "Setting kv cache block size to {block_size:count} for {backends:word} backend.", until="0.30.0"),
    Shape("L17", "[ROCM_AITER_UNIFIED_ATTN]: Setting kv cache block size to {block_size:count}.", until="0.22.1"),
    Shape(
        "L18",
        "Setting attention block size to {block_size:count} tokens to ensure that attention page size is >= mamba page "
        "size.",
    ),
    Shape(
        "L18",
        "Setting attention block size to {block_size:count} tokens so the quantized primary KV page covers the "
        "higher-precision padded-spec page.",
        since="0.25.1",
    ),
    Shape(
        "padding",
        "Padding mamba page size by {percent:percent}% to ensure that mamba page size and attention page size are "
        "exactly equal.",
    ),
    Shape(
        "L19",
        "Reserving {reserve:gib} GiB of GPU memory for frontend multimodal decoding ({frames:gib} GiB raw-frame "
        "semaphore budget, {decoder:gib} GiB decoder+CUDA-context across {servers:count} API server(s) @ "
        "{per_server:gib} GiB/server); KV cache memory reduced to {kv_reduced:gib} GiB.",
        since="0.25.1",
    ),
    Shape(
        "L22",
        "Initial free memory {free:gib} GiB, reserved {kv:gib} GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization "
        "config. Only use kv_cache_memory_bytes config when you want manual control of KV cache memory size. If "
        "OOM'ed, check the difference of initial free memory between the current run and the previous run where "
        "kv_cache_memory_bytes is suggested and update it correspondingly.",
    ),
    Shape(
        "L23",
        "Applying persisted startup plan (fingerprint {fingerprint:word}): kv_cache_memory_bytes={kv_bytes:bytes} "
        "({kv:gib} GiB), recorded free-memory baseline {baseline:gib} GiB, current {free:gib} GiB. Memory profiling "
        "will be skipped.",
        since="0.27.1",
    ),
    Shape(
        "blocks",
        "Engine {engine:count}: vllm cache_config_info with initialization after num_gpu_blocks is: {blocks:count}",
    ),
    Shape(
        "blocks",
        "{engines:count} Engines: vllm cache_config_info with initialization after num_gpu_blocks is: {blocks:count}",
    ),
)
"""Forms of the same id are the spellings of one line; where their releases overlap, both are printed."""
