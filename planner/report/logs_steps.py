"""What `cgplan logs` says where a server that came up printed no table of its steps."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..check.graph_metrics import HISTOGRAM, LAST_WITHOUT, NOTHING_PRINTED, SWITCH
from ..releases import holds
from ..startup.analysis import StartReport
from ..startup.deployment import runner_of
from ..startup.known import argument
from ..startup.record import Start
from ..workload.rules import TRAFFIC_PADDING
from .workload_view import view

if TYPE_CHECKING:
    from ..resolve import Resolution
    from ..workload.gathered import Gathered

NO_STEPS = (
    "Steps: the log has none. A server that is started with --cudagraph-metrics logs how many ran in which graph; "
    "--metrics reads /metrics."
)
FLAG = "cudagraph_metrics"


def no_steps(reports: Sequence[StartReport]) -> str:
    """How to get the steps of the last server that came up, or why it prints none."""
    up = [report for report in reports if report.came_up]
    if not up:
        return NO_STEPS
    report = up[-1]
    start, code = report.start, NOTHING_PRINTED.code
    asked, silent = _is_asked(start), _counts_none(report)
    if asked and argument(start, "disable_log_stats") is True:
        return (
            "Steps: the log has none, though --cudagraph-metrics is on: --disable-log-stats switches the table off, and"
            f" the counts of /metrics too ({code}). Leave it out."
        )
    if silent:
        begins = "the log has none, though --cudagraph-metrics is on" if asked else "the log has none"
        return (
            f"Steps: {begins}: before 0.30 runner V2 counts no batches by graph, so that flag prints nothing ({code})."
            f" {HISTOGRAM[0].upper()}{HISTOGRAM[1:]}, or set {SWITCH}=0 where runner V1 serves the model."
        )
    if asked:
        return (
            "Steps: the log has no table, though --cudagraph-metrics is on: it is printed beside the statistics, every"
            " ten seconds while requests run. --metrics reads /metrics."
        )
    return NO_STEPS


MUCH_PADDING = 0.1
"""Share of what the steps compute from which on other sizes are worth a look."""


def padding_step(gathered: Gathered, resolution: Resolution | None, model: str | None, source: str) -> str:
    """The command that finds sizes with less padding, where the steps have much of it; "": they have little.

    Args:
        source: the log or the text of /metrics that has the steps, as it was given.
    """
    shown = view(gathered, resolution)
    if shown is None or shown.tally is None or not shown.is_seen or shown.tally.waste.low < MUCH_PADDING:
        return ""
    words = ["cgplan", "tune", model or "MODEL", "--workload", source]
    return f"Sizes with less padding ({TRAFFIC_PADDING.code}): {shlex.join(words)}"


def _is_asked(start: Start) -> bool:
    configs = (argument(start, "observability_config"), start.engine.get("observability_config"))
    told = (argument(start, FLAG), start.engine.get(FLAG))
    return True in told or any(isinstance(one, Mapping) and one.get(FLAG) is True for one in configs)


def _counts_none(report: StartReport) -> bool:
    """Whether the release and the runner are known to print no table."""
    made = report.comparison.resolution if report.comparison is not None else None
    runner = runner_of(report.start) or (made.runner.value if made is not None else None)
    return runner == "V2" and report.release is not None and holds(report.release, None, LAST_WITHOUT)
