"""What ended a start or a server, by the words of the exception: texts of vLLM 0.19.1 to 0.33.0, of torch and of NCCL.

Numbers come out in bytes, tokens and blocks. vLLM prints GiB with two decimals, so such bytes are within 0.005 GiB.
Sources: vllm/v1/core/kv_cache_planning.py:50-87, vllm/v1/worker/utils.py:716-772, vllm/v1/worker/gpu_worker.py:640-757,
vllm/config/compilation.py:1370-1565 @ 0.33.0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Value = int | float | str

UNKNOWN = "unknown"
MAX_MESSAGE = 8000
"""Characters of a message that are looked at; the numbers stand at its beginning."""

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_N = r"-?[0-9]{1,12}(?:\.[0-9]{1,6})?"


class _Text(NamedTuple):
    """A text that vLLM ends with. Names of groups are the names of values; the ending says the unit."""

    kind: str
    pattern: re.Pattern[str]


def _text(kind: str, pattern: str) -> _Text:
    return _Text(kind, re.compile(pattern.replace("#", _N)))


_TEXTS = (
    _text(
        "sampler_warm_up",
        r"out of memory occurred when warming up sampler with (?P<max_num_seqs>[0-9]{1,9}) dummy requests",
    ),
    _text(
        "pooler_warm_up",
        r"out of memory occurred when warming up pooler .{0,80}with (?P<max_num_seqs>[0-9]{1,9}) dummy requests",
    ),
    _text(
        "model_len",
        r"max seq len \((?P<max_model_len>[0-9]{1,12})\), \((?P<needed_gib>#) GiB KV cache is needed, which is larger"
        r" than the available KV cache memory \((?P<available_gib>#) GiB\)"
        r"(?:\. Based on the available memory, the estimated maximum model length is (?P<estimated_len>[0-9]{1,12}))?",
    ),
    _text(
        "model_len",
        r"max seq len \((?P<max_model_len>[0-9]{1,12})\) is larger than the maximum number of tokens that can be stored"
        r" in KV cache \((?P<estimated_len>[0-9]{1,12})\)",
    ),
    _text("auto_fit", r"Cannot auto-fit max_model_len: not enough GPU memory"),
    _text("no_blocks", r"No available memory for the cache blocks"),
    _text(
        "mamba_blocks",
        r"(?:max_num_seqs \((?P<max_num_seqs>[0-9]{1,9})\) )?exceeds available Mamba cache blocks"
        r" \((?P<blocks>[0-9]{1,12})\)",
    ),
    _text(
        "free_memory",
        r"Free memory on device (?:[\w:]{1,40} )?\((?P<free_gib>#)/(?P<total_gib>#) GiB\) on startup is less than"
        r" (?:desired GPU memory utilization|(?P<after>the engine's budget after excluding external process's weights))"
        r"(?: \((?P<utilization>#), (?P<requested_gib>#) GiB\))?",
    ),
    _text(
        "external_weights",
        r"Externally held weights on device (?:[\w:]{1,40} )?\((?P<external_gib>#)/(?P<total_gib>#) GiB\) exceed the"
        r" desired GPU memory utilization \((?P<utilization>#), (?P<requested_gib>#) GiB\)",
    ),
    _text(
        "profiling",
        r"Error in memory profiling\. Initial free memory (?P<free_gib>#) GiB, current free memory"
        r" (?P<free_after_gib>#) GiB",
    ),
    _text("profiling", r"assert self\.init_snapshot\.free_memory"),
    _text(
        "frontend_reserve",
        r"frontend multimodal GPU decoding reserves (?P<reserve_gib>#) GiB .{0,200}but only (?P<available_gib>#) GiB is"
        r" available for the KV cache",
    ),
    _text(
        "derived_len",
        r"User-specified max_model_len \((?P<max_model_len>[0-9]{1,12})\) is greater than the derived max_model_len"
        r" \((?P<key>\w{1,80})=(?P<derived_len>#|None) or model_max_length=(?P<tokenizer_len>#|None)",
    ),
    _text(
        "heads",
        r"Total number of attention heads \((?P<number>[0-9]{1,9})\) must be divisible by tensor parallel size"
        r" \((?P<divisor>[0-9]{1,9})\)",
    ),
    _text(
        "world_size",
        r"World size \((?P<world_size>[0-9]{1,9})\) is larger than the number of available GPUs"
        r" \((?P<gpus>[0-9]{1,9})\)",
    ),
    _text(
        "context_ranks",
        r"tp_size=(?P<number>[0-9]{1,9}) ?must be divisible by ?dcp_size=(?P<divisor>[0-9]{1,9})",
    ),
    _text("not_divisible", r"(?<![\w.])(?P<number>[0-9]{1,12}) is not divisible by (?P<divisor>[0-9]{1,9})(?![\w.])"),
    _text(
        "quantised_blocks",
        r"(?:per_partition|partition size|Weight|quantization block|group_size).{0,200}not divisible"
        r"|is not divisible by weight quantization (?:block|group)",
    ),
    _text(
        "largest_size",
        r"customized max_cudagraph_capture_size\(=(?P<given>[0-9]{1,9})\) should be consistent with the max value of"
        r" cudagraph_capture_sizes\(=(?P<largest>[0-9]{1,9})\)",
    ),
    _text("no_sizes", r"cudagraph_capture_sizes should contain at least one element"),
    _text("size_below_one", r"Maximum cudagraph size should be greater than or equal to 1"),
    _text("rounded_sizes", r"No valid cudagraph sizes after rounding to multiple of (?P<multiple>[0-9]{1,9})"),
    _text(
        "mode",
        r"CUDAGraphMode\.(?P<mode>\w{1,40}) is not ?supported with (?P<backend>\w{1,80}) backend",
    ),
    _text(
        "batched_below_seqs",
        r"max_num_batched_tokens \((?P<max_num_batched_tokens>[0-9]{1,12})\) must be greater than or equal to"
        r" max_num_seqs \((?P<max_num_seqs>[0-9]{1,9})\)",
    ),
    _text(
        "batched_below_len",
        r"max_num_batched_tokens \((?P<max_num_batched_tokens>[0-9]{1,12})\) is smaller than max_model_len"
        r" \((?P<max_model_len>[0-9]{1,12})\)",
    ),
    _text("architecture", r"Model architectures \[(?P<architecture>[^\]]{1,200})\] are not supported"),
    _text("kernel_image", r"device kernel image is invalid|no kernel image is available for execution"),
    _text("nccl", r"NCCL error|DistBackendError|\bnccl(?:UnhandledCuda|System|Internal|Remote|InvalidUsage)\w*"),
    _text("unrecognised", r"unrecognized arguments: (?P<argument>--?[\w.-]{1,80})"),
    _text("memory_access", r"illegal memory access|device-side assert|unspecified launch failure|misaligned address"
          r"|operation not permitted when stream is capturing"),
    _text("files", r"is not a local folder and is not a valid model identifier|gated repo|Repository ?Not ?Found"
          r"|No space left on device|Can't load the configuration of|Invalid repository ID"),
    _text(
        "out_of_memory",
        r"(?:CUDA|HIP|XPU) out of memory|Tried to allocate [0-9.]{1,12} (?:bytes|[KMGT]iB)|CUDA error: out of memory"
        r"|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED"
        r"|cudaErrorMemoryAllocation",
    ),
    _text("timed_out", r"RPC call to (?P<method>\w{1,80}) timed out"),
    _text("process_died", r"died unexpectedly(?: \(exit code: (?P<exit_code>-?[0-9]{1,5})\))?"),
    _text(
        "wrapper",
        r"Engine core initialization failed|Frontend process failed during engine core initialization"
        r"|WorkerProc initialization failed|Executor failed|Engine process failed to start|EngineDeadError"
        r"|EngineCore failed to start|EngineCore encountered a",
    ),
)  # fmt: skip

KINDS = tuple(dict.fromkeys(text.kind for text in _TEXTS))
"""Every kind but "unknown", the most telling first."""

_SIZE = r"(?P<{name}>[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?) (?P<{name}_unit>bytes|[KMGT]iB)"
_TORCH = tuple(
    re.compile(pattern.replace("@", _SIZE.format(name=name)))
    for name, pattern in (
        ("tried_bytes", r"Tried to allocate @"),
        ("total_bytes", r"has (?:a total capac\w{1,5} of )?@ of which"),
        ("total_bytes", r"has a total capac\w{1,5} of @"),
        ("total_bytes", r"; @ total capacity"),
        ("free_bytes", r"of which @ is free"),
        ("free_bytes", r"already allocated; @ free"),
        ("process_bytes", r"this process has @ memory in use"),
        ("torch_bytes", r"Of the allocated memory @ is allocated by PyTorch"),
        ("private_pool_bytes", r"with @ allocated in private pools"),
        ("unallocated_bytes", r"@ is reserved by PyTorch but unallocated"),
    )
)
"""Parts of what torch says when memory runs out. Each may be missing: torch leaves out what is 0 or not known."""


def classify(message: str) -> tuple[str, dict[str, Value]]:
    """What an exception's text says.

    Returns:
        The kind, one of KINDS or "unknown", and the numbers in the text by name: `..._bytes` are bytes, `..._len` and
        `max_...` tokens or requests. Numbers that the text lacks are left out.
    """
    message = message[:MAX_MESSAGE]
    for text in _TEXTS:
        match = text.pattern.search(message)
        if match is not None:
            values = dict(_value(name, found) for name, found in match.groupdict().items() if found is not None)
            return text.kind, {**values, **_torch(message)}
    return UNKNOWN, {}


def _value(name: str, found: str) -> tuple[str, Value]:
    if name.endswith("_gib"):
        return f"{name.removesuffix('_gib')}_bytes", round(float(found) * _UNITS["GiB"])
    if name == "utilization":
        return name, float(found)
    if re.fullmatch(_N, found):
        return name, int(float(found))
    return name, found


def _torch(message: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pattern in _TORCH:
        match = pattern.search(message)
        if match is not None:
            name = next(iter(match.groupdict()))
            found[name] = found.get(name) or round(float(match[name]) * _UNITS[match[f"{name}_unit"]])
    return found
