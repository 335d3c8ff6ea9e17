"""A start on the platform of a plugin: whose rules hold, and what the log itself says of its graphs."""

from __future__ import annotations

from ..trace import Finding
from .known import argument, max_num_seqs, sized
from .record import Start
from .rules import PLUGIN

MAKERS = {"ascend": "vLLM Ascend", "hpu": "vLLM Gaudi", "metal": "vLLM Metal", "spyre": "vLLM Spyre"}
"""Of plugins as logs name them, the project whose documents have their rules."""


def plugin_finding(start: Start, is_planned: bool) -> Finding | None:
    """What to say of the plugin; None: the platform is one of vLLM's own, as far as the log says.

    Args:
        is_planned: there is a plan beside the log.
    """
    name = start.platform_plugin
    if name is None:
        return None
    maker = MAKERS.get(name.casefold())
    whose = f"those of {maker}" if maker is not None else "its own"
    text = (
        f"{name} is the platform, one of a plugin: mode, sizes, backend and memory are by rules of the plugin, {whose},"
        " and not by vLLM's for CUDA, which are all that cgplan has"
    )
    if is_planned:
        text += "; the plan is by CUDA's rules, so it does not hold"
    if start.cudagraph_mode is not None:
        text += f"; the mode is that of the engine's own line, {start.cudagraph_mode}"
    size = sized(start, "data_parallel_size")
    if start.cudagraph_mode == "NONE" and size is not None and size > 1:
        text += f", with data parallelism of {size}, for which plugins are known to switch graphs off"
    beyond = _beyond_the_sizes(start)
    return Finding(PLUGIN.code, "warning", f"{text}{beyond}", PLUGIN.instead)


def _beyond_the_sizes(start: Start) -> str:
    """Batches above the largest size of the log, where fewer requests than --max-num-seqs have a graph."""
    sizes = start.capture_sizes or argument(start, "cudagraph_capture_sizes")
    seqs = max_num_seqs(start)
    if start.cudagraph_mode == "NONE" or seqs is None or not isinstance(sizes, (tuple, list)) or not sizes:
        return ""
    largest = max((size for size in sizes if isinstance(size, int)), default=seqs)
    if largest >= seqs:
        return ""
    return f"; by its own sizes batches of {largest + 1} to {seqs} requests have no graph"
