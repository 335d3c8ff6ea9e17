#!/usr/bin/env python
"""Fit the figures of releases/graph_memory.toml to fixtures/measured/, and show how far predictions are off.

usage: fit_graph_memory.py [--write]

Prints the fitted figures beside those in use, and the residuals with each model left out of the fit in turn
(graph_memory_tables.py). --write puts the tables into docs/graph-memory.md between its markers. Figures are changed in
the TOML file by hand.

The fit is three least-squares problems over relative errors, one after the other: nodes of the parts of a layer from
counted graphs; bytes a graph, a branch and a node from what the driver kept inside captures; and what is left from
whole captures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cgplan import Deployment, resolve
from cgplan.errors import InputError
from cgplan.inputs.catalogue import load
from cgplan.memory.graphs.footprint import Footprint, footprint
from cgplan.memory.graphs.layers import layers_of
from cgplan.releases import facts
from cgplan.releases.gpus import gpu
from cgplan.resolve import Resolution

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "fixtures" / "measured"
MIB = 1 << 20
NODE_KINDS = ("mixer", "op", "mlp", "experts", "shared", "all_reduce", "quantised", "mla", "linear_mixer", "lora")
COUNTED = ("mixer", "op", "mlp", "experts", "shared", "all_reduce", "mla", "linear_mixer")
"""Kinds of nodes that captured graphs were counted for; the others follow from bytes alone."""


@dataclass(frozen=True)
class Row:
    """One measured start with graphs.

    Attributes:
        record: as in the file.
        family: rows of one model, quantised or not.
        nodes: nodes of a PIECEWISE and of a FULL graph by kind, for one node of each kind a layer part.
    """

    record: dict[str, Any]
    family: tuple[object, ...]
    deployment: Deployment
    resolution: Resolution
    made: Footprint
    nodes: tuple[dict[str, float], dict[str, float]]

    @property
    def actual(self) -> int:
        return int(self.record["graphs"])

    @property
    def is_old(self) -> bool:
        return self.deployment.vllm == "0.19.1"


@cache
def rows() -> tuple[Row, ...]:
    """Every measured start with graphs whose model is in the catalogue."""
    captures = {record["name"]: record["captures"] for record in _lines("h200_captures.jsonl")}
    found = []
    for record in (*_lines("memory_runs.jsonl"), *_lines("h200_vllm_0.25.1_more.jsonl")):
        if not record.get("graphs"):
            continue
        try:
            # The rows of the H200 were started from the bare record, with dummy weights.
            model = load(record["model"], completed=record["gpu"] != "h200")
        except InputError:
            continue
        record.setdefault("captures", captures.get(record["name"], {}))
        model = model.model_copy(update=record.get("model_overrides", {}))
        fields = dict(record["deployment"])
        if model.quantization:
            fields.pop("quantization", None)
        deployment = Deployment(vllm=record["vllm"], gpu=gpu(record["gpu"]), model=model, **fields)
        resolution = resolve(deployment)
        made = footprint(deployment, resolution)
        family = (model.architecture, model.hidden_size, load(record["model"]).num_hidden_layers)
        found.append(Row(record, family, deployment, resolution, made, _node_counts(deployment, resolution)))
    return tuple(found)


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (MEASURED / name).read_text(encoding="utf-8").splitlines()]


def _node_counts(deployment: Deployment, resolution: Resolution) -> tuple[dict[str, float], dict[str, float]]:
    """Nodes by kind of one PIECEWISE size, and of one FULL graph."""
    known = facts("graph_memory", deployment.vllm)
    pieces, whole = {}, {}
    for kind in NODE_KINDS:
        unit = {**known, "nodes": {other: float(other == kind) for other in NODE_KINDS}}
        layers = layers_of(deployment, deployment.model, unit, resolution.lora is not None)
        pieces[kind], whole[kind] = layers.piece_nodes, layers.piece_nodes + layers.op_nodes
    return pieces, whole


def fit(chosen: Sequence[Row]) -> dict[str, float]:
    """All figures, from `chosen` rows alone."""
    figures = fit_nodes(chosen)
    figures |= fit_driver(chosen, figures)
    figures |= fit_totals(chosen, figures)
    return figures


def fit_nodes(chosen: Sequence[Row]) -> dict[str, float]:
    """Nodes of the parts of a layer, from counted graphs."""
    equations = []
    for row in chosen:
        for mode, counts in zip(("PIECEWISE", "FULL"), row.nodes, strict=True):
            got = row.record["captures"].get(mode, {})
            if "nodes" in got:
                equations.append(([counts[kind] for kind in COUNTED], got["nodes"] / got["sizes"]))
    return dict(zip(COUNTED, solve(equations), strict=True))


def fit_driver(chosen: Sequence[Row], figures: dict[str, float]) -> dict[str, float]:
    """Bytes a graph, a branch and a node since 0.20, from what the driver kept inside captures."""
    equations = []
    for row in chosen:
        for mode, counts in zip(("PIECEWISE", "FULL"), row.nodes, strict=True):
            got = row.record["captures"].get(mode)
            if got is None:
                continue
            nodes = got.get("nodes") or got["sizes"] * sum(counts[kind] * figures[kind] for kind in COUNTED)
            equations.append(([got["graphs"], _branches(row, mode), nodes], got["driver"]))
    return dict(zip(("graph", "branch", "node"), solve(equations), strict=True))


def fit_totals(chosen: Sequence[Row], figures: dict[str, float]) -> dict[str, float]:
    """What is left: memory outside the pool, nodes of quantised layers and adapters, and the bytes a node of 0.19."""
    new = [row for row in chosen if not row.is_old]
    lora = [row for row in new if row.resolution.lora is not None]
    plain = [row for row in new if row.resolution.lora is None]
    left = _median([row.actual - _rest(row, figures, figures["node"]) for row in plain])
    found = {"left_over": left, "quantised": 0.0, "lora": _lora_nodes(lora, {**figures, "left_over": left})}
    old = list(
        {(row.family, row.actual, row.deployment.tensor_parallel_size): row for row in chosen if row.is_old}.values()
    )
    equations = []
    for row in old:
        nodes = _all_nodes(row, figures, ("quantised",))
        equations.append(([nodes, _all_nodes(row, {"quantised": 1.0}, ()), 1.0], row.actual - _rest(row, figures, 0.0)))
    if equations:
        node, times_quantised, left_old = solve(equations, [row.actual for row in old])
        found |= {"node_old": node, "quantised": times_quantised / node, "left_over_old": left_old}
    return found


def _once(chosen: Iterable[Row]) -> list[Row]:
    """Starts of one model that took the same are one row: they differ in max_model_len alone."""
    return list({(row.family, row.actual, row.deployment.tensor_parallel_size): row for row in chosen}.values())


def _lora_nodes(rows_with_lora: Sequence[Row], figures: dict[str, float]) -> float:
    """Nodes that adapters add to a layer."""
    shares = []
    for row in rows_with_lora:
        more = row.actual - _rest(row, figures, figures["node"]) - figures["left_over"]
        shares.append(more / figures["node"] / _all_nodes(row, {"lora": 1.0}, ()))
    return _median(shares) if shares else float(facts("graph_memory", "0.33.0")["nodes"]["lora"])


def _branches(row: Row, mode: str) -> float:
    """Graphs with a second stream: only pieces of small batches are counted, as a FULL graph has one branch more."""
    if mode == "FULL" or not row.made.layers.forks:
        return 0.0
    return row.made.layers.forks * sum(tokens <= row.made.forked for tokens, _ in row.made.piecewise)


def _graphs(row: Row) -> int:
    return row.made.layers.pieces * len(row.made.piecewise) + len(row.made.full)


def _all_nodes(row: Row, figures: dict[str, float], without: Iterable[str]) -> float:
    kinds = [kind for kind in NODE_KINDS if kind in figures and kind not in without]
    pieces, whole = row.nodes
    piece = sum(figures[kind] * pieces[kind] for kind in kinds)
    full = sum(figures[kind] * whole[kind] for kind in kinds)
    return piece * len(row.made.piecewise) + full * len(row.made.full)


def _rest(row: Row, figures: dict[str, float], node: float) -> float:
    """A prediction without what is left over."""
    made = row.made
    second = made.second_stream(made.piecewise, "shared_piecewise") + made.second_stream(made.full, "shared_full")
    libraries = made.libraries - int(made.known["streams"]["left_over"])
    driver = figures["graph"] * _graphs(row) + figures["branch"] * _branches(row, "PIECEWISE")
    return (
        made.pool(made.piecewise, made.full, made.splits)
        + second
        + libraries
        + driver
        + node * _all_nodes(row, figures, ())
    )


def predicted(row: Row, figures: dict[str, float]) -> float:
    """What capture takes of `row`, by `figures`."""
    if row.is_old:
        return _rest(row, figures, figures["node_old"]) + figures["left_over_old"]
    return _rest(row, figures, figures["node"]) + figures["left_over"]


def solve(equations: Sequence[tuple[list[float], float]], weights: Sequence[float] | None = None) -> list[float]:
    """Least squares over relative errors; a column that no equation has is 0."""
    width = len(equations[0][0])
    matrix = [[0.0] * width for _ in range(width)]
    right = [0.0] * width
    for number, (terms, value) in enumerate(equations):
        scale = 1.0 / max(1.0, abs(weights[number] if weights else value))
        for i in range(width):
            right[i] += terms[i] * value * scale * scale
            for j in range(width):
                matrix[i][j] += terms[i] * terms[j] * scale * scale
    for i in range(width):
        matrix[i][i] = matrix[i][i] * (1 + 1e-9) or 1.0
    return _eliminate(matrix, right)


def _eliminate(matrix: list[list[float]], right: list[float]) -> list[float]:
    width = len(right)
    for i in range(width):
        for j in range(i + 1, width):
            factor = matrix[j][i] / matrix[i][i]
            for k in range(i, width):
                matrix[j][k] -= factor * matrix[i][k]
            right[j] -= factor * right[i]
    found = [0.0] * width
    for i in reversed(range(width)):
        found[i] = (right[i] - sum(matrix[i][k] * found[k] for k in range(i + 1, width))) / matrix[i][i]
    return found


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    import graph_memory_tables

    graph_memory_tables.show(write="--write" in sys.argv[1:])
