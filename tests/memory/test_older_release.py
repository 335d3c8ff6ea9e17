"""A release that is older than all that are known is not said to refuse what it may not look at."""

from __future__ import annotations

import pytest

from cgplan import Deployment, MemoryFlags, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.older_release import for_release
from cgplan.releases.gpus import gpu


def made(share: float) -> CapacityPlan:
    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), vllm="0.19.1")
    return plan(deployment, MemoryFlags(share))


def test_the_check_of_free_memory_is_not_that_of_an_old_release() -> None:
    rules = made(0.998)
    assert (rules.starts, rules.ends) == ("no", ("CG504",))
    found = for_release(rules, "0.8.5")
    one = next(one for one in found.findings if one.code == "CG504")
    assert one.severity == "warning"
    assert "refuse" not in one.message
    assert "0.8.5 is not known to look at that" in one.message
    assert "come on top of --gpu-memory-utilization" in one.message
    assert (found.starts, found.ends, found.fits) == ("unsure", (), True)


@pytest.mark.parametrize("wanted", ["0.9.1", "v0.10.2", "0.19.1", "nightly", None])
def test_releases_that_were_seen_to_refuse_still_do(wanted: str | None) -> None:
    rules = made(0.998)
    assert for_release(rules, wanted) is rules


def test_without_a_refusal_nothing_changes() -> None:
    rules = made(0.9)
    assert for_release(rules, "0.8.5") is rules
