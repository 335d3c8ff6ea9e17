"""Charts: SVG that stands in HTML, in the page's colours, with what each part is."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

from cgplan.errors import InputError
from cgplan.report.html import charts
from cgplan.report.html.blocks import COLOURS, Chart, Curves, Grouped, Piece, Point, Stacked

pytest.importorskip("pygal", reason="the charts need the extra `report`")

WIDTHS = (charts.WIDE, charts.NARROW)
LONG, SHORT = Piece("cache", 90.0, "KV cache", "KV cache 90 GiB"), Piece("graphs", 1.0, "CUDA graphs", "graphs 1 GiB")
STACKED = Stacked((("all", (LONG, SHORT)), ("none", (SHORT,))), ((0, "0"), (50, "50"), (91, "91")))
GROUPED = Grouped(("1", "8"), (("eager", ((7.5, "1: 7.5"), (8.0, "8: 8.0"))), ("full", ((1.5, "1: 1.5"), None))), "ms")
CURVES = Curves(
    (("best", tuple(Point(x, 100 / x, f"{x} sizes") for x in range(1, 60))),), "sizes", "%",
    marked=(("current", Point(51, 3.0, "today")),),
)  # fmt: skip
CHARTS: dict[str, Chart] = {"stacked": STACKED, "grouped": GROUPED, "curves": CURVES}


def parsed(chart: Chart, width: int) -> ElementTree.Element:
    return ElementTree.fromstring(charts.svg(chart, "Name & <more>", "A summary.", width))


def titles(tree: ElementTree.Element) -> list[str]:
    return [found.text or "" for found in tree.iter("title")]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHARTS)
def test_it_is_a_picture_with_a_name(name: str, width: int) -> None:
    tree = parsed(CHARTS[name], width)
    assert (tree.tag, tree.get("role"), tree.get("aria-label")) == ("svg", "img", "Name & <more>. A summary.")
    assert (tree.get("viewBox") or "").split()[2] == str(width)
    text = charts.svg(CHARTS[name], "n", "s", width)
    for word in ("<script", "<style", "<!--", "<desc", "http", "#F44336", "rgb"):
        assert word not in text, word


def test_every_piece_says_what_it_is() -> None:
    assert sorted(titles(parsed(STACKED, charts.WIDE))) == ["KV cache 90 GiB", "graphs 1 GiB", "graphs 1 GiB"]
    assert sorted(titles(parsed(GROUPED, charts.WIDE))) == ["1: 1.5", "1: 7.5", "8: 8.0"]
    assert len(titles(parsed(CURVES, charts.WIDE))) == 60


def test_a_name_stands_only_where_it_fits() -> None:
    inside = [found.text for found in parsed(STACKED, charts.WIDE).iter("text") if found.get("class") == "inside"]
    assert inside == ["KV cache"]
    assert "KV cache" in charts.svg(STACKED, "n", "s", charts.NARROW)


def test_lengths_are_in_proportion() -> None:
    tree = parsed(STACKED, charts.WIDE)
    lengths = {
        group.findtext("title"): float(rect.get("width", "0"))
        for group in tree.iter("g")
        if (rect := group.find("rect")) is not None and group.find("title") is not None
    }
    assert lengths["KV cache 90 GiB"] / lengths["graphs 1 GiB"] == pytest.approx(90, rel=0.02)


def test_colours_are_those_of_the_page() -> None:
    styles = [found.get("style") for found in parsed(CURVES, charts.WIDE).iter("g") if found.get("style")]
    assert {"color:var(--best)", "color:var(--current)"} == set(styles)
    from cgplan.report.html.page import _style

    light, _, dark = _style().partition("prefers-color-scheme: dark")
    for colour in COLOURS:
        assert f"--{colour}:" in light
        assert f"--{colour}:" in dark


@pytest.mark.parametrize(
    "chart",
    [
        Stacked((("", (Piece("full", 0.0, "a", "a"),)),), ((0, "0"),)),
        Stacked((("", ()),), ()),
        Grouped(("1",), (("full", ((0.0, "0"),)),), "ms"),
        Grouped(("1",), (("full", (None,)),), "ms"),
        Curves((("best", (Point(1, 0.0, "a"),)),), "x", "y"),
        Curves((("best", (Point(1e9, 1e12, "a"), Point(2e9, 1e-9, "b"))),), "x", "y"),
    ],
)
def test_the_smallest_charts_are_drawn(chart: Chart) -> None:
    for width in WIDTHS:
        text = charts.svg(chart, "n", "s", width)
        ElementTree.fromstring(text)
        assert "nan" not in text.casefold()


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    with pytest.raises(InputError) as found:
        charts.check_library()
    assert found.value.code == "CG730"
    assert "pip install 'cgplan[report]'" in (found.value.fix or "")
