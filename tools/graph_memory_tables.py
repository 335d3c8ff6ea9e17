"""How far predictions of graph memory are off, each model left out of the fit in turn, as tables.

A model is all rows of the same architecture, hidden size and layers, whatever the quantisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from fit_graph_memory import MIB, NODE_KINDS, ROOT, Row, fit, predicted, rows

from cgplan.memory.graphs.memory import predict_graph_memory
from cgplan.releases import facts

PAGE = ROOT / "docs" / "graph-memory.md"


@dataclass(frozen=True)
class Score:
    """A row and its prediction by figures that were fitted without its model, bytes."""

    row: Row
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.row.actual - 1


@cache
def left_out() -> tuple[Score, ...]:
    """Every row, predicted without its model."""
    found = []
    for family in dict.fromkeys(row.family for row in rows()):
        figures = fit([row for row in rows() if row.family != family])
        found += [Score(row, predicted(row, figures)) for row in rows() if row.family == family]
    return tuple(found)


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def covered(scores: Sequence[Score], low: float, high: float) -> float:
    """Share of rows inside the bounds around their prediction."""
    inside = [(1 - low) * s.predicted <= s.row.actual <= (1 + high) * s.predicted for s in scores]
    return sum(inside) / len(inside)


SETS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("H100, 0.19, public logs", lambda row: row.is_old),
    ("H200, 0.25.1, runner V1", lambda row: not row.is_old and str(row.resolution.runner) == "V1"),
    ("H200, 0.25.1, runner V2", lambda row: not row.is_old and str(row.resolution.runner) == "V2"),
    ("all", lambda row: True),
)


def summary() -> str:
    """Errors by set of rows, and beside them those of vLLM's own estimate."""
    interval = facts("graph_memory", "0.25.1")["interval"]
    lines = [
        "| rows | number | median error | 90th percentile | largest | inside the bounds "
        "| vLLM's estimate: median, 90th |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, belongs in SETS:
        scores = [score for score in left_out() if belongs(score.row)]
        errors = [abs(score.error) for score in scores]
        share = covered(scores, interval["low"], interval["high"])
        lines.append(
            f"| {name} | {len(scores)} | {quantile(errors, 0.5):.1%} | {quantile(errors, 0.9):.1%} "
            f"| {max(errors):.1%} | {share:.0%} | {_own_estimate([score.row for score in scores])} |"
        )
    return "\n".join(lines)


def _own_estimate(chosen: Sequence[Row]) -> str:
    errors = [abs(row.record["graph_estimate"] / row.actual - 1) for row in chosen if row.record.get("graph_estimate")]
    if not errors:
        return "none is made"
    return f"{quantile(errors, 0.5):.1%}, {quantile(errors, 0.9):.1%}"


def table() -> str:
    """One line a row; starts of one model that differ in max_model_len alone are one line."""
    lines = ["| row | took, MiB | predicted | error | vLLM estimated |", "|---|---|---|---|---|"]
    seen = set()
    for score in left_out():
        row = score.row
        key = (row.record["model"], row.actual, round(score.predicted))
        if key in seen:
            continue
        seen.add(key)
        name = _short(row)
        own = row.record.get("graph_estimate") or 0
        shown = f"{own / MIB:.0f}" if own else "-"
        lines.append(
            f"| {name} | {row.actual / MIB:.0f} | {score.predicted / MIB:.0f} | {score.error:+.1%} | {shown} |"
        )
    return "\n".join(lines)


def _short(row: Row) -> str:
    d = row.deployment
    said = [row.record["model"], d.vllm, str(row.resolution.runner), str(row.resolution.cudagraph_mode)]
    if d.tensor_parallel_size > 1:
        said.append(f"tp {d.tensor_parallel_size}")
    if d.pipeline_parallel_size > 1:
        said.append(f"pp {d.pipeline_parallel_size}")
    if "model_overrides" in row.record:
        said.append(f"{d.model.num_hidden_layers} layers")
    said.append(f"up to {row.resolution.max_capture_size}, {row.resolution.max_num_seqs} requests")
    return ", ".join(said)


def figures_table() -> str:
    """The figures in use, and what a fit over all rows gives now."""
    fitted, old, new = fit(rows()), facts("graph_memory", "0.19.1"), facts("graph_memory", "0.33.0")
    lines = ["| figure | in use | fitted |", "|---|---|---|"]
    driver = new["driver"]
    lines += [f"| driver.{name}, bytes | {driver[name]} | {fitted[name]:.0f} |" for name in ("graph", "branch", "node")]
    lines.append(f"| driver.node before 0.20, bytes | {old['driver']['node']} | {fitted['node_old']:.0f} |")
    lines += [f"| nodes.{kind} | {new['nodes'][kind]} | {fitted[kind]:.1f} |" for kind in NODE_KINDS]
    lines.append(
        f"| streams.left_over, MiB | {new['streams']['left_over'] / MIB:.0f} | {fitted['left_over'] / MIB:.1f} |"
    )
    left = old["streams"]["left_over"] / MIB
    lines.append(f"| streams.left_over before 0.20, MiB | {left:.0f} | {fitted['left_over_old'] / MIB:.1f} |")
    return "\n".join(lines)


def in_use() -> str:
    """Errors of what `predict_graph_memory` says with the figures in use."""
    errors = [abs(predict_graph_memory(r.deployment, r.resolution).total.best / r.actual - 1) for r in rows()]
    return f"with the figures in use: median {quantile(errors, 0.5):.1%}, 90th percentile {quantile(errors, 0.9):.1%}"


def _write() -> None:
    """Put the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (("summary", summary()), ("figures", figures_table()), ("rows", table())):
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = page.partition(start)
        after = rest.partition(end)[2]
        page = f"{before}{start}\n{text}\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


def show(*, write: bool) -> None:
    """Print everything, and put it into the page where `write`."""
    print(figures_table(), summary(), table(), in_use(), sep="\n\n")
    if write:
        _write()
