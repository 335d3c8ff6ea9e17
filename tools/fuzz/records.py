"""Measured records: what plan --profile, tune --profile and report --profile make of a changed one."""

from __future__ import annotations

import copy
import random
from typing import Any

from cgplan import Deployment, load_model, plan, resolve, tune
from cgplan.inputs.safe_json import parse_object
from cgplan.memory.budget.measured_record import check_fits, fingerprint_of, profile_of
from cgplan.memory.document import as_document as plan_document
from cgplan.memory.profile.worth import left_by
from cgplan.releases.gpus import gpu
from cgplan.report.html.of_profile import timings
from cgplan.workload.shapes import shape
from cgplan.workload.tune.tune_document import as_document as tune_document

from .documents import as_text, changed
from .kind import Kind
from .texts import mutated

TUNED = 40
"""One case in so many is tuned, which takes longer than all the rest."""
WORDS = ("captures", "graph_steps", "eager_steps", "seconds", "samples", "mode", "num_tokens", "measured", "crash",
         "extrapolated", "weights_bytes", "graph_bytes", "capture_sizes", "cudagraph_mode")  # fmt: skip


class Records:
    """A whole record with captures and times, changed."""

    def __init__(self, folder: str) -> None:
        self.deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), max_num_seqs=32)
        self.resolution = resolve(self.deployment)
        self.record = _whole(self.deployment)
        self.shape = shape("steady", max_num_seqs=32, query_len=1)

    def make(self, dice: random.Random) -> str:
        if dice.random() < 0.2:
            return mutated(dice, as_text(self.record), ["{", "}"])
        part = dice.random()
        record = copy.deepcopy(self.record)
        if part < 0.6:  # what nobody but the readers of times has checked
            record["profile"] = changed(dice, record["profile"], WORDS)
        elif part < 0.8:
            record["measured"] = changed(dice, record["measured"], WORDS)
        else:
            record = changed(dice, record, WORDS)
        return as_text(record)

    def answer(self, given: str, dice: random.Random) -> Any:
        document = parse_object(given.encode("utf-8", "surrogatepass"), where="record.json")
        record = profile_of(document, "--profile")
        check_fits(record, self.deployment, self.resolution, "--profile")
        found: list[Any] = [plan_document(plan(self.deployment, known=record.as_measured()))]
        times = timings(document, "--profile")
        if times is not None:
            found.append(repr(left_by(self.deployment, document)))
        if dice.randrange(TUNED) == 0:
            found.append(tune_document(tune(self.deployment, self.shape, profile=record)))
        return found


def _whole(deployment: Deployment) -> dict[str, Any]:
    """A record in the form of `cgplan profile --json`, of two graphs and three sizes."""
    answers = {"two": 9 * 10**8, "auto": {"low": 8 * 10**8, "best": 9 * 10**8, "high": 10**9}, "all": None}
    capture = {"mode": "FULL", "num_tokens": 32, "num_active_loras": 0, "taken_bytes": 10**7, "pool_bytes": 4 * 10**6,
               "seconds": 0.31, "instantiate_seconds": 0.02, "graphs": 1, "nodes": 900}  # fmt: skip
    rank = {"rank": 0, "weights_bytes": 16 * 10**9, "kv_bytes": 10**9, "graph_bytes": answers, "taken_bytes": 2 * 10**7,
            "setup_bytes": 10**6, "pool_bytes": 8 * 10**6, "peak_bytes": 18 * 10**9, "left_bytes": 0, "seconds": 3.5,
            "captures": [capture, {**capture, "num_tokens": 1}],
            "steps": [_step(tokens) for tokens in (1, 32, 64)]}  # fmt: skip
    costs = {mode: {str(tokens): second * tokens for tokens in (1, 16, 32, 64)}
             for mode, second in (("full", 1e-4), ("piecewise", 2e-4), ("eager", 1e-3))}  # fmt: skip
    return {
        "schema_version": 1,
        "source": "cgplan profile",
        "fingerprint": dict(fingerprint_of(deployment, resolve(deployment))),
        "measured": {"weights_bytes": 16 * 10**9, "activation_bytes": 2 * 10**9, "non_torch_bytes": 10**8,
                     "total_bytes": 85 * 10**9, "free_bytes": 84 * 10**9, "graph_bytes": 9 * 10**8,
                     "graph_estimate_bytes": 10**9},
        "profile": {"machine": {"gpu": deployment.gpu.name, "engine": "synthetic", "torch": "2.13.0",
                                "date": "2026-11-30",
                                "total_bytes": 85 * 10**9},
                    "sample": "auto", "graphs": {"FULL": 7, "PIECEWISE": 9}, "captured": {"FULL": 2}, "complete": True,
                    "stopped": None, "attention_workspace_bytes": 4 * 10**8, "vllm": None, "ranks": [rank],
                    "cost_seconds": costs, "launch_bound_up_to": 32, "notes": ["a note"]},
    }  # fmt: skip


def _step(tokens: int) -> dict[str, Any]:
    times = {"median": 1e-3 * tokens, "low": 9e-4 * tokens, "high": 1.1e-3 * tokens, "repeats": 20}
    return {"num_tokens": tokens, "eager": times, "submit": times, "full": times, "piecewise": times, "kernels": 900,
            "launch_seconds": 2e-3, "launch_bound": True}  # fmt: skip


KIND = Kind("records", "measured records, through plan, the times of a report, and some through tune", 0.02, Records)
