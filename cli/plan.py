"""`cgplan plan`: where the memory of a deployment goes, what the KV cache holds, and whether it starts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cgplan.errors import InputError, as_fix
from cgplan.report.words import as_option, sentence

from .decorate import with_deployment
from .memory_flags import MemoryFlagOptions
from .options import DeploymentOptions, LaunchOption, flag
from .output_options import FailOnOption, JsonInPanelOption, MarkdownInPanelOption, check_one_form
from .pasted import pasted
from .plan_inputs import Planned, memory_options, planned, planned_other
from .plan_older import without_older
from .severities import SEVERITIES, severity

if TYPE_CHECKING:
    from cgplan.memory.what_if import BuyBack
    from cgplan.report.plan_text import Titles, WhatIf

EPILOG = """\
Examples:
  cgplan plan --model Qwen/Qwen3-8B --gpu h100
  cgplan plan --gpu h200 -- vllm serve Qwen/Qwen3-30B-A3B --gpu-memory-utilization 0.95
  cgplan plan deploy.yaml --gpu h200 --json
  cgplan plan --model Qwen/Qwen3-8B --gpu l4 --what-if max-model-len=8k,16k,32k
  cgplan plan --model Qwen/Qwen3-8B --gpu h100 --compare-with "vllm serve Qwen/Qwen3-8B -tp 2"
  cgplan plan --model Qwen/Qwen3-8B --gpu h100 --weights-bytes 16381470720 --kv-cache-dtype fp8

Side effects: none; no file is written, no network is used. Without --gpu the driver says which GPU is here.

Exit codes:
  0  it starts
  1  it does not start by the best estimate, or a finding at or above --fail-on (by default an error); with --what-if
     of the deployment as given, whose row stands first: the values are questions
  2  bad usage or input, or vLLM would refuse before it looks at memory
"""
ASKED = "Questions"

_Text = Optional[str]  # noqa: UP045


@with_deployment(refused=("num_gpu_blocks",))
def command(
    options: MemoryFlagOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    what_if: Annotated[
        _Text,
        flag(
            "--what-if",
            panel=ASKED,
            metavar="FLAG=VALUES",
            help="One option over values: max-num-seqs=64,128 or 64..512:64.",
        ),
    ] = None,
    compare_with: Annotated[
        _Text, flag("--compare-with", panel=ASKED, metavar="FILE|LINE", help="Another deployment beside this one.")
    ] = None,
    as_markdown: MarkdownInPanelOption = False,
    as_json: JsonInPanelOption = False,
    fail_on: FailOnOption = "error",
) -> int:
    """Show where the memory of each GPU goes, how much KV cache is left, and whether vLLM starts.

    Options are vLLM's flags; what is not given is assumed, and the assumptions are listed.
    """
    lowest = severity(fail_on)
    _check_asked(options, what_if, compare_with, as_json=as_json, as_markdown=as_markdown)
    memory = memory_options(options)
    older = without_older(pasted(context), options.vllm, options.assume_release)
    first = planned(options, memory, older.line, launch)
    first = replace(first, assumptions=(*first.assumptions, *older.notes))
    other = planned_other(options, memory, compare_with, first) if compare_with is not None else None
    found = _what_if(first, what_if)
    if as_json:
        _print_json(first, other, found)
    elif as_markdown:
        _print_markdown(first, other, found)
    else:
        _show(first, other, found)
    plans = [first.plan] if other is None else [first.plan, other.plan]
    worst = max((SEVERITIES.index(f.severity) for made in plans for f in made.findings), default=-1)
    return int(lowest is not None and (worst >= lowest or not all(made.fits for made in plans)))


def _check_asked(
    options: DeploymentOptions, what_if: str | None, compare_with: str | None, *, as_json: bool, as_markdown: bool
) -> None:
    """Options of which one would be left out in silence.

    Raises:
        InputError: CG907, two exclude each other; CG905, one has no part in a plan.
    """
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    if what_if is not None and compare_with is not None:
        raise InputError(
            "--what-if and --compare-with exclude each other",
            code="CG907",
            where="--compare-with",
            fix="run the two one after the other",
        )
    if options.num_gpu_blocks is not None:
        raise InputError(
            "a plan works the blocks out, and --num-gpu-blocks would be left out",
            code="CG905",
            where="--num-gpu-blocks",
            fix="give --num-gpu-blocks-override where vLLM is given it, or --kv-bytes with the bytes of the KV cache",
        )


def _what_if(first: Planned, text: str | None) -> WhatIf | None:
    if text is None:
        return None
    from .plan_variants import what_if

    return what_if(first.plan, text)


def _titles(one: Planned) -> Titles:
    from cgplan.report.plan_text import Titles

    return Titles(one.asked.model, one.asked.gpu, one.asked.layout)


def _of_record(other: Planned) -> tuple[str, ...]:
    """What is to be known of a record beside two deployments."""
    return tuple(text.removeprefix("Profile: ") for text in other.assumptions if text.startswith("Profile: "))


def _bought(one: Planned) -> tuple[BuyBack, ...]:
    from cgplan.memory.what_if import buy_backs

    return buy_backs(one.plan)


def _not_modelled(one: Planned) -> tuple[str, ...]:
    doubts = one.plan.graphs.doubts if one.plan.graphs is not None else ()
    return tuple(sentence(text) for text in (*one.asked.ignored, *one.plan.not_modelled, *doubts))


def _show(first: Planned, other: Planned | None, found: WhatIf | None) -> None:
    from cgplan.report.plan_text import show, show_compared, show_what_if

    if other is not None:
        show_compared(first.plan, other.plan, (_titles(first), _titles(other)), _of_record(other))
        return
    if found is not None:
        show_what_if(found, _titles(first).line(first.plan.resolution.vllm_version), first.assumptions)
        return
    show(
        first.plan,
        _titles(first),
        bought=_bought(first),
        assumptions=first.assumptions,
        not_modelled=_not_modelled(first),
    )


def _print_markdown(first: Planned, other: Planned | None, found: WhatIf | None) -> None:
    from cgplan.report.plan_markdown import compared_page, page

    if other is not None:
        page_of_both = compared_page(first.plan, other.plan, (_titles(first), _titles(other)), _of_record(other))
        print(page_of_both, end="")
        return
    text = page(
        first.plan,
        _titles(first),
        bought=_bought(first),
        what_if=found,
        assumptions=first.assumptions,
        not_modelled=_not_modelled(first),
    )
    print(text, end="")


def _print_json(first: Planned, other: Planned | None, found: WhatIf | None) -> None:
    document = _document(first)
    if other is not None:
        document["compared_with"] = _document(other)
    if found is not None:
        from cgplan.memory.document import outcome_document

        document["what_if"] = {"flag": found.flag, "rows": [outcome_document(one) for one in found.outcomes]}
    print(json.dumps(document))


def _document(one: Planned) -> dict[str, Any]:
    from cgplan.memory.document import as_document

    document = as_document(one.plan, assumptions=one.assumptions, bought=_bought(one))
    document["model"] = document["model"] or one.asked.model or None
    document["not_modelled"] = list(_not_modelled(one))
    for finding in document["findings"]:
        if finding["fix"] is not None:
            finding["fix"] = as_option(as_fix(finding["fix"]))
    return document
