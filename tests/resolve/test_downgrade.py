"""The mode once the backend's support level is known: the truth tables of vLLM's own function."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import (
    H100,
    JAMBA,
    MAMBA,
    SPARSE_MLA,
    V1,
    V2,
    codes,
    compiling,
    drafting,
    mode_of,
    outcome,
    refused,
)

from cgplan import AttentionCGSupport, CUDAGraphMode, Deployment, Overrides, Runner, StartupError, resolve
from cgplan.resolve import downgrade
from cgplan.resolve.downgrade import DowngradeInput
from cgplan.trace import Trace

ERROR = "error"
LEVELS = ["ALWAYS", "UNIFORM_BATCH", "UNIFORM_SINGLE_TOKEN_DECODE", "NEVER"]
SAME = ["NONE"] * 4
PIECEWISE = ["PIECEWISE"] * 4


def final(mode: str, level: str, **more: Any) -> str:
    """The final mode, or "error", or what is wrong with the error."""
    facts: dict[str, Any] = {
        "query_len": 1,
        "attention_split": True,
        "compiled": True,
        "inductor_partition": False,
        "runner": Runner.V2,
    }
    given = DowngradeInput(support=AttentionCGSupport[level], backend="TestBackend", **{**facts, **more})
    try:
        return str(downgrade.resolve_mode(CUDAGraphMode(mode), given, Trace()))
    except StartupError as error:
        as_expected = (error.stage, error.raised_as) == ("resolve_cudagraph_mode_and_sizes", "ValueError")
        return ERROR if as_expected and "TestBackend" in error.message else repr(error)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("NONE", SAME),
        ("PIECEWISE", PIECEWISE),
        ("FULL", ["FULL", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE", ERROR]),
        ("FULL_DECODE_ONLY", [*["FULL_DECODE_ONLY"] * 3, "PIECEWISE"]),
        ("FULL_AND_PIECEWISE", [*["FULL_AND_PIECEWISE"] * 3, "PIECEWISE"]),
    ],
    ids=["A19 none", "A19 piecewise", "A10-A13", "A14-A15", "A14-A16"],
)
def test_truth_table_of_one_token_decode(mode: str, expected: list[str]) -> None:
    assert [final(mode, level) for level in LEVELS] == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("NONE", SAME),
        ("PIECEWISE", PIECEWISE),
        ("FULL", ["FULL", "FULL_AND_PIECEWISE", "PIECEWISE", ERROR]),
        ("FULL_DECODE_ONLY", ["FULL_DECODE_ONLY", "FULL_DECODE_ONLY", "PIECEWISE", "PIECEWISE"]),
        ("FULL_AND_PIECEWISE", ["FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE", "PIECEWISE", "PIECEWISE"]),
    ],
)
def test_a20_truth_table_of_speculative_decode(mode: str, expected: list[str]) -> None:
    assert [final(mode, level, query_len=4) for level in LEVELS] == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("NONE", SAME),
        ("PIECEWISE", PIECEWISE),
        ("FULL", ["FULL", "FULL_DECODE_ONLY", "FULL_DECODE_ONLY", ERROR]),
        ("FULL_DECODE_ONLY", [*["FULL_DECODE_ONLY"] * 3, "NONE"]),
        ("FULL_AND_PIECEWISE", [*["FULL_AND_PIECEWISE"] * 3, "NONE"]),
    ],
)
def test_a17_a18_truth_table_without_split_attention(mode: str, expected: list[str]) -> None:
    assert [final(mode, level, attention_split=False) for level in LEVELS] == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("FULL", ["FULL", "FULL_DECODE_ONLY", "NONE", ERROR]),
        ("FULL_DECODE_ONLY", ["FULL_DECODE_ONLY", "FULL_DECODE_ONLY", "NONE", "NONE"]),
        ("FULL_AND_PIECEWISE", ["FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE", "NONE", "NONE"]),
    ],
)
def test_speculative_decode_without_split_attention(mode: str, expected: list[str]) -> None:
    assert [final(mode, level, attention_split=False, query_len=4) for level in LEVELS] == expected


@pytest.mark.parametrize(
    ("compiled", "split", "partition", "expected"),
    [
        (True, True, False, "PIECEWISE"),
        (True, False, True, "PIECEWISE"),
        (True, True, True, "PIECEWISE"),
        (True, False, False, "NONE"),
        (False, True, False, "NONE"),
        (False, False, True, "NONE"),
        (False, True, True, "NONE"),
    ],
)
def test_a18_what_never_leaves(compiled: bool, split: bool, partition: bool, expected: str) -> None:
    for mode in ("FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"):
        found = final(mode, "NEVER", compiled=compiled, attention_split=split, inductor_partition=partition)
        assert found == expected


def test_speculative_decode_looks_at_the_split_alone() -> None:
    """Step 6.3 asks neither for compilation nor for partition, unlike the step for NEVER."""
    single = "UNIFORM_SINGLE_TOKEN_DECODE"
    assert final("FULL_DECODE_ONLY", single, query_len=2, compiled=False) == "PIECEWISE"
    partition = {"attention_split": False, "inductor_partition": True}
    assert final("FULL_DECODE_ONLY", single, query_len=2, **partition) == "NONE"


@pytest.mark.parametrize(
    ("mode", "level", "expected"),
    [
        ("FULL_AND_PIECEWISE", "ALWAYS", "FULL_DECODE_ONLY"),
        ("PIECEWISE", "ALWAYS", "NONE"),
        ("FULL", "ALWAYS", "FULL"),
        ("FULL", "UNIFORM_BATCH", "FULL_DECODE_ONLY"),
        ("FULL_DECODE_ONLY", "ALWAYS", "FULL_DECODE_ONLY"),
        ("FULL_AND_PIECEWISE", "NEVER", "NONE"),
        ("NONE", "ALWAYS", "NONE"),
    ],
)
def test_a21_v2_drops_piecewise_where_nothing_can_be_cut(mode: str, level: str, expected: str) -> None:
    assert final(mode, level, piecewise_available=False) == expected


def test_a21_v1_never_asks() -> None:
    overrides = Overrides(support=AttentionCGSupport.ALWAYS, piecewise_available=False)
    deployment = Deployment(env=V1)
    assert resolve(deployment, overrides).cudagraph_mode is CUDAGraphMode.FULL_AND_PIECEWISE
    assert resolve(Deployment(env=V2), overrides).cudagraph_mode is CUDAGraphMode.FULL_DECODE_ONLY


def test_a7_levels_are_ordered() -> None:
    assert [AttentionCGSupport[level].value for level in LEVELS] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("level", "query_len", "mixed", "decode"),
    [
        ("ALWAYS", 1, True, True),
        ("ALWAYS", 4, True, True),
        ("UNIFORM_BATCH", 1, False, True),
        ("UNIFORM_BATCH", 4, False, True),
        ("UNIFORM_SINGLE_TOKEN_DECODE", 1, False, True),
        ("UNIFORM_SINGLE_TOKEN_DECODE", 4, False, False),
    ],
)
def test_a8_what_a_level_allows(level: str, query_len: int, mixed: bool, decode: bool) -> None:
    mode = CUDAGraphMode(final("FULL", level, query_len=query_len))
    assert (mode.mixed_mode is CUDAGraphMode.FULL, mode.decode_mode is CUDAGraphMode.FULL) == (mixed, decode)


@pytest.mark.parametrize(
    ("mode", "level", "code", "after"),
    [
        ("FULL", "UNIFORM_BATCH", "CG330", "FULL_AND_PIECEWISE"),
        ("FULL_AND_PIECEWISE", "NEVER", "CG332", "PIECEWISE"),
    ],
)
def test_the_trace_names_the_backend(mode: str, level: str, code: str, after: str) -> None:
    found = outcome(compilation_config=compiling(cudagraph_mode=mode), attention_support=level)
    decision = next(d for d in found.decisions if d.code == code)
    assert (decision.before, decision.after) == (mode, after)
    assert level in decision.why


def test_two_steps_in_a_row_are_both_traced() -> None:
    found = outcome(
        compilation_config=compiling(cudagraph_mode="FULL"),
        speculative_config=drafting(tokens=3),
        attention_support="UNIFORM_SINGLE_TOKEN_DECODE",
    )
    assert [d.code for d in found.decisions if d.code in ("CG330", "CG333")] == ["CG330", "CG333"]
    assert found.cudagraph_mode is CUDAGraphMode.PIECEWISE


def test_a13_full_on_never_names_the_backend_and_the_way_out() -> None:
    error = refused(compilation_config=compiling(cudagraph_mode="FULL"), attention_support="NEVER")
    assert error.code == "CG331"
    assert "PIECEWISE" in str(error.fix)
    assert error.settings is not None
    assert error.settings["cudagraph_mode"] == "FULL"


def test_a9_the_weakest_group_of_a_hybrid_model_counts() -> None:
    found = resolve(Deployment(model=JAMBA, gpu=H100))
    supports = [group.support for group in found.backend.groups]
    assert found.support is min(supports)
    assert len(supports) > 1


@pytest.mark.parametrize(
    ("sizes", "query_len", "expected"),
    [
        ([1, 2, 4, 8, 16], 2, [2, 4, 8, 16]),
        ([1, 2, 4, 8, 16], 3, [3, 6, 9]),
        ([1, 2, 4], 4, [4]),
        ([1, 2, 3], 3, [3]),
        ([4, 8], 4, [4, 8]),
        ([1, 2, 4], 1, [1, 2, 4]),
    ],
)
def test_v1_rounds_sizes_to_whole_requests(sizes: list[int], query_len: int, expected: list[int]) -> None:
    assert rounded(sizes, query_len) == expected
    assert rounded(expected, query_len) == expected


def rounded(sizes: list[int], query_len: int, mode: str = "FULL_AND_PIECEWISE", env: dict[str, str] = V1) -> list[int]:
    """The sizes that are captured of `sizes`, with decode batches of `query_len` tokens a request."""
    found = outcome(
        env=env,
        cudagraph_capture_sizes=sizes,
        speculative_config=drafting(tokens=query_len - 1) if query_len > 1 else None,
        compilation_config=compiling(cudagraph_mode=mode),
    )
    return list(found.capture_sizes)


@pytest.mark.parametrize(
    ("mode", "rounds"), [("PIECEWISE", False), ("FULL", True), ("FULL_DECODE_ONLY", True), ("FULL_AND_PIECEWISE", True)]
)
def test_b17_rounding_needs_full_decode_graphs_and_v1(mode: str, rounds: bool) -> None:
    assert rounded([1, 2, 4], 4, mode) == ([4] if rounds else [1, 2, 4])
    assert rounded([1, 2, 4], 4, mode, V2) == [1, 2, 4]


def test_rounding_must_leave_a_size() -> None:
    error = refused(env=V1, speculative_config=drafting(tokens=2), cudagraph_capture_sizes=[1, 2])
    assert (error.code, error.stage, error.raised_as) == ("CG402", "resolve_cudagraph_mode_and_sizes", "ValueError")
    kept = outcome(env=V2, speculative_config=drafting(tokens=2), cudagraph_capture_sizes=[1, 2])
    assert kept.capture_sizes == (1, 2)
    assert rounded([2, 3], 3) == [3]


def test_rounding_lowers_the_maximum_and_reaches_piecewise_graphs() -> None:
    found = outcome(env=V1, speculative_config=drafting(tokens=2), max_num_seqs=16)
    assert found.max_capture_size == found.capture_sizes[-1] == 96
    assert {size % 3 for size in found.capture_sizes} == {0}
    assert {graph.num_tokens % 3 for graph in found.captures[CUDAGraphMode.PIECEWISE]} == {0}
    assert "CG401" in codes(found)


@pytest.mark.parametrize(
    ("model", "blocks", "mode", "starts"),
    [
        (MAMBA, 63, "FULL_AND_PIECEWISE", False),
        (MAMBA, 64, "FULL_AND_PIECEWISE", True),
        (MAMBA, 0, "FULL_AND_PIECEWISE", False),
        (MAMBA, 63, "FULL_DECODE_ONLY", False),
        (MAMBA, 63, "PIECEWISE", True),
        (MAMBA, 63, "NONE", True),
        (MAMBA, None, "FULL_AND_PIECEWISE", True),
        (JAMBA, 63, "FULL_AND_PIECEWISE", False),
        (SPARSE_MLA, 1, "FULL_AND_PIECEWISE", True),
    ],
)
def test_mamba_blocks(model: Any, blocks: int | None, mode: str, starts: bool) -> None:
    fields = {"model": model, "max_num_seqs": 64, "num_gpu_blocks": blocks}
    options = compiling(cudagraph_mode=mode)
    if starts:
        assert mode_of(compilation_config=options, **fields).value == mode
    else:
        error = refused(compilation_config=options, **fields)
        assert (error.code, error.stage) == ("CG501", "resolve_cudagraph_mode_and_sizes")


def test_too_few_blocks_beside_adapters_name_their_buffers() -> None:
    fields = {"model": JAMBA, "max_num_seqs": 64, "num_gpu_blocks": 63}
    assert "--max-lora-rank" in str(refused(enable_lora=True, **fields).fix)
    assert "lora" not in str(refused(**fields).fix)
    blocks = {**fields, "num_gpu_blocks_override": 63}
    assert "lora" not in str(refused(enable_lora=True, **blocks).fix), "a number that is set has no other price"


def test_mamba_blocks_are_not_checked_while_profiling_or_after_a_downgrade() -> None:
    deployment = Deployment(model=MAMBA, max_num_seqs=64, num_gpu_blocks=8)
    always = AttentionCGSupport.ALWAYS
    assert resolve(deployment, Overrides(support=always, is_profiling=True)).cudagraph_mode.has_full
    assert not resolve(deployment, Overrides(support=AttentionCGSupport.NEVER)).cudagraph_mode.has_full
    with pytest.raises(StartupError):
        resolve(deployment, Overrides(support=always))


def test_no_step_of_the_table_reaches_the_last_check() -> None:
    """Step 6.5 finds nothing: no mode with FULL survives the earlier steps on NEVER."""
    for mode in CUDAGraphMode:
        for split in (True, False):
            found = final(mode.value, "NEVER", attention_split=split)
            assert found == ERROR or not CUDAGraphMode(found).has_full
