"""Starts as the log's reader gives them, made by hand."""

from __future__ import annotations

from typing import Any

from conftest import ROOT

from cgplan.inputs.launches.asked import Context
from cgplan.inputs.vllm_logs import read_log
from cgplan.releases.gpus import gpu
from cgplan.startup.crashes import classify
from cgplan.startup.record import Crash, Message, Phase, Place, Rank, Start, StartupLog

GIB = 1 << 30
MIB = 1 << 20
LOGS = ROOT / "fixtures" / "logs"


def size(gib: float) -> int:
    return round(gib * GIB)


def rank(name: str = "TP0", number: int = 0, **gibs: float | None) -> Rank:
    """Bytes are given in GiB, without `_bytes`."""
    values: dict[str, Any] = {}
    for key, value in gibs.items():
        plain = key in ("utilization", "raised_utilization", "activation_includes_estimate", "capture_seconds")
        plain = plain or key == "kv_is_given" or value is None
        values[key if plain else f"{key}_bytes"] = value if plain else size(value or 0)
    return Rank(name, number, **values)


def start(*ranks: Rank, version: str = "0.30.0", crash: str | None = None, **more: Any) -> Start:
    if crash is not None:
        kind, values = classify(crash)
        more["crash"] = Crash(kind, crash, Place(90, crash), "", values, (crash,))
    return Start(more.pop("first_line", 1), 100, vllm_version=version, ranks=ranks, **more)


def warning(text: str, line: int = 5) -> Message:
    return Message("WARNING", text, Place(line, text))


def public(name: str) -> StartupLog:
    return read_log(LOGS / f"{name}.txt")


def on(card: str, **more: Any) -> Context:
    return Context(gpu=gpu(card), **more)


def took(name: str, seconds: float, of: str = "TP0") -> Phase:
    return Phase(name, seconds, of)


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total"
    " capacity of {total} GiB of"
    " which {free} is free. Including non-PyTorch memory, this process has {process} GiB memory in"
    " use. Of the allocated"
    " memory 20.00 GiB is allocated by PyTorch, with {pools} allocated in private pools (e.g., CUDA Graphs), and"
    " 12.00 MiB is reserved by PyTorch but unallocated."
)
"""What torch says; the numbers are put in."""


def oom(tried: str, free: str, total: float, process: float, pools: str = "62.00 MiB") -> str:
    return OOM.format(tried=tried, free=free, total=total, process=process, pools=pools)
