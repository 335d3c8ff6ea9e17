"""Findings about what was asked for and is not there: a lowered mode, and graphs that no batch runs in."""

from __future__ import annotations

from collections.abc import Sequence

from ..trace import RULES, Decision, Finding
from ..vocabulary import CUDAGraphMode
from .coverage import UNREACHABLE
from .levels import LEVEL_CUDAGRAPHS


def lowered(
    requested: CUDAGraphMode, final: CUDAGraphMode, decisions: Sequence[Decision], fix: str | None = None
) -> Finding | None:
    """That the mode is not the one asked for, under the code of the rule that decided it.

    A mode that only the optimisation level stands for is worth a warning where decode batches lose their FULL graph.

    Args:
        fix: what keeps it, where that was looked for; else what the rule's page says.
    """
    if requested is final:
        return None
    about = [decision for decision in decisions if decision.field == "cudagraph_mode"]
    last = next((decision for decision in reversed(about) if decision.after == final.value), None)
    if last is None:
        return None
    by_level = any(decision.code == LEVEL_CUDAGRAPHS.code for decision in about)
    keeps_full = final.decode_mode is CUDAGraphMode.FULL or requested.decode_mode is not CUDAGraphMode.FULL
    severity = "info" if by_level and keeps_full and final is not CUDAGraphMode.NONE else "warning"
    message = f"cudagraph_mode {requested} becomes {final}. {last.why}"
    return Finding(last.code, severity, message, fix or RULES[last.code].instead, "-cc.cudagraph_mode")


def unreachable(count: int) -> Finding | None:
    """That `count` captured graphs serve no batch."""
    if not count:
        return None
    verb = "serves" if count == 1 else "serve"
    noun = "graph" if count == 1 else "graphs"
    message = f"{count} captured {noun} {verb} no batch, and take memory and start-up time"
    return Finding(UNREACHABLE.code, "info", message, UNREACHABLE.instead, "--cudagraph-capture-sizes")
