"""Lists: one line an entry, whole in a pipe, cut with a mark on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cgplan.inputs.catalogue import catalogue_ids
from cgplan.releases.gpus import records
from cgplan.report.console import THEME
from cgplan.report.lists import fitting, short_number, show_gpus, show_models


def printed(width: int, terminal: bool) -> list[str]:
    out = Console(file=io.StringIO(), width=width, theme=THEME, force_terminal=terminal, color_system=None)
    show_models(catalogue_ids(), out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_pipe_gets_everything(width: int) -> None:
    lines = printed(width, terminal=False)
    entries = catalogue_ids()
    assert lines[0].split() == ["--model", "Parameters", "Architecture", "Attention"]
    for line, entry in zip(lines[1:], entries, strict=False):
        assert line.split()[0] == entry.model_id
        assert line.endswith(entry.attention)
        assert "\t" not in line
    assert len(lines) >= len(entries) + 3
    start = lines[0].index("Architecture")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines[1 : len(entries) + 1])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_terminal_gets_what_fits(width: int) -> None:
    lines = printed(width, terminal=True)
    table = lines[: len(catalogue_ids()) + 1]
    assert max(len(line) for line in table) <= width
    assert table[0].split()[0] == "--model"
    assert "Parameters" in table[0]
    assert ("Architecture" in table[0]) == (width >= 90)
    for line, entry in zip(table[1:], catalogue_ids(), strict=True):
        shown = line.split()[0]
        assert shown == entry.model_id or (shown.endswith("…") and entry.model_id.startswith(shown[:-1]))


def test_what_vllm_does_not_know_is_marked() -> None:
    lines = {line.split()[0]: line for line in printed(80, terminal=False) if "/" in line}
    assert "(unknown to vLLM)" in lines["MiniMaxAI/MiniMax-M3"]
    assert sum("(unknown to vLLM)" in line for line in lines.values()) == 3


def test_one_is_one() -> None:
    out = Console(file=io.StringIO(), theme=THEME)
    show_models(catalogue_ids()[:1], out)
    assert isinstance(out.file, io.StringIO)
    assert "1 model;" in out.file.getvalue()


def test_gpus_are_one_line_each() -> None:
    out = Console(file=io.StringIO(), width=30, theme=THEME)
    show_gpus(records(), out)
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().splitlines()
    for line, record in zip(lines[1:], records(), strict=False):
        assert line.startswith(record["aliases"][0])
        assert line.endswith(record["name"])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "?"), (999, "999"), (8_190_735_360, "8.19B"), (1_600_000_000_000, "1.6T"), (999_990_000_000, "1T"),
        (27_800_000_000, "27.8B"), (671_000_000_000, "671B"), (36_000_000_000, "36B"), (494_000_000, "494M"),
        (100_000_000_000, "100B"),
    ],
)  # fmt: skip
def test_short_numbers(count: int | None, text: str) -> None:
    assert short_number(count) == text


def test_columns_that_do_not_fit_are_left_out() -> None:
    numeric = [False, True, False]
    assert fitting([10, 5, 20], numeric, 40) == [10, 5, 20]
    assert fitting([10, 5, 20], numeric, 31) == [10, 5, 12]
    assert fitting([10, 5, 20], numeric, 30) == [10, 5]
    assert fitting([50, 5, 20], numeric, 40) == [33, 5]
