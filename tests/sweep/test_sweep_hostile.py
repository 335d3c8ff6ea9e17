"""Whatever stands in a grid, it is a grid or one error; and a deployment of it is a record that is no crash."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sweep_helpers import BASE

from cgplan.errors import InputError
from cgplan.sweep.evaluate import Evaluator
from cgplan.sweep.grid_file import grid_of
from cgplan.sweep.options import names

words = st.sampled_from(
    [
        "",
        " ",
        "auto",
        "default",
        "8k",
        "-1",
        "FULL",
        "NONE",
        "fp8",
        "h100",
        "0.33.0",
        "Qwen/Qwen3-8B",
        "ngram",
        "mtp",
        "é\n",
    ]
)
plain = st.one_of(
    words, st.booleans(), st.integers(-2, 5), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5)
)
keys = st.sampled_from(
    ["method", "model", "num_speculative_tokens", "cudagraph_mode", "mode", "backend", "", "x", "a.b"]
)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=5
)
options = st.sampled_from([name for name in names() if name not in BASE]) | st.text(max_size=8)
tables = st.dictionaries(options, values, max_size=3)
lists = st.dictionaries(options, st.lists(values, max_size=3) | values, max_size=3)


@given(
    st.dictionaries(st.sampled_from(["base", "grid", "exclude", "x"]), values | tables | st.lists(tables, max_size=2))
)
def test_any_document(document: dict[str, Any]) -> None:
    checked(document)


@given(tables, lists, st.lists(tables, max_size=2))
def test_any_options(base: dict[str, Any], grid: dict[str, Any], exclude: list[dict[str, Any]]) -> None:
    checked({"base": {**BASE, **base}, "grid": grid, "exclude": exclude})


@given(options, values)
def test_any_value(option: str, value: Any) -> None:
    checked({"base": BASE, "grid": {option: [value]}})


def checked(document: dict[str, Any]) -> None:
    try:
        grid = grid_of(document)
    except InputError:
        return
    evaluator = Evaluator(grid)
    for number in list(grid.numbers())[:4]:
        record = evaluator.record(number)
        assert record["code"] != "CG737", record["message"]
        assert record["starts"] is not None or record["code"] is not None
