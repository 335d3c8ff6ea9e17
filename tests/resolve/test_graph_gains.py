"""What others measured of CUDA graphs: the nearest in kind is quoted, with its source."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import compiling, given, outcome

from cgplan import CUDAGraphMode
from cgplan.inputs.catalogue import load
from cgplan.releases import table
from cgplan.resolve.graph_gains import ALL, DRAFTS, FULL, lost, quotation
from cgplan.resolve.other_backend import cost_of_lower_mode, notes

SMALL, DENSE, MOE = (load(name) for name in ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"))
DRAFTING = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}


def test_every_fact_says_where_it_is_from() -> None:
    rows = table("graph_gains")["measured"]
    keys = {"lost", "kind", "model", "gpu", "load", "release", "gain", "source"}
    assert all(set(row) == keys and "#" in row["source"] for row in rows)
    assert {row["lost"] for row in rows} == {FULL, ALL, DRAFTS}


@pytest.mark.parametrize(
    ("model", "more", "what", "sources"),
    [
        (SMALL, {}, FULL, ["#20059"]),
        (DENSE, {}, FULL, ["#20059", "#2360"]),
        (MOE, {}, FULL, ["#25444"]),
        (DENSE, DRAFTING, FULL, ["#49547", "#35387"]),
        (SMALL, {}, ALL, ["#2360", "#20059"]),
        (DENSE, {"tensor_parallel_size": 4}, ALL, ["#2360", "#2360"]),
        (MOE, {}, ALL, ["#24123"]),
        (DENSE, DRAFTING, DRAFTS, ["#35387"]),
    ],
)
def test_the_nearest_in_kind(model: Any, more: dict[str, Any], what: str, sources: list[str]) -> None:
    text = quotation(given(model=model, **more), what)
    assert text.startswith("measured elsewhere, no prediction for this server: ")
    assert [f"#{part.partition(')')[0]}" for part in text.split("#")[1:]] == sources


def test_what_is_lost() -> None:
    assert lost(outcome()) is None
    assert lost(outcome(attention_support="NEVER")) == FULL
    asked = compiling(cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE)
    assert lost(outcome(compilation_config=asked, enforce_eager=True)) == ALL
    assert lost(outcome(enforce_eager=True)) is None
    assert cost_of_lower_mode(given(), outcome()) == ""


def test_what_is_said_of_eager_and_of_nothing() -> None:
    for fields, code in (({"enforce_eager": True}, "CG203"), ({"optimization_level": 0}, "CG244"), ({}, None)):
        found = notes(given(**fields), outcome(**fields))
        assert [one.code for one in found] == ([code] if code else [])
