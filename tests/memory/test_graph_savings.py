"""Settings with which CUDA graphs take less."""

from __future__ import annotations

from typing import Any

from cgplan import Deployment, resolve
from cgplan.memory.graphs.memory import predict_graph_memory
from cgplan.memory.graphs.savings import Change, changes


def changes_of(**fields: Any) -> dict[str, Change]:
    deployment = Deployment(**fields)
    resolution = resolve(deployment)
    found = changes(deployment, resolution, predict_graph_memory(deployment, resolution))
    return {change.text.partition(" ")[0]: change for change in found}


def test_the_usual_changes_are_offered_with_their_price() -> None:
    found = changes_of()
    assert {"-cc.cudagraph_mode=PIECEWISE", "-cc.cudagraph_mode=NONE", "--cudagraph-capture-sizes"} <= set(found)
    assert "--attention-config.flash_attn_max_num_splits_for_cuda_graph=8" in found
    assert all(change.price for change in found.values())


def test_each_change_does_save() -> None:
    deployment = Deployment()
    before = predict_graph_memory(deployment, resolve(deployment)).total.best
    for change in changes_of().values():
        changed = deployment.model_copy(update=change.fields)
        assert predict_graph_memory(changed, resolve(changed)).total.best < before, change.text


def test_named_sizes_and_a_model_without_the_workspace_get_fewer_offers() -> None:
    found = changes_of(cudagraph_capture_sizes=(1, 2, 4), attention_backend="TRITON_ATTN")
    assert "--cudagraph-capture-sizes" not in found
    assert not any("num_splits" in change for change in found)


def test_where_there_are_no_graphs_there_is_nothing_to_save() -> None:
    assert changes_of(enforce_eager=True) == {}


def test_sets_of_graphs_for_adapters_that_never_run_together_can_be_dropped() -> None:
    lora = {"enable_lora": True, "max_loras": 8, "max_num_seqs": 1}
    found = changes_of(**lora, specialize_active_lora=True)["no"]
    assert found.text == "no --specialize-active-lora"
    assert found.fields == {"specialize_active_lora": False}
    assert "no batch runs in the sets for 2, 4, 8 and 9 active adapters" in found.price
    assert "no" not in changes_of(**lora)
