"""`cgplan sweep`: a grid of deployments, planned in parallel; what is done is kept."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cgplan.errors import InputError

from . import values
from .failures import INTERRUPTED
from .streams import say

if TYPE_CHECKING:
    from cgplan.sweep.grid import Grid
    from cgplan.sweep.record_file import RecordFile
    from cgplan.sweep.run import Sweep

EPILOG = """\
Examples:
  cgplan sweep grid.toml
  cgplan sweep grid.toml --output records.jsonl --csv records.csv
  cgplan sweep grid.toml --json | jq 'select(.starts == "yes") | .kv_tokens'
  cgplan sweep grid.toml --output records.jsonl --ray 10.0.0.1:6379

Side effects: writes the files of --output, --csv and --measure; --measure loads GPUs, --ray uses the network. Where it
is interrupted, what is done is in --output; started again with the same files, it goes on there.

Exit codes:
  0  every deployment has a record; one that vLLM refuses is a record too
  2  bad usage or input
"""
MOST_JOBS = 1024

_Text = Optional[str]  # noqa: UP045


def _option(flag: str, help: str, metavar: str, *short: str) -> Any:
    return typer.Option(flag, *short, metavar=metavar, help=help, show_default=False)


def command(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="TOML: [base], [grid] and [[exclude]].")],
    output: Annotated[
        _Text, _option("--output", "Where the records are kept, JSON lines; they are gone on with.", "FILE", "-o")
    ] = None,
    csv: Annotated[_Text, _option("--csv", "The same records as CSV.", "FILE")] = None,
    jobs: Annotated[_Text, _option("--jobs", "Processes; default: one for each core.", "N", "-j")] = None,
    ray: Annotated[
        _Text, _option("--ray", "Work on a Ray cluster: its address, or local. Needs cgplan[ray].", "ADDRESS")
    ] = None,
    measure: Annotated[
        _Text,
        _option("--measure", "Measure those that start with `cgplan profile`, here or on GPUs of --ray.", "FILE"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The records as JSON lines on stdout, nothing else.", show_default=False)
    ] = False,
) -> int:
    """Resolve and plan every combination of a grid: flags, GPUs, releases and models.

    Shows how many start, why others do not, and the best: KV cache against graphs, batches covered and GPUs.
    """
    from cgplan.sweep.grid_file import read_grid

    if output == "-":
        output, as_json = None, True
    workers = _jobs(jobs)
    _check_files({"GRID": grid, "--output": output, "--csv": csv, "--measure": measure})
    starting: set[str] = set()
    with ExitStack() as opened:
        found = read_grid(grid)
        for note in found.notes:
            say(note)
        kept = _open_profiles(opened, measure)
        status = _swept(opened, found, output, csv, workers, ray, as_json, starting)
        if kept is not None and status == 0:
            return _profiled(kept, found, starting, os.path.dirname(os.path.abspath(grid)), ray)
        return status


def _swept(
    opened: ExitStack,
    grid: Grid,
    output: str | None,
    csv: str | None,
    jobs: int,
    ray: str | None,
    as_json: bool,
    starting: set[str],
) -> int:
    """The records of the grid; `starting` gets the keys of those that start and have graphs."""
    from cgplan.report.sweep_text import Progress, Summary, counted_in_thousands
    from cgplan.sweep.record_file import RecordFile
    from cgplan.sweep.run import Sweep

    from .sweep_csv import CsvFile

    summary = Summary(grid)
    file = opened.enter_context(RecordFile(output)) if output is not None else None
    table = opened.enter_context(CsvFile(Path(csv), grid)) if csv is not None else None

    def take(line: str, record: dict[str, Any]) -> None:
        summary.add(record)
        if record["starts"] in ("yes", "unsure") and record["graphs"]:
            starting.add(record["key"])
        if table is not None:
            table.add(record)
        if as_json:
            sys.stdout.write(line + "\n")

    sweep = Sweep(grid, file, take)
    try:
        with _terminates(), Progress(grid.count, sweep.kept) as bar:
            for more in sweep.run(jobs, ray):
                bar.tell(more)
    except KeyboardInterrupt:
        say(_how_far(sweep, output))
        return INTERRUPTED
    if table is not None:
        table.finish()
    if not as_json:
        summary.show()
        if sweep.kept:
            were = "was" if sweep.kept == 1 else "were"
            say(f"{sweep.kept:,} of {counted_in_thousands(grid.count, 'record')} {were} in {output} already")
    return 0


def _open_profiles(opened: ExitStack, path: str | None) -> RecordFile | None:
    from cgplan.sweep.record_file import RecordFile

    return None if path is None else opened.enter_context(RecordFile(path, "profile"))


def _profiled(file: RecordFile, grid: Grid, starting: set[str], folder: str, ray: str | None) -> int:
    """Measure the deployments that start; records that are there are kept."""
    from cgplan.report.sweep_text import Progress, counted_in_thousands
    from cgplan.sweep.profile_jobs import jobs_of, run_jobs

    jobs = {job.key: job for job in jobs_of(grid, starting)}
    kept = {record["key"]: record["code"] for _, record in file.records() if record["key"] in jobs}
    failed = sum(code is not None for code in kept.values())
    done = len(kept)
    try:
        with _terminates(), Progress(len(jobs), done, "profiles") as bar:
            for line in run_jobs([job for key, job in jobs.items() if key not in kept], folder, ray):
                file.add([line])
                failed += json.loads(line)["code"] is not None
                done += 1
                bar.tell(1)
    except KeyboardInterrupt:
        of, are = counted_in_thousands(len(jobs), "profile"), "is" if done == 1 else "are"
        say(f"interrupted: {done:,} of {of} {are} done; start it again and it goes on")
        return INTERRUPTED
    said = f"{failed:,} of them failed: {'its record says' if failed == 1 else 'their records say'} why"
    say(f"{counted_in_thousands(done, 'profile')}, {said if failed else 'none of them failed'}")
    return 0


def _how_far(sweep: Sweep, output: str | None) -> str:
    from cgplan.report.sweep_text import counted_in_thousands

    count = sweep.kept + sweep.done
    how = "start it again and it goes on" if output is not None else "with --output it would go on from there"
    of = counted_in_thousands(sweep.grid.count, "deployment")
    return f"interrupted: {count:,} of {of} {'is' if count == 1 else 'are'} done; {how}"


@contextmanager
def _terminates() -> Iterator[None]:
    """SIGTERM ends the sweep as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _jobs(text: str | None) -> int:
    if text is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    found = values.whole(text, "--jobs")
    if not 1 <= found <= MOST_JOBS:
        raise InputError(
            f"--jobs {found} is not in 1 to {MOST_JOBS}", code="CG903", where="--jobs", fix="give 1 or more"
        )
    return found


def _check_files(named: dict[str, str | None]) -> None:
    seen: dict[str, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in seen:
            raise InputError(
                f"{seen[real]} and {option} are the same file", code="CG907", where=option, fix="name two files"
            )
        seen[real] = option
