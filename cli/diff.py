"""`cgplan diff`: what changes between two releases of vLLM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional, get_type_hints

import typer

from cgplan.errors import CgplanError, InputError
from cgplan.releases import SUPPORTED

from .decorate import with_deployment
from .options import DeploymentOptions, LaunchOption
from .output_options import OUTPUT, JsonInPanelOption, MarkdownInPanelOption
from .pasted import pasted
from .request import Asked, deployment_of, launch_of, request_of_releases
from .values import release

if TYPE_CHECKING:
    from cgplan.inputs.launches import Launch

EPILOG = """\
Examples:
  cgplan diff --from 0.25.1 --to 0.33.0 --gpu b200 --max-num-seqs 1000
  cgplan diff --from 0.28 --model Qwen/Qwen3-8B --gpu h100 --markdown
  cgplan diff --from 0.32 --to 0.33
  cgplan diff deploy.yaml --to 0.33.0
  cgplan diff --from 0.25.1 -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300

Exit codes:
  0  compared
  1  something changed, with --fail-on-change
  2  bad usage or input
"""
RELEASES = "Releases"


class Both(NamedTuple):
    """What is compared: what was asked, and why a release does not take its line."""

    asked: Asked
    refused: dict[str, CgplanError]


@with_deployment
def command(
    options: DeploymentOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    first: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--from",
            metavar="RELEASE",
            help="The release you run; 0.28 is its last patch. Default: that of the file's image.",
            rich_help_panel=RELEASES,
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--to",
            metavar="RELEASE",
            help="The other one, newer or older. Default: the newest.",
            rich_help_panel=RELEASES,
            show_default=False,
        ),
    ] = None,
    as_markdown: MarkdownInPanelOption = False,
    as_json: JsonInPanelOption = False,
    fail_on_change: Annotated[
        bool,
        typer.Option(
            "--fail-on-change", help="Exit 1 if anything changed.", rich_help_panel=OUTPUT, show_default=False
        ),
    ] = False,
) -> int:
    """Show what changes for a deployment between two releases, which rule does it, and how to keep what was.

    Without any option of the deployment: every rule and fact that changed between the two.
    """
    for flag, given in (("--vllm", options.vllm), ("--assume-release", options.assume_release)):
        if given is not None:
            raise InputError(
                f"diff compares the releases of --from and --to, so {flag} has no say",
                code="CG907",
                where=flag,
                fix=f"drop {flag}",
            )
    served = launch_of(options, pasted(context), launch)
    start = _start(first, served)
    end = release(last or SUPPORTED[-1], "--to")
    if served is None and _asks_for_nothing(options):
        changed = _notes(start, end, as_json, as_markdown)
    else:
        changed = _compare(_both(options, served, start, end), start, end, as_json, as_markdown)
    return int(changed and fail_on_change)


def _start(text: str | None, launch: Launch | None) -> str:
    """The release to start from: --from, else that of the file's image."""
    said = launch.hints.release if launch is not None else None
    if text is not None:
        return release(text, "--from")
    if said is None:
        raise InputError(
            "missing option '--from'" if launch is None else "the release that you run is not known",
            code="CG905",
            where="--from",
            fix=f"write --from RELEASE; one of {', '.join(SUPPORTED)}",
        )
    return release(said, "--from")


def _both(options: DeploymentOptions, launch: Launch | None, start: str, end: str) -> Both:
    """The deployment to compare, and the releases that do not take its line."""
    if launch is None:
        return Both(deployment_of(options), {})
    from cgplan.compare import releases_between

    return Both(*request_of_releases(launch, options, releases_between(start, end)))


def _asks_for_nothing(options: DeploymentOptions) -> bool:
    return all(getattr(options, name) is None for name in get_type_hints(DeploymentOptions))


def _notes(first: str, last: str, as_json: bool, as_markdown: bool) -> bool:
    from cgplan.compare import release_notes

    notes = release_notes(first, last)
    if as_json:
        from cgplan.compare.document import notes_document

        print(json.dumps(notes_document(first, last, notes)))
    elif as_markdown:
        from cgplan.report.diff_markdown import notes_page

        print(notes_page(first, last, notes), end="")
    else:
        from cgplan.report.diff import show_notes

        show_notes(first, last, notes)
    return bool(notes)


def _compare(both: Both, first: str, last: str, as_json: bool, as_markdown: bool) -> bool:
    from cgplan.compare import compare

    asked = both.asked
    found = compare(asked.deployment, first, last, both.refused)
    if as_json:
        from cgplan.compare.document import comparison_document

        print(json.dumps(comparison_document(found, asked.model, asked.gpu, asked.assumptions, asked.ignored)))
    elif as_markdown:
        from cgplan.report.diff_markdown import comparison_page

        print(comparison_page(found, asked.model, asked.gpu, asked.assumptions), end="")
    else:
        from cgplan.report.diff import show

        show(found, asked.model, asked.gpu, asked.assumptions)
    return bool(found.changes)
