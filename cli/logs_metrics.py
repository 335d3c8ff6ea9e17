"""What `cgplan logs` says of steps: tables of --cudagraph-metrics in the log, and --metrics FILE|URL.

How `cgplan logs` uses it:

    tap = step_tap()                                  # before the log is read
    log = read_log(file, tap)                         # the log's bytes pass through it, see workload.sources.tap
    gathered = gather(tap, metrics)                   # after the log; metrics: the values of --metrics, in order
    show_workload(gathered, resolution)               # or workload_document(...), workload_markdown(...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cgplan.report.logs_secrets import LogSecrets
    from cgplan.resolve.resolution import Resolution
    from cgplan.startup.analysis import StartReport
    from cgplan.workload.gathered import Gathered
    from cgplan.workload.sources.tap import StepTap

MetricsOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--metrics",
        metavar="FILE|URL",
        help="Text of /metrics: a file, - or an http:// address; twice: what happened in between. "
        "Also CSV or JSON of your own.",
        rich_help_panel="Steps",
        show_default=False,
    ),
]


def step_tap() -> StepTap:
    """What listens for steps while a log is read: give it every piece of the log's UTF-8 text with `feed`."""
    from cgplan.workload.sources.tap import StepTap

    return StepTap()


def gather(tap: StepTap | None, metrics: Sequence[str] = ()) -> Gathered | None:
    """The steps that the log and --metrics tell of; None where they tell of none and nothing was asked.

    Raises:
        InputError: CG718 the text of a source cannot be read, CG719 an address cannot be reached, CG910/CG914 a file.
    """
    from cgplan.workload.gathered import joined
    from cgplan.workload.sources.sources import read_sources

    found = []
    if tap is not None and (told := tap.finish()) is not None:
        found.append(told)
    if metrics:
        found.append(read_sources(metrics))
    return joined(*found) if found else None


def show_workload(gathered: Gathered, resolution: Resolution | None = None, out: Console | None = None) -> None:
    """Print the steps by mode and size; with `resolution`, what it says of them beside what the log saw."""
    from cgplan.report.workload_text import show

    show(gathered, resolution, out)


def show_no_steps(reports: Sequence[StartReport], out: Console | None = None) -> None:
    """Say how to get the steps, or why there are none, of a server that came up and whose log has none."""
    from rich.text import Text

    from cgplan.report.console import console
    from cgplan.report.logs_steps import no_steps

    out = out or console()
    out.print()
    out.print(Text(no_steps(reports)))


def show_padding_step(
    gathered: Gathered, resolution: Resolution | None, model: str | None, sources: Sequence[str], secrets: LogSecrets
) -> None:
    """Name the command that finds sizes with less padding, where the steps have much of it."""
    from rich.text import Text

    from cgplan.report.console import console
    from cgplan.report.logs_steps import padding_step

    source = next((one for one in sources if one != "-"), "LOG")
    if text := padding_step(gathered, resolution, model, source):
        out = console()
        out.print()
        out.print(Text(secrets.text(text)))


def workload_markdown(gathered: Gathered, resolution: Resolution | None = None) -> str:
    """The same as Markdown, a section that begins with a heading of level 2."""
    from cgplan.report.workload_markdown import section

    return section(gathered, resolution)


def workload_document(gathered: Gathered, resolution: Resolution | None = None) -> dict[str, Any]:
    """The same as JSON: the value of "workload" in the document of `cgplan logs`."""
    from cgplan.workload.replay.replay_document import as_document

    return as_document(gathered, resolution)
