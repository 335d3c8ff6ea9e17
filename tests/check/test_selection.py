"""Which codes are wanted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.check.selection import Selection, known_codes, read_codes
from cgplan.errors import InputError


@pytest.mark.parametrize(
    ("select", "ignore", "code", "wanted"),
    [
        (("CG",), (), "CG905", True),
        (("CG9",), (), "CG905", True),
        (("CG9",), (), "CG212", False),
        (("CG",), ("CG9",), "CG905", False),
        (("CG",), ("CG9",), "CG212", True),
        (("CG905",), ("CG9",), "CG905", True),
        (("CG9",), ("CG905",), "CG905", False),
        (("CG9",), ("CG905",), "CG906", True),
        (("CG905",), ("CG905",), "CG905", False),
    ],
)
def test_the_longest_beginning_decides(
    select: tuple[str, ...], ignore: tuple[str, ...], code: str, wanted: bool
) -> None:
    assert Selection(select, ignore).takes(code) is wanted


def test_all_is_wanted_by_default() -> None:
    assert all(Selection().takes(code) for code in known_codes())


@pytest.mark.parametrize(
    ("texts", "codes"),
    [
        (["CG905"], ("CG905",)),
        (["cg9,CG905", "CG2 CG212"], ("CG9", "CG905", "CG2", "CG212")),
        (["CG9", "CG9,"], ("CG9",)),
        (["all"], ("CG",)),
        ([], ()),
    ],
)
def test_codes_are_read(texts: list[str], codes: tuple[str, ...]) -> None:
    assert read_codes(texts, "--select") == codes


@pytest.mark.parametrize(
    ("text", "fix"), [("CG9055", "did you mean"), ("X", "cgplan explain"), ("CG000", "did you mean"), ("-1", "all")]
)
def test_what_is_no_code_is_said(text: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        read_codes([text], "--ignore")
    assert (caught.value.code, caught.value.where) == ("CG908", "--ignore")
    assert text in caught.value.message
    assert fix in (caught.value.fix or "")


BEGINNINGS = st.lists(st.sampled_from(["CG", "CG9", "CG2", "CG90", "CG905", "CG212"]), max_size=3)


@given(BEGINNINGS, BEGINNINGS, st.sampled_from(["CG905", "CG906", "CG212"]))
def test_one_more_ignored_never_adds(select: list[str], ignore: list[str], code: str) -> None:
    before = Selection(tuple(select), tuple(ignore[:-1])).takes(code)
    after = Selection(tuple(select), tuple(ignore)).takes(code)
    assert before or not after
