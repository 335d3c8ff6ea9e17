"""Embedding models that are not in the catalogue: a shape stands in for them in every command, and it pools."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cgplan.inputs.served_model import named_model, pools_by_name

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("name", "like", "kind"),
    [
        ("Qwen/Qwen3-Embedding-0.6B", "Qwen/Qwen3-0.6B", "pooling"),
        ("Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-8B", "pooling"),
        ("Qwen/Qwen3-Reranker-8B", "Qwen/Qwen3-8B", "generate"),
        ("BAAI/bge-m3", None, "pooling"),
        ("intfloat/e5-mistral-7b-instruct", None, "pooling"),
        ("my-org/Qwen3-8B-AWQ", "Qwen/Qwen3-8B", "generate"),
        ("my-org/my-model", None, "generate"),
    ],
)
def test_what_stands_in(name: str, like: str | None, kind: str) -> None:
    found = named_model(name)
    assert (found.like, found.shape.runner_type) == (like, kind)
    assert ("pooling by its name" in found.instead) is (kind == "pooling")


@pytest.mark.parametrize(
    ("name", "pools"),
    [("nomic-embed-text-v1.5", True), ("gte-Qwen2-7B", True), ("a/bge-large-en", True), ("phage5-7b", False),
     ("big-e5x", False), ("Qwen3-8B", False)],
)  # fmt: skip
def test_a_word_of_the_name_tells_it(name: str, *, pools: bool) -> None:
    assert pools_by_name(name) is pools


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("x/Qwen3-8B-GPTQ-4bit-128g", "int4, groups of 128"),
        ("x/Qwen3-8B-GPTQ-w4g128", "int4, groups of 128"),
        ("x/Qwen3-8B-AWQ-w4a16-asym", "int4, groups of 128"),
        ("Intel/Qwen3.6-27B-int4-mixed-AutoRound", "int4, groups of 128"),
        ("x/Qwen3-8B-GPTQ-Int8", "int8"),
        ("x/Qwen3-8B-exl3-4.0bpw", None),
        ("x/Qwen3-8B-HQQ", None),
    ],
)
def test_community_quantisation_is_never_counted_as_published(name: str, scheme: str | None) -> None:
    found = named_model(name)
    assert found.like in ("Qwen/Qwen3-8B", "Qwen/Qwen3.6-27B")
    weights = found.shape.weights
    assert (weights.schemes[0].name if weights is not None else None) == scheme


def test_the_runner_that_is_given_counts() -> None:
    found = named_model("Qwen/Qwen3-Embedding-8B", "generate")
    assert found.shape.runner_type == "generate"
    assert "pooling" not in found.instead


@pytest.mark.parametrize("model", ["BAAI/bge-m3", "Qwen/Qwen3-Embedding-0.6B"])
@pytest.mark.parametrize(
    "command",
    ["resolve {}", "backends {} --gpu h100", "diff --from 0.32 --model {} --gpu h100", "check -- vllm serve {}"],
)
def test_commands_answer_for_it(cgplan: Run, command: str, model: str) -> None:
    status, out, err = cgplan(*command.format(model).split())
    assert (status, err) == (0, "")
    said = " ".join(out.split())
    assert "pooling by its name" in said
    assert "FULL_AND_PIECEWISE," not in said.partition("Assumed")[0].partition("becomes")[0]


def test_memory_of_an_unlike_one_needs_the_bytes_of_its_weights(cgplan: Run) -> None:
    for words in (
        ("plan", "BAAI/bge-m3", "--gpu", "h100"),
        ("plan", "--gpu", "h100", "--", "vllm", "serve", "BAAI/bge-m3"),
    ):
        status, _, err = cgplan(*words)
        assert status == 2
        assert "--weights-bytes" in err.partition("fix: ")[2]
        given = (*words[:1], "--weights-bytes", "1.1G", *words[1:])
        assert cgplan(*given)[0] == 0


def test_a_default_that_nobody_asked_for_is_an_information_without_a_fix(cgplan: Run) -> None:
    def told(*more: str) -> dict[str, str | None]:
        document = json.loads(cgplan("resolve", "Qwen/Qwen3-0.6B", "--runner", "pooling", *more, "--json")[1])
        found: dict[str, str | None] = next(one for one in document["findings"] if one["code"] == "CG207")
        return found

    assert (told()["severity"], told()["fix"]) == ("info", None)
    assert told("-cc.cudagraph_mode=FULL_AND_PIECEWISE")["severity"] == "warning"
