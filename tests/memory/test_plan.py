"""The plan of a deployment: its parts agree, its verdicts are those of real starts."""

from __future__ import annotations

from typing import Any

import pytest
from measured_runs import runs

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.errors import InputError
from cgplan.memory.capacity_plan import CapacityPlan, vllm_estimate
from cgplan.memory.document import as_document
from cgplan.memory.document_schema import PlanDocument
from cgplan.memory.kv.capacity import KVCacheTooSmall
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.memory.what_if import Variant, buy_backs, outcome
from cgplan.releases.gpus import gpu

GIB = 1 << 30
QWEN = "Qwen/Qwen3-8B"
HYBRID = "Qwen/Qwen3.5-9B"


def made(model: str = QWEN, flags: MemoryFlags | None = None, **fields: Any) -> CapacityPlan:
    known = {name: fields.pop(name) for name in ("known", "kv_bytes", "auto_fit") if name in fields}
    deployment = Deployment(**{"model": load_model(model), "gpu": gpu("h100"), **fields})
    return plan(deployment, flags, **known)


def codes(found: CapacityPlan, severity: str = "error") -> list[str]:
    return [finding.code for finding in found.findings if finding.severity == severity]


class TestVerdict:
    def test_a_small_model_starts(self) -> None:
        found = made()
        assert (found.starts, found.fits, codes(found)) == ("yes", True, [])
        assert found.low.plan is not None
        assert found.best.plan is not None
        assert found.low.plan.num_blocks <= found.best.plan.num_blocks

    def test_a_model_that_is_too_large_does_not(self) -> None:
        found = made("deepseek-ai/DeepSeek-V3")
        assert (found.starts, found.fits, codes(found)) == ("no", False, ["CG597"])
        assert (found.max_model_len_that_fits, found.max_num_seqs_that_fits) == (0, 0)
        assert found.least_utilization is None

    def test_all_that_is_wrong_is_said_at_once(self) -> None:
        """A real start failed twice, ten minutes each: first for the length, then for the Mamba blocks."""
        kv = 4 * GIB
        found = made(HYBRID, max_model_len=262144, max_num_seqs=256, kv_bytes=kv)
        assert set(codes(found)) >= {"CG561"}
        shorter = found.max_model_len_that_fits
        assert 0 < shorter < 262144
        again = made(HYBRID, max_model_len=shorter, max_num_seqs=256, kv_bytes=kv)
        assert again.best.plan is not None
        assert bool(codes(again)) == (again.best.plan.num_blocks < 256)

    def test_mamba_blocks_bound_the_requests(self) -> None:
        kv = 12 * GIB
        found = made(HYBRID, max_model_len=8192, max_num_seqs=1024, kv_bytes=kv)
        assert found.best.plan is not None
        assert found.best.plan.num_blocks < 1024
        assert len(codes(found)) == 1
        most = found.max_num_seqs_that_fits
        assert most == found.best.plan.num_blocks
        assert made(HYBRID, max_model_len=8192, max_num_seqs=most, kv_bytes=kv).fits
        assert not made(HYBRID, max_model_len=8192, max_num_seqs=most + 1, kv_bytes=kv).fits

    def test_piecewise_graphs_need_no_mamba_blocks(self) -> None:
        options = {"cudagraph_mode": "PIECEWISE"}
        assert made(HYBRID, max_model_len=8192, max_num_seqs=1024, kv_bytes=12 * GIB, compilation_config=options).fits

    def test_sampler_of_a_log_that_ran_out(self) -> None:
        """gpt-oss-20b on 0.19.0 at 0.95: the sampler's warm-up ran out of memory."""
        fields: dict[str, Any] = {"vllm": "0.19.1", "max_model_len": 8192, "enable_prefix_caching": False}
        found = made("openai/gpt-oss-20b", MemoryFlags(utilization=0.95), **fields)
        assert found.starts != "yes"
        assert made("openai/gpt-oss-20b", MemoryFlags(utilization=0.92), **fields).starts == "yes"

    def test_the_longest_length_starts_and_the_next_does_not(self) -> None:
        found = made(gpu=gpu("l4"), max_model_len=40960)
        assert not found.fits
        longest = found.max_model_len_that_fits
        # vLLM names what fits beside the buffers of the length that was asked for.
        assert isinstance(found.best.refusal, KVCacheTooSmall)
        assert 0 <= longest - found.best.refusal.estimated_max_model_len < 512
        assert made(gpu=gpu("l4"), max_model_len=longest).fits
        assert not made(gpu=gpu("l4"), max_model_len=longest + 16).fits

    def test_auto_fits(self) -> None:
        found = made(gpu=gpu("l4"), auto_fit=True)
        assert found.fits
        assert found.best.plan is not None
        assert found.best.plan.max_model_len == found.max_model_len_that_fits < 40960

    def test_least_utilization(self) -> None:
        found = made(max_model_len=8192)
        least = found.least_utilization
        assert least is not None
        assert made(flags=MemoryFlags(utilization=least), max_model_len=8192).starts == "yes"
        assert made(flags=MemoryFlags(utilization=least - 0.01), max_model_len=8192).starts != "yes"

    def test_every_measured_start_is_said_to_start(self) -> None:
        for run in runs():
            record = run.record
            found = plan(run.deployment, MemoryFlags(utilization=record["utilization"]))
            assert found.fits, run.name


class TestGivenValues:
    def test_kv_bytes_leave_the_budget_out(self) -> None:
        found = made(kv_bytes=10 * GIB)
        assert (found.budget, found.graphs) == (None, None)
        assert found.low == found.best == found.high

    def test_measured_values_take_the_place_of_estimates(self) -> None:
        known = Measured(weights=16 * GIB, activation=2 * GIB, non_torch=GIB // 4, graphs=GIB, graph_estimate=GIB // 2)
        found = made(known=known, vllm="0.25.1", env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
        assert found.budget is not None
        stage = found.budget.tightest
        left = found.budget.requested.best - 16 * GIB - 2 * GIB - GIB // 4 - GIB // 2
        assert stage.kv_cache.best == left
        estimate = vllm_estimate(found)
        assert estimate is not None
        assert (stage.graphs.best, estimate.best) == (GIB, GIB // 2)

    def test_manual_size(self) -> None:
        found = made(flags=MemoryFlags(kv_cache_bytes=8 * GIB))
        assert found.best.kv_bytes == (8 * GIB,)
        assert found.budget is not None
        assert found.budget.tightest.deducted.best == 0


class TestWhatIf:
    def test_an_outcome_agrees_with_the_plan(self) -> None:
        found = made(max_num_seqs=64)
        one = outcome(Variant("64", found.deployment, MemoryRequest()))
        assert found.best.plan is not None
        assert (one.fits, one.tokens, one.kv_bytes) == (True, found.best.plan.tokens, min(found.best.kv_bytes))

    def test_what_buys_memory_back(self) -> None:
        found = made()
        changes = {one.change: one for one in buy_backs(found)}
        eager = changes["-cc.cudagraph_mode=NONE"]
        assert found.budget is not None
        assert eager.kv_bytes == found.budget.tightest.deducted.best
        assert eager.outcome.graphs == 0
        for one in changes.values():
            whole = outcome(Variant("", _changed(found, one.change), found.request)) if "size " in one.change else None
            assert whole is None or whole.tokens == one.outcome.tokens

    def test_without_graphs_nothing_is_bought_back(self) -> None:
        assert buy_backs(made(enforce_eager=True)) == ()
        assert made(enforce_eager=True).graphs is None


def _changed(found: CapacityPlan, change: str) -> Deployment:
    size = int(change.rpartition(" ")[2])
    return found.deployment.model_copy(update={"max_cudagraph_capture_size": size})


@pytest.mark.parametrize("fields", [{}, {"kv_bytes": GIB}, {"gpu": gpu("l4")}, {"enforce_eager": True}])
def test_the_document_fits_its_schema(fields: dict[str, Any]) -> None:
    found = made(**fields)
    document = as_document(found, assumptions=("x",), bought=buy_backs(found))
    PlanDocument.model_validate(document)
    assert document["fits"] == found.fits
    assert document["kv_bytes"]["low"] <= document["kv_bytes"]["best"] <= document["kv_bytes"]["high"]


def test_plan_of_is_plan() -> None:
    deployment = Deployment(model=load_model(QWEN))
    assert plan_of(deployment, MemoryRequest()).findings == plan(deployment).findings


class TestOverride:
    """--num-gpu-blocks-override against what the whole GPU has room for; a block of Qwen3 8B has 2.25 MiB."""

    def test_more_blocks_than_the_gpu_holds_do_not_start(self) -> None:
        found = made(num_gpu_blocks_override=1_000_000)
        assert (found.starts, found.fits, codes(found)) == ("no", False, ["CG577"])
        assert "CG577" not in codes(found, "warning")
        assert found.least_utilization is None
        assert found.max_num_seqs_that_fits == 0
        assert not outcome(Variant("same", found.deployment, found.request)).fits

    def test_its_fix_starts(self) -> None:
        fix = made(num_gpu_blocks_override=1_000_000).findings[0].fix
        assert fix is not None
        found = made(num_gpu_blocks_override=int(fix.split()[1].rstrip(",")))
        assert (found.fits, codes(found)) == (True, [])

    def test_more_than_the_budget_and_less_than_the_gpu_start(self) -> None:
        found = made()
        assert found.best.plan is not None
        over = made(num_gpu_blocks_override=found.best.plan.num_blocks + 100)
        assert (over.fits, codes(over), codes(over, "warning")) == (True, [], ["CG577"])
        assert outcome(Variant("same", over.deployment, over.request)).fits


@pytest.mark.parametrize(
    "fields",
    [
        {"utilization": 0}, {"utilization": 2}, {"utilization": "a"}, {"utilization": float("nan")},
        {"utilization": True}, {"kv_cache_bytes": -1}, {"kv_cache_bytes": 1.5}, {"reserve_bytes": "1"},
    ],
)  # fmt: skip
def test_flags_that_cannot_be_used_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        MemoryFlags(**fields)
    assert caught.value.where == next(iter(fields))


@pytest.mark.parametrize("fields", [{"weights": -1}, {"free": 1.0}, {"total": "1"}, {"graphs": True}])
def test_measured_values_that_cannot_be_used_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Measured(**fields)
    assert Measured(graphs=-1, graph_estimate=-1).graphs == -1


def test_sizes_of_another_machine_are_refused_in_python_too() -> None:
    with pytest.raises(InputError) as caught:
        made(known=Measured(free=200 * GIB))
    assert caught.value.where == "--free-bytes"
    with pytest.raises(InputError):
        made(kv_bytes=900 * GIB)


def test_numbers_that_look_the_same_are_told_in_bytes() -> None:
    near = KVCacheTooSmall(20096, 2763 * 2**20 + 1, 2763 * 2**20, 0).message
    assert "needs 2897215489 bytes of KV cache, and there are 2897215488 bytes" in near
    assert "needs 2.00 GiB of KV cache, and there are 1.00 GiB" in KVCacheTooSmall(20096, 2 * GIB, GIB, 0).message


def test_the_override_has_to_fit_into_given_bytes() -> None:
    """A block of Qwen3 8B has 2.25 MiB: 4,096 of them are 9 GiB."""
    assert made(kv_bytes=9 * GIB, num_gpu_blocks_override=4096).fits
    over = made(kv_bytes=9 * GIB, num_gpu_blocks_override=4097)
    assert (over.starts, codes(over)) == ("no", ["CG577"])
    assert over.max_model_len_that_surely_starts == 0
    assert not outcome(Variant("same", over.deployment, over.request)).fits
