"""Warnings that vLLM prints, and the rule that explains each: what it decided, and what to do instead.

Texts change little from release to release and line numbers much, so a fragment of the text is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..resolve.other_backend import LOWERED
from ..trace import Finding
from .pages import rule
from .record import Message, Start

FRAGMENTS: tuple[tuple[str, str], ...] = (
    ("is not supported with spec-decode for attention backend", "CG333"),
    ("; setting cudagraph_mode=PIECEWISE because attention is compiled piecewise", "CG332"),
    ("; setting cudagraph_mode=NONE because attention is not compiled piecewise", "CG332"),
    ("; setting cudagraph_mode=FULL_AND_PIECEWISE", "CG330"),
    ("; setting cudagraph_mode=FULL_DECODE_ONLY", "CG330"),
    ("UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=", "CG333"),
    ("; setting cudagraph_mode=", "CG332"),
    ("requires piecewise capture, but the loaded model provides neither", "CG334"),
    ("Enforce eager set, disabling torch.compile and CUDAGraphs", "CG203"),
    ("Enforce eager set, disabling torch.compile, CUDAGraphs", "CG203"),
    ("TORCH_COMPILE_DISABLE is set", "CG204"),
    ("VLLM_USE_BREAKABLE_CUDAGRAPH is set", "CG205"),
    ("Pooling models do not support full cudagraphs", "CG207"),
    ("requires PIECEWISE CUDA graph mode due to layerwise async operations", "CG209"),
    ("does not contain piecewise cudagraph. Setting cudagraph_mode to", "CG214"),
    ("Using piecewise cudagraph with empty splitting_ops", "CG214"),
    ("fuse_attn_quant is incompatible with piecewise cudagraph", "CG213"),
    ("Sequence parallelism is incompatible with piecewise cudagraph", "CG644"),
    ("Sequence parallelism requires full-graph compilation", "CG644"),
    ("are removed because they are not multiples of tp_size", "CG643"),
    ("Sequence Parallelism requires TP>1", "CG640"),
    ("Model hidden_size too small for the SP threshold heuristic", "CG640"),
    ("Truncating max_cudagraph_capture_size to", "CG116"),
    ("cudagraph_capture_sizes specified in compilation_config", "CG115"),
    ("Overriding max cuda graph capture size to", "CG215"),
    ("Capping cudagraph capture sizes from max", "CG510"),
    ("No valid cudagraph capture sizes remain after capping", "CG510"),
    ("exceeds max_num_seqs * max_model_len", "CG124"),
    ("max_num_scheduled_tokens is set to", "CG407"),
    ("Dynamic speculative decoding changes the target verification length", "CG405"),
    ("Dynamic speculative decoding is not supported with data parallelism", "CG403"),
    ("Dynamic speculative decoding is not supported with the", "CG404"),
    ("and the V2 model runner can't skip speculation", "CG420"),
    ("Overriding max_num_active_seqs from", "CG409"),
    ("Model Runner V2 does not yet support", "CG609"),
    ("Model runner v2 does not yet support", "CG609"),
    ("Model Runner V2 requires Triton", "CG609"),
    ("Model runner v2 requires Triton", "CG609"),
    ("Defaulting to V1 model runner on ROCm", "CG609"),
    ("Async scheduling is disabled because the V1 model runner does not support it", "CG802"),
    ("Async scheduling not supported with", "CG802"),
    ("Async scheduling will be disabled because", "CG802"),
    ("Async scheduling is not compatible with", "CG802"),
    ("Skipping CUDA graph capture. To turn on CUDA graph capture", "CG242"),
    ("Skipping encoder and decoder CUDA graph capture", "CG242"),
    ("disabling cudagraphs since DP with DeepEP high-throughput", "CG601"),
    ("Disabling CUDA Graphs since DeepEP high-throughput", "CG601"),
    ("CUDA graph memory profiling is disabled", "CG522"),
    ("precluded higher-priority backend", "CG308"),
    ("padding layers, may waste at most", "CG575"),
    ("Hybrid KV cache manager is disabled for this hybrid model", "CG578"),
    ("Turning off hybrid kv cache manager", "CG578"),
    ("There is a latency regression when using chunked local attention with the hybrid KV cache manager", "CG578"),
    ("KV cache page sizes cannot be unified", "CG579"),
    ("Unknown vLLM environment variable detected", "CG810"),
    ("fusion enabled but the current platform is not", "CG938"),
    ("fusion requires ROCm", "CG938"),
    ("is greater than the derived max_model_len", "CG129"),
    ("KV cache fusion currently only enabled on ROCm", "CG938"),
)
"""A fragment of the text, and the code of the rule; the first that is found counts."""

LESS_GRAPHS = ("CG330", "CG332", "CG333", "CG334", "CG405", "CG510", "CG601", "CG116")
"""Of them those that cost graphs are warnings, the others notes."""


def explain(message: Message, mode_fix: str | None = None) -> Finding | None:
    """What a warning means, by the rule behind it; None: no rule of cgplan speaks of it.

    Args:
        mode_fix: what keeps a mode that the attention backend lowers, where the deployment is known.
    """
    code = code_of(message.text)
    if code is None:
        return None
    severity = "warning" if code in LESS_GRAPHS else "info"
    times = f" ({message.count} times)" if message.count > 1 else ""
    text = f"vLLM warns{times}: {' '.join(message.text.split())[:MOST]}"
    fix = rule(code).instead.removesuffix(".")
    if code in LOWERED:
        fix = mode_fix if mode_fix is not None else f"{fix}{_such_as(message.text)}"
    return Finding(code, severity, text, fix, f"line {message.place.line}")


def _such_as(text: str) -> str:
    """Backends that keep FULL graphs for decode on most GPUs, where the warning is of another one."""
    said = text.casefold().replace("_", "")
    if "mla" in said:
        return ""
    names = [name for name, own in (("FLASH_ATTN", "flashatt"), ("TRITON_ATTN", "tritonatt")) if own not in said]
    return f", such as --attention-backend {' or '.join(names)}"


MOST = 240
"""Letters of a warning that are shown."""


def code_of(text: str) -> str | None:
    """The code of the rule that explains a text; None: none does."""
    return next((code for fragment, code in FRAGMENTS if fragment in text), None)


def explained(start: Start, mode_fix: str | None = None) -> tuple[Finding, ...]:
    """The warnings of a start that a rule explains, each rule and text once; `mode_fix` as of `explain`."""
    found: dict[tuple[str, str], Finding] = {}
    for message in _warnings(start):
        finding = explain(message, mode_fix)
        if finding is not None:
            found.setdefault((finding.code, message.text), finding)
    return tuple(found.values())


def _warnings(start: Start) -> Iterable[Message]:
    return (message for message in start.messages if message.level == "WARNING")
