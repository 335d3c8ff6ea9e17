"""tools/screens: README and its pictures are what the commands print."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "screens"))

from draw import as_svg  # noqa: E402
from pages import with_blocks  # noqa: E402
from run import ANSI, Screen, load, printed  # noqa: E402

SCREENS = load()


@pytest.mark.parametrize("screen", SCREENS, ids=lambda one: one.name)
def test_what_stands_in_the_readme_is_what_the_command_prints(screen: Screen) -> None:
    text = printed(screen)
    readme = (ROOT / "README.md").read_text()
    assert ANSI.sub("", text).rstrip() in readme, "run: python tools/screens"
    drawn = (ROOT / "docs" / "screens" / f"{screen.name}.svg").read_text()
    assert drawn == as_svg(text, screen.line, screen.name), "run: python tools/screens"


def test_every_picture_is_of_a_screen() -> None:
    assert {path.stem for path in (ROOT / "docs" / "screens").glob("*.svg")} == {one.name for one in SCREENS}


def test_a_picture_is_xml_with_a_title_and_loads_nothing() -> None:
    drawn = as_svg("\x1b[1mbold\x1b[0m <&> plain\n", "cgplan <x> & 'y'", "one")
    root = ET.fromstring(drawn)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "cgplan <x> & 'y'"
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_a_block_is_made_anew_and_the_rest_of_the_page_stays() -> None:
    page = "before\n<!-- screen one -->\nold\n<!-- end of screen -->\nafter\n"
    screen = Screen("one", "cgplan one", "what it shows")
    made = with_blocks(page, {"one": (screen, "\x1b[1mnew\x1b[0m\n")})
    assert made.startswith("before\n<!-- screen one -->\n```bash\ncgplan one\n```\n")
    assert "![what it shows](docs/screens/one.svg)" in made
    assert "\nnew\n" in made
    assert "old" not in made
    assert made.endswith("<!-- end of screen -->\nafter\n")
    assert with_blocks(made, {"one": (screen, "new\n")}) == made


def test_a_screen_that_stands_nowhere_is_an_error() -> None:
    with pytest.raises(ValueError, match="not on the page: one"):
        with_blocks("", {"one": (Screen("one", "cgplan", ""), "")})


def test_a_command_that_ends_otherwise_than_it_should_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="exit status 2"):
        printed(Screen("one", "cgplan resolve --model nothing-of-this-name", ""))


def test_the_readme_quotes_the_figures_of_the_page_of_accuracy() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text()
    cells = next(line for line in page.splitlines() if line.startswith("| KV cache | ")).split(" | ")
    readme = " ".join((ROOT / "README.md").read_text().split())
    said = f"the KV cache is off by {cells[2]} in the median and {cells[3]} at the 90th percentile"
    assert readme.count(said) == 2
    assert f"over the {cells[1]} of `docs/accuracy.md`" in readme
