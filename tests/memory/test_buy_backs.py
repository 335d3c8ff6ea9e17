"""What other CUDA graphs give back: put into the launch as the row says, each gives the graphs that it promises."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, gpu, load_model, plan, resolve
from cgplan.memory.what_if import BuyBack, buy_backs

SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
GIVEN: list[dict[str, Any]] = [
    {},
    {"max_num_seqs": 100},
    {"max_cudagraph_capture_size": 250},
    {"max_cudagraph_capture_size": 256},
    {"max_num_seqs": 1024, "cudagraph_capture_sizes": tuple(range(1, 1501))},
    {"cudagraph_capture_sizes": (1, 3, 5, 7, 9, 33, 67, 100, 300), "max_cudagraph_capture_size": 300},
    {"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24, 32, 40, 48, 64]}},
    {"compilation_config": {"max_cudagraph_capture_size": 300}},
    {"compilation_config": {"cudagraph_mode": "FULL"}, "vllm": "0.20.2"},
    {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}},
]


def made(fields: dict[str, Any]) -> tuple[Deployment, tuple[BuyBack, ...]]:
    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **fields)
    return deployment, buy_backs(plan(deployment))


def applied(fields: dict[str, Any], one: BuyBack) -> Deployment:
    """The launch with the option of the row beside it, and without what the row says that it replaces."""
    fields = {name: dict(value) if isinstance(value, dict) else value for name, value in fields.items()}
    options = dict(fields.get("compilation_config", {}))
    replaced = one.cost.partition("; ")[0] if one.cost.startswith("in the place of ") else ""
    for name in SIZES:
        if f"{name} of --compilation-config" in replaced:
            del options[name]
        if f"--{name.replace('_', '-')}" in replaced:
            del fields[name]
    flag, _, value = one.change.partition(" ")
    if flag == "--cudagraph-capture-sizes":
        fields["cudagraph_capture_sizes"] = tuple(map(int, value.split()))
    elif flag == "--max-cudagraph-capture-size":
        fields["max_cudagraph_capture_size"] = int(value)
    elif flag.startswith("-cc.cudagraph_mode="):
        options["cudagraph_mode"] = flag.partition("=")[2]
    elif flag.startswith("--attention-config."):
        key, _, number = flag.removeprefix("--attention-config.").partition("=")
        fields["attention_config"] = {key: int(number)}
    else:
        name, _, number = flag.partition("=")
        fields["env"] = {name: number}
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **(fields | {"compilation_config": options}))


@pytest.mark.parametrize("fields", GIVEN, ids=str)
def test_applied_each_gives_what_it_promises(fields: dict[str, Any]) -> None:
    _, bought = made(fields)
    assert bought
    for one in bought:
        assert resolve(applied(fields, one)).graph_count() == one.outcome.graphs, one.change


def test_where_nothing_of_sizes_is_given_nothing_is_replaced() -> None:
    assert not [one for one in made({})[1] if "the place of" in one.cost or "that is given" in one.cost]


def test_a_key_beside_a_json_text_is_to_go_into_it() -> None:
    found = made({"compilation_config": {"max_cudagraph_capture_size": 256}})[1]
    modes = [one for one in found if one.change.startswith("-cc.")]
    assert modes
    assert all(one.cost.startswith("as a key of the --compilation-config that is given; ") for one in modes)
