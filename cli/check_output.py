"""How `cgplan check` says what it found: the form, the lines on stderr, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cgplan.errors import InputError, did_you_mean

from . import failures
from .streams import put

if TYPE_CHECKING:
    from cgplan.inputs.settings import Settings
    from cgplan.report.check_results import FileResult

SEVERITIES = ("info", "warning", "error")
FAIL_ON = ("error", "warning", "info", "never")
OUTPUTS = ("text", "concise", "json", "sarif", "github", "markdown")


class Form(NamedTuple):
    """How findings are printed, and from which severity on they are a failure."""

    output: str
    fail_on: str
    quiet: bool
    assumptions: bool


def form_of(
    output: str | None, short: str | None, fail_on: str | None, quiet: bool, assumptions: bool, settings: Settings
) -> Form:
    """The form that was typed, by --format or as the `short` --json or --markdown, else that of the settings.

    Raises:
        InputError: a word is not known, or two contradict each other.
    """
    if short is not None and output not in (None, short):
        raise InputError(
            f"--{short} and --format {output} are one setting",
            code="CG907",
            where=f"--{short}",
            fix="drop one of the two",
        )
    form = short or _word(output, OUTPUTS, "--format") or settings.output or "text"
    return Form(form, _word(fail_on, FAIL_ON, "--fail-on") or settings.fail_on or "error", quiet, assumptions)


def _word(given: str | None, known: Sequence[str], flag: str) -> str | None:
    if given is None or given in known:
        return given
    raise InputError(
        f"unknown value {given[:40]!r}", code="CG902", where=flag,
        fix=did_you_mean(given, known) or f"give one of {', '.join(known)}",
    )  # fmt: skip


def show(found: Sequence[FileResult], form: Form) -> None:
    """Print what was found; what could not be read goes to stderr."""
    for file in found:
        say_unreadable(file)
    if form.output not in ("text", "json"):
        say_passed_over(found)
    if form.output == "json":
        from cgplan.report.check_document import as_document

        print(json.dumps(as_document(found)))
    elif form.output == "sarif":
        from cgplan.report.sarif import log

        from .check_fixes import Alone

        print(json.dumps(log(found, Alone())))
    elif form.output == "github":
        from cgplan.report.github import commands

        put("".join(f"{line}\n" for line in commands(found)))
    elif form.output == "markdown":
        from cgplan.report.check_markdown import page

        put(page(found))
    elif form.output == "concise":
        from cgplan.report.check_text import show_concise

        show_concise(found)
    else:
        from cgplan.report.check_text import show as show_text

        show_text(found, form.quiet, form.assumptions)


def say_unreadable(file: FileResult) -> None:
    """One line on stderr where a file cannot be read."""
    from .check_files import masked

    error = masked(file)
    if error is not None:
        failures.report(error, as_json=False)


def say_passed_over(found: Sequence[FileResult]) -> None:
    """One line on stderr where files of folders were not read."""
    from cgplan.report.check_results import passed_over

    from . import streams

    over = passed_over(found)
    if over is not None:
        streams.say(over)


def status(found: Sequence[FileResult], fail_on: str) -> int:
    """The exit status: 2 where something could not be read, 1 for findings at or above `fail_on`, else 0."""
    if any(file.error is not None for file in found):
        return failures.WRONG
    if fail_on == "never":
        return 0
    least = SEVERITIES.index(fail_on)
    return int(any(SEVERITIES.index(one.severity) >= least for file in found for one in file.all()))
