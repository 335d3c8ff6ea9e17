"""Every setting that is said to keep what was does keep it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cgplan import Deployment
from cgplan.compare import compare, snapshot
from cgplan.compare.restore import restores
from cgplan.releases.gpus import gpu

PAIRS = (("0.25.1", "0.33.0"), ("0.27.1", "0.28.0"), ("0.28.0", "0.29.0"), ("0.33.0", "0.22.1"), ("0.22.1", "0.31.0"))
GIVEN: tuple[dict[str, Any], ...] = (
    {},
    {"max_num_seqs": 1000},
    {"max_num_seqs": 264},
    {"compilation_config": {"mode": 0}},
    {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    {"tensor_parallel_size": 2},
    {"compilation_config": {"cudagraph_mode": "FULL"}},
)
FIELDS = {
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-num-scheduled-tokens": "max_num_scheduled_tokens",
    "--max-cudagraph-capture-size": "max_cudagraph_capture_size",
    "--cudagraph-capture-sizes": "cudagraph_capture_sizes",
    "--attention-backend": "attention_backend",
}


def with_setting(given: dict[str, Any], setting: str) -> dict[str, Any]:
    """`given` with a flag or variable added."""
    if setting.startswith("VLLM_"):
        name, _, value = setting.partition("=")
        return given | {"env": given.get("env", {}) | {name: value}}
    config = dict(given.get("compilation_config", {}))
    if setting.startswith("-cc."):
        key, _, value = setting.removeprefix("-cc.").partition("=")
        head, dot, leaf = key.partition(".")
        config[head] = {**config.get(head, {}), leaf: json.loads(value)} if dot else json.loads(value)
        return given | {"compilation_config": config}
    flag, *values = setting.split()
    if flag == "--cudagraph-mode":
        return given | {"compilation_config": config | {"cudagraph_mode": values[0]}}
    if not values:
        name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
        return given | {name: not flag.startswith("--no-")}
    found: Any = [int(v) for v in values] if flag == "--cudagraph-capture-sizes" else values[0]
    return given | {FIELDS[flag]: int(found) if isinstance(found, str) and found.isdigit() else found}


def cases() -> list[Any]:
    return [
        pytest.param(name, pair, given, id=f"{name}-{'-'.join(pair)}-{json.dumps(given)}")
        for name in ("h100", "b200")
        for pair in PAIRS
        for given in GIVEN
    ]


@pytest.mark.parametrize(("name", "pair", "given"), cases())
def test_it_keeps_what_was(name: str, pair: tuple[str, str], given: dict[str, Any]) -> None:
    first, last = pair
    comparison = compare(Deployment(gpu=gpu(name), **given), first, last)
    for field, restore in restores(comparison).items():
        if restore.setting is not None:
            kept = snapshot(Deployment(gpu=gpu(name), **with_setting(given, restore.setting)), last)
            assert kept.error is None, (field, restore)
            change = comparison.change(field)
            assert change is not None
            assert kept.values.get(field) == change.before, (field, restore)


def test_what_no_setting_restores_says_so() -> None:
    deployment = Deployment(speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    found = restores(compare(deployment, "0.33.0", "0.22.1"))["runner"]
    assert (found.setting, found.note) == (None, "No setting restores it.")
