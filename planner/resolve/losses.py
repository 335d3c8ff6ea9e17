"""Findings about what was asked for and is not there: a lowered mode, and graphs that no batch runs in."""

from __future__ import annotations

from collections.abc import Sequence

from ..trace import RULES, Decision, Finding
from ..vocabulary import CUDAGraphMode
from .coverage import UNREACHABLE
from .graphs import Graph
from .levels import LEVEL_CUDAGRAPHS
from .lora import LoraPlan

OF_THE_MODEL = ("CG207", "CG208")
"""Codes of models that never have more graphs: pooling ones, and encoders with decoders."""


def lowered(
    requested: CUDAGraphMode,
    final: CUDAGraphMode,
    decisions: Sequence[Decision],
    fix: str | None = None,
    cost: str = "",
) -> Finding | None:
    """That the mode is not the one asked for, under the code of the rule that decided it.

    A mode that only the optimisation level stands for is worth a warning where decode batches lose their FULL graph.

    Args:
        fix: what keeps it, where that was looked for; else what the rule's page says.
        cost: what others measured of it, one clause, where that was looked for.
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
    if cost:
        message += "" if keeps_full else " Decode batches lose their FULL graphs."
        message += f" {cost[0].upper()}{cost[1:]}."
    if by_level and last.code in OF_THE_MODEL:  # a default that nobody asked for, and nothing to be done
        return Finding(last.code, "info", message, None, "-cc.cudagraph_mode")
    return Finding(last.code, severity, message, fix or RULES[last.code].instead, "-cc.cudagraph_mode")


def unreachable(
    idle: Sequence[tuple[CUDAGraphMode, Graph]], lora: LoraPlan | None, max_num_seqs: int
) -> Finding | None:
    """That these captured graphs serve no batch, and the option that made them."""
    if not idle:
        return None
    those = f"{len(idle)} captured graphs serve no batch, and take"
    if len(idle) == 1:
        those = "1 captured graph serves no batch, and takes"
    message = f"{those} memory and start-up time"
    cases = lora.idle_cases(max_num_seqs) if lora is not None else []
    if lora is None or not all(graph.num_active_loras in cases for _, graph in idle):
        fix = "name the sizes that are used with --cudagraph-capture-sizes"
        return Finding(UNREACHABLE.code, "info", message, fix, "--cudagraph-capture-sizes")
    message += f": those for {lora.in_words(cases)}, and a batch has at most {lora.most_active(max_num_seqs)}"
    fix = "drop --specialize-active-lora"
    if max_num_seqs < lora.max_loras:
        fix += f", or set --max-loras {max_num_seqs}"
    return Finding(UNREACHABLE.code, "info", message, fix, "--specialize-active-lora")
