"""Grids of the tests of sweeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cgplan.sweep.grid import Axis, Grid, Value
from cgplan.sweep.grid_file import grid_of
from cgplan.sweep.run import Sweep

BASE: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpu": "h100"}
SMALL: dict[str, Any] = {
    "base": BASE,
    "grid": {
        "vllm": ["0.33.0", "0.19.1"],
        "max_num_seqs": [16, 256],
        "max_model_len": ["4k", 40960],
        "gpu_memory_utilization": [0.3, 0.9],
        "cudagraph_mode": ["default", "PIECEWISE"],
    },
    "exclude": [{"vllm": "0.19.1", "cudagraph_mode": "PIECEWISE"}],
}


def numbers_of(lengths: list[int], excludes: list[dict[int, frozenset[int]]]) -> Grid:
    """A grid of so many values an axis, whose values are their positions."""
    axes = [
        Axis(f"axis{at}", tuple(Value(number, str(number), number) for number in range(length)))
        for at, length in enumerate(lengths)
    ]
    return Grid(tuple(axes), tuple(excludes))


def grid(document: Mapping[str, Any] = SMALL) -> Grid:
    return grid_of(document)


def records_of(document: Mapping[str, Any], jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Records by key, of a sweep that keeps nothing."""
    found: dict[str, dict[str, Any]] = {}

    def take(line: str, record: dict[str, Any]) -> None:
        assert json.loads(line) == record
        assert record["key"] not in found
        found[record["key"]] = record

    sweep = Sweep(grid_of(document), take=take)
    assert sum(sweep.run(jobs)) == sweep.grid.count
    return found
