"""`cgplan resolve`: the CUDA graphs of one deployment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Optional

import typer

from cgplan import Resolution, resolve
from cgplan.errors import as_fix
from cgplan.report.words import as_option, sentence

from . import values
from .decorate import with_deployment
from .options import DeploymentOptions, LaunchOption
from .output_options import OUTPUT, FailOnOption, JsonInPanelOption
from .pasted import pasted
from .request import Asked, request_of
from .severities import SEVERITIES, severity

EPILOG = """\
Examples:
  cgplan resolve --backend flashinfer
  cgplan resolve --model Qwen/Qwen3-8B --gpu h200 --max-num-seqs 256 --batch 7 100 300
  cgplan resolve -O1 --cudagraph-capture-sizes 1 2 4 8 --json
  cgplan resolve --max-num-seqs 512 -- vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 300
  cgplan resolve deploy.yaml --gpu h200

Side effects: none; no file is written, no network is used. Without --gpu the driver says which GPU is here.

Exit codes:
  0  nothing wrong
  1  a finding at or above --fail-on
  2  bad usage or input, or vLLM would not start
"""


@with_deployment
def command(
    options: DeploymentOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    batch: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--batch",
            metavar="N ...",
            help="How batches of N requests or tokens run; 1-8 is 1 to 8.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    padding_table: Annotated[
        bool, typer.Option("--table", help="The padding table.", rich_help_panel=OUTPUT, show_default=False)
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="What each rule changed, and why.", rich_help_panel=OUTPUT, show_default=False),
    ] = False,
    as_json: JsonInPanelOption = False,
    fail_on: FailOnOption = "never",
) -> int:
    """Show which CUDA graphs vLLM will capture, which batches run in them, and why.

    Options are vLLM's flags; what is not given is assumed, and the assumptions are listed.
    """
    lowest = severity(fail_on)
    batches = values.batches(batch or ())
    asked = request_of(options, pasted(context), launch)
    resolution = _with_notes(resolve(asked.deployment), asked)
    if as_json:
        _print_json(resolution, batches, padding_table)
    else:
        from cgplan.report.text import Screen, show

        show(resolution, Screen(asked.model, asked.gpu, batches, padding_table, explain, asked.layout))
    worst = max((SEVERITIES.index(f.severity) for f in resolution.findings), default=-1)
    return int(lowest is not None and worst >= lowest)


def _with_notes(resolution: Resolution, asked: Asked) -> Resolution:
    """With what was assumed and left out before vLLM's rules were asked."""
    from cgplan.resolve.other_backend import cost_of_lower_mode, notes, remedy

    assumed = [*asked.assumptions, *_fallbacks(resolution), *resolution.assumptions]
    return replace(
        resolution,
        mode_fix=remedy(asked.deployment, resolution),
        mode_cost=cost_of_lower_mode(asked.deployment, resolution),
        noted=(*resolution.noted, *notes(asked.deployment, resolution)),
        assumptions=tuple(sentence(text) for text in assumed),
        not_modelled=tuple(sentence(text) for text in (*asked.ignored, *resolution.not_modelled)),
    )


def _fallbacks(resolution: Resolution) -> list[str]:
    """A data type that is not the model's own changes every number, so it is said."""
    return [
        f"Data type: {decision.after} in the place of {decision.before}. {decision.why}"
        for decision in resolution.decisions
        if decision.field == "dtype"
    ]


def _print_json(resolution: Resolution, batches: tuple[int, ...], padding_table: bool) -> None:
    from cgplan.report.batches import answers
    from cgplan.resolve.document import as_document

    document = as_document(resolution)
    for finding in document["findings"]:
        if finding["fix"] is not None:
            finding["fix"] = as_option(as_fix(finding["fix"]))
    if batches:
        document["batches"] = [answer._asdict() for answer in answers(resolution, batches)]
    if padding_table:
        rows = resolution.padding_table() if resolution.graph_count() else []
        document["padding_table"] = [{"from": first, "to": last, "padded": size} for first, last, size in rows]
    print(json.dumps(document))
