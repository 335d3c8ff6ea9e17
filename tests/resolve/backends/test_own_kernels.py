"""Models that pick their attention class themselves do not start where its kernels are missing (CG336)."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, ModelShape, Overrides, load_model, resolve
from cgplan.errors import StartupError
from cgplan.releases.gpus import gpu as gpu_named
from cgplan.resolve.support_table import support_table
from cgplan.sections import Gpu


def deployment(gpu: Any, vllm: str, **more: Any) -> Deployment:
    found = gpu_named(gpu) if isinstance(gpu, str) else gpu
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")
    return Deployment(model=model, gpu=found, vllm=vllm, tensor_parallel_size=8, **more)


@pytest.mark.parametrize(
    ("gpu", "vllm", "named", "needs"),
    [
        ("l40s", "0.33.0", "FLASHMLA_SPARSE_DSV4", "8.9: it needs 9.x or 10.x"),
        ("a100", "0.33.0", "FLASHMLA_SPARSE_DSV4", "8.0: it needs 9.x or 10.x"),
        ("a100", "0.28.0", "FLASHMLA_SPARSE_DSV4", "8.0: it needs 9.x or 10.x"),
        ("l40s", "0.20.2", "V4_FLASHMLA_SPARSE", "8.9: it needs 9.x or 10.x"),
        ("rtx5090", "0.23.0", "FLASHMLA_SPARSE_DSV4", "12.0: it needs 9.x or 10.x"),
    ],
)
def test_no_kernels(gpu: str, vllm: str, named: str, needs: str) -> None:
    with pytest.raises(StartupError) as caught:
        resolve(deployment(gpu, vllm))
    assert caught.value.code == "CG336"
    assert named in caught.value.message
    assert needs in caught.value.message


@pytest.mark.parametrize(
    ("gpu", "vllm"),
    [("h100", "0.33.0"), ("b200", "0.33.0"), ("rtx5090", "0.24.0"), ("h100", "0.20.2"), ("h100", "0.23.0")],
)
def test_kernels(gpu: str, vllm: str) -> None:
    assert resolve(deployment(gpu, vllm)).cudagraph_mode.value == "FULL_AND_PIECEWISE"


def test_a_class_that_is_asked_for_needs_its_kernels_too() -> None:
    asked = {"attention_backend": "FLASHINFER_MLA_SPARSE_DSV4"}
    with pytest.raises(StartupError, match=r"FLASHINFER_MLA_SPARSE_DSV4.*9\.0: it needs 10\.x or 12\.x"):
        resolve(deployment("h100", "0.33.0", **asked))
    assert resolve(deployment("b200", "0.33.0", **asked)).backend.name == "FLASHINFER_MLA_SPARSE_DSV4"


def test_the_table_says_what_is_chosen_and_that_it_does_not_start() -> None:
    found = support_table(deployment("l40s", "0.33.0"))
    assert found.choice is not None
    assert found.choice.name == "FLASHMLA_SPARSE_DSV4"
    assert found.why.startswith("vLLM does not start with it")
    assert support_table(deployment("h100", "0.33.0")).why == "the model picks its attention class itself"


def test_other_models_go_by_the_selector() -> None:
    sparse = Deployment(
        model=load_model("deepseek-ai/DeepSeek-V3.2"), gpu=Gpu(capability=(8, 0)), tensor_parallel_size=8
    )
    with pytest.raises(StartupError) as caught:
        resolve(sparse)
    assert caught.value.code == "CG303"


def test_a_recorded_answer_of_the_configuration_knows_no_kernels() -> None:
    found = resolve(deployment("l40s", "0.33.0"), Overrides(runs_kernels=False))
    assert found.backend.name == "FLASHMLA_SPARSE_DSV4"


@pytest.mark.parametrize(("capability", "starts"), [((8, 9), False), ((9, 0), True), ((10, 3), True), ((12, 0), False)])
def test_layers_beside_the_main_attention_count(capability: tuple[int, int], starts: bool) -> None:
    step5 = Deployment(model=ModelShape(architectures=("Step5ForCausalLM",)), gpu=Gpu(capability=capability))
    if starts:
        assert "STEP5_DSA" in {group.name for group in resolve(step5).backend.groups}
        return
    with pytest.raises(StartupError, match="STEP5_DSA") as caught:
        resolve(step5)
    assert (caught.value.code, caught.value.stage, caught.value.raised_as) == (
        "CG336", "load_model", "NotImplementedError"
    )  # fmt: skip
