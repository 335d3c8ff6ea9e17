"""Starts that were measured, written as vLLM 0.25.1 and 0.19.1 log them, give the measured figures back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.startup.record import Rank, StartupLog

from . import written
from .written import GIB, line

MEASURED = Path(__file__).parents[3] / "fixtures" / "measured"
ROWS = [
    json.loads(text)
    for name in ("h200_vllm_0.25.1_more.jsonl", "memory_runs.jsonl")
    for text in (MEASURED / name).read_text().splitlines()
]
ROWS = [row for row in ROWS if {"weights", "activation", "non_torch", "kv_cache", "graphs"} <= row.keys()]
HALF = 2**30 // 200 + 1
"""Two decimals of a GiB are within so many bytes of the truth."""


def log_of(row: dict[str, Any]) -> list[str]:
    """The lines of a row, by the formats of its release, DEBUG and all."""
    weights, peak, other = row["weights"], row["activation"], row["non_torch"]
    kv, graphs, estimate = row["kv_cache"], row["graphs"], row["graph_estimate"]
    non_kv = weights + peak + other
    requested, total = non_kv + kv, 150 * GIB
    lines = [
        written.engine(row["vllm"]),
        line(f"Model loading took {written.gib(weights)} GiB memory and 1.000000 seconds"),
        line(
            f"Memory profiling takes 1.00 seconds. Total non KV cache memory: {written.gib(non_kv)}GiB; torch peak "
            f"memory increase: {written.gib(peak)}GiB; non-torch forward increase memory: {written.gib(other)}GiB; "
            f"weights memory: {written.gib(weights)}GiB.",
            level="DEBUG",
        ),
        line(f"Available KV cache memory: {written.gib(kv)} GiB"),
        line(f"Graph capturing finished in 3 secs, took {graphs / GIB:.2f} GiB"),
        line(written.usage_until_0_26(140 * GIB, total, requested, weights, peak, other, graphs, kv), level="DEBUG"),
    ]
    if estimate:
        lines.insert(3, line(f"Estimated CUDA graph memory: {estimate / GIB:.2f} GiB total"))
        lines.append(line(written.pool(graphs, estimate)))
    return lines


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_measured_start_is_read_back(row: dict[str, Any], read: Callable[..., StartupLog]) -> None:
    log = read(log_of(row))
    assert log.not_recognised == 0, log.examples
    (rank,) = log.starts[0].ranks
    for name in ("weights", "activation", "non_torch"):
        assert abs(getattr(rank, f"{name}_bytes") - row[name]) <= HALF
    assert rank.kv_bytes is not None
    assert abs(rank.kv_bytes - row["kv_cache"]) <= HALF
    assert rank.graph_actual_bytes is not None
    assert abs(rank.graph_actual_bytes - row["graphs"]) <= HALF
    _estimate(rank, row)


def _estimate(rank: Rank, row: dict[str, Any]) -> None:
    if row["graph_estimate"]:
        assert abs((rank.graph_estimate_bytes or 0) - row["graph_estimate"]) <= HALF
    else:
        assert rank.graph_estimate_bytes is None
    assert rank.suggested_kv_bytes == row["kv_cache"] - row["graphs"] - 150 * 2**20
