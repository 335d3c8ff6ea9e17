"""Measurements of a sweep: each deployment once, as a line that `cgplan profile` takes, here and on Ray."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pytest
from sweep_helpers import BASE, grid

from cgplan.cli.app import run
from cgplan.errors import CgplanError
from cgplan.sweep import on_ray, profile_jobs
from cgplan.sweep.evaluate import Evaluator
from cgplan.sweep.profile_jobs import jobs_of, measure, run_jobs

DOCUMENT: dict[str, Any] = {
    "base": {
        **BASE, "env": {"VLLM_USE_V2_MODEL_RUNNER": 1}, "software": {"flashinfer": False},
        "max_model_len": "auto", "enable_lora": True, "compilation_config": {"cache_dir": "/tmp/a"},
    },
    "grid": {
        "tp": [1, 2],
        "cudagraph_capture_sizes": ["default", [1, 2, 4]],
        "compilation_config": {"cudagraph_mode": ["default", "FULL_DECODE_ONLY"]},
        "speculative_config": ["default", {"method": "ngram", "num_speculative_tokens": 2}],
        "gpu_memory_utilization": [0.8, 0.9],
    },
}  # fmt: skip


def records(document: dict[str, Any] = DOCUMENT) -> dict[str, dict[str, Any]]:
    found = grid(document)
    evaluator = Evaluator(found)
    return {record["key"]: record for record in map(evaluator.record, found.numbers())}


def test_memory_alone_is_no_second_measurement() -> None:
    found = records()
    jobs = jobs_of(grid(DOCUMENT), found)
    assert len(found) == 32
    assert len({job.key for job in jobs}) == len(jobs) == 16
    assert sorted({job.gpus for job in jobs}) == [1, 2]
    assert {job.gpu for job in jobs} == {"h100"}
    some = set(list(found)[:2])
    assert len(jobs_of(grid(DOCUMENT), some)) == 1


def test_the_line_is_the_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    """`cgplan profile` takes it, and would capture the graphs of the record."""
    by_key = records()
    for key, record in list(by_key.items())[::2]:
        (job,) = jobs_of(grid(DOCUMENT), {key})
        assert run(["profile", *job.words, "--dry-run", "--json", "-"]) == 0
        captured = json.loads(capsys.readouterr().out)["graphs"]
        assert captured.get("FULL", 0) == record["graphs_full"]
        assert captured.get("PIECEWISE", 0) == record["graphs_piecewise"]


def saying(document: object) -> partial[dict[str, Any]]:
    """A measurement that prints this."""
    return partial(measure, command=(sys.executable, "-c", f"print({json.dumps(document)!r})"))


def test_the_record_or_the_error_is_kept() -> None:
    jobs = jobs_of(grid(DOCUMENT), records())[:2]
    (first, second) = map(json.loads, run_jobs(jobs, "/nowhere", None, saying({"profile": {"complete": True}})))
    assert (first["key"], second["key"]) == (jobs[0].key, jobs[1].key)
    assert (first["code"], first["profile"]) == (None, {"profile": {"complete": True}})
    assert "--tensor-parallel-size" in first["options"]
    error = {"error": {"code": "CG992", "message": "too little memory is free"}}
    (failed,) = map(json.loads, run_jobs(jobs[:1], "/", None, saying(error)))
    assert (failed["code"], failed["message"], failed["profile"]) == ("CG992", "too little memory is free", None)


@pytest.mark.parametrize("said", ["", "[]", "1", "{"])
def test_what_is_no_record_is_said(said: str) -> None:
    found = measure([], "/", (sys.executable, "-c", f"print({said!r})"))
    assert (found["code"], found["profile"]) == ("CG737", None)


def test_it_may_take_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_jobs, "LONGEST", 0.1)
    found = measure([], "/", (sys.executable, "-c", "import time; time.sleep(60)"))
    assert "more than 0.1 seconds" in found["message"]


def test_a_machine_without_torch_ends_it() -> None:
    jobs = jobs_of(grid(DOCUMENT), records())
    with pytest.raises(CgplanError) as caught:
        list(run_jobs(jobs, "/", None, saying({"error": {"code": "CG990", "message": "torch is not installed"}})))
    assert caught.value.code == "CG990"


def test_on_ray_each_takes_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'cgplan[ray]'")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    def with_gpus(address: str, jobs: int | None) -> Any:
        # Ray counts GPUs that are said to be there; nothing runs on them.
        ray.init(address="local", num_cpus=2, num_gpus=2, include_dashboard=False, logging_level="error")
        return ray

    monkeypatch.setattr(on_ray, "_started", with_gpus)
    document = {"base": BASE, "grid": {"tp": [1, 2, 4]}}
    jobs = jobs_of(grid(document), records(document))
    command = (sys.executable, "-c", "import os; print('{\"gpus\": \"%s\"}' % os.environ['CUDA_VISIBLE_DEVICES'])")
    found = [json.loads(line) for line in run_jobs(jobs, "/", "local", partial(measure, command=command))]
    seen = {record["key"]: (record["code"], record["profile"]) for record in found}
    one, two, four = (seen[job.key] for job in jobs)
    assert one[1]["gpus"] in ("0", "1")
    assert sorted(two[1]["gpus"].split(",")) == ["0", "1"]
    assert four == ("CG738", None)
