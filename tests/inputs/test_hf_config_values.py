"""Any value in any place of a config.json: a shape, or one line that says what is wrong."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan import Deployment
from cgplan.errors import CgplanError
from cgplan.inputs.catalogue import _catalogue, catalogue_names
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.budget.weights import estimate_weights

VALUES: list[Any] = [
    [], None, {}, "", "x", True, -1, 0, 1, 3, 2.5, 1e30, float("nan"), 2**40, [None], [0], [-1], [1, "x"], ["a"],
    [[1]], {"a": 1}, {"": None},
]  # fmt: skip


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of a document, of each list its first items."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*before, key)
        yield from places(inner, (*before, key))


def config_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_catalogue()[name]["config"])
    return found


def read(config: dict[str, Any]) -> None:
    with contextlib.suppress(CgplanError):
        shape = shape_of(config, name="x", where="config.json")
        if shape.weights is not None:
            estimate_weights(Deployment(model=shape))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_value_is_a_crash(data: st.DataObject) -> None:
    config = config_of(data.draw(st.sampled_from(catalogue_names())))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(config))))
        inner: Any = config
        for key in path[:-1]:
            inner = inner[key]
        if data.draw(st.booleans()):
            inner[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
        else:
            del inner[path[-1]]
    read(config)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_widths_of_the_mlp(value: Any) -> None:
    read({**config_of("codellama/CodeLlama-7b-hf"), "intermediate_size": value})
