"""The drafter's own graphs."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MLA, SPARSE_MLA, V1, V2, codes, compiling, drafting, outcome, rows

from cgplan import CUDAGraphMode, ModelShape
from cgplan.resolve.drafter import Drafter

FULL, PIECEWISE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE
DYNAMIC: dict[str, Any] = {"num_speculative_tokens_per_batch_size": [[1, 2, 3], [3, 4, 1]]}
TWO_LAYERS = MLA.model_copy(update={"num_nextn_predict_layers": 2})


def drafter_of(**fields: Any) -> Drafter:
    found = outcome(max_num_seqs=4, cudagraph_capture_sizes=[1, 2, 4, 8, 16], **fields).drafter
    assert found is not None
    return found


def manager(drafter: Drafter, name: str) -> dict[str, list[tuple[int | None, ...]]]:
    return {mode.value: rows(graphs) for mode, graphs in drafter.managers[name].items()}


@pytest.mark.parametrize(
    ("method", "draft", "name"),
    [
        ("eagle", ModelShape(), "EagleSpeculator"),
        ("eagle3", ModelShape(), "EagleSpeculator"),
        ("mtp", MLA.model_copy(update={"num_nextn_predict_layers": 1}), "MTPSpeculator"),
        ("mtp", ModelShape(model_type="gemma4_mtp"), "Gemma4Speculator"),
        ("mtp", TWO_LAYERS, "MultiModuleMTPSpeculator"),
        ("draft_model", ModelShape(), "StandaloneARSpeculator"),
        ("ngram", None, "NgramGPUSpeculator"),
        ("ngram_gpu", None, "NgramGPUSpeculator"),
        ("extract_hidden_states", None, "ExtractHiddenStatesSpeculator"),
        ("dspark", ModelShape(), "DSparkSpeculator"),
        ("dflash", ModelShape(), "DFlashSpeculator"),
        ("dflash", ModelShape(architectures=("Qwen3XPressModel",)), "XPressSpeculator"),
        ("dflash", ModelShape(architectures=("DFlashQwen3XPressModel",)), "XPressSpeculator"),
        ("dflash", ModelShape(architectures=("LiLiCorrDraftModel",)), "LiLiCorrSpeculator"),
        ("dflash", ModelShape(architectures=("DFlash2DraftModel",)), "DFlash2Speculator"),
        ("dflash", ModelShape(architectures=("DFlash2BeamDraftModel",)), "DFlash2Speculator"),
    ],
)
def test_the_class_that_drafts_on_v2(method: str, draft: ModelShape | None, name: str) -> None:
    options = drafting(method, 2) if draft is None else drafting(method, 2, model=draft)
    assert drafter_of(env=V2, speculative_config=options).speculator == name


def test_eagle_on_v2_has_prefill_and_decode_graphs() -> None:
    found = drafter_of(env=V2, speculative_config=drafting("eagle", 3))
    assert found.speculator == "EagleSpeculator"
    assert manager(found, "prefill_cudagraph_manager") == {
        "PIECEWISE": [(16,), (8,), (4,), (2,), (1,)],
        "FULL": [(16, 4, 4), (8, 2, 4), (4, 1, 4)],
    }
    assert manager(found, "decode_cudagraph_manager") == {"FULL": [(4, 4, 1), (2, 2, 1), (1, 1, 1)]}


@pytest.mark.parametrize(
    ("mode", "prefill", "decode"),
    [
        ("FULL_AND_PIECEWISE", {"PIECEWISE", "FULL"}, {"FULL"}),
        ("FULL_DECODE_ONLY", {"FULL"}, {"FULL"}),
        ("FULL", {"FULL"}, {"FULL"}),
        ("PIECEWISE", {"PIECEWISE"}, set()),
        ("NONE", set(), set()),
    ],
)
def test_the_target_mode_decides_on_v2(mode: str, prefill: set[str], decode: set[str]) -> None:
    options = compiling(cudagraph_mode=mode)
    found = outcome(env=V2, speculative_config=drafting("eagle", 3), compilation_config=options).drafter
    assert found is not None
    assert set(manager(found, "prefill_cudagraph_manager")) == prefill
    assert set(manager(found, "decode_cudagraph_manager")) == decode


def test_a_schedule_gives_the_first_pass_its_tiers() -> None:
    found = drafter_of(env=V2, speculative_config=drafting("eagle", 3, **DYNAMIC))
    prefill = manager(found, "prefill_cudagraph_manager")["FULL"]
    assert {row[2] for row in prefill} == {2, 4}
    assert {row[2] for row in manager(found, "decode_cudagraph_manager")["FULL"]} == {1}


@pytest.mark.parametrize(
    ("model", "mode", "kinds"),
    [
        (TWO_LAYERS, "FULL_AND_PIECEWISE", {"FULL"}),
        (TWO_LAYERS, "PIECEWISE", set()),
        (TWO_LAYERS, "FULL_DECODE_ONLY", {"FULL"}),
        (TWO_LAYERS, "FULL", {"FULL"}),
        (SPARSE_MLA.model_copy(update={"num_nextn_predict_layers": 2}), "FULL_AND_PIECEWISE", {"PIECEWISE", "FULL"}),
        (SPARSE_MLA.model_copy(update={"num_nextn_predict_layers": 2}), "PIECEWISE", {"PIECEWISE"}),
    ],
)
def test_multi_module_mtp_has_pieces_only_when_they_are_cut_by_hand(
    model: ModelShape, mode: str, kinds: set[str]
) -> None:
    options = compiling(cudagraph_mode=mode)
    found = drafter_of(env=V2, model=model, speculative_config=drafting("mtp", 2), compilation_config=options)
    assert found.speculator == "MultiModuleMTPSpeculator"
    assert set(manager(found, "cudagraph_manager")) == kinds


def test_multi_module_mtp_drafts_whole_requests() -> None:
    found = drafter_of(env=V2, model=TWO_LAYERS, speculative_config=drafting("mtp", 2))
    assert manager(found, "cudagraph_manager") == {"FULL": [(9, 3, 3), (6, 2, 3), (3, 1, 3)]}


@pytest.mark.parametrize(("method", "query_len"), [("dflash", 4), ("dspark", 3)])
def test_parallel_drafts_have_one_graph_a_request_count(method: str, query_len: int) -> None:
    """DFlash adds the bonus token to its draft tokens; DSpark samples from the anchor."""
    options = drafting(method, 3, model=ModelShape(num_hidden_layers=1))
    found = manager(drafter_of(env=V2, speculative_config=options), "query_cudagraph_manager")
    assert set(found) == {"FULL"}
    assert {row[2] for row in found["FULL"]} == {query_len}


def test_a_schedule_gives_dflash_its_tiers() -> None:
    """The draft pass has K + 1 queries, so its manager makes graphs for each tier (cudagraph_utils.py:273-297)."""
    found = manager(drafter_of(env=V2, speculative_config=drafting("dflash", 3, **DYNAMIC)), "query_cudagraph_manager")
    assert {row[2] for row in found["FULL"]} == {2, 4}


def test_a_schedule_leaves_dspark_alone() -> None:
    options = drafting("dspark", 3, model=ModelShape(num_hidden_layers=1), **DYNAMIC)
    found = manager(drafter_of(env=V2, speculative_config=options), "query_cudagraph_manager")
    assert {row[2] for row in found["FULL"]} == {3}


@pytest.mark.parametrize(
    ("mode", "support", "graphs"),
    [
        ("FULL_AND_PIECEWISE", "ALWAYS", True),
        ("FULL_AND_PIECEWISE", "UNIFORM_BATCH", True),
        ("FULL", "ALWAYS", True),
        ("PIECEWISE", "ALWAYS", False),
        ("NONE", "ALWAYS", False),
    ],
)
def test_parallel_drafts_need_full_decode(mode: str, support: str, graphs: bool) -> None:
    options = compiling(cudagraph_mode=mode)
    found = outcome(
        env=V2, speculative_config=drafting("dflash", 3), compilation_config=options, attention_support=support
    ).drafter
    assert found is not None
    assert bool(found.managers["query_cudagraph_manager"]) is graphs


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "draft_model", "extract_hidden_states"])
def test_drafters_without_graphs_on_v2(method: str) -> None:
    found = drafter_of(env=V2, speculative_config=drafting(method, 1))
    assert found.managers == {}


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "draft_model", "dflash"])
def test_v1_drafters_have_pieces_over_the_rounded_sizes(method: str) -> None:
    options = drafting(method, 2, **({"model": MLA} if method in ("eagle", "eagle3", "draft_model", "dflash") else {}))
    found = drafter_of(env=V1, model=MLA, speculative_config=options)
    assert manager(found, "cudagraph_dispatcher") == {"PIECEWISE": [(9,), (6,), (3,)]}


@pytest.mark.parametrize(
    ("mode", "eager", "graphs"),
    [
        ("FULL_AND_PIECEWISE", None, True),
        ("FULL_AND_PIECEWISE", True, False),
        ("FULL_AND_PIECEWISE", False, True),
        ("FULL", None, True),
        ("PIECEWISE", None, True),
        ("FULL_DECODE_ONLY", None, False),
        ("NONE", None, False),
    ],
)
def test_v1_drafters_need_graphs_of_mixed_batches(mode: str, eager: bool | None, graphs: bool) -> None:
    found = drafter_of(
        env=V1,
        speculative_config=drafting("eagle", 3, enforce_eager=eager),
        compilation_config=compiling(cudagraph_mode=mode),
    )
    assert bool(found.managers["cudagraph_dispatcher"]) is graphs


@pytest.mark.parametrize(
    ("method", "release", "graphs"),
    [
        ("extract_hidden_states", "0.33.0", True),
        ("extract_hidden_states", "0.22.1", True),
        ("draft_model", "0.33.0", True),
        ("draft_model", "0.26.0", True),
        ("draft_model", "0.25.1", False),
    ],
)
def test_v1_drafters_without_the_target_s_hidden_states(method: str, release: str, graphs: bool) -> None:
    """vllm/v1/worker/gpu_model_runner.py, _check_and_update_cudagraph_mode: standalone drafts since 0.26.0."""
    found = outcome(env=V1, vllm=release, speculative_config=drafting(method, 1)).drafter
    assert (found is not None) is graphs


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu"])
def test_v1_has_no_drafter_graphs_without_a_model(method: str) -> None:
    assert outcome(env=V1, speculative_config=drafting(method, 1)).drafter is None


def test_v1_drafters_share_the_adapter_cases() -> None:
    found = drafter_of(env=V1, speculative_config=drafting("eagle", 3), enable_lora=True, max_loras=2)
    graphs = found.managers["cudagraph_dispatcher"][PIECEWISE]
    assert {graph.num_active_loras for graph in graphs} == {0, 3}


def test_v2_drafters_have_no_adapter_cases() -> None:
    found = drafter_of(env=V2, speculative_config=drafting("eagle", 3), enable_lora=True, max_loras=2)
    for captures in found.managers.values():
        assert {graph.num_active_loras for graphs in captures.values() for graph in graphs} == {0}


def test_without_speculation_there_is_no_drafter() -> None:
    assert outcome().drafter is None


def test_the_graphs_of_a_drafter_are_traced_and_not_counted_with_the_target() -> None:
    found = outcome(env=V2, speculative_config=drafting("eagle", 3))
    assert "CG415" in codes(found)
    assert found.graph_count() == sum(len(graphs) for graphs in found.captures.values())
    assert found.drafter is not None
    assert sum(len(g) for m in found.drafter.managers.values() for g in m.values()) > 0
