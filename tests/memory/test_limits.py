"""Does it start, why not, and the largest values that do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cgplan import Deployment, Resolution, load_model, resolve
from cgplan.memory.budget.budget import Budget, Measured, MemoryFlags, estimate_budget
from cgplan.memory.kv.cache import kv_cache
from cgplan.memory.limits import (
    Verdict,
    check_start,
    largest_batch,
    largest_model_len,
    largest_num_seqs,
    least_utilization,
    requests_by_length,
)
from cgplan.releases.gpus import gpu

GIB = 1 << 30
LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct")
HYBRID = load_model("Qwen/Qwen3.6-27B")


def ask(
    flags: MemoryFlags | None = None, known: Measured | None = None, **fields: Any
) -> tuple[Deployment, Resolution, Budget]:
    deployment = Deployment(**{"model": LLAMA, "gpu": gpu("h100"), **fields})
    resolution = resolve(deployment)
    return deployment, resolution, estimate_budget(deployment, resolution, flags, known=known)


def verdict(*args: Any, **fields: Any) -> Verdict:
    return check_start(*ask(*args, **fields))


def codes(found: Verdict) -> set[str]:
    return {finding.code for finding in found.findings}


class TestVerdicts:
    def test_an_ordinary_server_starts(self) -> None:
        found = verdict()
        assert found.starts == "yes"
        assert found.kv_cache is not None
        assert found.kv_cache.plan.num_blocks > 10_000
        assert not [finding for finding in found.findings if finding.severity == "error"]

    def test_a_model_that_is_too_large(self) -> None:
        found = verdict(model=load_model("meta-llama/Llama-3.3-70B-Instruct"))
        assert found.starts == "no"
        assert "CG560" in codes(found)
        assert verdict(model=load_model("meta-llama/Llama-3.3-70B-Instruct"), tensor_parallel_size=4).starts == "yes"

    def test_a_length_that_does_not_fit_names_the_one_that_does(self) -> None:
        deployment, resolution, budget = ask(gpu=gpu("l4"))
        found = check_start(deployment, resolution, budget)
        assert found.starts == "no"
        fix = next(finding.fix for finding in found.findings if finding.code == "CG561")
        assert fix is not None
        longest = int(fix.split()[1].rstrip(","))
        shorter = deployment.model_copy(update={"max_model_len": longest})
        kv = [left.best for left in budget.kv_cache]
        assert kv_cache(shorter, resolve(shorter), kv).plan.max_model_len == longest

    def test_all_constraints_are_reported_at_once(self) -> None:
        """One public report needed two starts of ten minutes to learn of both."""
        found = verdict(
            MemoryFlags(utilization=0.74), vllm="0.25.1", model=HYBRID, max_model_len=262144, max_num_seqs=256
        )
        assert {"CG561", "CG501"} <= codes(found)

    def test_within_the_bounds_it_is_unsure(self) -> None:
        deployment, resolution, budget = ask(known=Measured(graph_estimate=0))
        needed = 16 * GIB + 32 * 64 * 1024
        stage = budget.stages[0]
        near = replace(
            stage, kv_cache=stage.kv_cache._replace(low=needed - GIB, best=needed + GIB, high=needed + 2 * GIB)
        )
        found = check_start(deployment, resolution, replace(budget, stages=(near,)))
        assert found.starts == "unsure"
        assert [finding.severity for finding in found.findings if finding.code == "CG561"] == ["warning"]

    def test_memory_that_is_not_free_stops_it(self) -> None:
        assert verdict(MemoryFlags(utilization=0.999), tensor_parallel_size=2).starts == "no"

    def test_a_length_that_is_fitted_is_no_obstacle(self) -> None:
        deployment, resolution, budget = ask(gpu=gpu("l4"))
        found = check_start(deployment, resolution, budget, auto_fit=True)
        assert found.starts == "yes"
        assert found.kv_cache is not None
        assert 1 < found.kv_cache.plan.max_model_len < LLAMA.max_model_len


class TestLargest:
    def test_length(self) -> None:
        deployment, resolution, budget = ask(gpu=gpu("l4"))
        kv = [left.best for left in budget.kv_cache]
        longest = largest_model_len(deployment, resolution, kv)
        assert kv_cache(deployment, replace(resolution, max_model_len=longest), kv).plan.num_blocks > 0
        with pytest.raises(Exception, match="KV cache"):
            kv_cache(deployment, replace(resolution, max_model_len=longest + 16), kv)

    def test_length_is_at_most_the_models(self) -> None:
        assert largest_model_len(*ask()[:2], [400 * GIB]) == LLAMA.max_model_len
        assert largest_model_len(*ask()[:2], [0]) == 0

    def test_requests_of_a_model_with_states(self) -> None:
        fields = {"vllm": "0.25.1", "model": HYBRID, "max_model_len": 32768}
        flags = MemoryFlags(utilization=0.95)

        def budget_of(deployment: Deployment, resolution: Resolution) -> Budget:
            return estimate_budget(deployment, resolution, flags)

        most = largest_num_seqs(ask(flags, **fields)[0], budget_of, most=1024)
        assert 100 < most < 1024
        assert verdict(flags, **fields, max_num_seqs=most).starts != "no"
        assert "CG501" in codes(verdict(flags, **fields, max_num_seqs=most + 1))

    def test_requests_and_tokens_of_a_dense_model(self) -> None:
        deployment = ask()[0]
        assert largest_num_seqs(deployment, estimate_budget, most=4096) == 4096
        small = deployment.model_copy(update={"gpu": gpu("l4"), "max_model_len": 8192})
        most = largest_batch(small, estimate_budget)
        assert 2048 < most < 1 << 17
        assert largest_num_seqs(small.model_copy(update={"max_model_len": 131072}), estimate_budget) == 0

    def test_utilization(self) -> None:
        deployment, resolution, budget = ask(max_model_len=8192)
        least = least_utilization(deployment, resolution, budget)
        assert least is not None
        assert check_start(*ask(MemoryFlags(utilization=least), max_model_len=8192)).starts != "no"
        assert check_start(*ask(MemoryFlags(utilization=least - 0.01), max_model_len=8192)).starts == "no"
        assert least_utilization(*ask(gpu=gpu("t4"))) is None


def test_requests_by_length() -> None:
    deployment, resolution, budget = ask()
    kv = [left.best for left in budget.kv_cache]
    table = requests_by_length(deployment, resolution, kv)
    assert [row.length for row in table][:2] == [1024, 2048]
    assert table[-1].length == resolution.max_model_len
    counts = [row.requests for row in table]
    assert counts == sorted(counts, reverse=True)
    # Full attention: the tokens in the cache are the same whatever the length.
    assert table[0].requests * 1024 == pytest.approx(table[-1].requests * table[-1].length, rel=0.02)
    assert requests_by_length(deployment, resolution, [0], [2048])[0].requests == 0
