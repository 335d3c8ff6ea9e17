"""`cgplan check`: findings in `vllm serve` lines, manifests and scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from cgplan.errors import InputError

from . import failures, pasted
from .check_output import OUTPUTS, Form, form_of, say_unreadable, show, status
from .decorate import with_deployment
from .options import DeploymentOptions
from .output_options import OUTPUT, check_one_form

if TYPE_CHECKING:
    from cgplan.report.check_results import FileResult

    from .check_files import Checker

EPILOG = """\
Examples:
  cgplan check -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300
  cgplan check deploy.yaml charts/ --vllm 0.29 --gpu h200
  kubectl get deployment qwen -o yaml | cgplan check -
  cgplan check deploy.yaml --fix --write

Side effects: none, and no network is used; --fix --write changes the files that are given. Without --gpu the driver
says which GPU is here.

Exit codes:
  0  no finding at or above --fail-on
  1  findings at or above --fail-on
  2  bad usage, a file that cannot be read, or nothing on stdin
"""
FINDINGS = "Findings"
MOST_LEFT = 20
"""Findings that --fix names beside its changes."""
MANY = 20
"""Files from which on memory is worth being tidied up."""


@with_deployment(
    positional=False,
    helps={"model": "In the place of the file's: directory, config.json or id of `cgplan models`."},
)
def command(
    options: DeploymentOptions,
    *,
    context: typer.Context,
    files: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="FILE|DIR|- ...",
            help="Manifests, compose files, scripts, units; folders are walked; - is stdin.",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--select",
            metavar="CODES",
            help="Codes to report, or their first letters: CG9,CG212. Repeatable.",
            rich_help_panel=FINDINGS,
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--ignore",
            metavar="CODES",
            help="Codes not to report. Repeatable.",
            rich_help_panel=FINDINGS,
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="error, warning, info or never: exit 1 on such a finding.  [default: error]",
            rich_help_panel=FINDINGS,
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--exclude",
            metavar="GLOB",
            help="Paths to leave out of a walk. Repeatable.",
            rich_help_panel=FINDINGS,
            show_default=False,
        ),
    ] = None,
    settings_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings. Default: the nearest cgplan.toml, or pyproject.toml with [tool.cgplan].",
            rich_help_panel=FINDINGS,
            show_default=False,
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Print a diff of safe fixes.", rich_help_panel="Fixes", show_default=False)
    ] = False,
    unsafe_fixes: Annotated[
        bool,
        typer.Option(
            "--unsafe-fixes",
            help="With --fix: those too that change limits or behaviour.",
            rich_help_panel="Fixes",
            show_default=False,
        ),
    ] = False,
    write: Annotated[
        bool,
        typer.Option("--write", help="With --fix: change the files.", rich_help_panel="Fixes", show_default=False),
    ] = False,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            help=f"{', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}. Default: text.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="As --format json.", rich_help_panel=OUTPUT, show_default=False)
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="As --format markdown.", rich_help_panel=OUTPUT, show_default=False)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Findings only.", rich_help_panel=OUTPUT, show_default=False)
    ] = False,
    assumptions: Annotated[
        bool,
        typer.Option(
            "--show-assumptions",
            "-v",
            help="List what was assumed for each server.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = False,
) -> int:
    """Find what will not start, is ignored in silence, or is slower than asked, in the way servers are started.

    Give files or folders, or a command line behind --. Options of the deployment take the place of what a file says.
    """
    check_one_form(as_json=as_json, as_markdown=as_markdown)
    line = pasted.pasted(context).words
    given = _given(files, line)
    _check_fix(fix, unsafe_fixes, write, given, line is not None)
    from cgplan.inputs import settings as project

    from .check_files import Checker, Wanted

    settings = project.load(settings_file) if settings_file is not None else None
    short = "json" if as_json else "markdown" if as_markdown else None
    form = form_of(output, short, fail_on, quiet, assumptions, settings or project.settings_of(Path.cwd()))
    if (fix or unsafe_fixes) and not write and form.output not in ("text", "concise"):
        raise InputError(
            f"--fix prints a diff, not {form.output}", code="CG907", where="--format", fix="drop one, or add --write"
        )
    checker = Checker(Wanted(options, tuple(select or ()), tuple(ignore or ()), tuple(exclude or ()), settings))
    found = _check(checker, given, line)
    if not (fix or unsafe_fixes):
        show(found, form)
        return status(found, form.fail_on)
    if not write:
        _show_fixes(found, unsafe_fixes)
        return status(found, form.fail_on)
    found, failed = _write_fixes(checker, found, unsafe_fixes, form)
    return failed or status(found, form.fail_on)


def _given(files: Sequence[str] | None, line: Sequence[str] | None) -> list[str]:
    """The files to read; standard input where nothing is given and something comes from there."""
    if line is not None and not line:
        raise InputError("nothing stands behind --", code="CG905", where="cgplan check", fix=_USAGE)
    if files or line is not None:
        return list(files or ())
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputError("no file and no command line is given", code="CG905", where="cgplan check", fix=_USAGE)
    return ["-"]


_USAGE = "cgplan check deploy.yaml, or cgplan check -- vllm serve Qwen/Qwen3-8B"


def _check_fix(fix: bool, unsafe: bool, write: bool, given: Sequence[str], is_line: bool) -> None:
    if write and not (fix or unsafe):
        raise InputError("--write needs --fix", code="CG905", where="--write", fix="give --fix --write")
    if write and ("-" in given or is_line):
        raise InputError(
            "--write changes files, and this is none", code="CG905", where="--write",
            fix="give files, or drop --write: --fix prints the change",
        )  # fmt: skip


def _check(checker: Checker, given: Sequence[str], line: Sequence[str] | None) -> list[FileResult]:
    found = [checker.line(line)] if line is not None else []
    for one in checker.files(given):
        found.append(one)
        if len(found) == MANY:
            _tidy()
    return found


def _tidy() -> None:
    """main.py switches the search for garbage off, which many files would feel."""
    import gc

    gc.freeze()
    gc.enable()


def _show_fixes(found: Sequence[FileResult], unsafe: bool) -> None:
    """Print the changes, and what they leave."""
    from cgplan.report.check_results import LINE, STDIN
    from cgplan.report.check_text import concise
    from cgplan.report.words import counted

    from . import check_fixes, streams

    mended = check_fixes.mend(found, unsafe)
    check_fixes.print_diff(mended)
    for file in found:
        say_unreadable(file)
    check_fixes.say_left(mended)
    made = [finding for one in mended for finding in one.made]
    rest = [(file, one) for file in found for one in file.all() if not any(one is finding for finding in made)]
    for file, one in rest[:MOST_LEFT]:
        streams.say(f"left: {concise(file, one)}")
    if len(rest) > MOST_LEFT:
        streams.say(f"left: and {len(rest) - MOST_LEFT} more; drop --fix to see them")
    if made:
        is_file = any(one.made and one.source.name not in (LINE, STDIN) for one in mended)
        how = "these changes, which --write makes" if is_file else "this change"
        streams.say(f"{counted(len(made), 'finding')} mended by {how}")
    elif rest:
        streams.say("nothing can be mended so")


def _write_fixes(
    checker: Checker, found: Sequence[FileResult], unsafe: bool, form: Form
) -> tuple[list[FileResult], int]:
    """Make the changes, and print what is left. Returns that, and the exit status of a file that was not written."""
    from cgplan.report.words import counted

    from . import check_fixes, streams

    mended = check_fixes.mend(found, unsafe)
    changed, errors = check_fixes.write(mended)
    names = {one.file.name for one in changed}
    again = [(checker.path(file.name) or file) if file.name in names else file for file in found]
    show(again, form)
    check_fixes.say_left(mended)
    failed = max([failures.report(error, as_json=False) for error in errors], default=0)
    count = sum(len(one.made) for one in changed)
    streams.say(f"{counted(count, 'finding')} mended in {counted(len(changed), 'file')}")
    return again, failed
