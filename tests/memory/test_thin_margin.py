"""What is said of a start that holds with less to spare than the estimate of the graphs may be off by."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.estimates import GIB
from cgplan.memory.plan import CapacityPlan
from cgplan.memory.thin_margin import margin
from cgplan.releases.gpus import gpu

WEIGHTS = Measured(weights=int(18.47 * GIB))
FIELDS: dict[str, Any] = {"max_model_len": 16384, "max_num_batched_tokens": 2048}


def made(release: str = "0.19.1", card: str = "rtx5090", share: float = 0.9, **more: Any) -> CapacityPlan:
    model = load_model("Qwen/Qwen3.6-27B")
    return plan(
        Deployment(model=model, gpu=gpu(card), vllm=release, **{**FIELDS, **more}), MemoryFlags(share), known=WEIGHTS
    )


def fix_of(found: CapacityPlan) -> str | None:
    return next((one.fix for one in found.findings if one.code == "CG598"), None)


@pytest.mark.parametrize(("share", "seqs"), [(0.9, "128"), (0.92, "64")])
def test_fewer_requests_and_sizes_are_proposed_with_what_they_free(share: float, seqs: str) -> None:
    """The first value that does is named: with more asked for half of the requests are still too many."""
    found = made(share=share)
    assert found.starts == "yes"
    fix = fix_of(found)
    assert fix is not None
    assert found.budget is not None
    before = found.budget.tightest.graphs.best
    tried = re.findall(r"--(max-num-seqs|max-cudagraph-capture-size) ([0-9]+) \(graphs take ([0-9.]+) GiB less", fix)
    assert [name for name, _, _ in tried] == ["max-num-seqs", "max-num-seqs", "max-cudagraph-capture-size"]
    assert tried[0][1] == seqs
    for name, value, freed in tried:
        then = made(share=share, **{name.replace("-", "_"): int(value)})
        assert then.starts == "yes"
        assert fix_of(then) is None
        assert then.budget is not None
        assert f"{(before - then.budget.tightest.graphs.best) / GIB:.2f}" == freed
        assert not margin(then.budget).is_thin


def test_where_enough_stays_free_nothing_is_said() -> None:
    assert fix_of(made(max_num_seqs=16)) is None
    assert fix_of(made("0.33.0")) is None
    assert fix_of(made(card="h100")) is None


def test_less_than_nothing_is_not_said_to_stay_free() -> None:
    """The low end is below nothing at 0.92, and above it at 0.9."""
    said = [next(one.message for one in made(share=at).findings if one.code == "CG598") for at in (0.92, 0.9)]
    assert said[0].startswith("at the low end of the estimates 0.")
    assert " are missing while idle" in said[0]
    assert " surely stay free while idle" in said[1]
