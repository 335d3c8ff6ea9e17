"""docs/sweep.md: its grid is one, has the numbers that it says, and every column is named."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT

from cgplan.sweep.evaluate import FACTS
from cgplan.sweep.grid_file import read_grid

PAGE = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")


def test_its_grid_has_the_numbers_that_it_says(tmp_path: Path) -> None:
    text = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    said = re.search(r"= (\d+) combinations; (\d+) are excluded", PAGE)
    assert text is not None
    assert said is not None
    path = tmp_path / "grid.toml"
    path.write_text(text[1], encoding="utf-8")
    grid = read_grid(str(path))
    assert (grid.size, grid.size - grid.count) == (int(said[1]), int(said[2]))


def test_every_column_is_named() -> None:
    missing = [name for name in FACTS if f"`{name}`" not in PAGE and f"`{name.removeprefix('effective')}`" not in PAGE]
    assert not missing
