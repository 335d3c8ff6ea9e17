"""Lines about the server itself: release, arguments, choices and times, of vLLM 0.19.1 to 0.33.0."""

from __future__ import annotations

from .shapes import Shape

_INIT = "init engine (profile, create kv cache, warmup model) took {seconds:seconds} s"

SHAPES = (
    Shape("version", "vLLM server version {version:word}, serving model {model:text}"),
    Shape("version", "vLLM API server version {version:word}"),
    Shape("arguments", "non-default args: {arguments:text}"),
    Shape("engine", "Initializing a V1 LLM engine (v{version:word}) with config: {config:text}"),
    Shape("architecture", "Resolved architecture: {architecture:word}"),
    Shape("length", "Using max model len {length:count}"),
    Shape("batched", "Chunked prefill is enabled with max_num_batched_tokens={tokens:count}."),
    Shape("batched", "Defaulting max_num_batched_tokens to {tokens:count} for {context:word} usage context."),
    Shape("seqs", "Defaulting max_num_seqs to {seqs:count} for {context:word} usage context."),
    Shape(
        "headless", "Launching vLLM (v{version:word}) headless multiproc executor, with head node address {rest:text}"
    ),
    Shape(
        "L20",
        "Using {backend:word} attention backend out of potential backends: {others:text}.",
    ),
    # ROCm.
    Shape("L20", "Using {backend:word} backend out of potential backends: {others:text}."),
    Shape("L20", "Using {backend:word} backend (selected via --attention-backend)."),
    Shape("L20", "Using AttentionBackendEnum.{backend:word} backend."),
    Shape("flash", "Using FlashAttention version {version:count}"),
    Shape(
        "kernels",
        "FlashInfer resolved query dtypes: prefill={prefill:word}, decode={decode:word}, decode_backend={kernels:word},"
        " kv_cache_dtype={cache:word}, arch={arch:word}",
        since="0.25.1",
    ),
    Shape("L25", "Using V2 Model Runner"),
    Shape("platform", "Platform plugin {plugin:word} is activated"),
    Shape("weights", "Loading weights took {seconds:seconds} seconds"),
    Shape("dynamo", "Dynamo bytecode transform time: {seconds:seconds} s"),
    Shape("dynamo", "[{tag:word}] Dynamo bytecode transform time: {seconds:seconds} s", since="0.32.0"),
    Shape("compile", "torch.compile took {seconds:seconds} s in total"),
    Shape("compile", "torch.compile takes {seconds:seconds} s in total", since="0.8.0", until="0.18.0"),
    Shape("compile_range", "Compiling a graph for compile range {range:text} takes {seconds:seconds} s"),
    Shape(
        "compile_range",
        "[{tag:word}] Compiling a graph for compile range {range:text} takes {seconds:seconds} s",
        since="0.32.0",
    ),
    Shape(
        "compile_range",
        "Compiling a graph for general shape takes {seconds:seconds} s",
        since="0.8.0",
        until="0.13.0",
    ),
    Shape(
        "compile",
        "[{tag:word}] torch.compile took {seconds:seconds} s in total",
        since="0.32.0",
    ),
    Shape(
        "compile_and_run", "torch.compile and initial profiling/warmup run together took {seconds:seconds} s in total"
    ),
    Shape(
        "compile_and_run",
        "[{tag:word}] torch.compile and initial profiling/warmup run together took {seconds:seconds} s in total",
        since="0.32.0",
    ),
    Shape("warm-up", "Initial profiling/warmup run took {seconds:seconds} s"),
    Shape(
        "warm-up",
        "[{tag:word}] Initial profiling/warmup run took {seconds:seconds} s",
        since="0.32.0",
    ),
    Shape("L21", _INIT + "econds", until="0.19.1"),
    Shape("L21", _INIT + "[[ (compilation: {compilation:seconds} s)]]", since="0.20.2"),
    Shape(
        "L21",
        _INIT + " (compilation: {compilation:seconds} s — language_model: {language:seconds} s, "
        "encoder: {encoder:seconds} s)",
        since="0.20.2",
    ),
    Shape("ready", "Starting vLLM server on {address:text}"),
    Shape("ready", "Starting vLLM API server {index:count} on {address:text}"),
    Shape("ready", "Application startup complete."),
    Shape("ready", "Uvicorn running on {address:text}"),
    Shape("fatal", "EngineCore failed to start."),
    Shape("fatal", "EngineCore encountered a fatal error."),
    Shape("fatal", "WorkerProc failed to start."),
)

DOWNGRADES = (
    Shape("downgrade", "{why:text}; setting cudagraph_mode={mode:word}"),
    Shape(
        "downgrade",
        "{why:text}; setting cudagraph_mode={mode:word} because {because:text}",
    ),
    Shape(
        "downgrade",
        "Cudagraph mode {before:word} requires piecewise capture, but the loaded model provides neither a compiled "
        "submodule nor breakable CUDA graphs. Overriding to {mode:word}.",
        since="0.30.0",
    ),
)
"""What a worker prints when its attention backends do not support the mode that the engine's line names."""

MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
