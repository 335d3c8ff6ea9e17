"""Imports every family of checks, which registers them."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "parser_traps",
    "lost_buckets",
    "repeats",
    "flags",
    "environment",
    "launch_remarks",
    "image_release",
    "config_file",
    "tool_calls",
    "graph_modes",
    "graph_metrics",
    "context_parallel",
    "sizes",
    "coverage",
    "speculation",
    "lora",
    "memory",
    "kv_size",
    "models",
    "models_named",
    "parallel",
)

for name in FAMILIES:
    import_module(f".{name}", __package__)
