"""What to change where a server came up and died while serving."""

from __future__ import annotations

import re

from .arguments import model_of
from .known import argument, gib, is_manual, release_numbers, sized
from .scene import LEAST_OUTSIDE, LEAST_SHARE, Remedy, Scene, less_cache

SERVING = "serving"
LEAST_TOKENS = 512
"""Batched tokens below which a smaller step is worth little memory and much speed."""
LESS_UNSAFE = (0, 14)
"""Before it, FULL graphs with decode context parallelism read memory that was not theirs."""
SIGNALS = {
    -9: "it was killed from outside, mostly for the memory of the host",
    -15: "it was told to end",
    -11: "a fault in native code",
    -6: "native code gave up, as NCCL's watchdog does",
}


def out_of_memory(scene: Scene) -> Remedy | None:
    """A smaller KV cache by what was missing and a reserve, or a smaller step."""
    tried, free = scene.values.get("tried_bytes"), scene.values.get("free_bytes")
    largest: dict[str, int | float] = {}
    parts = []
    if tried is not None and free is not None:
        reserve = max(LEAST_OUTSIDE, round(LEAST_SHARE * (scene.total or 0)))
        parts += less_cache(scene, max(0, tried - free) + reserve, largest)
    tokens = scene.start.max_num_batched_tokens or scene.tokens
    if has_gated_delta(scene):
        # What ran out goes with the batched tokens, and no share keeps anything for it.
        parts.insert(0, _shorter_prefill(scene, tokens))
    elif tokens is not None and tokens // 2 >= LEAST_TOKENS:
        parts.append(f"--max-num-batched-tokens {tokens // 2}, which halves the largest step")
    unused = scene.values.get("unallocated_bytes")
    if unused is not None and tried is not None and unused >= tried:
        parts.append(f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, for torch holds {gib(unused)} in pieces")
    if not parts:
        return None
    if is_manual(scene.start, scene.rank) and "kv_cache_memory_bytes" not in largest:
        parts.insert(0, "a lower --kv-cache-memory-bytes")
    return Remedy(", or ".join(parts), largest)


def is_gated_delta(function: str) -> bool:
    """Whether a function of a traceback is of a prefill of gated delta layers."""
    return any(part in function for part in ("gated_delta", "chunk_delta", "chunk_fwd_o", "solve_tril"))


def has_gated_delta(scene: Scene) -> bool:
    """Whether the model has gated delta layers: by the plan, the traceback, or the names of its class and its own."""
    start = scene.start
    if scene.prefill is not None or (start.crash is not None and is_gated_delta(start.crash.function)):
        return True
    names = (start.architecture, argument(start, "architecture"), model_of(start))
    return any(_GATED_DELTA.search(str(name)) for name in names if name)


_GATED_DELTA = re.compile(r"qwen_?3[._-]?(?:next|5|6)|kimi[._-]?linear|olmo[._-]?hybrid", re.IGNORECASE)


def _shorter_prefill(scene: Scene, tokens: int | None) -> str:
    fewer = tokens // 2 if tokens is not None and tokens // 2 >= LEAST_TOKENS else None
    flag = f"--max-num-batched-tokens {fewer}" if fewer else "a lower --max-num-batched-tokens"
    if tokens is None:
        flag += ", such as 2048"
    most = f", up to {gib(scene.prefill)}{f' at {tokens:,} tokens' if tokens else ''}," if scene.prefill else ""
    return f"{flag}: what a prefill of gated delta layers takes{most} goes with it and is not profiled (CG552)"


def memory_access(scene: Scene) -> Remedy | None:
    """Context parallelism with FULL graphs, where the log has both; else what the rule says."""
    size = sized(scene.start, "decode_context_parallel_size") or 1
    prefill = sized(scene.start, "prefill_context_parallel_size") or 1
    numbers = release_numbers(scene.start)
    mode = scene.start.cudagraph_mode
    if max(size, prefill) < 2 or (mode is not None and "FULL" not in mode):
        return None
    if size > 1 and numbers is not None and numbers < LESS_UNSAFE:
        said = ".".join(map(str, numbers))
        return Remedy(
            f"-cc.cudagraph_mode=PIECEWISE, or vLLM 0.14 or later: FULL graphs with decode context parallelism, here"
            f" {size}, are unsafe before it, and this is {said}",
            {},
        )
    flags = [
        f"--{name}-context-parallel-size {own}" for name, own in (("decode", size), ("prefill", prefill)) if own > 1
    ]
    return Remedy(
        f"-cc.cudagraph_mode=PIECEWISE first: {' and '.join(flags)} is a suspect, for FULL graphs with context"
        " parallelism have been unsafe, and what vLLM lowers for it changed in several releases; then --enforce-eager,"
        " or a newer release",
        {},
    )


def process_died(scene: Scene) -> Remedy | None:
    """What the number says."""
    code = scene.values.get("exit_code")
    said = SIGNALS.get(int(code)) if code is not None else None
    if said is None:
        return None
    more = ": look for OOMKilled and raise the limit of the container's memory" if code == -9 else ""
    more = more or ": look for Xid in the kernel's log, and try -cc.cudagraph_mode=PIECEWISE"
    return Remedy(f"exit code {code}, {said}{more if code != -15 else ''}", {})
