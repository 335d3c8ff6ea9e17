"""Plans for a GPU whose memory is the system's: what is free is not known, and no firm answer is given."""

from __future__ import annotations

import re

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.budget.non_torch import SYSTEM
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.releases.gpus import gpu
from cgplan.report.plan_answer import BEST_ONLY, IF_FREE, STARTS, headline


def made(
    on: str = "gb10", share: float | None = None, free: int | None = None, model: str = "Qwen/Qwen3-8B"
) -> CapacityPlan:
    deployment = Deployment(model=load_model(model), gpu=gpu(on), max_model_len=8192, vllm="0.33.0")
    return plan(deployment, MemoryFlags(share), known=Measured(free=free))


def codes(found: CapacityPlan) -> set[str]:
    return {one.code for one in found.findings}


def test_the_system_takes_its_part() -> None:
    budget = made().budget
    assert budget is not None
    taken = [(budget.total.best - free) / GIB for free in (budget.free.high, budget.free.best, budget.free.low)]
    assert taken == pytest.approx(list(SYSTEM), abs=0.01)
    other = made("h100").budget
    assert other is not None
    assert other.total.best - other.free.low < GIB


def test_no_firm_answer_while_what_is_free_is_not_known() -> None:
    assert (made().starts, headline(made())[0]) == ("unsure", BEST_ONLY)
    low = made(share=0.8)
    assert (low.starts, headline(low)) == ("yes", (IF_FREE, "warning"))
    note = next(one for one in low.findings if one.code == "CG589")
    assert "95.76 GiB of 119.70 have to be free" in note.message
    assert "--free-bytes" in str(note.fix)


def test_what_is_given_as_free_is_believed() -> None:
    known = made(share=0.8, free=110 * GIB)
    assert headline(known)[0] == STARTS
    assert "CG589" not in codes(known)
    assert made(share=0.8, free=80 * GIB).starts == "no"


def test_other_gpus_have_a_memory_of_their_own() -> None:
    assert "CG589" not in codes(made("h100"))
    assert headline(made("h100"))[0] == STARTS


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b", "Qwen/Qwen3-32B"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.9, 0.98])
def test_no_share_is_proposed_that_leaves_the_system_nothing(model: str, share: float) -> None:
    found = made(share=share, model=model)
    assert found.budget is not None
    most = found.budget.free.low / found.budget.total.best
    named = [
        text for one in found.findings for text in re.findall(r"--gpu-memory-utilization ([0-9.]+)", one.fix or "")
    ]
    assert all(float(text.rstrip(".")) <= most for text in named)
    if found.starts != "yes":
        assert named
