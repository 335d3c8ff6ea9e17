"""Why a step missed the graph that was wanted for it, under the code of the rule that decided it."""

from __future__ import annotations

from typing import NamedTuple

from ...resolve.coverage import CLIFF, DECODE_WITHOUT_FULL, SPEC_CLIFF
from ...resolve.lora import LORA_CASES, NO_GRAPH_WITHOUT_LORA
from ...resolve.losses import lowered
from ...resolve.resolution import Resolution
from ...trace import RULES
from ...vocabulary import CUDAGraphMode
from ..rules import NO_GRAPH_FOR_KIND
from .outcomes import Outcome

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


LONG_PREFILL = "leave it: the kernels of so many tokens take longer than their launches"


class Reason(NamedTuple):
    """Why, for a person, and what to do instead."""

    code: str
    message: str
    fix: str


def reason_of(one: Outcome, resolution: Resolution, loras: int = 0) -> Reason | None:
    """Why the step missed; None: it did not. A decode step that runs PIECEWISE missed where FULL was asked for."""
    is_decode = one.kind == "decode"
    if one.mode is NONE:
        return _eager(one, resolution, is_decode, loras)
    wanted = resolution.requested_mode.decode_mode
    if not is_decode or one.mode is FULL or wanted is not FULL:
        return None
    if resolution.decode_mode is not FULL:
        return _mode(resolution, is_decode)
    length = one.tokens // one.requests if one.requests else 1
    if resolution.schedule is None and length != resolution.uniform_decode_query_len:
        each = resolution.uniform_decode_query_len
        message = f"FULL graphs are for {each} token{'' if each == 1 else 's'} a request, not {length}"
        return _of(NO_GRAPH_FOR_KIND.code, message)
    message = "decode batches for which no FULL graph was captured fall back to PIECEWISE"
    return _of(DECODE_WITHOUT_FULL.code, message)


def _eager(one: Outcome, resolution: Resolution, is_decode: bool, loras: int) -> Reason:
    has_mode = resolution.decode_mode if is_decode else resolution.mixed_mode
    if has_mode is NONE or not resolution.capture_sizes:
        return _mode(resolution, is_decode)
    largest = resolution.max_capture_size
    if one.tokens > largest and not is_decode:
        return Reason(CLIFF.code, f"above the largest captured size, {largest} tokens", LONG_PREFILL)
    if one.tokens > largest:
        rule = SPEC_CLIFF if one.tokens > one.requests else CLIFF
        return _of(rule.code, f"above the largest captured size, {largest} tokens")
    if loras:
        return _of(LORA_CASES.code, f"no graph was captured for {loras} adapter{'' if loras == 1 else 's'}")
    if resolution.lora is not None and 0 not in resolution.lora.cases:
        return _of(NO_GRAPH_WITHOUT_LORA.code, "no graph was captured for batches without an adapter")
    return _of(CLIFF.code, "no graph of this size was captured for such batches")


def _mode(resolution: Resolution, is_decode: bool) -> Reason:
    mode = resolution.cudagraph_mode
    what = "decode batches" if is_decode else "batches with a prefill"
    finding = lowered(resolution.requested_mode, mode, resolution.decisions)
    asked = resolution.requested_mode
    was_wanted = asked.decode_mode if is_decode else asked.mixed_mode
    is_left = mode.decode_mode if is_decode else mode.mixed_mode
    if finding is not None and was_wanted is not is_left:
        return _of(finding.code, f"{asked} was lowered to {mode}")
    has = "FULL graphs" if is_left is PIECEWISE else "graphs"
    return _of(NO_GRAPH_FOR_KIND.code, f"{mode} has no {has} for {what}")


def _of(code: str, message: str) -> Reason:
    return Reason(code, message, RULES[code].instead)
