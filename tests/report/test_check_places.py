"""Lines and columns as others count them."""

from __future__ import annotations

from check_helpers import Source, at
from hypothesis import given
from hypothesis import strategies as st

from cgplan.report.check_places import line_text, region, region_of


def test_characters_and_utf16() -> None:
    place = at(Source("f", "x\né𝄞y z"), "y")
    assert region_of(place) == (2, 3, 2, 4)
    assert region_of(place, utf16=True) == (2, 4, 2, 5)


def test_a_byte_order_mark_is_no_column() -> None:
    source = Source("f", "\ufeffab\nab")
    assert region(source, 1, 3) == (1, 1, 1, 3)
    assert region(source, 4, 6) == (2, 1, 2, 3)
    assert line_text(source, 1) == "ab"


def test_several_lines() -> None:
    assert region(Source("f", "ab\ncd\n"), 1, 5) == (1, 2, 2, 3)


@given(st.text(st.sampled_from("a\né𝄞\r"), max_size=60), st.data())
def test_the_place_leads_back_to_the_offset(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    found = region(Source("f", text), offset, offset)
    lines = text.split("\n")
    assert sum(len(line) + 1 for line in lines[: found.line - 1]) + found.column - 1 == offset
    assert (found.end_line, found.end_column) == found[:2]
