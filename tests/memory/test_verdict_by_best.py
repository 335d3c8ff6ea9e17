"""The verdict goes by its own figures, and the KV cache is what its blocks take."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.budget.suggestion import suggestion
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.document import as_document
from cgplan.memory.document_schema import PlanDocument
from cgplan.memory.estimates import GIB
from cgplan.memory.request import MemoryRequest
from cgplan.memory.what_if import Variant, outcome
from cgplan.releases.gpus import gpu
from cgplan.report.plan_bar import FREE, parts_of
from cgplan.report.plan_words import BUDGET_HEAD, budget_head, budget_rows, cache_lines

GEMMA = "google/gemma-3-27b-it"


def made(
    name: str, card: str, release: str = "0.33.0", flags: MemoryFlags | None = None, **fields: Any
) -> CapacityPlan:
    known = {key: fields.pop(key) for key in ("known", "kv_bytes") if key in fields}
    return plan(Deployment(model=load_model(name), gpu=gpu(card), vllm=release, **fields), flags, **known)


def test_more_than_is_free_by_the_best_values_does_not_start_by_them() -> None:
    found = made(
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "rtx4090", "0.19.1", MemoryFlags(utilization=0.98)
    )
    assert found.budget is not None
    assert found.budget.requested.best > found.budget.free.best
    assert (found.starts, found.fits, found.ends) == ("unsure", False, ("CG504",))
    variant = outcome(Variant("x", found.deployment, found.request))
    assert (variant.fits, variant.why_not[0]) == (False, "CG504")
    # As much as is free: it may not start, and does by the best values.
    share = found.budget.free.best / found.budget.total.best
    same = plan(found.deployment, MemoryFlags(utilization=share))
    assert (same.starts, same.fits, same.ends) == ("unsure", True, ())


def test_nobody_holds_less_than_nothing_of_the_gpu() -> None:
    found = made("Qwen/Qwen3-8B", "rtx4090", flags=MemoryFlags(utilization=0.9), max_model_len=8192)
    row = next(row for row in budget_rows(found) if row.name == "in use at the start")
    assert (row.low, row.best) == ("0.00", "0.51")


def test_what_is_behind_a_definite_no_is_an_error() -> None:
    """With the most memory another constraint fails first."""
    found = made("moonshotai/Kimi-K2-Instruct", "h200", tensor_parallel_size=8)
    assert (found.starts, found.fits, found.ends) == ("no", False, ("CG560",))
    assert [one.severity for one in found.findings if one.code == "CG560"] == ["error"]


def test_bytes_of_0_are_none() -> None:
    """vllm/v1/worker/gpu_worker.py asks whether there is a value; of 0 there is none."""
    zero, without = (made("Qwen/Qwen3-8B", "h100", flags=MemoryFlags(kv_cache_bytes=size)) for size in (0, None))
    assert zero.starts == "yes"
    assert zero.best.kv_bytes == without.best.kv_bytes
    assert zero.budget is not None
    assert not zero.budget.is_manual
    assert made("Qwen/Qwen3-8B", "h100", flags=MemoryFlags(kv_cache_bytes=1)).starts == "no"


class TestBlocksThatAreSet:
    def test_cache_is_what_they_take(self) -> None:
        found = made("Qwen/Qwen3.5-27B", "b200", "0.19.1", tensor_parallel_size=2, num_gpu_blocks_override=600)
        assert found.best.plan is not None
        assert found.budget is not None
        stage = found.budget.tightest
        taken = 600 * found.best.plan.bytes_per_block[0]
        assert taken / GIB == pytest.approx(14.36, abs=0.01)
        assert found.low.kv_bytes == found.best.kv_bytes == found.high.kv_bytes == (taken,)
        assert stage.held.best == taken
        assert stage.kv_cache.best / GIB == pytest.approx(128.84, abs=0.01)
        free = made("Qwen/Qwen3.5-27B", "b200", "0.19.1", tensor_parallel_size=2)
        assert free.budget is not None
        assert stage.unused.best - free.budget.tightest.unused.best == stage.kv_cache.best - taken

    def test_bar_and_document(self) -> None:
        found = made("Qwen/Qwen3.5-4B", "l4", num_gpu_blocks_override=30, max_num_seqs=16, max_model_len=4096)
        assert found.budget is not None
        size = found.best.kv_bytes[0]
        assert size < GIB
        parts = {part.name: part.size for part in parts_of(found.budget, found.budget.tightest)}
        assert parts["KV cache"] == size
        assert sum(parts.values()) == found.budget.total.best
        assert parts[FREE] > 9 * GIB
        document = PlanDocument.model_validate(as_document(found))
        assert document.kv_bytes.best == document.stages[0].kv_bytes.best == size
        assert document.unused_bytes is not None
        assert document.unused_bytes.best > 9 * GIB
        assert [row.best for row in budget_rows(found) if row.name == "KV cache"] == [f"{size / GIB:.2f}"]

    def test_few_blocks_leave_room_for_the_graphs(self) -> None:
        """0.99 would leave none beside a full cache."""
        fields = {"max_model_len": 4096, "max_num_seqs": 1024}
        share = MemoryFlags(utilization=0.99)
        full = made("Qwen/Qwen3-8B", "h100", "0.19.1", share, **fields)
        assert {"CG507", "CG509"} & {one.code for one in full.findings}
        few = made("Qwen/Qwen3-8B", "h100", "0.19.1", share, num_gpu_blocks_override=512, **fields)
        assert not {"CG507", "CG509"} & {one.code for one in few.findings}


def test_an_estimate_below_0_is_no_definite_no() -> None:
    """C05: the server of the report ran; what came free while vLLM measured is not known to be taken again."""
    known = Measured(total=130599218053, free=121493887385, graphs=783831531, graph_estimate=-22011707392, source="log")
    found = made(
        "nvidia/Qwen3.6-35B-A3B-NVFP4", "gb10", "0.26.0", MemoryFlags(0.8), known=known,
        max_model_len=262144, max_num_seqs=4, max_num_batched_tokens=8192, kv_cache_dtype="bfloat16",
    )  # fmt: skip
    assert (found.starts, found.fits) == ("unsure", True)
    assert "CG507" not in {one.code for one in found.findings}
    assert found.budget is not None
    assert found.budget.tightest.unused.low < 0 < found.budget.tightest.unused.best


def test_a_length_of_3_is_no_offer() -> None:
    found = made("moonshotai/Kimi-K2-Instruct", "h200", tensor_parallel_size=8)
    assert found.max_model_len_that_fits == 0
    assert "Longest" not in dict(cache_lines(found))
    document = PlanDocument.model_validate(as_document(found))
    assert document.max_model_len_that_fits is None
    # Who asks for few tokens is told that they start.
    assert made("Qwen/Qwen3-0.6B", "l4", kv_bytes=GIB // 64, max_model_len=8).max_model_len_that_fits >= 8


def test_what_is_not_known_is_null() -> None:
    found = made("Qwen/Qwen3-8B", "l4")
    document = PlanDocument.model_validate(as_document(found))
    assert document.max_num_seqs_that_fits is None
    assert document.max_num_seqs_that_surely_starts is None
    assert document.max_model_len_that_fits


@pytest.mark.parametrize(("requests", "is_said"), [(512, True), (600, False)])
def test_a_size_below_0_is_never_right(requests: int, is_said: bool) -> None:
    fields = {"tensor_parallel_size": 8, "max_model_len": 256, "max_num_seqs": requests}
    found = made("moonshotai/Kimi-K2-Instruct", "h200", **fields)
    assert found.fits
    assert found.budget is not None
    sizes = suggestion(found.budget, found.budget.tightest, "0.33.0")
    assert sizes is not None
    assert (sizes.right > 0) is is_said
    assert ("CG525" in {one.code for one in found.findings}) is is_said


def test_stages_of_a_pipeline_are_named() -> None:
    fields = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    found = made("mistralai/Mixtral-8x22B-v0.1", "h100", "0.27.1", **fields)
    message = next(one.message for one in found.findings if one.code == "CG561")
    assert message.endswith("3.42 GiB on pipeline stage 1 of 2")
    assert dict(cache_lines(found))["KV cache"].startswith("3.13 GiB are left on pipeline stage 2 of 2, ")
    assert budget_head(found)[1] == "GiB of one GPU, stage 2 of 2"
    one = made("Qwen/Qwen3-8B", "l4")
    assert budget_head(one) == BUDGET_HEAD
    assert not any("stage" in text for _, text in cache_lines(one))


def test_which_path_windows_take() -> None:
    on, off = (made(GEMMA, "h200", disable_hybrid_kv_cache_manager=choice) for choice in (None, True))
    assert "manager is on" in dict(cache_lines(on))["Windows"]
    assert "manager is off" in dict(cache_lines(off))["Windows"]
    assert (as_document(on)["hybrid_kv_cache_manager"], as_document(off)["hybrid_kv_cache_manager"]) == (True, False)
    plain = made("Qwen/Qwen3-8B", "h200")
    assert plain.hybrid_manager is None
    assert "Windows" not in dict(cache_lines(plain))


def test_most_requests_that_are_advised_surely_start() -> None:
    """335, not the 337 that have a block each and are short of cache."""
    found = made("Qwen/Qwen3.5-27B", "h100", "0.25.1", max_num_seqs=1024)
    fix = next(one.fix for one in found.findings if one.code == "CG501")
    most = found.max_num_seqs_that_surely_starts
    assert fix is not None
    assert fix.startswith(f"--max-num-seqs 256 ({most} at most)")
    at = [found.deployment.model_copy(update={"max_num_seqs": number}) for number in (most, most + 1)]
    assert [plan(one).starts for one in at] == ["yes", "unsure"]
    assert MemoryRequest() == found.request
