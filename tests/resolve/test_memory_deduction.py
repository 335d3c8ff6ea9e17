"""Whether an estimate of the graphs' memory is taken off the KV cache."""

from __future__ import annotations

import pytest

from cgplan import CUDAGraphMode, Deployment, Gpu, InputError, ModelShape, Runner
from cgplan.releases import SUPPORTED
from cgplan.resolve.memory_deduction import VARIABLE, graph_memory_deducted

V1, V2 = Runner.V1, Runner.V2


@pytest.mark.parametrize("release", [release for release in SUPPORTED if release != "0.19.1"])
def test_runner_v1_estimates_by_default(release: str) -> None:
    assert graph_memory_deducted(Deployment(), release, V1).deducted


def test_runner_v2_estimates_from_029() -> None:
    before, after = (graph_memory_deducted(Deployment(), release, V2) for release in ("0.28.0", "0.29.0"))
    assert (before.deducted, after.deducted) == (False, True)
    assert "always 0" in before.reason


@pytest.mark.parametrize(("text", "deducted"), [("0", False), ("1", True)])
def test_the_variable_decides(text: str, deducted: bool) -> None:
    found = graph_memory_deducted(Deployment(env={VARIABLE: text}), "0.33.0", V2)
    assert found == (deducted, f"{VARIABLE}={text}.")


def test_the_variable_does_not_help_where_nothing_is_estimated() -> None:
    assert not graph_memory_deducted(Deployment(env={VARIABLE: "1"}), "0.28.0", V2).deducted


def test_a_variable_that_is_no_number() -> None:
    with pytest.raises(InputError, match="no whole number"):
        graph_memory_deducted(Deployment(env={VARIABLE: "yes"}), "0.33.0", V1)


@pytest.mark.parametrize("mode", [CUDAGraphMode.NONE, CUDAGraphMode.FULL])
def test_without_graphs_there_is_nothing_to_estimate(mode: CUDAGraphMode) -> None:
    assert graph_memory_deducted(Deployment(), "0.33.0", V2, mode).deducted is (mode is CUDAGraphMode.FULL)
    assert not graph_memory_deducted(Deployment(enforce_eager=True), "0.33.0", V2, mode).deducted


def test_the_encoder_alone_is_estimated_on_v2_from_033() -> None:
    deployment = Deployment(
        model=ModelShape(is_multimodal_model=True), compilation_config={"cudagraph_mm_encoder": True}
    )
    none = CUDAGraphMode.NONE
    assert graph_memory_deducted(deployment, "0.33.0", V2, none).deducted
    assert not graph_memory_deducted(deployment, "0.32.0", V2, none).deducted
    assert not graph_memory_deducted(deployment, "0.33.0", V1, none).deducted


@pytest.mark.parametrize(("release", "deducted"), [("0.25.1", False), ("0.26.0", True)])
def test_rocm_estimates_from_026(release: str, deducted: bool) -> None:
    gpu = Gpu(platform="rocm", name="AMD Instinct MI300X", capability=(9, 4))
    assert graph_memory_deducted(Deployment(gpu=gpu), release, V1).deducted is deducted


def test_019_asks_for_the_estimate_by_name() -> None:
    assert not graph_memory_deducted(Deployment(), "0.19.1", V1).deducted
    assert graph_memory_deducted(Deployment(env={VARIABLE: "1"}), "0.19.1", V1).deducted
