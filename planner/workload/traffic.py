"""Reads the files of --workload: a log with steps, text of /metrics, CSV or JSON; several are a mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError, shorten
from ..inputs.vllm_logs.streams import chunks
from .gathered import Gathered
from .histogram import Workload, merge
from .metrics import Snapshot, gathered
from .sources import MAX_BYTES, read_text
from .tap import StepTap
from .tune_rules import NO_STEPS

WHERE = "--workload"


@dataclass(frozen=True)
class Traffic:
    """One part of a mixture.

    Attributes:
        name: for a person.
        workload: its steps.
        weight: its share of the mixture, beside the weights of the others; None: as many steps as it has.
        is_measured: the counts are of steps that ran, so that chance had a part in them.
        notes: what a reader has to know of the source.
    """

    name: str
    workload: Workload
    weight: float | None = None
    is_measured: bool = True
    notes: tuple[str, ...] = ()


def weighed(parts: Sequence[Traffic]) -> tuple[Traffic, ...]:
    """The parts with counts in proportion: as counted, or by their weights where one has any; 1 is that of the rest."""
    if all(part.weight is None for part in parts):
        return tuple(parts)
    steps = sum(part.workload.steps for part in parts)
    weights = [1.0 if part.weight is None else part.weight for part in parts]
    return tuple(
        replace(part, workload=part.workload.scaled(steps * weight / sum(weights) / part.workload.steps))
        for part, weight in zip(parts, weights, strict=True)
    )


def mixture(parts: Sequence[Traffic]) -> Workload:
    """All steps of the parts."""
    return merge(part.workload for part in weighed(parts))


def read_traffic(given: Sequence[str]) -> tuple[Traffic, ...]:
    """The parts that FILE or FILE@WEIGHT name, in their order.

    Raises:
        InputError: CG725 a file has no steps, CG906 a weight, CG905 standard input twice; else as the sources say.
    """
    asked = [_named(text) for text in given]
    if sum(name == "-" for name, _ in asked) > 1:
        raise InputError("standard input is read once", code="CG905", where=WHERE, fix="give - once")
    return tuple(_read(name, weight) for name, weight in asked)


def _named(text: str) -> tuple[str, float | None]:
    name, mark, weight = text.rpartition("@")
    if not mark or not name or Path(text).exists():
        return text, None
    try:
        value = float(weight)
    except ValueError:
        return text, None
    if not 0 < value < math.inf:
        raise InputError(
            f"{shorten(weight, 40)} is no weight", code="CG906", where=WHERE, fix="give a number above 0 behind the @"
        )
    return name, value


def _read(name: str, weight: float | None) -> Traffic:
    tap = StepTap()
    remarks: list[str] = []
    kept: list[bytes] = []
    size = 0
    for piece in tap.through(chunks(name, remarks)):
        size += len(piece)
        if size <= MAX_BYTES:
            kept.append(piece)
    found = tap.finish()
    if found is None or not found.parts:
        found = _own(b"".join(kept), size, name)
    shown = "standard input" if name == "-" else shorten(name, 80)
    workload = found.together()
    if workload is None:
        raise _no_steps(shown)
    return Traffic(shown, workload, weight, notes=(*remarks, *_notes(found)))


def _own(data: bytes, size: int, name: str) -> Gathered:
    """What is no log with steps: text of /metrics, CSV or JSON."""
    shown = "standard input" if name == "-" else shorten(name, 80)
    if size > MAX_BYTES:
        raise _no_steps(shown)
    try:
        read = read_text(data.decode("utf-8", "replace"), shown)
    except InputError as error:
        if "iteration_tokens_total" in error.message:
            raise _no_steps(shown) from None
        raise
    return gathered(read) if isinstance(read, Snapshot) else read


def _notes(found: Gathered) -> tuple[str, ...]:
    notes = list(found.remarks)
    if found.not_recognised:
        notes.append(f"{found.not_recognised} lines that look like steps were not understood")
    return tuple(notes)


def _no_steps(shown: str) -> InputError:
    return InputError(f"{shown} tells of no steps", code=NO_STEPS.code, where=WHERE, fix=NO_STEPS.instead)
