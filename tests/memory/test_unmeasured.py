"""What is said, early, of a deployment whose kind was never measured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.releases.gpus import gpu
from cgplan.report.plan_answer import is_pressing
from cgplan.trace import Finding


def made(on: str, name: str = "Qwen/Qwen3-8B", known: Measured | None = None, **more: Any) -> CapacityPlan:
    return plan(Deployment(model=load_model(name), gpu=gpu(on), vllm="0.33.0", **more), known=known)


def note(found: CapacityPlan) -> Finding | None:
    return next((one for one in found.findings if one.code == "CG553"), None)


@pytest.mark.parametrize(
    ("on", "more", "what"),
    [
        ("b200", {}, "on GPUs of capability 10.0"),
        ("a100", {}, "on GPUs of capability 8.0"),
        ("h100", {"data_parallel_size": 2}, "with data or expert parallelism"),
        ("h100", {"attention_backend": "FLEX_ATTENTION"}, "with FLEX_ATTENTION"),
    ],
)
def test_what_was_never_measured_is_named(on: str, more: dict[str, Any], what: str) -> None:
    found = note(made(on, **more))
    assert found is not None
    assert what in found.message
    assert "may be too low by GiB" in found.message
    assert "`cgplan profile`" in str(found.fix)
    assert is_pressing(found)


@pytest.mark.parametrize("on", ["h100", "h200", "l40s", "rtx5090", "rtx4090"])
def test_nothing_is_said_of_what_was(on: str) -> None:
    assert note(made(on, max_model_len=4096)) is None


def test_nor_where_it_is_measured_or_there_are_no_graphs() -> None:
    assert note(made("b200", known=Measured(graphs=GIB))) is None
    assert note(made("b200", enforce_eager=True)) is None


def test_the_share_that_is_proposed_leaves_room_and_starts() -> None:
    found = note(made("b200"))
    assert found is not None
    share = re.match(r"--gpu-memory-utilization ([0-9.]+) leaves 3 GiB more", str(found.fix))
    assert share is not None
    then = plan(
        Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("b200"), vllm="0.33.0"), MemoryFlags(float(share[1]))
    )
    before = made("b200")
    assert then.starts == "yes"
    assert before.budget is not None
    assert then.budget is not None
    assert before.budget.requested.best - then.budget.requested.best >= 3 * GIB
