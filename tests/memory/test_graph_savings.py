"""What other settings would buy back."""

from __future__ import annotations

from typing import Any

from cgplan import Deployment, resolve
from cgplan.memory.graphs.memory import predict_graph_memory
from cgplan.memory.graphs.savings import Saving, graph_savings

V1, V2 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}


def savings_of(**fields: Any) -> dict[str, Saving]:
    deployment = Deployment(**fields)
    resolution = resolve(deployment)
    found = graph_savings(deployment, resolution, predict_graph_memory(deployment, resolution))
    return {saving.change.partition(" ")[0]: saving for saving in found}


def test_the_usual_changes_are_offered_with_their_price() -> None:
    found = savings_of()
    assert {"-cc.cudagraph_mode=PIECEWISE", "-cc.cudagraph_mode=NONE", "--cudagraph-capture-sizes"} <= set(found)
    assert "--attention-config.flash_attn_max_num_splits_for_cuda_graph=8" in found
    assert all(saving.price and saving.taken >= 0 for saving in found.values())


def test_no_graphs_save_everything_and_the_largest_is_first() -> None:
    deployment = Deployment()
    resolution = resolve(deployment)
    memory = predict_graph_memory(deployment, resolution)
    first = graph_savings(deployment, resolution, memory)[0]
    assert (first.change, first.taken) == ("-cc.cudagraph_mode=NONE", memory.total.best)


def test_the_switch_gives_the_cache_what_was_kept_back_and_saves_nothing() -> None:
    switch = savings_of(vllm="0.33.0")["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0"]
    assert switch.taken == 0 < switch.kept_back
    for release, runner in (("0.19.1", V1), ("0.25.1", V2)):  # not kept back at all
        assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0" not in savings_of(vllm=release, env=runner)


def test_named_sizes_and_a_model_without_the_workspace_get_fewer_offers() -> None:
    found = savings_of(cudagraph_capture_sizes=(1, 2, 4), attention_backend="TRITON_ATTN")
    assert "--cudagraph-capture-sizes" not in found
    assert not any("num_splits" in change for change in found)


def test_where_there_are_no_graphs_there_is_nothing_to_save() -> None:
    assert savings_of(enforce_eager=True) == {}
