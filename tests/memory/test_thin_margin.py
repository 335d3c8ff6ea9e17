"""What is said of a start that holds with less to spare than the estimate of the graphs may be off by."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.memory.thin_margin import margin
from cgplan.releases.gpus import gpu
from cgplan.report.plan_words import headline

WEIGHTS = Measured(weights=int(18.47 * GIB))
FIELDS: dict[str, Any] = {"max_model_len": 16384, "max_num_batched_tokens": 2048}


def made(release: str = "0.19.1", card: str = "rtx5090", share: float = 0.9, **more: Any) -> CapacityPlan:
    model = load_model("Qwen/Qwen3.6-27B")
    return plan(
        Deployment(model=model, gpu=gpu(card), vllm=release, **{**FIELDS, **more}), MemoryFlags(share), known=WEIGHTS
    )


def fix_of(found: CapacityPlan) -> str | None:
    return next((one.fix for one in found.findings if one.code == "CG598"), None)


@pytest.mark.parametrize(("share", "seqs", "size"), [(0.9, "128", "256"), (0.91, "128", "128")])
def test_fewer_requests_and_sizes_are_proposed_with_what_they_free(share: float, seqs: str, size: str) -> None:
    """The first value that does is named: with more asked for half of the largest size is still too much."""
    found = made(share=share)
    assert found.starts == "yes"
    fix = fix_of(found)
    assert fix is not None
    assert found.budget is not None
    before = found.budget.tightest.graphs.best
    tried = re.findall(r"--(max-num-seqs|max-cudagraph-capture-size) ([0-9]+) \(graphs take ([0-9.]+) GiB less", fix)
    assert [name for name, _, _ in tried] == ["max-num-seqs", "max-num-seqs", "max-cudagraph-capture-size"]
    assert (tried[0][1], tried[2][1]) == (seqs, size)
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


def test_what_is_below_nothing_at_the_low_end_may_not_start() -> None:
    """The low end is below nothing at 0.92, and above it at 0.9: there it starts, with little to spare."""
    below, above = made(share=0.92), made(share=0.9)
    assert (below.starts, below.fits) == ("unsure", True)
    found = next(one for one in below.findings if one.code == "CG507")
    assert found.severity == "warning"
    assert "at the low end the graphs need 0." in found.message
    assert (found.fix or "").startswith("--max-num-seqs ")
    assert ", or --gpu-memory-utilization 0.9" in (found.fix or "")
    assert headline(below)[0].startswith("It starts by the best estimate")
    assert "CG507" not in {one.code for one in above.findings}
    assert headline(above)[0] == "It starts, with little to spare: CG598 names what leaves more."
    assert headline(made(max_num_seqs=16))[0] == "It starts."


def test_bytes_that_are_given_leave_what_they_leave() -> None:
    given = plan(
        Deployment(model=load_model("Qwen/Qwen3.6-27B"), gpu=gpu("rtx5090"), vllm="0.19.1", **FIELDS),
        MemoryFlags(kv_cache_bytes=9 * GIB),
        known=WEIGHTS,
    )
    assert given.budget is not None
    assert given.budget.tightest.unused.low < 0
    assert "CG507" not in {one.code for one in given.findings}
