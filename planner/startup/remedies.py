"""What to change after each kind of crash, with the largest value that would have worked, by the log's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .known import GIB, argument, deducts, gib, max_num_seqs
from .scene import Remedy, Scene, down, left_to_capture, less_cache, more_memory, round_number

MORE_LOGITS = 2
"""Of the sampler's float32 copies of the logits, those that may still have to come after the one that did not fit."""
LITTLE_CACHE = GIB
"""A KV cache that is worth a start, where the log does not say what one request needs."""
TENSOR_SIZES = (1, 2, 4, 8, 16, 32)


def remedy(kind: str, scene: Scene) -> Remedy | None:
    """What helps; None: nothing beyond what the rule's page says."""
    found = _REMEDIES.get(kind)
    return found(scene) if found is not None else None


def _model_len(scene: Scene) -> Remedy | None:
    longest = scene.values.get("estimated_len")
    needed, available = scene.values.get("needed_bytes"), scene.values.get("available_bytes")
    largest: dict[str, int | float] = {"max_model_len": longest} if longest else {}
    parts = [f"--max-model-len {longest} or less"] if longest else []
    if needed is not None and available is not None:
        parts += more_memory(scene, needed - available, largest)
    return Remedy(", or ".join(parts), largest) if parts else None


def _no_blocks(scene: Scene) -> Remedy | None:
    kv = scene.rank.kv_bytes if scene.rank is not None else None
    if kv is None:
        return None
    graphs = 0
    if scene.rank is not None and not deducts(scene.start, scene.rank):
        graphs = max(0, scene.rank.graph_estimate_bytes or 0)
    largest: dict[str, int | float] = {}
    parts = more_memory(scene, max(0, -kv) + graphs + (scene.needed or LITTLE_CACHE), largest)
    tokens = scene.start.max_num_batched_tokens
    if tokens is not None and tokens > 2048:
        parts.append(f"--max-num-batched-tokens {max(2048, tokens // 4)}, which lowers the peak of the profile run")
    if "ConditionalGeneration" in (scene.start.architecture or ""):
        parts.append("--limit-mm-per-prompt or --language-model-only, where images are not needed")
    return Remedy(", or ".join(parts), largest) if parts else None


def _mamba_blocks(scene: Scene) -> Remedy | None:
    blocks = scene.values.get("blocks")
    if not blocks:
        return None
    least = round_number(blocks)
    most = f" ({blocks} at most)" if least != blocks else ""
    fix = (
        f"--max-num-seqs {least}{most}, or a higher --gpu-memory-utilization; or -cc.cudagraph_mode=PIECEWISE, which"
        " needs no block for each request"
    )
    return Remedy(fix, {"max_num_seqs": blocks})


def _free_memory(scene: Scene) -> Remedy | None:
    free, total = scene.values.get("free_bytes"), scene.values.get("total_bytes")
    if free is None or not total:
        return None
    share = down(free / total)
    asked = scene.values.get("requested_bytes")
    held = f"; other processes and the driver hold {gib(total - free)}"
    if share <= 0:
        return Remedy(f"stop what runs on the GPU{held}", {})
    short = f", {gib(asked - free)} less than was asked for" if asked else ""
    return Remedy(f"--gpu-memory-utilization {share:g} or less{short}{held}", {"gpu_memory_utilization": share})


def _profiling(scene: Scene) -> Remedy | None:
    before, after = scene.values.get("free_bytes"), scene.values.get("free_after_bytes")
    if before is None or after is None:
        return None
    return Remedy(
        f"start again when no other process starts or ends on the GPU: at least {gib(after - before)} came free while"
        " vLLM measured",
        {},
    )


def _derived_len(scene: Scene) -> Remedy | None:
    known = [value for key in ("derived_len", "tokenizer_len") if isinstance(value := scene.values.get(key), int)]
    if not known:
        return None
    return Remedy(f"--max-model-len {max(known)} or less", {"max_model_len": max(known)})


def _divide(scene: Scene) -> Remedy | None:
    number, divisor = scene.values.get("number"), scene.values.get("divisor")
    if not number or not divisor:
        return None
    fits = [size for size in TENSOR_SIZES if size <= max(8, divisor) and number % size == 0]
    largest = max((size for size in fits if size < divisor), default=1)
    sizes = ", ".join(map(str, fits))
    return Remedy(f"--tensor-parallel-size of {sizes}: {number} divides by them", {"tensor_parallel_size": largest})


def _largest_size(scene: Scene) -> Remedy | None:
    size = scene.values.get("largest")
    fix = f"drop --max-cudagraph-capture-size, or set it to {size}, the largest of the sizes"
    return Remedy(fix, {"max_cudagraph_capture_size": size}) if size else None


def _sampler(scene: Scene) -> Remedy | None:
    tried, free = scene.values.get("tried_bytes"), scene.values.get("free_bytes")
    rows = scene.values.get("max_num_seqs") or max_num_seqs(scene.start)
    largest: dict[str, int | float] = {}
    parts = []
    if tried is not None and free is not None:
        parts += less_cache(scene, max(0, tried - free) + MORE_LOGITS * tried, largest)
    if rows and rows > 1:
        most = int(rows * free / tried) if tried and free is not None else rows // 2
        fewer = max(1, min(round_number(max(1, most)), rows // 2))
        largest["max_num_seqs"] = fewer
        parts.append(f"--max-num-seqs {fewer}")
    return Remedy(", or ".join(parts), largest) if parts else None


def _out_of_memory(scene: Scene) -> Remedy | None:
    if scene.step == "warm-up":
        return _sampler(scene)
    if scene.step == "profiling":
        return _profile_run(scene)
    if scene.step not in ("capture", "cache"):
        return None
    tried, free = scene.values.get("tried_bytes") or 0, scene.values.get("free_bytes") or 0
    largest: dict[str, int | float] = {}
    parts = less_cache(scene, max(0, tried - free) + left_to_capture(scene), largest)
    if scene.step == "capture":
        parts.append("fewer sizes with --cudagraph-capture-sizes")
    return Remedy(", or ".join(parts), largest)


def _profile_run(scene: Scene) -> Remedy | None:
    tokens = scene.start.max_num_batched_tokens
    if tokens is None or tokens < 2:
        return None
    return Remedy(
        f"--max-num-batched-tokens {tokens // 2}: the KV cache does not exist yet, so --gpu-memory-utilization is no"
        " help",
        {},
    )


def _mode(scene: Scene) -> Remedy | None:
    asked = argument(scene.start, "compilation_config")
    given = isinstance(asked, Mapping) and asked.get("cudagraph_mode") is not None
    drop = "drop cudagraph_mode, and vLLM chooses" if given else "FULL_AND_PIECEWISE"
    return Remedy(f"-cc.cudagraph_mode=PIECEWISE, or {drop}, or another --attention-backend", {})


_REMEDIES: dict[str, Callable[[Scene], Remedy | None]] = {
    "model_len": _model_len,
    "no_blocks": _no_blocks,
    "auto_fit": _no_blocks,
    "mamba_blocks": _mamba_blocks,
    "free_memory": _free_memory,
    "profiling": _profiling,
    "derived_len": _derived_len,
    "heads": _divide,
    "not_divisible": _divide,
    "largest_size": _largest_size,
    "sampler_warm_up": _sampler,
    "pooler_warm_up": _sampler,
    "out_of_memory": _out_of_memory,
    "mode": _mode,
}
