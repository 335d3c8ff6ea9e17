"""Values that are more than a word."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan.cli import values
from cgplan.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8192", 8192),
        ("1k", 1000),
        ("1K", 1024),
        ("25.6k", 25600),
        ("2m", 2_000_000),
        ("2M", 2 * 2**20),
        ("1g", 10**9),
        (" 8k ", 8000),
        ("+8192", 8192),
        ("1_000", 1000),
        ("1.2345k", 1234),
        ("-1", -1),
    ],
)
def test_human_numbers_are_read_as_vllm_reads_them(text: str, expected: int) -> None:
    assert values.human(text, "--max-model-len") == expected


@pytest.mark.parametrize(
    "text", ["25.6K", "1.5M", "1kb", "1e3", "8192.0", "None", "", "0x10", ".5k", "9" * 40, "²", "٣", "٣k"]
)
def test_human_numbers_that_vllm_refuses(text: str) -> None:
    with pytest.raises(InputError) as caught:
        values.human(text, "--max-model-len")
    assert caught.value.where == "--max-model-len"
    assert caught.value.fix


@pytest.mark.parametrize("text", ["1,2,4", "1 2 4", "[1, 2, 4]", "1, 2,4"])
def test_lists(text: str) -> None:
    assert values.numbers(text, "--batch") == (1, 2, 4)


@pytest.mark.parametrize("text", ["", "[]", "1,x", "1;2", "1,,2", "1,", ",1", "٣"])
def test_bad_lists(text: str) -> None:
    with pytest.raises(InputError):
        values.numbers(text, "--batch")


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("3", 3), ("O2", 2)])
def test_levels(text: str, expected: int) -> None:
    assert values.level(text) == expected


@pytest.mark.parametrize("text", ["4", "-1", "decode", "O", ""])
def test_bad_levels(text: str) -> None:
    with pytest.raises(InputError, match="optimisation level"):
        values.level(text)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (['{"a": 1}', '{"b": 2}'], {"a": 1, "b": 2}),
        (['{"a": {"x": 1}}', '{"a": {"y": 2}}'], {"a": {"x": 1, "y": 2}}),
        (['{"a": 1}', '{"a": 1}'], {"a": 1}),
        (['{"a": null}', '{"a": 2}'], {"a": 2}),
        (['{"a": ["n"]}', '{"a+": ["m"]}'], {"a": ["n", "m"]}),
        (['{"a+": [1]}', '{"a+": [2]}'], {"a": [1, 2]}),
        ([], {}),
    ],
)
def test_documents_are_merged(documents: list[str], expected: dict[str, Any]) -> None:
    assert values.merged(documents, "-cc") == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "3", "[" * 100_000, '{"a":' * 50_000, "nul", '{"a": ' + "9" * 9999 + "}"]
)
def test_broken_json_is_one_clear_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        values.merged([text], "--compilation-config")
    assert caught.value.code == "CG906"
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250


def test_pairs() -> None:
    assert values.pairs(["A=1", "B=x=y", "A=1"], "--env") == {"A": "1", "B": "x=y"}
    for text in ("A", "=1", ""):
        with pytest.raises(InputError, match="NAME=VALUE"):
            values.pairs([text], "--env")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (['{"a": 1}', '{"a": 2}'], "-cc.a is given twice: 1 and 2"),
        (['{"a": 1, "a": 2}'], "-cc.a is given twice: 1 and 2"),
        (['{"p": {"a": true}}', '{"p": {"a": 1}}'], "-cc.p.a is given twice: True and 1"),
        (['{"p": 1}', '{"p": {"a": 1}}'], "-cc.p is given twice: 1 and {'a': 1}"),
    ],
)
def test_two_values_of_a_key_are_refused(documents: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        values.merged(documents, "-cc")
    assert (caught.value.code, caught.value.message) == ("CG907", message)


def test_two_values_of_a_name_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        values.pairs(["A=1", "A=2"], "--env")
    assert (caught.value.code, caught.value.message) == ("CG907", "--env A is given twice: 1 and 2")


def test_batches_add_up() -> None:
    assert values.batches(["100,1,5,7", "9 100"]) == (100, 1, 5, 7, 9)


def test_python_does_not_speak() -> None:
    with pytest.raises(InputError) as caught:
        values.merged(['{"a": ' + "9" * 9999 + "}"], "-cc")
    assert "sys." not in caught.value.message
    assert "too many digits" in caught.value.message
