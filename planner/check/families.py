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
    "graph_modes",
    "sizes",
    "coverage",
    "speculation",
    "lora",
    "memory",
    "kv_size",
    "models",
    "parallel",
)

for name in FAMILIES:
    import_module(f".{name}", __package__)
