"""Why the memory of a deployment differs between two neighbouring releases."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from cgplan import Deployment, load_model
from cgplan.compare import codes_between, compare
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.by_release import MemoryMoves, memory_moves
from cgplan.memory.release_causes import OF_BUDGET
from cgplan.memory.request import MemoryRequest
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.report.diff_memory import parts, rows, value
from cgplan.rules import all_rules

HYBRID = "Qwen/Qwen3.5-4B"


def moves(
    first: str, last: str, model: str = "Qwen/Qwen3-8B", flags: MemoryFlags | None = None, **more: Any
) -> MemoryMoves:
    deployment = Deployment(model=load_model(model), gpu=gpu("h100"), **more)
    found = compare(deployment, first, last)
    request = MemoryRequest(flags or MemoryFlags())
    path = [one.release for one in found.snapshots]
    made = memory_moves(deployment, request, path, None, partial(codes_between, found))
    assert made is not None
    return made


def told(found: MemoryMoves) -> dict[str, tuple[str, ...]]:
    return {cause.part: cause.codes for cause in found.causes}


def test_the_default_share_of_memory_is_a_cause_of_its_own() -> None:
    found = moves("0.19.1", "0.20.2")
    assert told(found)["memory asked for"] == ("CG505",)
    asked = next(cause for cause in found.causes if cause.part == "memory asked for")
    assert "0.92 by default, 0.9 in 0.19.1" in asked.why
    assert asked.kv_bytes is not None
    assert asked.kv_bytes > 1 << 30
    assert found.codes_of("kv_bytes") == ("CG505", "CG502")
    given = moves("0.19.1", "0.20.2", flags=MemoryFlags(0.9))
    assert "memory asked for" not in told(given)
    assert given.codes_of("kv_bytes") == ("CG502",)


def test_the_causes_of_a_step_make_up_the_difference() -> None:
    for model in ("Qwen/Qwen3-8B", HYBRID):
        for before, after in pairwise(("0.19.1", "0.20.2", "0.21.0", "0.26.0", "0.28.0", "0.29.0")):
            found = moves(before, after, model)
            assert found.first.kv_bytes is not None
            assert found.last.kv_bytes is not None
            by = sum(cause.kv_bytes or 0 for cause in found.causes)
            assert abs(found.last.kv_bytes - found.first.kv_bytes - by) <= len(OF_BUDGET) * (1 << 20)


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", HYBRID, "openai/gpt-oss-20b", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"])
def test_every_row_has_a_rule(model: str) -> None:
    found = moves(SUPPORTED[0], SUPPORTED[-1], model)
    assert found.changed
    for name in found.changed:
        assert found.codes_of(name) or name == "graph_bytes", name
    for cause in found.causes:
        assert cause.codes or "as measured" in cause.why, cause
        assert cause.why, cause
        assert set(cause.codes) <= set(all_rules())


def test_memory_of_gated_delta_layers_that_is_taken_for_a_graph() -> None:
    found = moves("0.25.1", "0.26.0", HYBRID, max_num_batched_tokens=16384)
    (cause,) = (one for one in found.causes if "CG529" in one.codes)
    assert cause.part == "estimate of the graphs"
    assert "lower --max-num-batched-tokens" in cause.why
    assert "CG529" in found.codes_of("deducted_bytes")
    assert "CG529" in found.codes_of("kv_tokens")
    assert all("CG529" not in one.codes for one in moves("0.25.1", "0.26.0").causes)
    assert all("CG529" not in one.codes for one in moves("0.26.0", "0.27.1", HYBRID).causes)


def test_a_block_more_for_states_since_prefixes_are_cached() -> None:
    """The flag that the words name is tried: with it the row is gone."""
    found = moves("0.27.1", "0.28.0", HYBRID)
    assert told(found)["blocks of a request"] == ("CG134",)
    assert "max_concurrency" in found.changed
    without = moves("0.27.1", "0.28.0", HYBRID, enable_prefix_caching=False)
    assert "max_concurrency" not in without.changed
    assert "blocks of a request" not in told(without)


def test_another_runner_is_a_cause() -> None:
    found = moves("0.28.0", "0.29.0", HYBRID)
    assert "CG609" in told(found)["buffers of the runner"]
    assert {"CG503", "CG609"} <= set(told(found)["estimate of the graphs"])
    kept = moves("0.28.0", "0.29.0", HYBRID, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
    assert all("CG609" not in codes for codes in told(kept).values())


def test_a_fixed_size_of_the_cache_has_no_causes_of_the_budget() -> None:
    found = moves("0.19.1", "0.20.2", flags=MemoryFlags(None, 20 << 30))
    assert all(cause.kv_bytes is None for cause in found.causes)


def test_down_again_is_the_mirror() -> None:
    up, down = moves("0.19.1", "0.20.2"), moves("0.20.2", "0.19.1")
    assert [(c.part, c.release) for c in up.causes] == [(c.part, c.release) for c in down.causes]
    assert [c.kv_bytes or 0 for c in up.causes] == [-(c.kv_bytes or 0) for c in down.causes]


class TestWhatCaptureTakes:
    """It has a row of its own: 0.20.2 takes less for a graph than 0.19.1, which no rule but measuring says."""

    def test_a_row_that_is_measured(self) -> None:
        found = moves("0.19.1", "0.20.2")
        assert "graph_bytes" in found.changed
        assert told(found)["what capture takes"] == ()
        row = next(row for row in rows(found) if row.label == "graphs, capture takes")
        assert row.codes == ("measured",)
        assert row.releases == ("0.20.2",)
        assert (row.before, row.after) == (value("graph_bytes", found.first), value("graph_bytes", found.last))
        assert all("what capture takes" not in why for *_, why in parts(found))

    def test_none_where_a_graph_takes_the_same(self) -> None:
        found = moves("0.22.1", "0.24.0")
        assert "graph_bytes" not in found.changed
        assert "what capture takes" not in told(found)
