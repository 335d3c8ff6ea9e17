"""The profile on a real GPU. Skipped where there is none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cgplan.memory.profile.cuda_graphs import kernel_nodes, new_graph, recorded
from cgplan.memory.profile.descriptors import Descriptor
from cgplan.memory.profile.engine import Made, Prepared
from cgplan.memory.profile.measure import measure
from cgplan.vocabulary import CUDAGraphMode

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use"),
]
MIB = 1 << 20
STEPS = """
import torch

def weights():
    return torch.randn(256, 256, device="cuda")

def good():
    module = torch.nn.Linear(256, 256, device="cuda")
    return module, lambda n: torch.ones(n, 256, device="cuda")

def waits():
    w = weights()
    def step(n):
        x = torch.ones(n, 256, device="cuda") @ w
        return x + 1 if x.sum().item() > 0 else x  # the line
    return step

def shapes():
    w = weights()
    def step(n):
        x = torch.ones(n, 256, device="cuda") @ w
        return x[x[:, 0] > 0]  # the line
    return step

def elsewhere():
    w, side = weights(), torch.cuda.Stream()
    def step(n):
        x = torch.ones(n, 256, device="cuda") @ w
        with torch.cuda.stream(side):
            torch.empty(1 << 20, device="cuda")  # the line
        return x
    return step

def copies():
    w = weights()
    def step(n):
        host = torch.ones(n, 256)
        return host.to("cuda") @ w  # the line
    return step
"""


def profile(*words: str, folder: Path, name: str = "out") -> tuple[int, dict[str, Any], str]:
    """A fresh process each: the driver keeps memory of graphs that are gone for the next ones."""
    record = folder / f"{name}.json"
    line = [sys.executable, "-m", "cgplan", "profile", *words, "--json", str(record)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=300)
    return done.returncode, json.loads(record.read_text()) if record.exists() else {}, done.stdout + done.stderr


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"])
def test_a_quarter_of_the_graphs_tells_what_all_take(model: str, tmp_path: Path) -> None:
    options = ("--model", model, "--vllm", "0.25.1", "--max-num-seqs", "256", "--times", "none")
    _, few, said = profile(*options, folder=tmp_path, name="auto")
    status, every, _ = profile(*options, "--sample", "all", folder=tmp_path, name="all")
    assert status == 0, said
    truth = every["profile"]["ranks"][0]["graph_bytes"]["all"]
    found = few["profile"]["ranks"][0]["graph_bytes"]["auto"]
    assert abs(found["best"] - truth) <= max(0.05 * truth, 16 * MIB)
    assert sum(few["profile"]["captured"].values()) <= sum(few["profile"]["graphs"].values()) / 4
    assert every["profile"]["ranks"][0]["left_bytes"] == 0


def test_graphs_are_faster_than_eager_steps_at_batch_1(tmp_path: Path) -> None:
    options = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--vllm", "0.25.1", "--times", "1,512")
    _, made, said = profile(*options, folder=tmp_path)
    first = made["profile"]["ranks"][0]["steps"][0]
    assert first["full"]["median"] < first["piecewise"]["median"] < first["eager"]["median"], said
    assert first["kernels"] > 300
    assert made["profile"]["launch_bound_up_to"] >= 1
    rank = made["profile"]["ranks"][0]
    assert rank["seconds"] < 30
    assert all(0 < one["instantiate_seconds"] < one["seconds"] for one in rank["captures"])
    assert rank["peak_bytes"] - rank["weights_bytes"] - rank["kv_bytes"] - rank["pool_bytes"] < 512 * MIB


def test_the_output_head_makes_the_step_longer_and_is_counted(tmp_path: Path) -> None:
    options = ("--model", "Qwen/Qwen2.5-0.5B-Instruct", "--vllm", "0.25.1", "--times", "512", "--sample", "two")
    _, bare, _ = profile(*options, folder=tmp_path, name="bare")
    status, headed, said = profile(*options, "--lm-head", folder=tmp_path, name="head")
    assert status == 0, said
    (without,), (with_head,) = (made["profile"]["ranks"][0]["steps"] for made in (bare, headed))
    assert with_head["full"]["median"] > without["full"]["median"]
    assert without["kernels"] < with_head["kernels"] <= without["kernels"] + 2  # the matrix product may be split
    assert headed["profile"]["machine"]["lm_head"] is True
    assert headed["profile"]["ranks"][0]["left_bytes"] == 0


@pytest.mark.parametrize("name", ["waits", "shapes", "copies", "elsewhere"])
def test_the_line_that_no_graph_can_hold_is_named(name: str, tmp_path: Path) -> None:
    module = tmp_path / "steps_of_user.py"
    module.write_text(STEPS)
    status, _, said = profile("--engine", "callable", "--target", f"steps_of_user:{name}", folder=tmp_path)
    assert status == 2
    place = re.search(r"steps_of_user.py:([0-9]+)", said)
    assert place is not None, said
    assert "# the line" in STEPS.splitlines()[int(place[1]) - 1], said


def test_a_module_of_the_user_is_captured(tmp_path: Path) -> None:
    (tmp_path / "steps_of_user.py").write_text(STEPS)
    status, made, said = profile(
        "--engine", "callable", "--target", "steps_of_user:good", "--times", "1", folder=tmp_path
    )
    assert status == 0, said
    assert made["profile"]["captured"]["FULL"] == 12


def test_too_little_memory_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    status, _, said = profile("--model", "Qwen/Qwen3-235B-A22B", folder=tmp_path)
    assert status == 2
    assert "CG992" in said


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_ranks_agree(tmp_path: Path) -> None:
    status, made, said = profile(
        "--model", "meta-llama/Llama-3.1-8B-Instruct", "-tp", "2", "--vllm", "0.25.1", folder=tmp_path
    )
    assert status == 0, said
    first, second = (one["graph_bytes"]["auto"]["best"] for one in made["profile"]["ranks"])
    assert abs(first - second) <= 0.1 * max(first, second)


class Failing:
    """An engine whose third capture fails."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.held: list[Any] = []
        self.captures = 0

    def needs_bytes(self) -> int:
        return 0

    def prepare(self) -> Prepared:
        self.held.append(torch.zeros(1 << 20, device="cuda"))
        return Prepared(1 << 22, 0)

    def warm_up(self, descriptor: Descriptor) -> None:
        self.held[0].add_(1)

    def capture(self, descriptor: Descriptor) -> Made:
        self.captures += 1
        if self.captures == 3:
            raise self.error
        graph = new_graph()
        with recorded(graph, torch.cuda.graph_pool_handle()):
            self.held[0].add_(1)
        self.held.append(graph)
        return Made(1, kernel_nodes(graph))

    def replay(self, descriptor: Descriptor) -> None: ...

    def eager(self, num_tokens: int) -> None:
        self.held[0].add_(1)

    def release(self) -> None:
        self.held.clear()

    def fingerprint(self) -> dict[str, Any]:
        return {"engine": self.name}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB"), "out of memory: Tried to allocate 2.00 GiB"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("CUDA error: operation not permitted"), "RuntimeError: CUDA error: operation not permitted"),
    ],
)
def test_whatever_happens_what_was_measured_is_kept_and_all_is_released(error: BaseException, said: str) -> None:
    graphs = [Descriptor(CUDAGraphMode.FULL, size, size) for size in (8, 4, 2, 1)]
    found = measure(Failing(error), graphs)
    assert found.stopped == said
    assert [one.descriptor.num_tokens for one in found.captured] == [8, 4]
    assert [one.nodes for one in found.captured] == [1, 1]
    assert found.left_bytes == 0


def test_ctrl_c_ends_with_a_marked_record(tmp_path: Path) -> None:
    record = tmp_path / "out.json"
    line = [sys.executable, "-m", "cgplan", "profile", "--model", "Qwen/Qwen3-30B-A3B", "--sample", "all"]
    running = subprocess.Popen([*line, "--json", str(record)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(13)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0].decode()
    assert running.returncode in (1, 130), said
    if running.returncode == 1:
        assert json.loads(record.read_text())["profile"]["stopped"] == "interrupted"
