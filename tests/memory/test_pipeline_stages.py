"""Which layers a pipeline stage holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import StartupError
from cgplan.memory.layers.pipeline_stages import stage_ranges


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [(32, 1, [32]), (32, 2, [16, 16]), (32, 3, [11, 11, 10]), (61, 2, [31, 30]), (61, 4, [15, 15, 16, 15])],
)
def test_what_does_not_divide_goes_before_the_last(layers: int, stages: int, sizes: list[int]) -> None:
    assert [len(stage) for stage in stage_ranges(layers, stages, None)] == sizes


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_lies_on_one_stage(layers: int, stages: int) -> None:
    found = stage_ranges(layers, stages, None)
    assert [index for stage in found for index in stage] == list(range(layers))
    assert len(found) == stages


def test_the_variable_decides() -> None:
    assert [len(stage) for stage in stage_ranges(32, 2, "20,12")] == [20, 12]


@pytest.mark.parametrize("text", ["20,20", "16", "a,b", "33,-1"])
def test_a_bad_partition_does_not_load(text: str) -> None:
    with pytest.raises(StartupError) as error:
        stage_ranges(32, 2, text)
    assert error.value.code == "CG542"
