"""Memory that the budget leaves out (CG521, CG522), and a KV cache size stored for the next start (CG526)."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, MemoryFlags, gpu, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.trace import Finding

STORED = {"VLLM_ENABLE_STARTUP_PLAN": "1"}


def made(release: str, flags: MemoryFlags | None = None, **fields: Any) -> CapacityPlan:
    return plan(Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), vllm=release, **fields), flags)


def finding(found: CapacityPlan, code: str) -> Finding | None:
    return next((one for one in found.findings if one.code == code), None)


class TestOutside:
    def test_little_is_left_and_too_little(self) -> None:
        enough = finding(made("0.19.1", MemoryFlags(0.95)), "CG521")
        assert enough is not None
        assert enough.severity == "info"
        assert "3.96 GiB (5.0%) stay outside --gpu-memory-utilization, 0.51 of them in use" in enough.message
        assert enough.fix == "--gpu-memory-utilization 0.9"
        short = finding(made("0.19.1", MemoryFlags(0.98)), "CG521")
        assert short is not None
        assert short.severity == "warning"

    @pytest.mark.parametrize(
        ("release", "share", "fields"),
        [("0.19.1", 0.9, {}), ("0.25.1", 0.95, {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}),
         ("0.19.1", 0.95, {"enforce_eager": True})],
    )  # fmt: skip
    def test_not_where_much_is_left_or_the_graphs_are_counted(self, release: str, share: float, fields: Any) -> None:
        found = made(release, MemoryFlags(share), **fields)
        assert finding(found, "CG521") is None
        assert finding(found, "CG522") is None

    def test_nor_where_no_share_was_asked_for(self) -> None:
        assert finding(made("0.19.1"), "CG521") is None

    def test_the_estimate_switched_off(self) -> None:
        off = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}
        found = made("0.33.0", MemoryFlags(0.95), env=off)
        assert finding(found, "CG522") is not None
        assert finding(found, "CG521") is None


class TestStored:
    def test_what_the_next_start_gets(self) -> None:
        found = made("0.33.0", env=STORED)
        one = finding(found, "CG526")
        twice = finding(made("0.33.0"), "CG525")
        assert one is not None
        assert one.severity == "warning"
        assert "stores " in one.message
        assert "at least as much memory is free; else vLLM measures anew" in one.message
        assert one.fix is not None
        assert one.fix.startswith("--kv-cache-memory-bytes ")
        assert twice is None or twice.code != one.code

    @pytest.mark.parametrize(
        ("release", "flags", "env"),
        [("0.33.0", None, {}), ("0.33.0", None, {"VLLM_ENABLE_STARTUP_PLAN": "0"}), ("0.26.0", None, STORED),
         ("0.33.0", MemoryFlags(kv_cache_bytes=40 * 2**30), STORED)],
    )  # fmt: skip
    def test_not_where_nothing_is_stored_or_it_is_right(self, release: str, flags: Any, env: dict[str, str]) -> None:
        assert finding(made(release, flags, env=env), "CG526") is None
