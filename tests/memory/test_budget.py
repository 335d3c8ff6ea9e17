"""The budget: identities of vLLM's formulas, and the KV cache that measured runs got."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import GIB, MIB, quantile, runs, single_stage

from cgplan import Deployment, load_model, resolve
from cgplan.memory.budget.budget import (
    Budget,
    MemoryFlags,
    default_utilization,
    estimate_budget,
    requested_bytes,
    runner_buffers,
)
from cgplan.memory.budget.measured import Measured
from cgplan.memory.estimates import Interval, between, exactly, total
from cgplan.releases.gpus import gpu
from cgplan.sections import SpeculativeOptions
from cgplan.vocabulary import Runner

LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct")
GRAPHS = exactly(GIB, "test")


def made(flags: MemoryFlags | None = None, known: Measured | None = None, **fields: Any) -> Budget:
    deployment = Deployment(**{"model": LLAMA, "gpu": gpu("h100"), **fields})
    return estimate_budget(deployment, resolve(deployment), flags, known=known, graphs=GRAPHS, graph_estimate=GRAPHS)


def codes(budget: Budget) -> list[str]:
    return [finding.code for finding in budget.findings]


class TestAgainstMeasuredRuns:
    def test_the_formula_is_vllms(self) -> None:
        """Given every term, the KV cache is what vLLM got: to the byte where the run printed bytes."""
        for run in single_stage():
            record = run.record
            known = Measured(**{key: record[key] for key in ("weights", "activation", "non_torch", "graph_estimate")})
            budget = estimate_budget(
                run.deployment, run.resolution, MemoryFlags(utilization=record["utilization"]), known=known
            )
            # Four printed values are each off by half a digit.
            slack = 4 * run.tolerance + (MIB if run.tolerance else 0)
            assert abs(budget.tightest.kv_cache.best - record["kv_cache"]) <= slack, run.name

    @pytest.mark.parametrize("gives_weights", [True, False])
    def test_error_and_bounds(self, gives_weights: bool) -> None:
        errors, covered = [], []
        for run in single_stage():
            record = run.record
            known = Measured(
                weights=record["weights"] if gives_weights else None, graph_estimate=record["graph_estimate"]
            )
            flags = MemoryFlags(utilization=record["utilization"])
            left = estimate_budget(run.deployment, run.resolution, flags, known=known).tightest.kv_cache
            errors.append(abs(left.best / record["kv_cache"] - 1))
            covered.append(left.low - run.tolerance <= record["kv_cache"] <= left.high + run.tolerance)
        assert quantile(errors, 0.5) < 0.001
        assert quantile(errors, 0.9) < 0.005
        assert max(errors) < 0.01
        assert sum(covered) >= 0.95 * len(covered)

    def test_every_run_that_started_is_said_to(self) -> None:
        for run in runs():
            record = run.record
            known = Measured(graphs=record["graphs"], graph_estimate=record["graph_estimate"], free=record["free"])
            flags = MemoryFlags(utilization=record["utilization"])
            budget = estimate_budget(run.deployment, run.resolution, flags, known=known)
            assert not [finding for finding in budget.findings if finding.severity == "error"], run.name
            assert budget.tightest.kv_cache.low > 0


class TestFormula:
    def test_default_utilization(self) -> None:
        assert default_utilization("0.19.1") == 0.9
        assert default_utilization("0.20.2") == default_utilization("0.33.0") == 0.92

    @given(size=st.integers(1, 200 * GIB), share=st.floats(0.01, 1.0))
    def test_the_share_is_rounded_up(self, size: int, share: float) -> None:
        asked = requested_bytes(size, share)
        assert asked - 1 < size * share <= asked

    def test_the_terms_add_up(self) -> None:
        budget = made(vllm="0.25.1")
        stage = budget.stages[0]
        off = stage.weights.best + stage.activation.best + stage.non_torch.best + stage.deducted.best
        assert stage.kv_cache.best == budget.requested.best - off
        assert not stage.counts_buffers

    def test_since_0_27_the_buffers_are_taken_off(self) -> None:
        budget = made(vllm="0.27.1")
        stage = budget.stages[0]
        off = [stage.weights, stage.activation, stage.non_torch, stage.deducted, stage.buffers]
        assert stage.counts_buffers
        assert stage.kv_cache.best == budget.requested.best - sum(part.best for part in off)

    @pytest.mark.parametrize(
        ("release", "runner", "switch", "deducted"),
        [
            ("0.19.1", "0", None, False),
            ("0.25.1", "0", None, True),
            ("0.25.1", "0", "0", False),
            ("0.28.0", "1", None, False),
            ("0.29.0", "1", None, True),
            ("0.33.0", "1", "0", False),
        ],
    )
    def test_the_estimate_of_the_graphs(self, release: str, runner: str, switch: str | None, deducted: bool) -> None:
        env = {"VLLM_USE_V2_MODEL_RUNNER": runner}
        if switch is not None:
            env["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"] = switch
        budget = made(vllm=release, env=env)
        assert budget.deduction.deducted is deducted
        assert budget.stages[0].deducted.best == (GIB if deducted else 0)

    def test_kv_cache_memory_bytes_sets_the_cache(self) -> None:
        budget = made(MemoryFlags(kv_cache_bytes=20 * GIB, reserve_bytes=GIB))
        assert budget.is_manual
        assert budget.tightest.kv_cache[:3] == (19 * GIB,) * 3
        assert budget.stages[0].deducted.best == 0

    def test_measured_values_take_the_place_of_estimates(self) -> None:
        known = Measured(weights=15 * GIB, activation=2 * GIB, non_torch=GIB // 4, total=80 * GIB, free=79 * GIB)
        budget = made(MemoryFlags(utilization=0.9), known, vllm="0.25.1", env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
        assert budget.tightest.kv_cache.best == 72 * GIB - 15 * GIB - 2 * GIB - GIB // 4 - GIB
        assert budget.tightest.kv_cache.is_exact

    @given(
        utilization=st.floats(0.05, 1.0),
        release=st.sampled_from(["0.19.1", "0.25.1", "0.33.0"]),
        ranks=st.sampled_from([1, 2, 4]),
    )
    def test_bounds_enclose_the_best(self, utilization: float, release: str, ranks: int) -> None:
        budget = made(MemoryFlags(utilization=utilization), vllm=release, tensor_parallel_size=ranks)
        for stage in budget.stages:
            assert stage.kv_cache.low <= stage.kv_cache.best <= stage.kv_cache.high
            assert stage.unused.low <= stage.unused.best <= stage.unused.high


class TestBuffers:
    def test_counts_of_the_vocabulary_of_runner_v2(self) -> None:
        few, many = (
            Deployment(
                model=LLAMA, vllm="0.25.1", max_num_seqs=rows, env={"VLLM_USE_V2_MODEL_RUNNER": "1"}, max_model_len=8192
            )
            for rows in (256, 1024)
        )
        grown = runner_buffers(many, resolve(many)).best - runner_buffers(few, resolve(few)).best
        # Measured: 15,503 and 15,916 MiB after loading, of the same weights.
        assert grown / MIB == pytest.approx(15916 - 15503, rel=0.05)

    @pytest.mark.parametrize(
        ("release", "method", "on_gpu"),
        [("0.25.1", None, False), ("0.31.0", None, False), ("0.33.0", None, False), ("0.33.0", "ngram", True)],
    )
    def test_tokens_of_every_row_are_on_the_host_but_for_ngram(
        self, release: str, method: str | None, on_gpu: bool
    ) -> None:
        spec = None if method is None else SpeculativeOptions(method=method, num_speculative_tokens=3)
        short, long = (
            Deployment(
                model=LLAMA, vllm=release, max_num_seqs=256, max_model_len=length, speculative_config=spec,
                env={"VLLM_USE_V2_MODEL_RUNNER": "1"},
            )
            for length in (8192, 131072)
        )  # fmt: skip
        assert resolve(long).runner is Runner.V2
        grown = runner_buffers(long, resolve(long)).best - runner_buffers(short, resolve(short)).best
        assert grown == (256 * (131072 - 8192) * 4 if on_gpu else 0)

    def test_embeddings_of_a_batch_of_runner_v1(self) -> None:
        deployment = Deployment(
            model=LLAMA, vllm="0.25.1", max_num_batched_tokens=16384, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}
        )
        assert runner_buffers(deployment, resolve(deployment)).low == 16384 * 4096 * 2


class TestFindings:
    def test_memory_that_is_not_free(self) -> None:
        budget = made(MemoryFlags(utilization=0.99), tensor_parallel_size=2)
        finding = next(finding for finding in budget.findings if finding.code == "CG504")
        assert finding.severity == "error"
        assert finding.fix == "--gpu-memory-utilization 0.97 or less"
        assert "CG504" not in codes(made(MemoryFlags(utilization=0.95), tensor_parallel_size=2))

    def test_a_share_just_above_what_is_free_is_a_warning(self) -> None:
        known = Measured(total=100 * GIB)
        budget = made(MemoryFlags(utilization=0.996), known)
        assert ("CG504", "warning") in [(finding.code, finding.severity) for finding in budget.findings]

    def test_graphs_that_do_not_fit_beside_the_cache(self) -> None:
        known = Measured(graphs=4 * GIB, free=79 * GIB, activation=GIB)
        tight = made(MemoryFlags(utilization=0.99), known, vllm="0.19.1")
        assert "CG507" in codes(tight)
        assert tight.tightest.unused.best < 0
        assert "CG507" not in codes(made(MemoryFlags(utilization=0.9), known, vllm="0.19.1"))

    def test_more_kv_cache_than_the_gpu_holds(self) -> None:
        assert "CG508" in codes(made(MemoryFlags(kv_cache_bytes=80 * GIB)))
        assert "CG508" not in codes(made(MemoryFlags(kv_cache_bytes=20 * GIB)))

    def test_the_sampler_runs_again_after_capture(self) -> None:
        """One public log ends here: 1,024 rows of 201,088 entries, 1.84 GiB of graphs and 0.95 of an H100."""
        fields = {"vllm": "0.19.1", "model": load_model("openai/gpt-oss-20b"), "max_model_len": 8192}
        known = Measured(graphs=int(1.84 * GIB), free=int(78.68 * GIB))
        tight = made(MemoryFlags(utilization=0.95), known, **fields)
        finding = next(finding for finding in tight.findings if finding.code == "CG509")
        assert finding.severity == "warning"
        assert finding.fix is not None
        assert finding.fix.endswith("--max-num-seqs 512")
        assert "CG509" not in codes(made(MemoryFlags(utilization=0.92), known, **fields))
        assert "CG509" not in codes(made(MemoryFlags(utilization=0.95), known, **fields, max_num_seqs=512))

    def test_buffers_outside_the_budget(self) -> None:
        fields = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "max_num_seqs": 1024}
        assert "CG506" in codes(made(vllm="0.25.1", **fields))
        assert "CG506" not in codes(made(vllm="0.33.0", **fields))


class TestIntervals:
    def test_between_keeps_the_best_inside(self) -> None:
        assert between(5, 3, 4, "")[:3] == (3, 3, 4)
        assert between(1, 3, 2, "")[:3] == (1, 3, 3)

    @given(st.lists(st.integers(0, 2**40).map(lambda n: exactly(n, ""))))
    def test_the_sum_of_exact_values_is_exact(self, parts: list[Interval]) -> None:
        found = total(parts, "sum")
        assert found.is_exact
        assert found.best == sum(part.best for part in parts)

    def test_as_dict_and_plus(self) -> None:
        found = Interval(1, 2, 3, "a").plus(Interval(10, 20, 30, "b"))
        assert found.as_dict() == {"low": 11, "best": 22, "high": 33, "source": "a"}
