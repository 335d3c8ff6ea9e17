from __future__ import annotations

import pytest
from asked_lines import codes, mended, report, told

from cgplan import Deployment
from cgplan.memory.budget.weights import estimate_weights
from cgplan.memory.estimates import GIB

M = "Qwen/Qwen3-8B --enable-lora"


def deployment_of(line: str) -> Deployment:
    served = report(line).asked.served
    assert served is not None
    return served.deployment


def test_more_adapters_than_requests() -> None:
    line = f"{M} --max-loras 8 --max-num-seqs 1 --specialize-active-lora"
    one = told(line, "CG450")
    assert one is not None
    assert one.message.startswith("12 of 18 graphs are captured for 2, 4, 8 and 9 active adapters (9 is max_loras + 1)")
    assert [related.message for related in one.related if not related.message] == []
    assert codes(line) == ["CG450 warning"]
    assert mended(line, "CG450") == f"{M} --max-loras 8 --max-num-seqs 1"


def test_as_many_requests_as_adapters() -> None:
    assert codes(f"{M} --max-loras 8 --max-num-seqs 64 --specialize-active-lora") == ["CG451 info"]


@pytest.mark.parametrize("adapters", [1, 2, 4, 8])
def test_the_graphs_double_whatever_the_number_of_adapters(adapters: int) -> None:
    line = f"{M} --max-loras {adapters} --max-num-seqs 64"
    assert codes(line) == ["CG452 info"]
    one = told(line, "CG452")
    assert one is not None
    assert "2 times the" in one.message
    assert ("lower --max-loras" in str(one.fix)) == (adapters > 1)
    assert "fewer --cudagraph-capture-sizes" in str(one.fix)
    assert codes("Qwen/Qwen3-8B --max-num-seqs 64") == []
    assert told("Qwen/Qwen3-8B --max-num-seqs 1", "CG450") is None


def test_how_many_sets() -> None:
    one = told(f"{M} --max-loras 4 --max-num-seqs 64 --specialize-active-lora", "CG451")
    assert one is not None
    assert "1, 2, 4 and 5 active adapters" in one.message


def test_what_adapters_cost() -> None:
    one = told(f"{M} --max-loras 32", "CG452")
    assert one is not None
    assert one.severity == "info"
    assert one.message.startswith("204 graphs are captured, 2 times the 102 without LoRA, and capture takes longer")
    assert "buffers for 32 adapters take" in one.message
    weights = estimate_weights(deployment_of(f"{M} --max-loras 32")).stages[0].parts["lora"]
    assert f"{weights / GIB:.2f} GiB" in one.message
    assert "--max-loras" in str(one.fix)


@pytest.mark.parametrize("line", [
    "Qwen/Qwen3-8B", "Qwen/Qwen3-8B --max-loras 32", f"{M} --max-loras 32 --enforce-eager",
])  # fmt: skip
def test_without_lora_or_without_graphs_nothing_is_said(line: str) -> None:
    assert told(line, "CG452") is None


def test_buffers_of_weights_that_are_not_known_are_left_out() -> None:
    one = told("an-org/a-model --enable-lora --max-loras 32", "CG452")
    assert one is not None
    assert "2 times the" in one.message
    assert "GiB" not in one.message


def test_one_set_is_a_way_out_of_runner_v1_alone() -> None:
    """Runner V2 has a set for batches without adapters whatever the setting."""
    old = told(f"{M} --max-loras 32", "CG452", "0.19.1")
    assert old is not None
    assert "-cc.cudagraph_specialize_lora=false captures one set" in str(old.fix)
    assert told(f"{M} --max-loras 32 -cc.cudagraph_specialize_lora=false", "CG452", "0.19.1") is None
    new = told(f"{M} --max-loras 32", "CG452", "0.33.0")
    assert new is not None
    assert "specialize" not in str(new.fix)
