"""compile_sizes and compile ranges."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import B200, B300, GIB, H100, L4, V1, V2, compiling, outcome, refused

from cgplan import Gpu, ModelShape

WORD = "cudagraph_capture_sizes"


def sizes(fields: dict[str, Any], **more: Any) -> list[int]:
    found: list[int] = outcome(max_num_seqs=4, compilation_config=compiling(**fields), **more).config["compile_sizes"]
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, []),
        ([], []),
        ([8, 2], [2, 8]),
        ([2, 2], [2]),
        ([WORD], [1, 2, 4, 8]),
        ([WORD, WORD], [1, 2, 4, 8]),
        ([2, WORD, 3000], [1, 2, 2, 4, 8, 3000]),
    ],
)
def test_compile_sizes(asked: list[int | str] | None, expected: list[int]) -> None:
    """Duplicates are dropped among the entries as given, not after the word is spelled out."""
    assert sorted(sizes({"compile_sizes": asked})) == expected


@pytest.mark.parametrize("word", ["capture_sizes", "8", ""])
def test_other_words_mean_nothing(word: str) -> None:
    error = refused(compilation_config=compiling(compile_sizes=[word]))
    assert (error.code, error.raised_in) == ("CG126", "VllmConfig")


def test_the_word_without_graphs_is_nothing() -> None:
    assert sizes({"compile_sizes": [WORD], "cudagraph_mode": "NONE"}) == []


@pytest.mark.parametrize(
    ("size", "starts"), [(3, False), (8, True), (9, True), (5000, True), (7, False), (0, True), (-1, False)]
)
def test_v1_compile_sizes_must_be_captured(size: int, starts: bool) -> None:
    """A negative size indexes V1's padding table from its end, and is refused for it."""
    fields = {"max_num_seqs": 4, "compilation_config": compiling(compile_sizes=[size])}
    if starts:
        assert outcome(env=V1, **fields).config["compile_sizes"] == [size]
    else:
        error = refused(env=V1, **fields)
        assert (error.code, error.stage, error.raised_as) == ("CG133", "v1_initialize_cudagraph_keys", "ValueError")
    assert outcome(env=V2, **fields).config["compile_sizes"] == [size]


def test_v1_compile_sizes_are_checked_against_the_rounded_sizes() -> None:
    fields = {
        "max_num_seqs": 4,
        "compilation_config": compiling(compile_sizes=[8]),
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 2},
    }
    assert refused(env=V1, **fields).code == "CG133"


def test_v1_compile_sizes_without_graphs_are_free() -> None:
    options = compiling(compile_sizes=[3], cudagraph_mode="NONE")
    assert outcome(env=V1, compilation_config=options).config["compile_sizes"] == [3]


def ranges(**fields: Any) -> list[int]:
    found: list[int] = outcome(**fields).config["compile_ranges_endpoints"]
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [8192]),
        ([1, 100, 256], [100, 256, 8192]),
        ([8192, 9000], [8192]),
        ([8191], [8191, 8192]),
        ([256, 100], [100, 256, 8192]),
        ([100, 100], [100, 100, 8192]),
    ],
)
def test_range_ends(asked: list[int] | None, expected: list[int]) -> None:
    assert ranges(compilation_config=compiling(compile_ranges_endpoints=asked)) == expected


@pytest.mark.parametrize("end", [0, -5])
def test_range_ends_are_positive(end: int) -> None:
    assert refused(compilation_config=compiling(compile_ranges_endpoints=[end])).code == "CG127"


def mib(size: float, hidden: int = 4096, bytes_each: int = 2) -> int:
    return int(size * (1 << 20)) // (hidden * bytes_each)


@pytest.mark.parametrize(
    ("gpu", "tp", "limit"),
    [
        (H100, 2, 64),
        (H100, 4, 2),
        (H100, 8, 0.5),
        (B200, 2, 64),
        (B200, 4, 32),
        (B200, 8, 1),
        (B300, 4, 64),
        (B300, 8, 4),
        (L4, 2, None),
        (H100, 1, None),
    ],
)
def test_all_reduce_fusion_ends_a_range(gpu: Gpu, tp: int, limit: float | None) -> None:
    found = ranges(gpu=gpu, tensor_parallel_size=tp, max_num_batched_tokens=16384)
    assert found == ([16384] if limit is None else sorted({mib(limit), 16384}))


def test_a_limit_above_the_budget_is_left_out() -> None:
    assert ranges(tensor_parallel_size=2, max_num_batched_tokens=8192) == [8192]
    assert ranges(tensor_parallel_size=2, max_num_batched_tokens=8193) == [8192, 8193]


def test_the_limit_follows_the_hidden_size_and_the_dtype() -> None:
    model = ModelShape(hidden_size=8192)
    assert ranges(model=model, tensor_parallel_size=4)[0] == mib(2, 8192)
    assert ranges(model=model, tensor_parallel_size=4, dtype="float32")[0] == mib(2, 8192, 4)


def test_the_limit_of_the_user_counts() -> None:
    options = compiling(pass_config={"fi_allreduce_fusion_max_size_mb": 1.0})
    assert ranges(tensor_parallel_size=4, compilation_config=options)[0] == mib(1)


def test_a_world_without_the_fusion_has_no_limit() -> None:
    options = compiling(pass_config={"fuse_allreduce_rms": True})
    assert ranges(tensor_parallel_size=1, compilation_config=options) == [8192]
    assert ranges(gpu=L4, tensor_parallel_size=2, compilation_config=options) == [2048]
    assert ranges(gpu=Gpu(memory_bytes=80 * GIB), enforce_eager=True) == [8192]
