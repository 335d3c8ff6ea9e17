"""LoRA: captured numbers of active adapters."""

from __future__ import annotations

import pytest
from resolve_helpers import V1, V2, compiling, finding_codes, outcome

from cgplan import CUDAGraphMode, Runner
from cgplan.resolve.lora import lora_cases

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE


@pytest.mark.parametrize(
    ("max_loras", "active", "specialize", "v1", "v2"),
    [
        (None, False, True, (0,), (0,)),
        (None, True, False, (0,), (0,)),
        (4, False, True, (0, 5), (0, 5)),
        (4, True, True, (0, 1, 2, 4, 5), (0, 1, 2, 4, 5)),
        (1, True, True, (0, 1, 2), (0, 1, 2)),
        (3, True, True, (0, 1, 2, 4), (0, 1, 2, 4)),
        (8, True, True, (0, 1, 2, 4, 8, 9), (0, 1, 2, 4, 8, 9)),
        (7, True, True, (0, 1, 2, 4, 8), (0, 1, 2, 4, 8)),
        (4, False, False, (5,), (0, 5)),
        (4, True, False, (5,), (0, 5)),
    ],
)
def test_b18_f6_cases(
    max_loras: int | None, active: bool, specialize: bool, v1: tuple[int, ...], v2: tuple[int, ...]
) -> None:
    """The document has one case a number of adapters; by default there are two cases, and more on request."""
    assert lora_cases(max_loras, active, specialize, Runner.V1) == v1
    assert lora_cases(max_loras, active, specialize, Runner.V2) == v2


@pytest.mark.parametrize("env", [V1, V2])
@pytest.mark.parametrize(("active", "factor"), [(False, 2), (True, 5)])
def test_b18_graphs_multiply_with_the_cases(env: dict[str, str], active: bool, factor: int) -> None:
    plain = outcome(env=env, max_num_seqs=64)
    with_lora = outcome(env=env, max_num_seqs=64, enable_lora=True, max_loras=4, specialize_active_lora=active)
    for mode in (FULL, PIECEWISE):
        assert with_lora.graph_count(mode) == factor * plain.graph_count(mode)


def test_f6_v1_without_specialisation_has_no_graph_for_the_base_model() -> None:
    """The document says that fewer graphs are captured and LoRA always runs; on V1 the base model then runs eager."""
    options = compiling(cudagraph_specialize_lora=False)
    found = outcome(env=V1, enable_lora=True, max_loras=4, compilation_config=options)
    assert found.dispatch(4).mode is NONE
    assert found.dispatch(4, num_active_loras=1).mode is FULL
    assert "CG414" in finding_codes(found)
    assert found.uniform_decode_coverage().first_cliff == 1
    assert found.uniform_decode_coverage(1).first_cliff == 513


def test_f6_v2_captures_both_cases_either_way() -> None:
    options = compiling(cudagraph_specialize_lora=False)
    found = outcome(env=V2, enable_lora=True, max_loras=4, compilation_config=options)
    assert found.lora is not None
    assert found.lora.cases == (0, 5)
    assert found.dispatch(4).mode is FULL
    assert "CG414" not in finding_codes(found)


def test_without_lora_there_is_no_plan() -> None:
    found = outcome(max_loras=4)
    assert found.lora is None
    assert {graph.num_active_loras for graphs in found.captures.values() for graph in graphs} == {0}


@pytest.mark.parametrize(
    ("env", "expected"),
    [(V1, [0, 1, 2, 4, 4, 5, None]), (V2, [0, 1, 2, 4, 4, 5, 5])],
    ids=["V1", "V2"],
)
def test_dispatch_takes_the_next_captured_count(env: dict[str, str], expected: list[int | None]) -> None:
    """Above the largest case V1 finds no key, V2 takes the largest."""
    found = outcome(env=env, max_num_seqs=8, enable_lora=True, max_loras=4, specialize_active_lora=True)
    answers = [found.dispatch(3, num_active_loras=count) for count in range(7)]
    assert [a.graph.num_active_loras if a.graph else None for a in answers] == expected


@pytest.mark.parametrize("env", [V1, V2])
def test_without_active_specialisation_every_adapter_count_is_one_case(env: dict[str, str]) -> None:
    found = outcome(env=env, max_num_seqs=8, enable_lora=True, max_loras=4)
    answers = [found.dispatch(3, num_active_loras=count).graph for count in range(5)]
    assert [graph.num_active_loras if graph else None for graph in answers] == [0, 5, 5, 5, 5]
