"""The HTML page: it is well formed, loads nothing, escapes everything, and says the numbers of its Markdown twin."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest
from html_helpers import Parsed, facts, gathered, small

from cgplan.report.html.blocks import (
    MOST_ROWS,
    MOST_TEXT,
    Block,
    Figure,
    Findings,
    Items,
    Line,
    Page,
    Pairs,
    Piece,
    Section,
    Stacked,
    Table,
    table,
)
from cgplan.report.html.document import page
from cgplan.report.html.markdown import markdown
from cgplan.report.html.masking import masked
from cgplan.report.html.page import html
from cgplan.trace import Finding

pytest.importorskip("pygal", reason="the charts need the extra `report`")

HOSTILE = """<script>alert("1")</script> & 'two' </style>"""


def hostile() -> Page:
    """Markup in every text."""
    piece = Piece("full", 1.0, HOSTILE, HOSTILE)
    numbers = Table(HOSTILE, (HOSTILE, "n"), ((HOSTILE, "1"),), (1,))
    blocks: tuple[Block, ...] = (
        Line(HOSTILE),
        Pairs(((HOSTILE, HOSTILE),)),
        Items((HOSTILE,)),
        Findings((Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),
        numbers,
        numbers._replace(folded=True),
        Figure(HOSTILE, HOSTILE, Stacked(((HOSTILE, (piece,)),), ((0, HOSTILE),)), ((HOSTILE, HOSTILE),), numbers),
    )
    return Page(HOSTILE, HOSTILE, HOSTILE, "", ((HOSTILE, HOSTILE),), (Section('"x', HOSTILE, blocks),), HOSTILE)


def full() -> Page:
    """With a workload, findings and several kinds of batches."""
    return page(facts("deepseek-ai/DeepSeek-V3", max_num_seqs=1024)._replace(gathered=gathered()))


PAGES = {"small": small, "full": full, "hostile": hostile}


@pytest.mark.parametrize("name", PAGES)
class TestForm:
    def test_it_is_well_formed(self, name: str) -> None:
        parsed = Parsed(html(PAGES[name]()))
        assert parsed.faults == []
        ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
        assert len(ids) == len(set(ids)) > 0

    def test_nothing_is_loaded_and_nothing_runs(self, name: str) -> None:
        text = html(PAGES[name]())
        parsed = Parsed(text)
        assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in parsed.tags}
        for tag, attributes in parsed.tags:
            for key, value in attributes.items():
                assert not key.startswith("on")
                assert key not in ("src", "srcset", "xlink:href", "action", "background")
                if key == "href":
                    assert (value or "").startswith("#" if tag == "a" else "data:")
        assert "url(" not in text
        assert "@import" not in text
        policy = next(one for one in parsed.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
        assert (policy["content"] or "").startswith("default-src 'none'")

    def test_headings_are_in_order(self, name: str) -> None:
        levels = [int(tag[1]) for tag, _ in Parsed(html(PAGES[name]())).tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(later <= level + 1 for level, later in pairwise(levels))

    def test_pictures_and_tables_have_names(self, name: str) -> None:
        parsed = Parsed(html(PAGES[name]()))
        assert all((one.get("aria-label") or "").strip() and one["role"] == "img" for one in parsed.all("svg"))
        regions = [one for one in parsed.all("div") if one.get("role") == "region"]
        assert len(regions) == len(parsed.all("table"))
        assert all((one.get("aria-label") or "").strip() for one in regions)
        # Each chart is drawn for a wide and for a narrow screen, and has one table.
        assert len(parsed.all("svg")) == 2 * len(parsed.all("figure")) > 0
        assert parsed.all("html") == [{"lang": "en"}]

    def test_the_twins_say_the_same(self, name: str) -> None:
        made = PAGES[name]()
        written, twin = Parsed(html(made)), markdown(made)
        assert [[cell.strip() for cell in row] for row in written.rows] == list(rows_of_markdown(twin))
        for key, value in made.key:
            assert value in written.text
            assert f"- {escaped(key)}: {escaped(value)}" in twin
        for heading in (section.title for section in made.sections if section.blocks):
            assert heading in written.text
            assert f"## {escaped(heading)}" in twin


class TestEscapes:
    def test_hostile_texts_stay_text(self) -> None:
        text = html(hostile())
        parsed = Parsed(text)
        assert "<script" not in text
        assert text.count("</style>") == 1
        assert parsed.text.count("<script>alert") > 10
        own = re.sub(r"</?details>|</?summary>", "", markdown(hostile()))
        assert "<" not in re.sub(r"\\.", "", own)

    def test_an_unknown_colour_paints_nothing_else(self) -> None:
        piece = Piece("full);background:url(x", 1.0, "a", "a")
        numbers = Table("n", ("a",), (("1",),))
        figure = Figure("n", "s", Stacked((("", (piece,)),), ()), ((piece.colour, "a"),), numbers)
        made = small()._replace(sections=(Section("x", "X", (figure,)),))
        assert "url(" not in html(made)
        assert "color:var(--unknown)" in html(made)


class TestCode:
    """What stands in backticks is code in both twins, and in the Markdown one no code can end a cell or a line."""

    FLAG = "Add `--cudagraph-capture-sizes 1 2|3 *_x_* <b>` to it, not ` alone | *x*."

    def made(self) -> tuple[str, str]:
        blocks: tuple[Block, ...] = (Line(self.FLAG), Items((self.FLAG,)), table("T", ("a", "b"), [(self.FLAG, "1")]))
        page_of = small()._replace(sections=(Section("x", "X", blocks),))
        return html(page_of), markdown(page_of)

    def test_in_html(self) -> None:
        assert self.made()[0].count("<code>--cudagraph-capture-sizes 1 2|3 *_x_* &lt;b&gt;</code>") == 3

    def test_in_markdown(self) -> None:
        lines = self.made()[1].split("\n")
        rest = " to it, not \\` alone \\| \\*x\\*."
        code = "Add `--cudagraph-capture-sizes 1 2|3 *_x_* <b>`" + rest
        assert code in lines
        assert f"- {code}" in lines
        (row,) = (line for line in lines if line.startswith("| Add "))
        assert row == "| " + code.replace("2|3", "2\\|3") + " | 1 |"
        assert len(re.split(r"(?<!\\)\|", row)) == 4


class TestBounds:
    def test_long_tables_and_texts_are_cut_and_say_so(self) -> None:
        rows: list[tuple[str, ...]] = [(str(at), "x" * 5000) for at in range(5000)]
        made = small()._replace(sections=(Section("x", "X", (table("T", ("a", "b"), rows),)),))
        shown = masked(made, str)
        found = shown.sections[0].blocks[0]
        assert isinstance(found, Table)
        assert len(found.rows) == MOST_ROWS + 1
        assert found.rows[-1][0] == f"and {5000 - MOST_ROWS:,} more"
        assert len(found.rows[0][1]) == MOST_TEXT
        assert len(html(shown)) < 2_000_000

    def test_many_sizes_stay_small(self) -> None:
        from cgplan.sections import CompilationOptions

        sizes = list(range(1, 4001))
        options = CompilationOptions(cudagraph_capture_sizes=sizes)
        made = page(facts(max_num_seqs=4000, max_num_batched_tokens=8192, compilation_config=options))
        assert len(html(masked(made, str)).encode()) < 300_000

    def test_a_page_is_the_same_each_time(self) -> None:
        assert html(small()) == html(page(facts()))

    def test_a_usual_page_is_small(self) -> None:
        assert len(html(full()).encode()) < 150_000


def escaped(text: str) -> str:
    from cgplan.report.diff_markdown import cell

    return cell(text)


def rows_of_markdown(text: str) -> Iterable[list[str]]:
    for line in text.split("\n"):
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield [unescape(re.sub(r"\\(.)", r"\1", cell)).strip() for cell in cells]


def test_the_example_of_the_docs_is_such_a_page() -> None:
    folder = Path(__file__).parents[2] / "docs/examples"
    text, twin = ((folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    assert len(text.encode()) < 300_000
    parsed = Parsed(text)
    assert parsed.faults == []
    assert [[cell.strip() for cell in row] for row in parsed.rows] == list(rows_of_markdown(twin))
