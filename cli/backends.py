"""`cgplan backends`: every attention backend of a release, and what it can do for one deployment."""

from __future__ import annotations

import json
from dataclasses import replace

import typer

from cgplan.report.words import sentence
from cgplan.resolve.support_table import support_table

from .decorate import with_deployment
from .options import DeploymentOptions, LaunchOption
from .output_options import JsonInPanelOption, MarkdownInPanelOption, check_one_form
from .pasted import pasted
from .request import request_of

EPILOG = """\
Examples:
  cgplan backends --gpu b200
  cgplan backends --model Qwen/Qwen3-8B --gpu h100 --vllm 0.28 --kv-cache-dtype fp8
  cgplan backends --gpu a100 --backend flashinfer --markdown
  cgplan backends deploy.yaml --gpu h100

Side effects: none; no file is written, no network is used. Without --gpu the driver says which GPU is here.

Exit codes:
  0  printed
  2  bad usage or input, or vLLM would not start
"""


@with_deployment
def command(
    options: DeploymentOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    as_markdown: MarkdownInPanelOption = False,
    as_json: JsonInPanelOption = False,
) -> int:
    """Show every attention backend: what CUDA graphs may hold with it, whether it fits, and which is chosen.

    Also says where vLLM's documentation of the release differs from its code.
    """
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    asked = request_of(options, pasted(context), launch)
    table = support_table(asked.deployment)
    table = replace(
        table,
        assumptions=tuple(sentence(text) for text in (*asked.assumptions, *table.assumptions)),
        not_modelled=tuple(sentence(text) for text in (*asked.ignored, *table.not_modelled)),
    )
    if as_json:
        from cgplan.report.backends_document import as_document

        print(json.dumps(as_document(table, asked.model, asked.gpu)))
    elif as_markdown:
        from cgplan.report.backends_markdown import as_markdown as page

        print(page(table, asked.model, asked.gpu), end="")
    else:
        from cgplan.report.backends import show

        show(table, asked.model, asked.gpu)
    return 0 if table.refused is None else 2
