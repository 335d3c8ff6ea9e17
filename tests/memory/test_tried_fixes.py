"""Every value in a fix of a note was planned, and starts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.releases.gpus import gpu
from cgplan.resolve.memory_deduction import VARIABLE

BY_BEST = "(by the best estimate, not surely)"
SHARE = re.compile(r"--gpu-memory-utilization ([0-9.]+)")
BYTES = re.compile(r"--kv-cache-memory-bytes ([0-9]+)")
TOKENS = re.compile(r"--max-num-batched-tokens ([0-9]+)")


class Asked:
    def __init__(
        self, name: str, on: str, flags: MemoryFlags | None = None, known: Measured | None = None, **more: Any
    ):
        self.deployment = Deployment(model=load_model(name), gpu=gpu(on), **more)
        self.flags, self.known = flags or MemoryFlags(), known

    def plan(self) -> CapacityPlan:
        return plan(self.deployment, self.flags, known=self.known)

    def with_way(self, way: str) -> CapacityPlan:
        """The plan with the options of one way of a fix."""
        update: dict[str, Any] = {"env": {VARIABLE: "0"}} if VARIABLE in way else {}
        tokens, share, size = TOKENS.search(way), SHARE.search(way), BYTES.search(way)
        if tokens is not None:
            update["max_num_batched_tokens"] = int(tokens[1])
        flags = MemoryFlags(
            self.flags.utilization if share is None else float(share[1]),
            self.flags.kv_cache_bytes if size is None else int(size[1]),
        )
        return plan(self.deployment.model_copy(update=update), flags, known=self.known)


ASKED = {
    "default on a GB10": Asked("Qwen/Qwen3-8B", "gb10", max_model_len=8192),
    "a share below": Asked("Qwen/Qwen3-8B", "gb10", MemoryFlags(0.7), max_model_len=8192),
    "far below 0": Asked(
        "nvidia/Qwen3.6-35B-A3B-NVFP4", "gb10", MemoryFlags(0.8),
        Measured(graphs=int(0.73 * GIB), graph_estimate=-int(20.5 * GIB)), vllm="0.26.0", max_num_seqs=4,
    ),
    "far above": Asked("Qwen/Qwen3-8B", "h100", known=Measured(graph_estimate=30 * GIB)),
    "above all": Asked("Qwen/Qwen3-8B", "h100", known=Measured(graph_estimate=60 * GIB)),
    "no room": Asked(
        "zai-org/GLM-4.5-Air", "gb10", MemoryFlags(0.86),
        Measured(graphs=-204010946, graph_estimate=int(2.43 * GIB)), tensor_parallel_size=2, max_model_len=65536,
    ),
    "a prefill": Asked(
        "nvidia/Qwen3.6-27B-NVFP4", "rtx5090", MemoryFlags(0.93), vllm="0.28.0", max_model_len=49152,
        max_num_seqs=16, max_num_batched_tokens=8192,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_what_is_named_starts(name: str) -> None:
    asked = ASKED[name]
    made = asked.plan()
    noted = [one for one in made.findings if one.code in ("CG590", "CG592", "CG525", "CG552") and one.fix]
    assert noted or name == "a share below"
    for finding in noted:
        for way in str(finding.fix).split(", or "):
            if VARIABLE not in way and not any(pattern.search(way) for pattern in (TOKENS, SHARE, BYTES)):
                assert "no value was found" in way or way.startswith("mend "), way
                continue
            then = asked.with_way(way)
            assert then.fits if BY_BEST in way else then.starts == "yes", (finding.code, way)


def test_a_size_that_holds_no_request_is_not_named() -> None:
    """What the sum leaves, 0.29 GiB, holds no request of the length asked for."""
    found = next(one for one in ASKED["no room"].plan().findings if one.code == "CG592")
    assert found.fix is not None
    assert BYTES.search(found.fix.partition("mend")[0]) is None
    assert found.fix.startswith("mend ")
    roomy = next(one for one in ASKED["default on a GB10"].plan().findings if one.code == "CG592")
    assert BYTES.search(str(roomy.fix)) is not None


def test_the_most_batched_tokens_that_leave_room_for_a_prefill() -> None:
    asked = ASKED["a prefill"]
    found = next(one for one in asked.plan().findings if one.code == "CG552")
    assert found.severity == "warning"
    named = TOKENS.search(str(found.fix))
    assert named is not None
    most = int(named[1])
    assert 256 <= most < 8192
    for tokens, severity in ((most, "info"), (most + 256, "warning")):
        then = asked.with_way(f"--max-num-batched-tokens {tokens}")
        codes = {one.code: one.severity for one in then.findings}
        assert codes.get("CG552") == severity or then.starts != "yes"


class TestAPrefillBesideARefusal:
    """A34: the start is refused for its requests or its length, and the prefill is told all the same."""

    def asked(self, **more: Any) -> Asked:
        return Asked("nvidia/Qwen3.6-27B-NVFP4", "rtx5090", vllm="0.28.0", max_num_batched_tokens=8192, **more)

    def fix(self, asked: Asked) -> str:
        return str(next(one for one in asked.plan().findings if one.code == "CG552").fix)

    @pytest.mark.parametrize(("length", "code"), [(100000, "CG501"), (238400, "CG501 and CG561")])
    def test_it_is_mended_together_with_the_rest(self, length: int, code: str) -> None:
        asked = self.asked(max_model_len=length)
        assert asked.plan().starts == "no"
        fix = self.fix(asked)
        assert fix.endswith(f", which mends {code}, too")
        seqs, tokens = (re.search(rf"--{name} ([0-9]+)", fix) for name in ("max-num-seqs", "max-num-batched-tokens"))
        shorter = re.search(r"--max-model-len ([0-9]+)", fix)
        assert tokens is not None
        update = {"max_num_batched_tokens": int(tokens[1])}
        update |= {"max_num_seqs": int(seqs[1])} if seqs is not None else {}
        update |= {"max_model_len": int(shorter[1])} if shorter is not None else {}
        then = plan(asked.deployment.model_copy(update=update))
        assert then.starts == "yes"
        assert {one.severity for one in then.findings if one.code == "CG552"} <= {"info"}

    def test_alone_where_nothing_is_refused(self) -> None:
        fix = self.fix(self.asked(max_model_len=32768, max_num_seqs=16))
        assert "mends" not in fix
