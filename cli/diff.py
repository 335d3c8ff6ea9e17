"""`cgplan diff`: what changes between two releases of vLLM."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional, get_type_hints

import typer

from cgplan.errors import CgplanError, InputError
from cgplan.releases import SUPPORTED

from . import environment, secrecy
from .decorate import with_deployment
from .memory_flags import CacheSizeOptions
from .options import LaunchOption
from .output_options import OUTPUT, JsonInPanelOption, MarkdownInPanelOption, check_one_form
from .pasted import pasted
from .request import Asked, deployment_of, launch_of, request_of_releases
from .streams import say
from .values import release_and_note

if TYPE_CHECKING:
    from cgplan.compare import Comparison
    from cgplan.inputs.launches import Launch
    from cgplan.memory.by_release import MemoryMoves

EPILOG = """\
Examples:
  cgplan diff --from 0.25.1 --to 0.33.0 --gpu b200 --max-num-seqs 1000
  cgplan diff --from 0.28 --model Qwen/Qwen3-8B --gpu h100 --markdown
  cgplan diff --from 0.32 --to 0.33
  cgplan diff deploy.yaml --to 0.33.0
  cgplan diff --from 0.25.1 -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300
  cgplan diff --from 0.19 --to 0.20 --model Qwen/Qwen3-14B --gpu h100 --gpu-memory-utilization 0.9

Side effects: none; no file is written, no network is used. Without --gpu the driver says which GPU is here.

Exit codes:
  0  compared
  1  something changed, with --fail-on-change
  2  bad usage or input, or vLLM of both releases refuses for one reason before it looks at memory
"""
RELEASES = "Releases"
NO_WEIGHTS = "Memory is not compared: the weights of the model are not known; --model names one of `cgplan models`."
KV_IS_GIVEN = "KV cache: --kv-cache-memory-bytes sizes it, so that no release takes its estimate of the graphs off it."


class Both(NamedTuple):
    """What is compared: what was asked, and why a release does not take its line."""

    asked: Asked
    refused: dict[str, CgplanError]


@with_deployment(refused=("vllm", "assume_release"))
def command(
    options: CacheSizeOptions,
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
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    for flag, given in (("--vllm", options.vllm), ("--assume-release", options.assume_release)):
        if given is not None:
            raise InputError(
                f"diff compares the releases of --from and --to, so {flag} has no say",
                code="CG907",
                where=flag,
                fix=f"drop {flag}",
            )
    served = launch_of(options, pasted(context), launch)
    start, *notes = _start(first, served)
    end, *more = release_and_note(last or SUPPORTED[-1], "--to")
    said = [note for note in (*notes, *more) if note is not None]
    if served is None and _asks_for_nothing(options):
        for note in said:
            say(note)
        changed = _notes(start, end, as_json, as_markdown)
    else:
        both = _both(options, served, start, end)
        both = both._replace(asked=both.asked._replace(assumptions=(*said, *both.asked.assumptions)))
        changed = _compare(both, start, end, as_json, as_markdown, options)
    return int(changed and fail_on_change)


def _start(text: str | None, launch: Launch | None) -> tuple[str, str | None]:
    """The release to start from: --from, else that of the file's image; and what to say of it."""
    said = launch.hints.release if launch is not None else None
    if text is not None:
        return release_and_note(text, "--from")
    if said is None:
        raise InputError(
            "the release to compare from is not given" if launch is None else "the release that you run is not known",
            code="CG905",
            where="--from",
            fix=f"write --from RELEASE; one of {', '.join(SUPPORTED)}",
        )
    return release_and_note(said, "--from")


def _both(options: CacheSizeOptions, launch: Launch | None, start: str, end: str) -> Both:
    """The deployment to compare, and the releases that do not take its line."""
    if launch is None:
        return Both(deployment_of(options, start), {})
    from cgplan.compare import releases_between

    return Both(*request_of_releases(launch, options, releases_between(start, end)))


def _asks_for_nothing(options: CacheSizeOptions) -> bool:
    return all(getattr(options, name) is None for name in get_type_hints(CacheSizeOptions))


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


def _compare(both: Both, first: str, last: str, as_json: bool, as_markdown: bool, options: CacheSizeOptions) -> bool:
    from cgplan.compare import compare

    asked = both.asked
    kv_is_given = _kv_is_given(options)
    found = compare(asked.deployment, first, last, both.refused, kv_is_given=kv_is_given)
    _check_starts(found)
    memory = _memory(both, found, options)
    assumptions = [*asked.assumptions, *environment.ignored_later(asked.deployment.env, first, last)]
    if asked.deployment.model.weights is None:
        assumptions.append(NO_WEIGHTS)
    if kv_is_given:
        assumptions.append(KV_IS_GIVEN)
    for one in found.snapshots:
        if one.error is not None:  # the changes have the same document
            one.values["startup"].update(secrecy.without_secrets(one.error).as_dict())
    if as_json:
        from cgplan.compare.document import comparison_document

        section = None
        if memory is not None:
            from cgplan.memory.by_release import moves_document

            section = moves_document(memory)
        texts = (asked.model, asked.gpu, assumptions, asked.ignored)
        print(json.dumps(comparison_document(found, *texts, memory=section)))
    elif as_markdown:
        from cgplan.report.diff_markdown import comparison_page

        print(comparison_page(found, asked.model, asked.gpu, assumptions, memory), end="")
    else:
        from cgplan.report.diff import show

        show(found, asked.model, asked.gpu, assumptions, memory=memory)
    return bool(found.changes or (memory is not None and memory.changed))


def _kv_is_given(options: CacheSizeOptions) -> bool:
    """Whether an option or the line says --kv-cache-memory-bytes."""
    line = options.asked.args.values if options.asked is not None and options.asked.args is not None else {}
    return options.kv_cache_memory_bytes is not None or line.get("kv_cache_memory_bytes") is not None


def _check_starts(found: Comparison) -> None:
    """Where both ends refuse for one reason there is nothing to compare, which "nothing changes" would hide.

    Raises:
        CgplanError: why.
    """
    error = found.last.error
    if error is None or found.first.error is None or found.changes:
        return
    said = secrecy.without_secrets(error)
    releases = dict.fromkeys((found.first.release, found.last.release))
    said.message = f"starts in neither {' nor '.join(releases)}, so memory is not compared either: {said.message}"
    if len(releases) == 1:
        said.message = said.message.replace("in neither", "not in", 1).replace(" either:", ":", 1)
    raise said


def _memory(both: Both, found: Comparison, options: CacheSizeOptions) -> MemoryMoves | None:
    """What `plan` says of the deployment at each release; None: the last one refuses before, or too little is known.

    Planning is imported only where there is something to plan.
    """
    if options.gpu_memory_utilization is not None or options.kv_cache_memory_bytes is not None:
        from .plan_inputs import memory_options

        memory_options(options)  # a value that cannot be read is told though nothing is planned
    model = both.asked.deployment.model
    if model.weights is None or not found.last.starts:
        return None
    from cgplan.compare import codes_between
    from cgplan.memory.by_release import memory_moves

    from .plan_inputs import request_of_line

    return memory_moves(
        both.asked.deployment,
        request_of_line(options),
        [one.release for one in found.snapshots],
        both.refused,
        partial(codes_between, found),
    )
