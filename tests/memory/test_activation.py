"""The peak of the profile run, against measured runs. Nothing of the model is fitted to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import GIB, MIB, Run, quantile, runs, single_stage

from cgplan import Deployment, ModelShape, load_model, resolve
from cgplan.memory.budget.activation import StageActivation, estimate_activation, measured
from cgplan.releases.gpus import gpu

LLAMA = load_model("meta-llama/Llama-3.1-8B-Instruct")


def stage_of(**fields: object) -> StageActivation:
    deployment = Deployment(**{"model": LLAMA, "gpu": gpu("h100"), **fields})
    return estimate_activation(deployment, resolve(deployment)).stages[-1]


def run_named(name: str) -> Run:
    return next(run for run in runs() if run.name == name)


class TestAgainstMeasuredRuns:
    def test_error_and_bounds(self) -> None:
        errors, covered = [], []
        for run in single_stage():
            total, peak = estimate_activation(run.deployment, run.resolution).highest, run.record["activation"]
            errors.append(abs(total.best / peak - 1))
            covered.append(total.low - run.tolerance <= peak <= total.high + run.tolerance)
        assert quantile(errors, 0.5) < 0.004
        assert quantile(errors, 0.9) < 0.01
        assert sum(covered) >= 0.95 * len(covered)

    @pytest.mark.parametrize(
        ("name", "moment"),
        [
            ("l8-v1-def-256", "forward"),
            ("l8-v1-def-1024", "sampler"),
            ("l8-v1-mnbt2048-100", "compilation"),
            ("nemh8-v1-def-256", "forward"),
        ],
    )
    def test_the_moment_of_the_peak(self, name: str, moment: str) -> None:
        run = run_named(name)
        stage = estimate_activation(run.deployment, run.resolution).stages[0]
        assert stage.moment == moment
        assert stage.total.best == pytest.approx(run.record["activation"], rel=0.005)
        assert sum(stage.terms.values()) == stage.total.best

    def test_eager_mode_times_no_kernels(self) -> None:
        eager, compiled = (run_named(name) for name in ("l8-v1-eager-256", "l8-v1-none-256"))
        peaks = [estimate_activation(run.deployment, run.resolution).highest.best for run in (eager, compiled)]
        # The L2 cache of an H200.
        assert peaks[1] - peaks[0] == 60 * MIB == compiled.record["activation"] - eager.record["activation"]

    def test_stages_of_a_pipeline(self) -> None:
        # Llama 3.1 8B in four stages on H100 with 0.19.0: 1.10, 1.05, 1.05 and 2.01 GiB.
        deployment = Deployment(
            vllm="0.19.1", gpu=gpu("h100"), model=LLAMA, pipeline_parallel_size=4, max_model_len=8192
        )
        stages = estimate_activation(deployment, resolve(deployment)).stages
        assert [stage.total.best / GIB for stage in stages] == pytest.approx([1.10, 1.05, 1.05, 2.01], abs=0.008)


class TestStructure:
    @given(rows=st.integers(1, 2048), more=st.integers(1, 2048))
    def test_more_requests_never_take_less(self, rows: int, more: int) -> None:
        assert stage_of(max_num_seqs=rows).total.best <= stage_of(max_num_seqs=rows + more).total.best

    @given(tokens=st.integers(512, 16384), more=st.integers(1, 16384))
    def test_more_tokens_never_take_less(self, tokens: int, more: int) -> None:
        few, many = (
            stage_of(max_num_batched_tokens=n, max_num_seqs=256, max_model_len=512) for n in (tokens, tokens + more)
        )
        assert few.total.best <= many.total.best

    @given(rows=st.sampled_from([16, 256, 1024]), ranks=st.sampled_from([1, 2, 4, 8]))
    def test_bounds_enclose_the_best(self, rows: int, ranks: int) -> None:
        total = stage_of(max_num_seqs=rows, tensor_parallel_size=ranks).total
        assert 0 < total.low <= total.best <= total.high

    def test_logits_are_of_the_whole_vocabulary_on_every_rank(self) -> None:
        fields = {"max_num_seqs": 1024, "vllm": "0.25.1", "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
        one, eight = (stage_of(tensor_parallel_size=n, **fields) for n in (1, 8))
        assert one.terms["logits"] == eight.terms["logits"] == 1024 * 128256 * 2

    def test_the_triton_sampler_keeps_a_workspace_and_flashinfer_does_not(self) -> None:
        fields = {"vllm": "0.25.1", "max_num_seqs": 1024, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
        off = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}}
        assert "sampler workspace" not in stage_of(**fields).terms
        assert stage_of(**{**fields, **off}).terms["sampler workspace"] == 132 * 128256 * 4

    def test_runner_v2_samples_with_more_since_0_33(self) -> None:
        fields = {"max_num_seqs": 1024, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
        before, since = (stage_of(vllm=release, **fields).moments["sampler"] for release in ("0.32.0", "0.33.0"))
        assert since - before == 3 * 1024 * 128256 * 4

    def test_experts_keep_two_buffers(self) -> None:
        model = load_model("Qwen/Qwen3-30B-A3B")
        deployment = Deployment(model=model, gpu=gpu("h100"), max_num_batched_tokens=8192)
        stage = estimate_activation(deployment, resolve(deployment)).stages[0]
        # 8,192 tokens, 8 experts each, outputs of 2048 from both projections.
        assert stage.terms["experts"] == 8192 * 8 * (2048 + 2048) * 2

    def test_images_are_kept_to_the_end(self) -> None:
        model = load_model("google/gemma-3-27b-it")
        deployment = Deployment(vllm="0.19.1", gpu=gpu("h100"), model=model, max_model_len=8192)
        stage = estimate_activation(deployment, resolve(deployment)).stages[0]
        assert stage.moment == "sampler"
        assert stage.terms["pixels"] == 32 * 3 * 896 * 896 * 2
        assert stage.terms["encoder outputs"] == 32 * 256 * 5376 * 2

    def test_a_shape_without_weights_has_wide_bounds(self) -> None:
        plain = ModelShape()
        total = stage_of(model=plain).total
        assert total.high > 1.3 * total.best


def test_measured_peaks_are_exact() -> None:
    assert measured([GIB], "a log").highest.is_exact
