"""`cgplan tune`: the best capture sizes for the traffic of a deployment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cgplan.errors import InputError, as_fix, shorten
from cgplan.memory.request import MemoryRequest
from cgplan.report.words import as_option, sentence

from . import values
from .decorate import with_deployment
from .memory_flags import CacheSizeOptions
from .options import LaunchOption, flag
from .output_options import JsonInPanelOption, MarkdownInPanelOption, check_one_form
from .pasted import Pasted, pasted
from .plan_inputs import memory_options, planned
from .quantities import size
from .request import Asked, request_of

if TYPE_CHECKING:
    from cgplan.memory.budget.measured_record import Profile
    from cgplan.trace import Finding
    from cgplan.workload.mixture import Traffic
    from cgplan.workload.sizes.limits import Limits
    from cgplan.workload.tune.tune import Tuning

EPILOG = """\
Examples:
  cgplan tune --model Qwen/Qwen3-8B --gpu h100 --workload server.log
  cgplan tune --workload day.log@0.7 --workload night.log@0.3 -- vllm serve Qwen/Qwen3-8B --max-num-seqs 256
  cgplan tune deploy.yaml --workload server.log --profile profile.json
  cgplan tune --model Qwen/Qwen3-8B --gpu h100 --shape bursty --max-graphs 40
  cgplan tune --model Qwen/Qwen3-8B --gpu h100 --max-concurrency 8
  curl -s localhost:8000/metrics | cgplan tune --model Qwen/Qwen3-8B --gpu h100 --workload - --json

Side effects: none; no file is written. --workload reads an http:// address, where one is given.

Exit codes:
  0  chosen, or today's list is the best
  1  with --max-concurrency: it does not start by the best estimate of its memory
  2  bad usage or input, nothing to choose, limits that no list keeps, or vLLM would not start
"""
TRAFFIC = "Traffic"
CHOICE = "Choice"

_Text = Optional[str]  # noqa: UP045
_Texts = Optional[list[str]]  # noqa: UP045


def _choice(name: str, help: str, metavar: str = "N") -> Any:
    return flag(name, panel=CHOICE, help=help, metavar=metavar)


def _traffic_option(name: str, help: str, metavar: str) -> Any:
    return flag(name, panel=TRAFFIC, help=help, metavar=metavar)


@with_deployment
def command(
    options: CacheSizeOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    workload: Annotated[
        _Texts,
        _traffic_option(
            "--workload",
            "Log with steps, text or URL of /metrics, CSV or JSON; - is stdin. Repeatable: a mixture.",
            "FILE[@WEIGHT]",
        ),
    ] = None,
    shape: Annotated[
        _Text, _traffic_option("--shape", "In its place: steady, bursty, low, uniform or bimodal.", "NAME")
    ] = None,
    concurrency: Annotated[
        _Text,
        _traffic_option(
            "--max-concurrency",
            "In its place: which graphs at most N requests at once can use, and what the others cost.",
            "N",
        ),
    ] = None,
    spread: Annotated[
        _Text,
        _traffic_option("--spread", "Share of steps of any size to choose for beside the traffic; default 0.05.", "X"),
    ] = None,
    profile: Annotated[
        _Text, _choice("--profile", "Record of `cgplan profile`: the cost is then seconds.", metavar="FILE")
    ] = None,
    must: Annotated[_Text, _choice("--must", "Sizes that the list has to have: 8,16.", metavar="N,...")] = None,
    max_graphs: Annotated[_Text, _choice("--max-graphs", "Most graphs; default: as many as today.")] = None,
    max_graph_memory: Annotated[
        _Text, _choice("--max-graph-memory", "Most memory of the graphs, 400M or 1G.", metavar="BYTES")
    ] = None,
    max_startup: Annotated[
        _Text, _choice("--max-startup", "Most seconds that capture may take.", metavar="SECONDS")
    ] = None,
    as_markdown: MarkdownInPanelOption = False,
    as_json: JsonInPanelOption = False,
) -> int:
    """Choose cudagraph_capture_sizes for measured traffic, and show what it gains beside today's list.

    Then what another graph mode, max_num_seqs and largest size would do, and whether the traffic asks for them.

    Options are vLLM's flags; what is not given is assumed, and the assumptions are listed.
    """
    from cgplan.workload.tune.tune import SPREAD, tune_of

    line = pasted(context)
    _check_asked(options, workload, shape, concurrency, as_json=as_json, as_markdown=as_markdown)
    if concurrency is not None:
        given = {
            "--spread": spread, "--profile": profile, "--must": must, "--max-graphs": max_graphs,
            "--max-graph-memory": max_graph_memory, "--max-startup": max_startup,
        }  # fmt: skip
        _check_alone(given)
        most = values.whole(concurrency, "--max-concurrency")
        return _ceiling(_asked(options, line, launch, None), most, as_json=as_json, as_markdown=as_markdown)
    limits = _limits(max_graphs, max_graph_memory, max_startup)
    sizes = values.numbers(must, "--must") if must is not None else ()
    share = SPREAD if spread is None else _share(spread)
    record = _record(profile) if profile is not None else None
    asked, request = _asked(options, line, launch, record)
    traffic = _traffic(workload, shape, asked)
    found = tune_of(asked.deployment, traffic, limits, sizes, record, request, share)
    if as_json:
        _print_json(found, asked)
    elif as_markdown:
        from cgplan.report.tune_markdown import page

        print(page(found, _title(found.resolution.vllm_version, asked), asked.assumptions), end="")
    else:
        from cgplan.report.tune_text import show

        show(found, _title(found.resolution.vllm_version, asked), asked.assumptions)
    return 0


def _check_asked(
    options: CacheSizeOptions, workload: list[str] | None, shape: str | None, concurrency: str | None, *,
    as_json: bool, as_markdown: bool,
) -> None:  # fmt: skip
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    names = {"--workload": workload or None, "--shape": shape, "--max-concurrency": concurrency}
    given = [name for name, value in names.items() if value is not None]
    if len(given) > 1:
        message = f"{' and '.join(given)} exclude each other"
        raise InputError(message, code="CG907", where=given[-1], fix=f"drop all but {given[0]}")
    if not given and options.model_tag is not None and _is_traffic(options.model_tag):
        raise InputError(
            f"{shorten(options.model_tag, 60)} names no deployment", code="CG905", where="--workload",
            fix=f"give it as --workload {shorten(options.model_tag, 200)}, beside --model",
        )  # fmt: skip
    if not given:
        raise InputError(
            "no traffic is given", code="CG905", where="--workload",
            fix="give --workload FILE (a log, a table of --cudagraph-metrics, a text of /metrics), "
            "--max-concurrency N, or --shape steady, bursty, low, uniform or bimodal for a first look",
        )  # fmt: skip
    if options.model_tag == "-" and any(text.partition("@")[0] == "-" for text in workload or ()):
        raise InputError("stdin is read once", code="CG905", where="--workload", fix="name one of the files")


def _is_traffic(name: str) -> bool:
    return Path(name).suffix in (".log", ".txt", ".csv", ".prom") and Path(name).is_file()


def _check_alone(given: dict[str, str | None]) -> None:
    """Of what chooses a list nothing is asked for."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} is of a choice, and --max-concurrency chooses none", code="CG907", where=name,
                fix=f"drop {name}, or give --workload or --shape in the place of --max-concurrency",
            )  # fmt: skip


def _ceiling(of: tuple[Asked, MemoryRequest], most: int, *, as_json: bool, as_markdown: bool) -> int:
    from cgplan.workload.choices.concurrency import ceiling_of

    asked, request = of
    found = ceiling_of(asked.deployment, request, most)
    title = _title(found.resolution.vllm_version, asked)
    if as_json:
        from cgplan.workload.tune.concurrency_document import as_document

        _print_document(as_document(replace(found, stops=_with_options(found.stops))), asked)
        return int(bool(found.stops))
    from cgplan.report import concurrency_view

    if as_markdown:
        print(concurrency_view.page(found, title, asked.assumptions), end="")
    else:
        concurrency_view.show(found, title, asked.assumptions)
    return int(bool(found.stops))


def _limits(graphs: str | None, memory: str | None, startup: str | None) -> Limits:
    from cgplan.workload.sizes.limits import Limits

    most = None if graphs is None else values.whole(graphs, "--max-graphs")
    if most is not None and most < 1:
        raise InputError(f"--max-graphs {most} allows none", code="CG903", where="--max-graphs", fix="give 1 or more")
    return Limits(
        graphs=most,
        graph_bytes=None if memory is None else size(memory, "--max-graph-memory"),
        capture_seconds=None if startup is None else values.number(startup, "--max-startup"),
    )


def _share(text: str) -> float:
    try:
        value = values.number(text, "--spread")
    except InputError as error:
        error.fix = "give 0 to 0.9"
        raise
    if value > 0.9:
        raise InputError(f"--spread {text} leaves no traffic", code="CG903", where="--spread", fix="give 0 to 0.9")
    return value


def _asked(
    options: CacheSizeOptions, line: Pasted, which: str | None, record: Profile | None
) -> tuple[Asked, MemoryRequest]:
    """The deployment, and what is asked of its memory. A model whose graphs alone are known is tuned without memory.

    The bytes of the record are those of today's list, as `cgplan plan --profile` takes them; other lists are as many
    times larger or smaller as predicted.
    """
    given = memory_options(options)
    try:
        made = planned(options, given, line, which)
    except InputError as error:
        if error.code != "CG901" or error.where != "--model":
            raise
        return request_of(options, line, which), MemoryRequest()
    asked, request = made.asked._replace(assumptions=made.assumptions), made.plan.request
    return (asked, request) if record is None else _with_bytes(options, asked, request, record)


def _with_bytes(
    options: CacheSizeOptions, asked: Asked, request: MemoryRequest, record: Profile
) -> tuple[Asked, MemoryRequest]:
    from .plan_record import known_by

    is_given = options.gpu_memory_bytes is not None
    try:
        known = known_by(record, asked.deployment, request.known, memory_given=is_given)
    except InputError as error:
        if error.code != "CG907":
            raise
        # Of another GPU or model its times are refused, too; with another max_num_seqs they hold and the bytes do not.
        line = f"Profile: its bytes are not taken, {error.message}."
        return asked._replace(assumptions=(*asked.assumptions, line)), request
    if known.measured.is_empty:
        return asked, request
    asked = asked._replace(assumptions=(*asked.assumptions, *known.remarks))
    return asked, replace(request, known=known.measured).of(asked.deployment)


def _record(name: str) -> Profile:
    from .plan_record import read

    try:
        return read(name)
    except InputError as error:
        if error.code != "CG911":
            error.fix = "give a record that `cgplan profile --json FILE` wrote"
        raise


def _traffic(workload: list[str] | None, shape: str | None, asked: Asked) -> tuple[Traffic, ...]:
    from cgplan.workload.mixture import Traffic
    from cgplan.workload.sources.given import read_traffic

    if shape is None:
        return read_traffic(workload or ())
    from cgplan import resolve
    from cgplan.workload.shapes import shape as named

    resolution = resolve(asked.deployment)
    made = named(
        shape.strip().casefold(),
        max_num_seqs=resolution.max_num_seqs,
        query_len=resolution.uniform_decode_query_len,
    )
    return (Traffic(made.source, made, is_measured=False),)


def _title(release: str, asked: Asked) -> str:
    parts = [f"vLLM {release}", asked.gpu, asked.layout, asked.model]
    return " · ".join(shorten(part, 80) for part in parts if part)


def _print_json(found: Tuning, asked: Asked) -> None:
    from cgplan.workload.tune.tune_document import as_document

    _print_document(as_document(replace(found, findings=_with_options(found.findings))), asked)


def _with_options(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Each fix as the options of this command."""
    return tuple(replace(one, fix=as_option(as_fix(one.fix))) if one.fix is not None else one for one in findings)


def _print_document(document: dict[str, Any], asked: Asked) -> None:
    document["model"] = document["model"] or asked.model or None
    document["assumptions"] = [sentence(text) for text in asked.assumptions]
    print(json.dumps(document))
