"""Lines as vLLM of a release prints them, by the formats of its source. Numbers go in; a log comes out."""

from __future__ import annotations

GIB = 2**30


def gib(count: float) -> str:
    """As vLLM writes bytes: rounded to two decimals of a GiB, without padding."""
    return f"{round(count / GIB, 2)}"


def line(
    message: str, process: str = "EngineCore", pid: int = 242, level: str = "INFO", file: str = "core.py:1"
) -> str:
    return f"({process} pid={pid}) {level} 09-30 12:00:00 [{file}] {message}"


def banner(version: str, model: str = "org/Model", pid: int = 1) -> list[str]:
    logo = (
        "",
        "       █     █     █▄   ▄█",
        f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
        f"  █▄█▀ █     █     █     █  model   {model}",
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
        "",
    )
    return [line(text, "APIServer", pid) for text in logo]


def engine(version: str, process: str = "EngineCore", pid: int = 242, **settings: object) -> str:
    config = {"model": "'org/Model'", "dtype": "torch.bfloat16", "max_seq_len": 8192, "tensor_parallel_size": 1}
    config |= settings
    graphs = (
        "{'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, "
        "'cudagraph_capture_sizes': [1, 2, 4, 8], 'max_cudagraph_capture_size': 8}"
    )
    said = ", ".join(f"{key}={value}" for key, value in config.items())
    return line(
        f"Initializing a V1 LLM engine (v{version}) with config: {said}, compilation_config={graphs}", process, pid
    )


def usage_until_0_26(
    free: int, total: int, requested: int, weights: int, peak: int, other: int, graphs: int, kv: int
) -> str:
    fits, full = kv - graphs - 150 * 2**20, kv - graphs - 150 * 2**20 + free - requested
    return (
        f"Free memory on device ({gib(free)}/{gib(total)} GiB) on startup. Desired GPU memory utilization is "
        f"(0.9, {gib(requested)} GiB). Actual usage is {gib(weights)} GiB for weight, {gib(peak)} GiB for peak "
        f"activation, {gib(other)} GiB for non-torch memory, and {gib(graphs)} GiB for CUDAGraph memory. Replace "
        f"gpu_memory_utilization config with `--kv-cache-memory={fits}` ({gib(fits)} GiB) to fit into requested "
        f"memory, or `--kv-cache-memory={full}` ({gib(full)} GiB) to fully utilize gpu memory. Current kv cache "
        f"memory in use is {gib(kv)} GiB."
    )


def usage_since_0_27(free: int, total: int, requested: int, consumed: int, peak: int, graphs: int, kv: int) -> str:
    fits = requested - consumed - peak - graphs - 150 * 2**20
    full = fits + free - requested
    return (
        f"Free memory on device ({gib(free)}/{gib(total)} GiB) on startup. Desired GPU memory utilization is "
        f"(0.92, {gib(requested)} GiB). Actual usage is {gib(consumed)} GiB for consumed memory (weights + non-torch), "
        f"{gib(peak)} GiB for peak activation, and {gib(graphs)} GiB for CUDAGraph memory. Replace "
        f"gpu_memory_utilization config with `--kv-cache-memory={fits}` ({gib(fits)} GiB) to fit into requested "
        f"memory, or `--kv-cache-memory={full}` ({gib(full)} GiB) to fully utilize gpu memory. Current kv cache "
        f"memory in use is {gib(kv)} GiB."
    )


def pool(actual: int, estimate: int) -> str:
    difference = abs(actual - estimate)
    return (
        f"CUDA graph pool memory: {round(actual / GIB, 2)} GiB (actual), {round(estimate / GIB, 2)} GiB (estimated), "
        f"difference: {round(difference / GIB, 2)} GiB ({100 * difference / max(actual, 1):.1f}%)."
    )


def bar(name: str, done: int, total: int) -> str:
    drawn = f"{100 * done // total:3d}%|{'█' * (done * 10 // total):10}|"
    return f"Capturing {name}: {drawn} {done}/{total} [00:01<00:00, 31.30it/s]"


def v2_start(version: str = "0.33.0", pid: int = 242) -> list[str]:
    """A start of runner V2, one GPU, as of 0.30.0 and later."""
    return [
        *banner(version),
        line("non-default args: {'model_tag': 'org/Model', 'max_model_len': -1}", "APIServer", 1),
        engine(version, pid=pid),
        line("Using V2 Model Runner", pid=pid),
        line("Model loading took 14.99 GiB memory and 3.500000 seconds", pid=pid),
        line("[backbone] torch.compile took 10.84 s in total", pid=pid),
        line("Available KV cache memory: 50.5 GiB", pid=pid),
        line(
            "Auto-fit max_model_len: reduced from 131072 to 65536 to fit in available KV cache memory (50.5 GiB GPU)",
            pid=pid,
        ),
        line("GPU KV cache size: 413,696 tokens, Maximum concurrency for 65,536 tokens per request: 6.31x", pid=pid),
        bar("CUDA graphs (PIECEWISE)", 4, 4),
        bar("CUDA graphs (FULL)", 3, 3),
        bar("eagle CUDA graphs (FULL)", 2, 2),
        line("Graph capturing finished in 5 secs, took 0.91 GiB", pid=pid),
        line(pool(977105060, 901943132), pid=pid),
        line("init engine (profile, create kv cache, warmup model) took 30.23 s (compilation: 10.84 s)", pid=pid),
        line("Starting vLLM server on http://0.0.0.0:8000", "APIServer", 1),
        "(APIServer pid=1) INFO:     Application startup complete.",
    ]
