"""`cgplan report`: a deployment as one page of HTML that opens anywhere, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from cgplan.errors import CgplanError, InputError, shorten
from cgplan.report.words import sentence

from .decorate import with_deployment
from .memory_flags import MEASURED, MemoryFlagOptions
from .options import DeploymentOptions, LaunchOption, flag
from .output_options import OUTPUT, FailOnOption, MarkdownInPanelOption
from .pasted import pasted
from .plan_inputs import Planned, memory_options, planned
from .record_file import read_record
from .severities import SEVERITIES, severity

if TYPE_CHECKING:
    from cgplan.report.html.blocks import Page
    from cgplan.report.html.document import Facts
    from cgplan.workload.sources.given import Given
    from cgplan.workload.tune.tuning import Tuning

EPILOG = """\
Examples:
  cgplan report --model Qwen/Qwen3-8B --gpu h100 --output report.html
  cgplan report deploy.yaml --gpu h200 --output report.html --output report.md
  cgplan report --gpu h200 --markdown -- vllm serve Qwen/Qwen3-30B-A3B -tp 2
  cgplan report --model Qwen/Qwen3-8B --profile profile.json --workload server-metrics.txt --output report.html

Side effects: --output writes the files that it names; --workload reads an http:// address, where one is given.
Without --gpu the driver says which GPU is here.

Exit codes:
  0  written
  1  a finding at or above --fail-on, or with it a deployment that does not start
  2  bad usage or input, or vLLM would refuse before it looks at memory
"""
HTML, MARKDOWN = (".html", ".htm"), (".md", ".markdown")

_Text = Optional[str]  # noqa: UP045


@with_deployment(refused=("num_gpu_blocks",))
def command(
    options: MemoryFlagOptions,
    *,
    context: typer.Context,
    launch: LaunchOption = None,
    output: Annotated[
        Optional[list[str]],  # noqa: UP045
        flag(
            "--output",
            panel=OUTPUT,
            metavar="FILE",
            help="Write the page: FILE.html or FILE.md; may be given for each.",
        ),
    ] = None,
    as_markdown: MarkdownInPanelOption = False,
    workload: Annotated[
        Optional[list[str]],  # noqa: UP045
        flag(
            "--workload",
            panel=MEASURED,
            metavar="FILE[@WEIGHT]",
            help="Steps of a server: log with tables, /metrics (FILE or URL), CSV or JSON. Repeatable: a mixture.",
        ),
    ] = None,
    fail_on: FailOnOption = "never",
) -> int:
    """Write a page on a deployment: its CUDA graphs, which batches run in them, its memory, and what was found.

    The HTML file loads nothing and needs no network. It needs the extra `report`; Markdown does not.
    """
    lowest = severity(fail_on)
    targets = _targets(output or (), as_markdown)
    if options.num_gpu_blocks is not None:
        raise InputError(
            "a report works the blocks out, and --num-gpu-blocks would be left out", code="CG905",
            where="--num-gpu-blocks", fix="give --num-gpu-blocks-override where vLLM is given it, or --kv-bytes",
        )  # fmt: skip
    if options.model_tag == "-" and any(text.partition("@")[0] == "-" for text in workload or ()):
        raise InputError("stdin is read once", code="CG905", where="--workload", fix="name one of the files")
    memory = memory_options(options)
    if any(target.is_html for target in targets):
        from cgplan.report.html.charts import check_library

        check_library()
    first = planned(options, memory, pasted(context), launch)
    facts = _facts(first, options.profile, workload or ())
    _write(_masked(facts, options), targets)
    from cgplan.report.html.document import findings_of

    worst = max((SEVERITIES.index(one.severity) for one in findings_of(first.plan)), default=-1)
    return int(lowest is not None and (worst >= lowest or not first.plan.fits))


class _Target(NamedTuple):
    """A file, or stdout as Markdown where it is None."""

    path: str | None
    is_html: bool


def _targets(output: list[str] | tuple[()], as_markdown: bool) -> list[_Target]:
    """Where the page goes.

    Raises:
        InputError: CG905, nowhere, or to a file whose name does not say what it is.
    """
    found = [_Target(None, False)] if as_markdown else []
    for name in output:
        suffix = Path(name).suffix.casefold()
        if suffix not in (*HTML, *MARKDOWN):
            raise InputError(
                f"{shorten(name, 80)} is neither .html nor .md", code="CG905", where="--output",
                fix="name it FILE.html or FILE.md; --markdown prints to stdout",
            )  # fmt: skip
        found.append(_Target(name, suffix in HTML))
    if not found:
        raise InputError(
            "the report has no place to go to", code="CG905", where="--output",
            fix="--output report.html, or --markdown for Markdown on stdout",
        )  # fmt: skip
    return found


def _facts(first: Planned, profile: str | None, workload: list[str] | tuple[()]) -> Facts:
    from cgplan.memory.what_if import buy_backs
    from cgplan.report.html.document import Facts
    from cgplan.report.plan_text import Titles

    doubts = first.plan.graphs.doubts if first.plan.graphs is not None else ()
    facts = Facts(
        first.plan,
        Titles(first.asked.model, first.asked.gpu, first.asked.layout),
        buy_backs(first.plan),
        first.assumptions,
        tuple(sentence(text) for text in (*first.asked.ignored, *first.plan.not_modelled, *doubts)),
    )
    if profile is not None:
        facts = _with_profile(facts, profile)
    if workload:
        from cgplan.workload.gathered import joined
        from cgplan.workload.sources.given import read_given

        given = read_given(workload)
        facts = facts._replace(gathered=joined(*(one.gathered for one in given)))
        facts = facts._replace(tuning=_tuning(facts, given, profile))
    return facts


def _tuning(facts: Facts, given: Sequence[Given], profile: str | None) -> Tuning | str | None:
    """The best capture sizes for the mixture, by time where the profile has times; or why there are none."""
    from cgplan.memory.budget.measured_record import profile_of
    from cgplan.workload.sizes.limits import Limits
    from cgplan.workload.sources.given import traffic_of
    from cgplan.workload.tune.tune import tune_of

    try:
        traffic = traffic_of(given)
    except CgplanError as error:
        return str(error)
    record = None
    if facts.timings is not None and facts.timings.has_costs and profile is not None:
        record = profile_of(read_record(profile), "--profile", profile)
    try:
        return tune_of(facts.plan.deployment, traffic, Limits(), (), record, facts.plan.request)
    except CgplanError as error:
        return str(error)


def _with_profile(facts: Facts, name: str) -> Facts:
    """The times of the record, which planned() has read once and found to be of this deployment."""
    from cgplan.memory.profile.worth import left_by
    from cgplan.report.html.of_profile import timings

    document = read_record(name)
    found = timings(document, "--profile")
    if found is None:
        line = "Profile: the record has no times, only bytes; `cgplan profile --json FILE` writes them."
        return facts._replace(assumptions=(*facts.assumptions, line))
    try:
        return facts._replace(timings=found, worth=left_by(facts.plan.deployment, document))
    except CgplanError as error:
        return facts._replace(timings=found, worth=str(error))


def _masked(facts: Facts, options: DeploymentOptions) -> Page:
    from cgplan.report.html.document import page
    from cgplan.report.html.masking import masked

    return masked(page(facts), _mask(facts, options))


def _mask(facts: Facts, options: DeploymentOptions) -> Callable[[str], str]:
    """Takes keys and passwords out of a text: those of the launch and of the options, and what looks like one."""
    from cgplan.inputs.launches.secret_names import is_secret_name
    from cgplan.report.check_secrets import Secrets, secrets_of

    env = facts.plan.deployment.env
    named = tuple(value for name, value in env.items() if value and is_secret_name(name))
    if options.asked is None:
        return Secrets(named).mask
    launch = options.asked.launch
    own = secrets_of(launch.source, [launch])
    return own._replace(values=(*own.values, *named)).mask


def _write(page: Page, targets: list[_Target]) -> None:
    """Everything is drawn before anything is written."""
    from cgplan.report.html.markdown import markdown

    from .output_file import write_whole

    texts = []
    for target in targets:
        if target.is_html:
            from cgplan.report.html.page import html

            texts.append(html(page))
        else:
            texts.append(markdown(page))
    to_stdout = any(target.path is None for target in targets)
    for target, text in zip(targets, texts, strict=True):
        if target.path is None:
            print(text, end="")
            continue
        write_whole(Path(target.path), text)
        if not to_stdout:
            print(f"Wrote {shorten(target.path, 200)}, {len(text.encode()) / 1000:.0f} kB")
