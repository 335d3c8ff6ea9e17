"""The prefill of gated delta layers, which vLLM does not profile (CG552)."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, load_model, resolve
from cgplan.cache_layers import StateSizes
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.budget.estimate_rules import GDN_PREFILL
from cgplan.memory.budget.gdn_prefill import beyond_profile, layer_bytes, uses_flashinfer
from cgplan.memory.budget.measured import Measured
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.trace import Finding

QWEN = "Qwen/Qwen3.5-9B"
STATE = StateSizes(num_heads=48, head_size=128, num_key_heads=16, key_head_size=128)
DENSE = Deployment(gpu=gpu("l40s"))


def made(model: str = QWEN, on: str = "l40s", share: float | None = None, **more: Any) -> CapacityPlan:
    known = more.pop("known", Measured())
    deployment = Deployment(model=load_model(model), gpu=gpu(on), **more)
    return plan_of(deployment, MemoryRequest(MemoryFlags(share), known), advise=False)


def found(plan: CapacityPlan) -> Finding | None:
    return next((one for one in plan.findings if one.code == GDN_PREFILL.code), None)


def test_the_buffers_of_a_layer_added_up_by_hand() -> None:
    tokens, heads, keys, size = 8192, 48, 16, 128
    mixed = tokens * (2 * keys + heads) * size * 2
    values = tokens * heads * size * 2
    states = tokens // 64 * heads * size * size * 2
    inverse = tokens * heads * 64 * 2
    gates = 3 * tokens * heads * 4
    # conv output and q, k, v; w and u; new v and output
    assert layer_bytes(DENSE, STATE, tokens) == 2 * mixed + 2 * values + 2 * values + states + inverse + gates
    assert layer_bytes(DENSE, STATE, 65) - layer_bytes(DENSE, STATE, 64) > heads * size * size * 2  # a chunk begins
    halved = DENSE.model_copy(update={"tensor_parallel_size": 2})
    assert layer_bytes(halved, STATE, tokens) * 2 == layer_bytes(DENSE, STATE, tokens)


def test_eight_copies_of_the_values_are_what_reports_saw() -> None:
    """CG529: 16 bytes a token and element of the value heads; without the keys just that is counted here."""
    tokens = 4096
    keys = 2 * tokens * 2 * 16 * 128 * 2
    small = tokens * 48 * (64 * 2 + 12)
    assert layer_bytes(DENSE, STATE, tokens) - keys - small == 16 * tokens * 48 * 128


@pytest.mark.parametrize(
    ("on", "release", "expected"),
    [
        ("h100", "0.19.1", True),
        ("h100", "0.33.0", True),
        ("l40s", "0.33.0", False),
        ("a100", "0.33.0", False),
        ("b200", "0.21.0", False),
        ("b200", "0.22.1", True),
        ("rtx5090", "0.29.0", False),
        ("rtx5090", "0.30.0", True),
    ],
)
def test_where_flashinfer_prefills(on: str, release: str, expected: bool) -> None:
    assert uses_flashinfer(Deployment(gpu=gpu(on), vllm=release), STATE) is expected
    other = STATE.model_copy(update={"key_head_size": 64})
    if on in ("b200", "rtx5090"):
        assert not uses_flashinfer(Deployment(gpu=gpu(on), vllm=release), other)


def test_a_warning_where_it_may_not_fit_and_a_line_where_it_does() -> None:
    roomy, tight = found(made()), found(made(share=0.97))
    assert roomy is not None
    assert tight is not None
    assert (roomy.severity, roomy.fix) == ("info", None)
    assert tight.severity == "warning"
    assert "lower --gpu-memory-utilization by 0.01" in str(tight.fix)
    assert "from reading, not measured" in tight.message
    fewer = found(made(share=0.96, max_num_batched_tokens=512))
    assert fewer is not None
    assert fewer.severity == "info"


def test_no_finding_without_such_layers() -> None:
    assert found(made("Qwen/Qwen3-8B", share=0.97)) is None
    assert found(made("nvidia/NVIDIA-Nemotron-Nano-9B-v2", on="h100", share=0.97)) is None


def test_flashinfer_is_said_to_be_left_out() -> None:
    one = found(made(on="h100"))
    assert one is not None
    assert (one.severity, "FlashInfer" in one.message) == ("info", True)


@pytest.mark.parametrize("release", SUPPORTED)
def test_bounds_hold_together(release: str) -> None:
    plan = made(vllm=release)
    assert plan.budget is not None
    deployment, resolution = plan.deployment, plan.resolution
    more = beyond_profile(deployment, resolution, STATE, plan.budget.tightest)
    assert 0 <= more.low <= more.best <= more.high
    assert more.high >= layer_bytes(deployment, STATE, resolution.max_num_batched_tokens)


def test_a_measured_peak_takes_the_place_of_the_estimate() -> None:
    small = made(known=Measured(activation=1 << 20, source="a log"))
    assert small.budget is not None
    resolution = resolve(small.deployment)
    assert beyond_profile(small.deployment, resolution, STATE, small.budget.tightest).low > 0
