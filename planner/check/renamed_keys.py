"""Keys of --compilation-config that vLLM had before the oldest release known, and what says the same now.

Followed through vllm/config/compilation.py: full_cuda_graph and use_cudagraph gave way to cudagraph_mode in 0.11,
level to mode and max_capture_size to max_cudagraph_capture_size after it; pass_config was renamed in 0.12 and 0.13.
"""

from __future__ import annotations

import json
from typing import Any

from .occurrences import compact

OPTION = "--compilation-config"
_RENAMED: dict[str, tuple[str, ...]] = {
    "level": ("mode",),
    "max_capture_size": ("max_cudagraph_capture_size",),
    "encoder_cudagraph_max_images_per_batch": ("encoder_cudagraph_max_vision_items_per_batch",),
    "pass_config.enable_fusion": ("pass_config.fuse_norm_quant", "pass_config.fuse_act_quant"),
    "pass_config.enable_attn_fusion": ("pass_config.fuse_attn_quant",),
    "pass_config.enable_noop": ("pass_config.eliminate_noops",),
    "pass_config.enable_sequence_parallelism": ("pass_config.enable_sp",),
    "pass_config.enable_async_tp": ("pass_config.fuse_gemm_comms",),
    "pass_config.enable_fi_allreduce_fusion": ("pass_config.fuse_allreduce_rms",),
}
"""Keys whose value means the same in these."""
_BY_VALUE: dict[str, dict[bool, dict[str, Any]]] = {
    "full_cuda_graph": {True: {"cudagraph_mode": "FULL"}, False: {"cudagraph_mode": "PIECEWISE"}},
    "use_cudagraph": {True: {}, False: {"cudagraph_mode": "NONE"}},
}
"""Switches, with the settings that say the same."""


def became(path: str) -> str | None:
    """What took the place of a key, in words; None: nothing is known of it."""
    if path in _BY_VALUE:
        return f"{path} became cudagraph_mode"
    return f"{path} became {' and '.join(_RENAMED[path])}" if path in _RENAMED else None


def renamed(path: str, value: Any) -> dict[str, Any] | None:
    """The settings, by dotted name, that say what an old key said; None: nothing does."""
    if path in _RENAMED:
        return dict.fromkeys(_RENAMED[path], value)
    return _BY_VALUE.get(path, {}).get(value) if isinstance(value, bool) else None


def renewed(text: str) -> tuple[str, tuple[str, ...]] | None:
    """A JSON object with today's keys, and what became of the old ones; None: it is no object, or two keys clash."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    said: list[str] = []
    for path in (*_RENAMED, *_BY_VALUE):
        *outer, key = path.split(".")
        inner = document.get(outer[0]) if outer else document
        new = renamed(path, inner[key]) if isinstance(inner, dict) and key in inner else None
        if new is None or not isinstance(inner, dict):
            continue
        names = {name.rpartition(".")[2]: item for name, item in new.items()}
        if names.keys() & inner.keys():
            return None
        del inner[key]
        inner.update(names)
        said.append(became(path) or "")
    return compact(document), tuple(said)


def dotted(keys: str, value: str) -> dict[str, str] | None:
    """The dotted keys and values, as they are typed, in the place of an old one; None: nothing says the same."""
    read: Any = {"true": True, "false": False}.get(value.lower(), value)
    new = renamed(keys, read)
    return None if new is None else {key: value if item == read else str(item) for key, item in new.items()}
