"""Which model of the catalogue is of the family of one that is not in it, and what is a slip of the pen."""

from __future__ import annotations

import pytest

from cgplan.inputs.served_model import named_model


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("Qwen/Qwen2-7B", "Qwen/Qwen2.5-7B"),
        ("Qwen/Qwen2-72B-Instruct", "Qwen/Qwen2.5-72B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-v0.3"),
        ("an-org/Qwen3-8B-of-ours", "Qwen/Qwen3-8B"),
    ],
)
def test_of_the_same_family_and_size(name: str, like: str) -> None:
    found = named_model(name)
    assert (found.like, found.is_relative, found.is_known) == (like, True, False)
    assert found.shape.weights is not None
    assert f"the shape of {like}, of the same family and size," in found.instead


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen3-8C", "Qwen/Qwen3-8BB", "meta-llama/Llama-3.1-8B-Instrct", "Qwen/Qwn3-8B",  # slips
        "Qwen/Qwen3.6-72B",  # another generation has that size
        "Qwen/Qwen2-VL-72B-Instruct",  # other layers
        "an-org/a-model", "an-org/my-7B", "Qwen/Qwen2", "7b", "",
    ],
)  # fmt: skip
def test_what_has_no_relative(name: str) -> None:
    found = named_model(name)
    assert (found.like, found.is_relative) == (None, False)


def test_a_quantised_relative_is_stored_as_its_name_says() -> None:
    found = named_model("Qwen/Qwen2-7B-Instruct-AWQ")
    plain = named_model("Qwen/Qwen2-7B-Instruct")
    assert found.is_relative
    assert found.shape.weights != plain.shape.weights


def test_the_same_model_is_no_relative() -> None:
    found = named_model("Qwen/Qwen3-8B-AWQ")
    assert (found.like, found.is_relative) == ("Qwen/Qwen3-8B", False)
    assert found.instead == "the shape of Qwen/Qwen3-8B"
