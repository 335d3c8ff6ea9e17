"""docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Sequence

from components import Component, Error, Logged, quantile
from kv_cache import Answer

from cgplan.memory.estimates import GIB

HEAD = """\
# Accuracy: predicted against measured

This page is written by `python tools/accuracy`; never edit it by hand. Measured are the starts of
[fixtures/measured](../fixtures/measured): public logs of vLLM 0.19.0 on H100, and runs of 0.25.1 on an H200.
"""
COMPONENTS = """\
## The budget

The error is predicted over measured less 1; "within bounds" is the share of rows whose value lies in low to high. Runs
with pipeline parallelism are left out: their logs mix the values of several ranks. Weights, activations and the KV
cache are worked out from the model's shape, nothing is fitted to these rows. What lies outside torch is a constant
measured on these GPUs. The coefficients of graph memory are fitted to rows among these; figures with each model left
out of its own fit are in [graph-memory.md](graph-memory.md). Rows g3-4b and q35-4b were started with no images allowed
(`--limit-mm-per-prompt`): without the vision encoder.
"""
LOGS = """\
### CUDA graphs in public logs

Other GPUs, backends and releases than those above, of `graph_logs.jsonl`; nothing is fitted to them, but the bounds of
what was not measured are as wide as they have to be for these. vLLM's estimate is a sample times the number of graphs,
and a segment of the allocator of 20 MiB in that sample makes it jump by 1 GiB.
"""
KV = """\
## The KV cache, given its bytes

Blocks, block size, reported tokens and maximum concurrency, all of them as printed. Where a log prints the bytes with
two digits, the blocks have to lie within what those digits mean, and tokens and concurrency have to be exact for one
number of blocks within.
"""
REASONS = {
    "tp1pp2dp1": "pipeline parallelism: the bytes were printed by one rank, the blocks are those of the tightest",
    "tp1pp4dp1": "pipeline parallelism: the bytes were printed by one rank, the blocks are those of the tightest",
}
"""Why a row is not reached, by a part of its name."""
WORST = 5


def page(
    measured: Sequence[tuple[Component, Sequence[Error]]],
    answers: Sequence[Answer],
    left_out: Sequence[str],
    logs: Sequence[Logged] = (),
) -> str:
    """The page."""
    lines = [HEAD, COMPONENTS]
    lines += ["| component | rows | median error | 90th percentile | largest | within bounds |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for component, found in measured:
        covered = sum(one.covered for one in found) / len(found)
        figures = [quantile(found, share) for share in (0.5, 0.9, 1.0)]
        shown = " | ".join(f"{figure:.2%}" for figure in figures)
        lines.append(f"| {component.name} | {len(found)} | {shown} | {covered:.0%} |")
    lines += ["", "### The largest errors", "", "| component | row | error |", "|---|---|---:|"]
    for component, found in measured:
        worst = sorted(found, key=lambda one: -abs(one.error))[:WORST]
        lines += [f"| {component.name} | {one.run.name} | {one.error:+.2%} |" for one in worst]
    lines += _logs(logs)
    reached = sum(answer.problem is None for answer in answers)
    lines += ["", KV, f"{reached} of {len(answers)} rows are reached. The exceptions:", ""]
    lines += ["| row | what | why |", "|---|---|---|"]
    for answer in answers:
        if answer.problem is not None:
            lines.append(f"| {answer.run.name} | {answer.problem} | {reason(answer)} |")
    if left_out:
        lines += ["", "Left out:", "", *(f"- {text}" for text in left_out)]
    return "\n".join(lines) + "\n"


def _logs(logs: Sequence[Logged]) -> list[str]:
    lines = ["", LOGS]
    for what in ("estimate", "capture"):
        kind = [one for one in logs if one.what == what]
        lines.append(f"- {what}: {sum(one.is_inside for one in kind)} of {len(kind)} within bounds")
    lines += [
        "",
        "| row | GPU | model | what | log, GiB | planned | bounds | |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for one in logs:
        low, best, high = (getattr(one.predicted, end) / GIB for end in ("low", "best", "high"))
        held = "inside" if one.is_inside else "outside"
        lines.append(
            f"| {one.run.name} | {one.run.record['gpu']} | {one.run.record['model']} | {one.what} | {one.gib:.2f}"
            f" | {best:.2f} | {low:.2f} to {high:.2f} | {held} |"
        )
    return lines


def reason(answer: Answer) -> str:
    return next((why for part, why in REASONS.items() if part in answer.run.name), "not explained")
