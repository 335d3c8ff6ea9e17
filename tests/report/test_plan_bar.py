"""The stacked bar: it is as wide as asked, and every part is seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, load_model, plan
from cgplan.report.plan_bar import FREE, Part, cells, parts_of

SIZES = st.lists(st.integers(1, 1 << 40), min_size=1, max_size=7)


@given(SIZES, st.integers(7, 200))
def test_width_and_shares(sizes: list[int], width: int) -> None:
    parts = [Part(str(number), size, "x", "") for number, size in enumerate(sizes)]
    drawn = cells(parts, width)
    assert sum(len(text) for _, text in drawn) == width
    assert all(text for _, text in drawn)
    whole = sum(sizes)
    for part, text in drawn:
        # Small parts are rounded up to a cell, at the cost of large ones.
        assert len(text) <= max(1, width * part.size / whole + 1)


def test_a_name_stands_where_it_fits() -> None:
    drawn = cells([Part("weights", 50, "#", ""), Part("free", 50, "-", "")], 40)
    assert drawn[0][1] == "##### weights ######"
    assert cells([Part("weights", 50, "#", "")], 5)[0][1] == "#####"
    assert cells([], 10) == []


def test_the_parts_are_the_gpu() -> None:
    made = plan(Deployment(model=load_model("Qwen/Qwen3-8B")))
    assert made.budget is not None
    parts = parts_of(made.budget, made.budget.tightest)
    assert sum(part.size for part in parts) == made.budget.total.best
    assert [part.name for part in parts][-1] == FREE


def test_what_does_not_fit_leaves_nothing_free() -> None:
    made = plan(Deployment(model=load_model("deepseek-ai/DeepSeek-V3")))
    assert made.budget is not None
    parts = parts_of(made.budget, made.budget.tightest)
    assert FREE not in [part.name for part in parts]
    assert sum(part.size for part in parts) > made.budget.total.best
