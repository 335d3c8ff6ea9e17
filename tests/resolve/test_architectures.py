"""Whether the release knows the model's architecture."""

from __future__ import annotations

import pytest
from resolve_helpers import outcome, refused

from cgplan import ModelShape
from cgplan.releases import SUPPORTED, holds
from cgplan.resolve.architectures import first_release


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
