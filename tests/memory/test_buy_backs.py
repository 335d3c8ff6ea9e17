"""What other CUDA graphs give back: put into the launch as the row says, each gives the graphs that it promises."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, MemoryFlags, gpu, load_model, plan, resolve
from cgplan.memory.what_if import BuyBack, buy_backs
from cgplan.report.plan_words import bought_rows
from cgplan.resolve.memory_deduction import VARIABLE

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


def test_the_verdict_is_that_of_a_plan_with_the_change() -> None:
    """The low end of the KV cache counts, too: a change that may not start is not said to."""
    seen = set()
    for share in (0.26, 0.27, 0.9, 0.97):
        asked = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), vllm="0.33.0", max_model_len=16384)
        made = plan(asked, MemoryFlags(share))
        found = {one.change: one.outcome for one in buy_backs(made)}
        off = found.get(f"{VARIABLE}=0")
        if off is None:
            continue
        then = plan(asked.model_copy(update={"env": {VARIABLE: "0"}}), MemoryFlags(share))
        assert (off.starts, off.fits, off.tokens) == (then.starts, then.fits, then.best.plan and then.best.plan.tokens)
        seen.add(off.starts)
    assert len(seen) > 1, seen


def test_what_leaves_more_free_where_the_graphs_come_on_top() -> None:
    """D09: 504 graphs of an old release take nothing of the KV cache, and GiB beside it."""
    fields = {"enable_lora": True, "max_loras": 8, "specialize_active_lora": True}
    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), vllm="0.19.1", **fields)
    found = {one.change: one for one in buy_backs(plan(deployment))}
    row = found["no --specialize-active-lora"]
    assert row.kv_bytes is not None
    assert abs(row.kv_bytes) < 2**20
    assert row.freed_bytes > 2**30
    assert row.outcome.graphs == 204
    assert (row.outcome.capture_seconds or 0) > 1
    words = bought_rows([row])[0]
    assert words[4].endswith(" GiB more free")
    counted = {"vllm": "0.25.1", "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
    few = {one.change: one for one in buy_backs(plan(deployment.model_copy(update=counted)))}
    assert few["no --specialize-active-lora"].freed_bytes == 0
    assert (few["no --specialize-active-lora"].kv_bytes or 0) > 2**30
