"""What a process is called: its label, and its number over all processes of the server."""

from __future__ import annotations

import re
from typing import Any

from .prefixes import Process

MAIN = "main"
_PART = re.compile(r"(DP|PP|PCP|TP|DCP|EP)([0-9]{1,6})")


def label(process: Process | None) -> str:
    """As the log calls it, less the words that all of a kind share."""
    if process is None or process.name in ("MainProcess", "pid"):
        return MAIN
    if process.rank is not None:
        return f"rank{process.rank}"
    name = process.name
    for prefix in ("Worker_", "VllmWorker_", "EngineCore_", "DPEngineCoreActor_"):
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return f"{name} {process.node}/{process.pid}" if process.node else name


def is_api_server(process: Process | None) -> bool:
    return process is None or process.name.startswith(("APIServer", "DPSupervisor", "ApiServer", "MainProcess"))


def number(name: str, engine: dict[str, Any], ranks: int) -> int | None:
    """The number of a rank, from its label and the sizes of the engine's line; None where they do not say it.

    Args:
        ranks: how many ranks the start has; the only one of a server of one process is number 0.
    """
    if name.startswith("rank") and name[4:].isdigit():
        return int(name[4:])
    places = {kind: int(digits) for kind, digits in _PART.findall(name)}
    sizes = {
        "TP": _size(engine, "tensor_parallel_size", 1 if "TP" not in places else None),
        "PCP": _size(engine, "prefill_context_parallel_size", 1 if "PCP" not in places else None),
        "PP": _size(engine, "pipeline_parallel_size", 1 if "PP" not in places else None),
        "DP": _size(engine, "data_parallel_size", 1 if "DP" not in places else None),
    }
    if not places:
        return 0 if ranks == 1 and all(size in (1, None) for size in sizes.values()) else None
    total, inner = 0, 1
    for kind in ("TP", "PCP", "PP", "DP"):
        place = places.get(kind, 0)
        if place:
            if inner == 0:
                return None
            total += place * inner
        inner *= sizes[kind] or 0
    return total


def _size(engine: dict[str, Any], key: str, default: int | None) -> int | None:
    size = engine.get(key)
    return size if type(size) is int and 0 < size < 1_000_000 else default
