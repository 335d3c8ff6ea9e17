"""Which part of a curve is drawn: marked points can be told apart, and what is left out is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.report.html.blocks import Curves, Point
from cgplan.report.html.framing import frame

HEIGHT = 260
"""Of a picture, pixels."""


def curves(values: list[float], today: float, chosen: float) -> Curves:
    points = tuple(Point(at, value, f"{at}: {value}") for at, value in enumerate(values, 1))
    marked = (("current", Point(51, today, "today")), ("cache", Point(40, chosen, "chosen")))
    return Curves((("best", points),), "sizes", "ms", marked)


TIMES = [8.0, 6.5, 5.9, 5.6, 5.55, 5.5, 5.48, 5.473, 5.472]


def test_points_that_lie_close_are_drawn_apart() -> None:
    found = frame(curves(TIMES, 5.498, 5.473))
    assert (5.498 - 5.473) / (found.high - found.low) * HEIGHT > 40
    assert [point.y for point in found.lines[0]] == [5.55, 5.5, 5.48, 5.473, 5.472]
    assert found.note.startswith("The scale begins at 5.4")
    assert "in the table alone" in found.note


def test_points_that_lie_apart_begin_at_zero() -> None:
    found = frame(curves([40.0, 12.0, 6.0, 3.0], 6.9, 3.0))
    assert (found.low, found.high, found.note) == (0, 40.0, "")
    assert len(found.lines[0]) == 4


def test_one_point_twice_is_no_reason_to_look_closer() -> None:
    assert frame(curves(TIMES, 5.473, 5.473)).low == 0


positive = st.floats(0.001, 1e6)


@given(st.lists(positive, min_size=1, max_size=90), positive, st.floats(0.9, 1.1))
def test_marked_points_are_always_within(values: list[float], today: float, by: float) -> None:
    chart = curves(sorted(values, reverse=True), today, today * by)
    found = frame(chart)
    assert 0 <= found.low < found.high
    for _, point in chart.marked:
        assert found.low <= point.y <= found.high * (1 + 1e-9)
    assert all(found.low <= point.y <= found.high * (1 + 1e-9) for points in found.lines for point in points)
    assert all(found.low - 1e-9 * found.high <= tick <= found.high * (1 + 1e-9) for tick in found.ticks)
    assert 1 <= len(found.ticks) <= 12
    left = len(values) - len(found.lines[0])
    assert ("in the table alone" in found.note) == (left > 0)


def test_the_page_says_what_is_left_out() -> None:
    pytest.importorskip("pygal", reason="the charts need the extra `report`")
    from html_helpers import small

    from cgplan.report.html.blocks import Figure, Section, Table
    from cgplan.report.html.page import html

    figure = Figure("Time", "Today's.", curves(TIMES, 5.498, 5.473), (), Table("Time", ("a",), (("1",),)))
    text = html(small()._replace(sections=(Section("x", "X", (figure,)),)))
    assert text.count("The scale begins at 5.4") == 3, "the caption, and the name of the wide and the narrow picture"
