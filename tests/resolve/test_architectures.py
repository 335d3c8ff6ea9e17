"""Whether the release knows the model's architecture."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import MLA, WHISPER, drafting, outcome, refused

from cgplan import ModelShape
from cgplan.releases import SUPPORTED, holds
from cgplan.resolve.architectures import first_release

MAMBA2 = ModelShape(architectures=["Mamba2ForCausalLM"], model_type="mamba2", is_attention_free=True)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("LlamaForCausalLM", None),
        ("NoSuchForCausalLM", None),
        ("DeepseekV4ForCausalLM", "0.20.2"),
        ("KimiK3ForConditionalGeneration", "0.27.1"),
    ],
)
def test_the_release_that_brought_an_architecture(name: str, release: str | None) -> None:
    assert first_release(name) == release


@pytest.mark.parametrize("release", SUPPORTED)
def test_a_later_architecture_does_not_start(release: str) -> None:
    model = ModelShape(architectures=["KimiK3ForConditionalGeneration"])
    if holds(release, "0.27.1"):
        assert outcome(vllm=release, model=model).vllm_version == release
    else:
        error = refused(vllm=release, model=model)
        assert (error.code, error.fix) == ("CG137", "use --vllm 0.27.1 or later")


def test_one_known_name_is_enough() -> None:
    model = ModelShape(architectures=["KimiK3ForConditionalGeneration", "LlamaForCausalLM"])
    assert outcome(vllm="0.20.2", model=model).vllm_version == "0.20.2"


@pytest.mark.parametrize(
    ("fields", "code", "raised_as"),
    [
        ({"speculative_config": drafting("mtp", 1)}, "CG429", "NotImplementedError"),
        (
            {"vllm": "0.29.0", "speculative_config": drafting("eagle", 1), "pipeline_parallel_size": 2},
            "CG616",
            "NotImplementedError",
        ),
        ({"model": WHISPER, "pipeline_parallel_size": 2}, "CG616", "NotImplementedError"),
        ({"model": MAMBA2, "enable_lora": True}, "CG430", "ValidationError"),
        (
            {
                "vllm": "0.29.0",
                "pipeline_parallel_size": 2,
                "model": MLA.model_copy(update={"model_type": "qwen3_next"}),
                "speculative_config": drafting("mtp", 1),
            },
            "CG616",
            "NotImplementedError",
        ),
        (
            {
                "model": MLA.model_copy(update={"model_type": "nemotron_h"}),
                "speculative_config": drafting("mtp", 1),
            },
            "CG429",
            "NotImplementedError",
        ),
    ],
)
def test_what_a_class_does_not_support(fields: dict[str, Any], code: str, raised_as: str) -> None:
    """vllm/config/speculative.py:1500, vllm/config/model.py:1574, vllm/config/lora.py:151; before other refusals."""
    error = refused(**fields)
    assert (error.code, error.raised_as) == (code, raised_as)


def test_classes_that_support_them_start() -> None:
    assert outcome(pipeline_parallel_size=2).vllm_version == SUPPORTED[-1]
    later = outcome(vllm="0.30.0", speculative_config=drafting("eagle", 1), pipeline_parallel_size=2)
    assert later.vllm_version == "0.30.0"
    assert outcome(enable_lora=True, max_num_seqs=64).lora is not None
    model = MLA.model_copy(update={"model_type": "deepseek_v3"})
    assert outcome(model=model, speculative_config=drafting("mtp", 1)).uniform_decode_query_len == 2


@pytest.mark.parametrize(
    ("release", "code", "hybrid"),
    [("0.22.1", None, True), ("0.23.0", None, True), ("0.24.0", "CG140", None), ("0.29.0", "CG140", None)],
)
def test_a_hybrid_model_that_left(release: str, code: str | None, hybrid: bool | None) -> None:
    """Bamba: its own class until 0.23.0, refused until 0.29.0, then Transformers, which does not call it hybrid."""
    model = ModelShape(architectures=["BambaForCausalLM"], model_type="bamba", mamba_backends=["MAMBA2"])
    if code is None:
        assert outcome(vllm=release, model=model).config["is_hybrid"] is hybrid
    else:
        assert refused(vllm=release, model=model).code == code
    assert outcome(vllm="0.30.0", model=model).config["is_hybrid"] is False
