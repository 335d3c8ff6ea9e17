"""What `cgplan tune` predicts of measured decode steps, beside the measurement. docs/tune.md has the tables.

python tools/tune_round_trip.py

The steps are those of fixtures/measured/decode_steps.jsonl, vLLM 0.25.1 on an H200, with the CPU's scheduling. The
prediction has the times of docs/measurements, without it. The record of the engine vllm names its model by its folder,
so that the name is left out here.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

from cgplan import Deployment, gpu, load_model, resolve, tune
from cgplan.memory.budget.measured_record import Profile, profile_of
from cgplan.vocabulary import CUDAGraphMode
from cgplan.workload.histogram import Batches, Range, Workload, workload_of
from cgplan.workload.shapes import shape
from cgplan.workload.sizes.effect import tally_of
from cgplan.workload.sizes.prices import prices_from
from cgplan.workload.sizes.steps import groups_of, merged

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "fixtures" / "measured"
RECORDS = ROOT / "docs" / "measurements" / "2026-11-30-h200" / "records.jsonl.gz"
CLIFF = "l8-v1-mnbt2048-100"
SYNTHETIC = ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct")
WITH_SIZE = 96
"""Requests of the cliff's row that run at their own size today."""
PROFILES = {
    "meta-llama/Llama-3.1-8B-Instruct": "vllm-Llama-3.1-8B-Instruct-256-v1-all",
    "Qwen/Qwen2.5-0.5B-Instruct": "vllm-Qwen2.5-0.5B-Instruct-256-v1-all",
}
MODE_PAIRS = (
    ("l8-v1-pw-256", "l8-v1-def-256"),
    ("l8-v1-none-256", "l8-v1-def-256"),
    ("l8-v1-none-256", "l8-v1-pw-256"),
    ("l8-v1-full-256", "l8-v1-def-256"),
)
MODES = {CUDAGraphMode.FULL: "FULL", CUDAGraphMode.PIECEWISE: "PIECEWISE", CUDAGraphMode.NONE: "eager"}


class Row(NamedTuple):
    """One measured run: what was asked, and seconds of a decode step by running requests."""

    name: str
    deployment: Deployment
    seconds: dict[int, float]


class Gain(NamedTuple):
    """Traffic of one number of requests: the measured saving of a graph of its own size, and the predicted one.

    `measured` compares with the step of WITH_SIZE requests, drawn up by the requests, the most that such a step takes.
    """

    requests: int
    mode: str
    today_ms: float
    own_ms: float
    predicted_today_ms: float
    predicted_own_ms: float
    tokens: float

    @property
    def measured(self) -> float:
        return 1 - self.own_ms / self.today_ms

    @property
    def predicted(self) -> float:
        return 1 - self.predicted_own_ms / self.predicted_today_ms


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file with one JSON object a line."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def rows() -> dict[str, Row]:
    """The measured runs by name."""
    starts = {one["name"]: one for one in lines(MEASURED / "memory_runs.jsonl")}
    found = {}
    for one in lines(MEASURED / "decode_steps.jsonl"):
        start = starts[one["name"]]
        model = load_model(start["model"])
        deployment = Deployment(vllm=start["vllm"], gpu=gpu(start["gpu"]), model=model, **start["deployment"])
        seconds = {int(size): value for size, value in one["seconds"].items()}
        found[one["name"]] = Row(one["name"], deployment, seconds)
    return found


def profile(model: str) -> Profile:
    """The record of vLLM's own engine for a model."""
    record = next(one for one in lines(RECORDS) if one["name"] == PROFILES[model])
    record.pop("name")
    record["fingerprint"]["model"] = None
    return profile_of(record, str(RECORDS))


def alike(requests: int) -> Workload:
    """Decode steps of one number of requests."""
    return workload_of([Batches("decode", Range(requests, requests), 1000, query_len=1)])


def gains() -> list[Gain]:
    """The cliff: max_num_seqs 100 is between two sizes of the default list."""
    row = rows()[CLIFF]
    record = profile(str(row.deployment.model.name))
    resolution = resolve(row.deployment)
    found = []
    for requests, seconds in row.seconds.items():
        by_time = tune(row.deployment, alike(requests), profile=record, spread=0.0)
        by_tokens = tune(row.deployment, alike(requests), spread=0.0)
        own = row.seconds[WITH_SIZE] * requests / WITH_SIZE
        found.append(
            Gain(
                requests,
                MODES[resolution.dispatch(requests).mode],
                1000 * seconds,
                1000 * own,
                1000 * by_time.today.cost,
                1000 * by_time.chosen.cost,
                by_tokens.gain,
            )
        )
    return found


def steps() -> list[tuple[str, int, int, str, float, float]]:
    """(row, requests, size, mode, measured ms, predicted ms) of rows whose model has a profile."""
    found = []
    for row in rows().values():
        resolution = resolve(row.deployment)
        if row.deployment.model.name not in PROFILES or resolution.runner.value != "V1":
            continue
        prices = prices_from(profile(str(row.deployment.model.name)), row.deployment, resolution)
        for requests, seconds in row.seconds.items():
            run = resolution.dispatch(requests)
            predicted = prices.of(run.mode, run.num_tokens)
            found.append((row.name, requests, run.num_tokens, MODES[run.mode], 1000 * seconds, 1000 * predicted))
    return found


class Repeat(NamedTuple):
    """A list that was chosen with the times of one profile, held against those of another: shares of a step's time."""

    model: str
    traffic: str
    sizes: int
    predicted: float
    by_other: float


def repeats() -> list[Repeat]:
    """Two profiles a model, runs of the synthetic engine that timed other sizes."""
    records = {one.pop("name"): one for one in lines(RECORDS)}
    found = []
    for model in SYNTHETIC:
        stem = f"synthetic-{model.partition('/')[2]}-256"
        first, second = (profile_of(records[f"{stem}-{sample}"], stem) for sample in ("auto", "all"))
        deployment = Deployment(
            vllm="0.25.1", gpu=gpu("h200"), model=load_model(model), max_model_len=8192, max_num_seqs=256
        )
        for name in ("steady", "bursty", "bimodal", "uniform"):
            workload = shape(name, max_num_seqs=256)
            made = tune(deployment, workload, profile=first)
            steps = merged(groups_of(workload, made.resolution))
            prices = prices_from(second, deployment, made.resolution)
            today, chosen = (tally_of(steps, one, prices).cost for one in (made.resolution, made.tuned))
            found.append(Repeat(model, name, len(made.chosen.sizes), made.gain, 1 - chosen / today))
    return found


class ModeGain(NamedTuple):
    """What a step of so many requests saves in another mode: shares of its time."""

    requests: int
    before: str
    after: str
    measured: float
    predicted: float


def mode_gains() -> list[ModeGain]:
    """The runs of one deployment that differ in the mode alone, two by two."""
    every = rows()
    found = []
    for first, second in MODE_PAIRS:
        before, after = every[first], every[second]
        resolutions = [resolve(one.deployment) for one in (before, after)]
        record = profile(str(before.deployment.model.name))
        for requests in sorted(before.seconds.keys() & after.seconds.keys()):
            prices = [
                prices_from(record, one.deployment, r) for one, r in zip((before, after), resolutions, strict=True)
            ]
            runs = [resolution.dispatch(requests) for resolution in resolutions]
            told = [price.of(run.mode, run.num_tokens) for price, run in zip(prices, runs, strict=True)]
            names = [str(resolution.cudagraph_mode) for resolution in resolutions]
            measured = 1 - after.seconds[requests] / before.seconds[requests]
            found.append(ModeGain(requests, *names, measured, 1 - told[1] / told[0]))
    return found


def main() -> None:
    print(
        "| requests | runs today in | measured, ms | with a graph of its size, ms | saved | predicted, ms | saved | ",
        end="",
    )
    print("saved, tokens |\n|---:|---|---:|---:|---:|---:|---:|---:|")
    for one in gains():
        predicted = f"{one.predicted_today_ms:.2f} to {one.predicted_own_ms:.2f}"
        print(
            f"| {one.requests} | {one.mode} | {one.today_ms:.2f} | {one.own_ms:.2f} | {one.measured:.1%} "
            f"| {predicted} | {one.predicted:.1%} | {one.tokens:.1%} |"
        )
    print(
        "\n| run | requests | size | runs in | measured, ms | predicted, ms | off |\n|---|---:|---:|---|---:|---:|---:|"
    )
    for name, requests, size, mode, measured, predicted in steps():
        off = f"{predicted / measured - 1:+.0%}"
        print(f"| {name} | {requests} | {size} | {mode} | {measured:.2f} | {predicted:.2f} | {off} |")
    print("\n| model | traffic | sizes | saved, predicted | saved, by the times of another run |")
    print("|---|---|---:|---:|---:|")
    for again in repeats():
        print(f"| {again.model} | {again.traffic} | {again.sizes} | {again.predicted:.2%} | {again.by_other:.2%} |")
    print("\n| requests | from | to | saved, measured | saved, predicted |\n|---:|---|---|---:|---:|")
    for one_mode in mode_gains():
        print(
            f"| {one_mode.requests} | {one_mode.before} | {one_mode.after} | {one_mode.measured:.1%} "
            f"| {one_mode.predicted:.1%} |"
        )


if __name__ == "__main__":
    main()
