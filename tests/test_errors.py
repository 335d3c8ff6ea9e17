"""Errors: one line what, one where, one fix, and the nearest known names."""

from __future__ import annotations

import pytest

from cgplan import CgplanError, InputError, StartupError
from cgplan.errors import clearly_nearest, did_you_mean, nearest, shorten

MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]


def test_an_error_is_lines_never_paragraphs() -> None:
    error = CgplanError("two\nlines  and\tspaces", where="a\nb", fix="c\n\nd")
    assert (error.message, error.where, error.fix) == ("two lines and spaces", "a b", "c d")
    assert str(error) == "two lines and spaces"
    assert error.as_dict() == {"code": "CG900", "message": "two lines and spaces", "where": "a b", "fix": "c d"}


def test_what_is_missing_is_none() -> None:
    error = InputError("text", code="CG901")
    assert (error.where, error.fix, error.code) == (None, None, "CG901")


def test_a_startup_error_says_where_vllm_stops() -> None:
    error = StartupError("text", code="CG120", stage="load_model", raised_as="AssertionError", raised_in="Voxtral")
    assert error.as_dict()["stage"] == "load_model"
    assert (error.raised_as, error.raised_in, error.settings) == ("AssertionError", "Voxtral", None)
    assert isinstance(error, CgplanError)
    assert not isinstance(error, InputError)


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("full-and-piecewise", "FULL_AND_PIECEWISE"),
        ("FULL AND PIECEWISE", "FULL_AND_PIECEWISE"),
        ("PIECEWIZE", "PIECEWISE"),
        ("full_decode", "FULL_DECODE_ONLY"),
    ],
)
def test_nearest_names(name: str, best: str) -> None:
    assert nearest(name, MODES)[0] == best


@pytest.mark.parametrize("name", ["", "zzzz", "x" * 100_000, "\x00"])
def test_nothing_near_is_nothing(name: str) -> None:
    assert nearest(name, MODES) == []
    assert did_you_mean(name, MODES) is None


def test_did_you_mean_names_one_or_several() -> None:
    assert did_you_mean("PIECEWIS", ["PIECEWISE"]) == "did you mean PIECEWISE?"
    assert did_you_mean("full_decode", MODES) == "did you mean one of FULL_DECODE_ONLY, FULL_AND_PIECEWISE?"


@pytest.mark.parametrize("name", ["--foo", "--x", "XXXX"])
def test_dashes_and_common_words_are_no_likeness(name: str) -> None:
    assert nearest(name, ["--fail-on", "--json", "--model", "LlamaForCausalLM"]) == []


def test_a_far_name_is_not_named_beside_a_near_one() -> None:
    assert nearest("FULL_AND_PIECE", MODES) == ["FULL_AND_PIECEWISE"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Give --spec-tokens.", "give --spec-tokens"),
        ("Nothing: it is as wanted.", "nothing: it is as wanted"),
        ("FULL works. Or NONE.", "FULL works. Or NONE"),
        ("use A, B, ...", "use A, B, ..."),
        ("VLLM_X is not read", "VLLM_X is not read"),
    ],
)
def test_a_fix_has_one_style(text: str, shown: str) -> None:
    assert InputError("x", fix=text).fix == shown


def test_shorten_keeps_one_line_short() -> None:
    assert shorten("abc") == "abc"
    assert shorten(12) == "12"
    assert len(shorten("x" * 1000)) == 80
    assert len(shorten(list(range(1000)), 20)) == 20


@pytest.mark.parametrize(
    ("name", "meant"), [("bflot16", "bfloat16"), ("bfloat", None), ("flaot", "float"), ("quite another", None)]
)
def test_the_one_that_is_meant(name: str, meant: str | None) -> None:
    assert clearly_nearest(name, ["auto", "bfloat16", "float", "float16", "float32", "half"]) == meant


def test_names_that_begin_with_it_come_first() -> None:
    assert nearest("bfloat", ["float", "float32", "bfloat16"])[0] == "bfloat16"
