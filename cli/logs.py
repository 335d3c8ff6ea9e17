"""`cgplan logs`: what a start of vLLM printed, held against the plan."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cgplan.errors import InputError, shorten

from . import pasted
from .decorate import with_deployment
from .logs_metrics import (
    MetricsOption,
    gather,
    show_no_steps,
    show_padding_step,
    show_workload,
    step_tap,
    workload_document,
    workload_markdown,
)
from .memory_flags import CacheSizeOptions
from .options import DeploymentOptions
from .output_options import FailOnOption, JsonInPanelOption, MarkdownInPanelOption, check_one_form
from .severities import SEVERITIES, severity

if TYPE_CHECKING:
    from cgplan.resolve import Resolution
    from cgplan.startup.analysis import StartReport
    from cgplan.startup.measured import Record
    from cgplan.startup.record import Start, StartupLog
    from cgplan.workload.gathered import Gathered

EPILOG = """\
Examples:
  cgplan logs server.log --gpu h100
  kubectl logs vllm-0 --all-containers | cgplan logs - --gpu h200 --json
  cgplan logs server.log.gz --start 2 --no-plan
  cgplan logs first.log second.log
  cgplan logs server.log --gpu h100 --save measured.json
  cgplan logs server.log --gpu h100 --model ./config.json --markdown
  cgplan logs server.log --metrics http://localhost:8000/metrics
  cgplan logs 'No available memory for the cache blocks'

Side effects: --save writes a file; --metrics reads an http:// address, where one is given. Else none.

Exit codes:
  0  read; nothing at or above --fail-on
  1  a start that crashed, a server that died while serving, or a finding at or above --fail-on, by default an error
  2  bad usage, or the log cannot be read or has no start of vLLM
"""
LOG = "The log"
SPLIT = tuple(f"{name}_parallel_size" for name in ("tensor", "pipeline", "decode_context", "prefill_context"))


def _log_option(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=LOG, show_default=False)


_Text = Optional[str]  # noqa: UP045


@with_deployment(
    positional=False,
    helps={
        "model": "In the place of the log's: directory, config.json or id of `cgplan models`.",
        "gpu": "GPU of the log, see `cgplan gpus`. Default: the one that the log names, else there is no plan.",
        "vllm": "Release of vLLM, 0.28 or 0.25.1. Default: the log's. Of one that is not known the nearest is taken.",
        "assume_release": "Answer by its rules, where the log's release is not known. Default: the nearest.",
    },
)
def command(
    options: CacheSizeOptions,
    *,
    context: typer.Context,
    files: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="FILE|-",
            help="Logs as vLLM, docker, Kubernetes or journald print them, or packed, or an error's words; - is stdin.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        _Text, _log_option("--start", metavar="N", help="Only this start, where the log has several; last is the last.")
    ] = None,
    save: Annotated[
        _Text, _log_option("--save", metavar="FILE", help="Write a measured record, which plan --profile reads.")
    ] = None,
    rank: Annotated[
        _Text,
        _log_option(
            "--rank", metavar="NAME", help="Of --save: the rank, name or number. Default: that with the least KV cache."
        ),
    ] = None,
    no_plan: Annotated[bool, _log_option("--no-plan", help="Only what the log says.")] = False,
    metrics: MetricsOption = None,
    as_markdown: MarkdownInPanelOption = False,
    as_json: JsonInPanelOption = False,
    fail_on: FailOnOption = "error",
) -> int:
    """Read what vLLM printed when it started: what happened, what the graphs took, and where the plan differs.

    --gpu and --model name what the log does not; other options take the place of the log's arguments.
    """
    from cgplan.inputs.vllm_logs import read_logs
    from cgplan.report.logs_secrets import LogSecrets
    from cgplan.startup.record import StartupLog

    lowest = severity(fail_on)
    file = files[0] if files else None
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    if pasted.pasted(context).words is not None:
        raise InputError("a log takes no line behind --", code="CG905", where="--", fix="give the log, or - for stdin")
    if save is not None and no_plan:
        raise InputError(
            "--save needs the deployment, which --no-plan leaves out", code="CG907", where="--save",
            fix="drop one of the two",
        )  # fmt: skip
    if rank is not None and save is None:
        raise InputError("--rank goes with --save", code="CG905", where="--rank", fix="add --save FILE, or drop it")
    if file is None and not metrics:
        raise InputError("no log is given", code="CG905", where="cgplan logs", fix="give a file, or - for stdin")
    tap = step_tap() if file is not None else None
    log = read_logs(files, tap) if files else StartupLog(())
    gathered = gather(tap, metrics or ())
    if file is not None and not log.starts and not log.not_recognised and gathered is None:
        raise _no_start(file)
    log = _with_said(log, options)
    reports = _reports(log.starts, options, start, no_plan)
    secrets = LogSecrets(log.starts)
    saved = _save(reports, save, rank, file, options, secrets) if save is not None else None
    resolution = _resolution(reports)
    if as_json:
        _print_json(log, reports, secrets, gathered, resolution)
    elif as_markdown:
        _print_markdown(log, reports, secrets, gathered, resolution)
    else:
        from cgplan.report.logs_text import show

        if reports or gathered is None:
            show(log, reports, secrets, chosen=start is not None)
        if gathered is not None:
            if reports:
                print()
            show_workload(gathered, resolution)
            show_padding_step(gathered, resolution, _model(reports), [*(files or ()), *(metrics or ())], secrets)
        elif any(report.came_up for report in reports):
            show_no_steps(reports)
    if saved is not None:
        print(saved, file=sys.stderr if as_json or as_markdown else sys.stdout)
    worst = max((SEVERITIES.index(report.worst) for report in reports if report.worst is not None), default=-1)
    return int(lowest is not None and worst >= lowest)


def _model(reports: Sequence[StartReport]) -> str | None:
    from cgplan.startup.arguments import model_of

    return next((name for report in reversed(reports) if (name := model_of(report.start)) is not None), None)


def _reports(starts: Sequence[Start], options: CacheSizeOptions, start: str | None, no_plan: bool) -> list[StartReport]:
    from cgplan.startup.analysis import report_of

    from .context import context_of

    context = None if no_plan else context_of(options)
    numbers = range(1, len(starts) + 1) if start is None else [_chosen(starts, start)]
    return [report_of(starts[number - 1], number, starts, context) for number in numbers]


def _with_said(log: StartupLog, options: CacheSizeOptions) -> StartupLog:
    """The log with what the options say of the server; `options` with a release whose rules are known."""
    from cgplan.startup.beside import beside, rules_for

    from .plan_inputs import memory_options
    from .settings import HUMAN, scalars

    memory = memory_options(options)
    fields = scalars(options, [])
    said: dict[str, Any] = {name: fields.get(name) for name in (*HUMAN, "max_model_len")}
    said |= {name: fields.get(name) for name in ("kv_cache_dtype", "attention_backend", *SPLIT)}
    said |= {"gpu_memory_utilization": memory.utilization, "kv_cache_memory_bytes": memory.kv_cache_bytes}
    release = options.vllm = options.vllm.removesuffix(".x") if options.vllm is not None else None
    if release is not None and options.assume_release is None:
        options.assume_release = rules_for(release)
    return replace(log, starts=tuple(beside(start, release, said) for start in log.starts))


def _chosen(starts: Sequence[Start], text: str) -> int:
    """The number of --start, from 1."""
    there = len(starts)
    word = text.strip().casefold()
    number = there if word == "last" else int(word[:9]) if word.isascii() and word.isdecimal() else 0
    if 1 <= number <= there:
        return number
    raise InputError(
        f"--start {shorten(text, 40)}: the log has {there} {'start' if there == 1 else 'starts'}",
        code="CG902", where="--start", fix=f"give 1 to {there}, or last" if there else "leave it out",
    )  # fmt: skip


def _no_start(file: str) -> InputError:
    name = "standard input" if file == "-" else shorten(file, 120)
    return InputError(
        f"{name} has no line of a start of vLLM and no error that is known", code="CG985", where=name,
        fix="give what vLLM printed from its beginning, or an error's words; `cgplan check` takes a serve line or a"
        " manifest, `cgplan explain` a question, --metrics a text of /metrics",
    )  # fmt: skip


def _resolution(reports: Sequence[StartReport]) -> Resolution | None:
    """That of the last start which has one: steps are of a server that came up."""
    found = [one.comparison.resolution for one in reports if one.comparison is not None and one.comparison.resolution]
    return found[-1] if found else None


def _save(
    reports: Sequence[StartReport],
    path: str,
    rank: str | None,
    file: str | None,
    options: DeploymentOptions,
    secrets: Any,
) -> str:
    """Write the record of one start; what to say of it, with the line that plans it."""
    from cgplan.report.words import counted
    from cgplan.startup.measured import read_back, record_of

    from .output_file import write_whole

    up = [report for report in reports if report.came_up] or list(reports)
    report = up[-1] if up else None
    if report is None or report.comparison is None:
        fix = "give a log of a whole start"
        raise InputError("the log has no start to keep", code="CG911", where="--save", fix=fix)
    file = report.start.file or file
    source = "a startup log" if file in (None, "-") else f"the log {Path(str(file)).name[:60]}"
    record = record_of(report.start, report.comparison, rank, source, report.diagnosis)
    read_back(record)
    write_whole(Path(path), record.as_text())
    which = f"start {report.number}, " if len(reports) > 1 else ""
    values = counted(len(record.document["measured"]), "value")
    left = f"; left out: {'; '.join(record.left_out)}" if record.left_out else ""
    lines = [f"Saved {values} of {which}rank {record.rank} to {shorten(path, 200)}{left}"]
    lines += [f"Note: {secrets.text(remark)}" for remark in record.remarks]
    lines.append(f"Plan it: {secrets.text(shlex.join(_plan_line(record, path, options)))}")
    return "\n".join(lines)


def _plan_line(record: Record, path: str, options: DeploymentOptions) -> list[str]:
    """`cgplan plan` for a record: what was given here, and the line that the log is of."""
    words = ["cgplan", "plan", "--profile", path]
    said = {name: value for name, value in vars(options).items() if value not in (None, [], ()) and name != "asked"}
    if "vllm" not in said:
        words += ["--vllm", record.release]
    env = dict(record.env)
    for name, value in said.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "env" or name == "model_tag":
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                words += [flag, str(one)]
    for name, value in env.items():
        words += ["--env", f"{name}={value}"]
    return [*words, "--", *record.serve]


def _print_json(
    log: StartupLog,
    reports: Sequence[StartReport],
    secrets: Any,
    gathered: Gathered | None,
    resolution: Resolution | None,
) -> None:
    from cgplan.report.logs_document import as_document

    document = as_document(log, reports, secrets)
    if gathered is not None:
        document["workload"] = workload_document(gathered, resolution)
        _count_unread(document, gathered.not_recognised)
    print(json.dumps(document))


def _count_unread(document: dict[str, Any], lines: int) -> None:
    """Lines of tables that were not read are lines of the log, and steps without them are not all steps."""
    if not lines:
        return
    document["not_recognised"] += lines
    if len(document["starts"]) == 1:
        document["starts"][0]["not_recognised"] += lines
    steps = document["workload"].get("workload")
    if steps is not None:
        steps["exact"] = False


def _print_markdown(
    log: StartupLog,
    reports: Sequence[StartReport],
    secrets: Any,
    gathered: Gathered | None,
    resolution: Resolution | None,
) -> None:
    from cgplan.report.logs_markdown import page

    print(page(log, reports, secrets), end="")
    if gathered is not None:
        print()
        print(workload_markdown(gathered, resolution), end="")
    elif any(report.came_up for report in reports):
        from cgplan.report.logs_steps import no_steps

        print(f"\n{no_steps(reports)}")
