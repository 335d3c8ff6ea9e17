"""What a process holds beyond the budget is said at every step at which the budget is spent, and pools of graphs say
that capture had begun."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import GIB, MIB, oom, rank, size, start

from cgplan.startup.diagnosis import Diagnosis, diagnose
from cgplan.startup.record import Crash, Place, Rank, Start

TEXT = oom("130.00 MiB", "62.00 MiB", 31.38, 31.18)
NO_POOLS = TEXT.replace("62.00 MiB allocated", "0 bytes allocated")
KV = {"weights": 8.0, "kv": 20.0, "utilization": 0.95, "total": 31.38}


def found_of(one: Rank, step: str = "", text: str = TEXT, kind: str = "out_of_memory") -> Diagnosis:
    made = start(one, crash=text)
    assert made.crash is not None
    found = diagnose(replace(made, crash=replace(made.crash, step=step, kind=kind)))
    assert found is not None
    return found


def codes(found: Diagnosis) -> list[str]:
    return [one.code for one in found.also]


@pytest.mark.parametrize(
    ("one", "step", "code"),
    [
        (rank(**KV), "", "CG507"),
        (rank(**KV), "cache", "CG508"),
        (rank(**KV), "capture", "CG507"),
        (rank(**KV, graph_actual=0.4), "", "CG509"),
        (rank(**KV, graph_actual=0.4), "serving", "CG825"),
    ],
)
def test_is_said_whatever_the_step(one: Rank, step: str, code: str) -> None:
    found = found_of(one, step)
    assert found.code == code
    (said,) = (each for each in found.also if each.code == "CG530")
    assert "31.18 GiB, 1.37 GiB more than it asked for, and 62 MiB of it are graphs" in said.message
    if "kv_cache_memory_bytes" in found.largest:
        assert str(found.largest["kv_cache_memory_bytes"]) in said.fix


@pytest.mark.parametrize("step", ["loading", "profiling"])
def test_before_the_cache_is_sized_it_says_nothing(step: str) -> None:
    assert "CG530" not in codes(found_of(rank(weights=8.0, utilization=0.95, total=31.38), step))


def test_what_the_graphs_took_on_top_is_not_beyond() -> None:
    """A release that keeps nothing back for them: 1.37 GiB less 1.2 of graphs."""
    made = start(rank(**KV, graph_actual=1.2), version="0.19.1", crash=TEXT)
    found = diagnose(made)
    assert found is not None
    assert "CG530" not in codes(found)


def test_the_logits_of_the_sampler_are_not_beyond() -> None:
    assert "CG530" not in codes(found_of(rank(**KV, graph_actual=0.4), "warm-up"))


def test_fewer_rows_are_not_the_first_fix_where_something_else_took_the_memory() -> None:
    fix = found_of(rank(**KV, graph_actual=0.4)).fix
    assert fix.startswith(f"--kv-cache-memory-bytes {18 * GIB}")
    within = oom("130.00 MiB", "62.00 MiB", 31.38, 29.9)
    assert found_of(rank(**KV, graph_actual=0.4), text=within).fix.startswith("--gpu-memory-utilization")


class TestPoolsOfGraphs:
    def test_mean_that_capture_had_begun(self) -> None:
        found = found_of(rank(**KV))
        assert "when the KV cache was allocated" not in found.what
        assert "while CUDA graphs were captured or later" in found.what

    def test_without_them_the_cache_was_allocated(self) -> None:
        found = found_of(rank(**KV), text=NO_POOLS)
        assert found.code == "CG508"
        assert "when the KV cache was allocated" in found.what

    def test_sleep_mode_has_the_cache_in_them(self) -> None:
        made = start(rank(**KV), crash=TEXT, arguments={"enable_sleep_mode": True})
        found = diagnose(made)
        assert found is not None
        assert found.code == "CG508"

    def test_frames_go_before_them(self) -> None:
        assert "when the KV cache was allocated" in found_of(rank(**KV), "cache").what


class TestGatedDelta:
    def fix(self, function: str = "", tokens: int | None = 8192, prefill: int | None = None, **more: str) -> str:
        crash = Crash("out_of_memory", NO_POOLS, Place(9), "", {"tried_bytes": 256 * MIB, "free_bytes": 100 * MIB},
                      (NO_POOLS,), "serving", function)  # fmt: skip
        made = Start(1, 9, ranks=(rank(kv=4.2),), crash=crash, max_num_batched_tokens=tokens, **more)  # type: ignore[arg-type]
        found = diagnose(made, prefill=prefill)
        assert found is not None
        return found.fix

    @pytest.mark.parametrize(
        "name", ["nvidia/Qwen3.6-27B-NVFP4", "Qwen/Qwen3-Next-80B-A3B-Instruct", "x/Kimi-Linear-48B"]
    )
    def test_by_the_name_of_the_model(self, name: str) -> None:
        fix = self.fix(model=name)
        assert fix.startswith("--max-num-batched-tokens 4096")
        assert "CG552" in fix

    def test_by_the_class_and_the_traceback(self) -> None:
        assert "CG552" in self.fix(architecture="Qwen3_5MoeForConditionalGeneration")
        assert "CG552" in self.fix("chunk_gated_delta_rule_fwd_h")

    def test_by_the_plan(self) -> None:
        assert "takes, up to 0.93 GiB at 8,192 tokens, goes with it" in self.fix(prefill=size(0.93))

    def test_without_the_number_of_tokens(self) -> None:
        assert "a lower --max-num-batched-tokens, such as 2048" in self.fix(tokens=None, model="Qwen/Qwen3.5-4B")

    @pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "moonshotai/Kimi-K2-Instruct", "Qwen/Qwen3-8B"])
    def test_other_models(self, name: str) -> None:
        fix = self.fix(model=name)
        assert "CG552" not in fix
        assert not fix.startswith("--max-num-batched-tokens")
