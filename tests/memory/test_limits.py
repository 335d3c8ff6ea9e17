"""Does it start, why not, and the largest values that do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, Resolution, load_model, resolve
from cgplan.memory.budget.budget import Budget, MemoryFlags, estimate_budget
from cgplan.memory.budget.measured import Measured
from cgplan.memory.kv.cache import kv_cache
from cgplan.memory.limits import (
    Verdict,
    check_start,
    largest_model_len,
    least_utilization,
    requests_by_length,
)
from cgplan.memory.reach import MOST_SEQS, largest, least, longest_model_len, most_requests
from cgplan.memory.request import MemoryRequest
from cgplan.memory.verdict import surely_starts, verdict_of
from cgplan.releases.gpus import gpu

GIB = 1 << 30
LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct")
HYBRID = load_model("Qwen/Qwen3.6-27B")


def starts_by_best(deployment: Deployment, request: MemoryRequest) -> bool:
    return verdict_of(deployment, request).holds


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
        assert codes(found) == {"CG597"}
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
        most = most_requests(ask(flags, **fields)[0], MemoryRequest(flags), most=1024)
        assert 100 < most < 1024
        assert verdict(flags, **fields, max_num_seqs=most).holds
        assert "CG501" in codes(verdict(flags, **fields, max_num_seqs=most + 1))

    def test_requests_of_a_dense_model(self) -> None:
        deployment = ask()[0]
        assert most_requests(deployment, MemoryRequest(), most=4096) == 4096
        small = deployment.model_copy(update={"gpu": gpu("l4")})
        assert most_requests(small, MemoryRequest()) == 0

    @pytest.mark.parametrize("surely", [True, False])
    @pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b", "Qwen/Qwen3.5-9B"])
    def test_requests_that_are_named_start_and_one_more_does_not(self, surely: bool, name: str) -> None:
        deployment = Deployment(model=load_model(name), gpu=gpu("h100"), vllm="0.33.0")
        most = most_requests(deployment, MemoryRequest(), surely=surely)
        starts = surely_starts if surely else starts_by_best
        assert starts(deployment.model_copy(update={"max_num_seqs": most}), MemoryRequest())
        if most < MOST_SEQS:
            assert not starts(deployment.model_copy(update={"max_num_seqs": most + 1}), MemoryRequest())

    @pytest.mark.parametrize("surely", [True, False])
    @pytest.mark.parametrize(
        ("name", "card", "ranks"),
        [
            ("Qwen/Qwen3-8B", "l4", 1), ("openai/gpt-oss-120b", "h100", 1), ("google/gemma-3-27b-it", "h100", 1),
            ("meta-llama/Llama-3.3-70B-Instruct", "h100", 2), ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "h100", 8),
        ],
    )  # fmt: skip
    def test_a_length_that_is_named_starts_and_the_next_does_not(
        self, surely: bool, name: str, card: str, ranks: int
    ) -> None:
        """The budget is that of the length found: longer requests have larger buffers."""
        deployment = Deployment(model=load_model(name), gpu=gpu(card), tensor_parallel_size=ranks)
        longest = longest_model_len(deployment, MemoryRequest(), surely=surely)
        starts = surely_starts if surely else starts_by_best
        assert 0 < longest < deployment.model.max_model_len
        at = deployment.model_copy(update={"max_model_len": longest})
        assert starts(at, MemoryRequest())
        assert not starts(deployment.model_copy(update={"max_model_len": longest + 1}), MemoryRequest())
        assert longest_model_len(at, MemoryRequest(), surely=surely) == longest

    def test_utilization(self) -> None:
        deployment, resolution, budget = ask(max_model_len=8192)
        share = least_utilization(deployment, resolution, budget)
        assert share is not None
        assert check_start(*ask(MemoryFlags(utilization=share), max_model_len=8192)).starts == "yes"
        assert check_start(*ask(MemoryFlags(utilization=share - 0.01), max_model_len=8192)).starts != "yes"
        assert least_utilization(*ask(gpu=gpu("t4"))) is None


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(0, 4000))
def test_searches_find_the_edge(edge: int, most: int, guess: int) -> None:
    for near in (None, lambda: guess):
        assert largest(lambda number: number <= edge, most, near) == min(edge, most)
    assert least(lambda number: number >= edge, 1, most) == (max(edge, 1) if edge <= most else None)


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
