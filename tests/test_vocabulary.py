"""vLLM's words: the table of modes, and the order of levels."""

from __future__ import annotations

import pytest

from cgplan import AttentionCGSupport, CompilationMode, CUDAGraphMode, Runner, UsageContext


@pytest.mark.parametrize(
    ("mode", "decode", "mixed", "separate", "full", "piecewise", "without"),
    [
        ("NONE", "NONE", "NONE", False, False, False, "NONE"),
        ("PIECEWISE", "PIECEWISE", "PIECEWISE", False, False, True, "NONE"),
        ("FULL", "FULL", "FULL", False, True, False, "FULL"),
        ("FULL_DECODE_ONLY", "FULL", "NONE", True, True, False, "FULL_DECODE_ONLY"),
        ("FULL_AND_PIECEWISE", "FULL", "PIECEWISE", True, True, True, "FULL_DECODE_ONLY"),
    ],
)
def test_parts_of_the_modes(
    mode: str, decode: str, mixed: str, separate: bool, full: bool, piecewise: bool, without: str
) -> None:
    found = CUDAGraphMode(mode)
    assert (found.decode_mode.value, found.mixed_mode.value) == (decode, mixed)
    assert (found.separate_routine, found.has_full, found.has_piecewise) == (separate, full, piecewise)
    assert found.without_piecewise.value == without


def test_run_time_modes_are_the_parts() -> None:
    parts = {mode.decode_mode for mode in CUDAGraphMode} | {mode.mixed_mode for mode in CUDAGraphMode}
    assert {part.value for part in parts} == {"NONE", "PIECEWISE", "FULL"}


def test_a7_support_levels_are_ordered() -> None:
    names = ["NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS"]
    assert [level.name for level in sorted(AttentionCGSupport)] == names
    assert [int(level) for level in sorted(AttentionCGSupport)] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [CUDAGraphMode, CompilationMode, AttentionCGSupport, UsageContext, Runner])
def test_members_print_as_their_names(kind: type[CUDAGraphMode]) -> None:
    assert [str(member) for member in kind] == [member.name for member in kind]


def test_compilation_modes_are_numbered_in_order() -> None:
    names = ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"]
    assert [mode.value for mode in CompilationMode] == names
