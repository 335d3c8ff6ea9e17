"""Findings about decode batches that no graph covers, or not the one that was hoped for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from resolve_helpers import V1, V2, compiling, drafting, outcome

from cgplan import CompilationOptions
from cgplan.trace import RULES


def finding(code: str, **fields: Any) -> Any:
    """The only finding of `code`, or None."""
    found = [item for item in outcome(**fields).findings if item.code == code]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(("release", "noted"), [("0.30.0", True), ("0.31.0", False)])
def test_decode_batches_that_lose_full_are_named(release: str, noted: bool) -> None:
    """100 requests pad to 104, which no FULL decode graph holds until the size 100 is appended (0.31.0)."""
    found = finding("CG705", vllm=release, env=V2, max_num_seqs=100)
    assert (found is not None) is noted
    if found is not None:
        assert "97 to 100" in found.message
        assert found.fix.startswith(
            "set --max-num-seqs 96 or 104, or name the sizes, with 100 among them; from 0.31.0 on"
        )
        sizes = [*range(8, 97, 8), 100]
        assert finding("CG705", vllm=release, env=V2, max_num_seqs=100, cudagraph_capture_sizes=sizes) is None


def test_the_offered_numbers_keep_full() -> None:
    for seqs in (96, 104):
        assert finding("CG705", vllm="0.30.0", env=V2, max_num_seqs=seqs) is None


def test_a_gap_in_named_sizes_is_noted() -> None:
    found = finding("CG706", env=V1, max_num_seqs=64, cudagraph_capture_sizes=[1, 2, 4, 4096])
    assert "5 decode requests run as 4096 tokens" in found.message
    assert finding("CG706", env=V1, max_num_seqs=64, cudagraph_capture_sizes=[1, 2, 4, 8, 16]) is None
    assert finding("CG706", max_num_seqs=64) is None


@pytest.mark.parametrize(
    ("seqs", "tokens", "asked", "env", "fix"),
    [
        (24, 1, 8, V2, "set --max-cudagraph-capture-size 24"),
        (6, 7, 42, V2, "set --max-cudagraph-capture-size 48"),
        (12, 4, 8, V1, "set --max-cudagraph-capture-size 48"),
    ],
)
def test_the_smallest_maximum_is_offered(seqs: int, tokens: int, asked: int, env: dict[str, str], fix: str) -> None:
    options = drafting("ngram", tokens - 1) if tokens > 1 else None
    fields = {"max_num_seqs": seqs, "speculative_config": options, "env": env}
    codes = ("CG440", "CG704") if tokens > 1 else ("CG701",)
    told = [one for code in codes if (one := finding(code, max_cudagraph_capture_size=asked, **fields)) is not None]
    assert [one.fix.startswith(fix) for one in told] == [True]
    largest = int(fix.split()[-1])
    assert all(finding(code, max_cudagraph_capture_size=largest, **fields) is None for code in codes)


def test_a_cut_maximum_and_dropped_sizes_are_noted() -> None:
    message = finding("CG116", max_num_seqs=64, max_cudagraph_capture_size=42).message
    assert message == "the largest capture size is 40, not 42; batches above 40 tokens run without a graph"
    found = finding("CG115", max_num_batched_tokens=4096, cudagraph_capture_sizes=[8, 8192])
    assert "the largest left is 8" in found.message


def test_full_decode_only_has_no_piecewise_to_fall_back_to() -> None:
    options = compiling(cudagraph_mode="FULL_DECODE_ONLY")
    assert finding("CG705", vllm="0.30.0", env=V2, max_num_seqs=100, compilation_config=options) is None
    assert finding("CG701", vllm="0.30.0", env=V2, max_num_seqs=100, compilation_config=options) is not None


def _cut() -> Iterator[dict[str, Any]]:
    """Maxima off the grid: small and large ones, with drafts, with sequence parallelism, beside a small budget."""
    for asked in (3, 42, 100, 250, 300, 1000):
        yield {"max_cudagraph_capture_size": asked, "max_num_seqs": 64}
        yield {"max_cudagraph_capture_size": asked, "max_num_seqs": 64, "max_num_batched_tokens": 512}
        yield {"max_cudagraph_capture_size": asked, "max_num_seqs": 6, "speculative_config": drafting("ngram", 6)}
        parallel = {"compilation_config": sequence_parallel(), "tensor_parallel_size": 8, "vllm": "0.30.0"}
        yield {"max_cudagraph_capture_size": asked, "max_num_seqs": 64, **parallel}


def sequence_parallel() -> CompilationOptions:
    options = {"enable_sp": True, "sp_min_token_num": 1}
    return CompilationOptions.model_validate({"pass_config": options, "use_inductor_graph_partition": True})


@pytest.mark.parametrize("fields", list(_cut()))
def test_the_maxima_that_are_named_are_captured(fields: dict[str, Any]) -> None:
    found = finding("CG116", **fields)
    assert found is not None
    counted = finding("CG440", **fields)
    if counted is not None:
        assert found.fix == counted.fix, "one value"
        return
    said = re.match(r"set it to ([0-9]+)(?: or ([0-9]+))?, or leave it out", found.fix)
    assert said is not None
    for largest in [int(size) for size in said.groups() if size]:
        assert finding("CG116", **{**fields, "max_cudagraph_capture_size": largest}) is None
        assert outcome(**{**fields, "max_cudagraph_capture_size": largest}).max_capture_size == largest


def test_a_cut_maximum_of_drafts_names_the_size_that_works_and_the_list() -> None:
    """42 tokens of 6 requests end at 40 (6 draft tokens each)."""
    fields = {"max_num_seqs": 6, "speculative_config": drafting("ngram", 6), "env": V2}
    fix = finding("CG116", max_cudagraph_capture_size=42, **fields).fix
    assert fix == "set it to 48 or 40, or leave it out, or name multiples of 7 with --cudagraph-capture-sizes"
    for way in ({"max_cudagraph_capture_size": 48}, {}, {"cudagraph_capture_sizes": [7, 14, 21, 28, 35, 42]}):
        assert outcome(**way, **fields).uniform_decode_coverage().first_cliff is None


def test_the_example_of_the_cliff_is_one() -> None:
    """What explain says of CG704 holds where it is tried: 42 has the fault, 48 mends it."""
    rule = RULES["CG704"]
    assert "need 48, as 42 ends at 40" in rule.instead
    fields = {"max_num_seqs": 6, "speculative_config": drafting("ngram", 6)}
    for env in (V1, V2):
        assert finding("CG704", max_cudagraph_capture_size=42, env=env, **fields) is not None
        assert finding("CG704", max_cudagraph_capture_size=48, env=env, **fields) is None
    options = {"max_num_seqs": 256, "speculative_config": drafting("ngram", 3)}
    assert "above 128 requests" in finding("CG704", **options).message


@pytest.mark.parametrize("drafts", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("seqs", [3, 6, 50, 100, 130])
@pytest.mark.parametrize(("env", "parallel"), [(V1, False), (V2, False), (V1, True)])
def test_every_offered_maximum_covers_the_fullest_batch(
    drafts: int, seqs: int, env: dict[str, str], parallel: bool
) -> None:
    fields: dict[str, Any] = {"max_num_seqs": seqs, "speculative_config": drafting("ngram", drafts), "env": env}
    if parallel:
        if 8 % (drafts + 1):
            return  # CG645 refuses it on runner V1
        fields |= {"compilation_config": sequence_parallel(), "tensor_parallel_size": 8, "vllm": "0.30.0"}
    for asked in (8, seqs, seqs * (drafts + 1) - 1):
        kinds = [finding(code, max_cudagraph_capture_size=max(asked, 8), **fields) for code in ("CG440", "CG704")]
        found = next((one for one in kinds if one is not None), None)
        assert None in kinds, "told once"
        named = re.search(r"--max-cudagraph-capture-size ([0-9]+)", found.fix) if found is not None else None
        if named is not None:
            after = outcome(max_cudagraph_capture_size=int(named[1]), **fields)
            assert after.uniform_decode_coverage().first_cliff is None, (asked, found.fix)


def test_named_sizes_of_drafts_that_were_meant_as_requests_have_one_value() -> None:
    """6 requests of 4 tokens need 24: CG440 says so in the place of CG704, and CG116 names no size as small as 8."""
    fields = {"max_num_seqs": 6, "speculative_config": drafting("ngram", 3)}
    told = finding("CG440", max_cudagraph_capture_size=6, **fields)
    assert told.message == (
        "max_cudagraph_capture_size 6 counts tokens, not requests: 6 requests of 4 tokens need 24; "
        "decode batches above 1 request run without a graph"
    )
    assert told.fix.startswith("set --max-cudagraph-capture-size 24")
    assert finding("CG116", max_cudagraph_capture_size=6, **fields).fix == told.fix
    assert finding("CG704", max_cudagraph_capture_size=6, **fields) is None
    assert "need 24" in finding("CG440", cudagraph_capture_sizes=[1, 2, 4], **fields).message


@pytest.mark.parametrize(
    "fields",
    [
        {"max_cudagraph_capture_size": 24, "max_num_seqs": 6, "speculative_config": drafting("ngram", 3)},
        {"max_num_seqs": 256, "speculative_config": drafting("ngram", 3)},
        {"max_num_seqs": 24, "max_cudagraph_capture_size": 8},
    ],
)
def test_sizes_that_hold_the_tokens_or_are_not_named_are_not_called_requests(fields: dict[str, Any]) -> None:
    assert finding("CG440", **fields) is None
