"""Whether a start is long for its CUDA graphs, or for something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..trace import Finding
from .known import argument
from .record import Start
from .rules import MOST_OF_THE_START, NOT_CAPTURE, SLOW_CAPTURE

if TYPE_CHECKING:
    from .against_plan import Comparison

LONG = 60.0
"""Seconds of a start that is worth a word."""
LITTLE = 0.05
"""Share of the whole that capture is at most, where fewer graphs are no help."""
MUCH = 0.4
"""Share of the whole from which on the graphs are the longest part that can be made shorter."""
MUCH_SECONDS = 20.0
ALONE = 0.95
"""From that share of the whole on the log has hardly anything beside the graphs."""
KERNELS = "kernel warm-up"
GRAPH_ESTIMATE = "graph estimate"
GRAPHS = (GRAPH_ESTIMATE, "capture")
NAMES = {
    "load": "loading the weights",
    "compile": "torch.compile",
    "warm-up": "the first run of the model",
    KERNELS: "the warm-up and autotuning of kernels, between the KV cache and capture",
}


def findings_of(start: Start, comparison: Comparison | None = None) -> Iterator[Finding]:
    """All that is worth a word of the time of a start. Where fewer graphs are no help, none are advised."""
    found = finding_of(start)
    if found is not None:
        yield found
    if found is None or found.code != NOT_CAPTURE.code:
        slow = slow_capture(start, comparison)
        yield from () if slow is None else (slow,)
    if found is None:
        yield from _compilation(start)


def finding_of(start: Start) -> Finding | None:
    """What to say of it; None: nothing stands out, or the log does not say."""
    longest: dict[str, float] = {}
    for phase in start.phases:
        longest[phase.name] = max(phase.seconds, longest.get(phase.name, 0.0))
    graphs = sum(longest.get(name, 0.0) for name in GRAPHS)
    if graphs <= 0:
        return None
    whole, is_whole = _whole(start, longest)
    if "capture" in longest and is_whole and whole >= LONG and graphs <= LITTLE * whole:
        return _not_capture(longest, whole)
    if graphs >= MUCH_SECONDS and MUCH * whole <= graphs < ALONE * whole:
        return _most(start, longest, graphs, whole, is_whole)
    return None


def slow_capture(start: Start, comparison: Comparison | None = None) -> Finding | None:
    """What makes capture slow; None: it is as long as planned or, without a plan, not long for its graphs."""
    capture = max((rank.capture_seconds or 0.0 for rank in start.ranks), default=0.0)
    graphs = sum(start.graphs.values())
    if capture < MUCH_SECONDS:
        return None
    row = next((row for row in comparison.rows if row.key == "capture_seconds"), None) if comparison else None
    planned = ""
    if row is not None and row.planned is not None:
        if 10 * capture <= row.planned.high + 5:
            return None
        planned = f"; {row.planned.best / 10:.0f} s are planned, {row.planned.high / 10:.0f} at most"
    elif capture < (SLOW * graphs if graphs else LONG):
        return None
    each = f" for {graphs} graphs, {capture / graphs:.2f} s each" if graphs else ""
    adapters = argument(start, "max_loras") or 1 if argument(start, "enable_lora") else 0
    text = f"capture took {capture:.0f} s{each}{planned}"
    if adapters:
        text += (
            f". With LoRA each graph is run with up to {adapters} adapters that are set up for it, and most sizes are"
            " captured with and without them"
        )
    else:
        text += (
            ". Kernels that are compiled at their first run, LoRA's adapters, which are set up for each graph, and"
            " older releases make it so long"
        )
    fix = "fewer --cudagraph-capture-sizes: the time goes with their number"
    if graphs > 2 * FEWER:
        fix += f"; {FEWER} graphs would take about {FEWER * capture / graphs:.0f} s"
    return Finding(SLOW_CAPTURE.code, "info", text, f"{fix}. --enforce-eager is not needed for it")


SLOW = 0.4
"""Seconds of a graph from which on its capture is slow; on an H100 models up to 70 billion parameters take 0.1."""
FEWER = 10


def _compilation(start: Start) -> Iterator[Finding]:
    """What keeps compilation from being done again, where it is the longest part of a long start."""
    longest: dict[str, float] = {}
    for phase in start.phases:
        longest[phase.name] = max(phase.seconds, longest.get(phase.name, 0.0))
    taken, graphs = longest.get("compile", 0.0), sum(longest.get(name, 0.0) for name in GRAPHS)
    others = max((longest.get(name, 0.0) for name in NAMES if name != "compile"), default=0.0)
    if taken < MUCH_SECONDS or taken < max(graphs, others) or _whole(start, longest)[0] < LONG:
        return
    beside = f", the graphs {graphs:.0f} s" if graphs else ""
    yield Finding(
        NOT_CAPTURE.code,
        "info",
        f"torch.compile, with Dynamo, took {taken:.0f} s{beside}",
        "keep the folder VLLM_CACHE_ROOT (~/.cache/vllm) from start to start, in a container on a volume: the next"
        " start loads what was compiled",
    )


def _whole(start: Start, longest: dict[str, float]) -> tuple[float, bool]:
    """Seconds of the whole start; of a log that does not say them, of the parts it has."""
    engine, load = longest.get("init engine"), longest.get("load", 0.0)
    parts = sum(longest.get(name, 0.0) for name in ("load", "compile", "warm-up", KERNELS, *GRAPHS))
    if engine is not None:
        return max(start.seconds or 0.0, engine + load), True
    return (start.seconds, True) if start.seconds is not None and start.seconds >= parts else (parts, False)


def _not_capture(longest: dict[str, float], whole: float) -> Finding:
    capture = longest["capture"]
    text = (
        f"capture took {capture:.0f} s of {whole:.0f} s ({100 * capture / whole:.1f}%): fewer graphs would not make the"
        " start faster"
    )
    parts = sorted(
        ((longest[name], said) for name, said in NAMES.items() if longest.get(name, 0.0) > capture), reverse=True
    )
    if parts:
        text += "; longer are " + ", ".join(f"{said} ({seconds:.0f} s)" for seconds, said in parts[:3])
    told = sum(longest.get(name, 0.0) for name in (*NAMES, *GRAPHS))
    if whole - told > max(capture, 0.2 * whole):
        text += f"; {whole - told:.0f} s are in no line"
    fix = NOT_CAPTURE.instead
    if parts and parts[0][1] == NAMES[KERNELS]:
        fix = (
            "where FlashInfer's kernels are autotuned, keep the folder VLLM_CACHE_ROOT from start to start: since 0.24"
            " it has the result; --no-enable-flashinfer-autotune leaves it out, and kernels may be slower"
        )
    return Finding(NOT_CAPTURE.code, "info", text, fix)


def _most(start: Start, longest: dict[str, float], graphs: float, whole: float, is_whole: bool) -> Finding:
    of = f"{whole:.0f} s" if is_whole else f"the {whole:.0f} s that the log has"
    estimate, capture = longest.get(GRAPHS[0]), longest.get(GRAPHS[1])
    parts = [f"{estimate:.0f} s for the estimate of their memory"] if estimate else []
    parts += [f"{capture:.0f} s for capture"] if capture else []
    text = f"the graphs took {graphs:.0f} s of {of} ({100 * graphs / whole:.0f}%): {', '.join(parts)}"
    fixes = []
    if estimate and argument(start, "kv_cache_memory_bytes") is None:
        fixes.append("--kv-cache-memory-bytes, with which vLLM leaves the profile run and the estimate out")
    fixes.append("fewer --cudagraph-capture-sizes, or a lower --max-cudagraph-capture-size")
    return Finding(MOST_OF_THE_START.code, "info", text, ", or ".join(fixes))
