"""What `cgplan check` found, file by file, ready to be written in any form."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..check.diagnostic import Diagnostic
from ..check.limits import Most
from ..check.registry import SEVERITIES
from ..check.report import Report
from ..errors import CgplanError, StartupError
from ..inputs.launches.launch import Launch, Remark, Source
from ..inputs.serve_args_errors import ArgumentRefused
from ..resolve import Resolution
from ..vocabulary import CUDAGraphMode
from .check_secrets import Secrets
from .words import counted, sentence

STDIN = "-"
LINE = ""
NAMES = {STDIN: "stdin", LINE: "line"}
"""How sources that are no files are called."""


class Origin(NamedTuple):
    """A fact of the machine or the release, and who says it: "given", "file", "here" or "assumed"."""

    value: str | None
    said_by: str

    @property
    def is_assumed(self) -> bool:
        return self.said_by == "assumed"


class Outcome(NamedTuple):
    """What a launch comes to.

    Attributes:
        vllm, gpu, model: by whose rules, on what, with which model.
        starts: whether vLLM takes it; None: cgplan cannot tell.
        stand_in: what stands in for a model that is not known, in words, or None.
        resolution: by vLLM's names, JSON values; of a line that vLLM refuses, as it is without what is refused. None:
            there is none.
    """

    vllm: Origin
    gpu: Origin
    model: Origin
    starts: bool | None
    resolution: dict[str, Any] | None
    stand_in: str | None = None


class LaunchResult(NamedTuple):
    """One server, and what is to be said of it.

    Attributes:
        launch: where it stands.
        outcome: what it comes to.
        assumptions, ignored: what was assumed, what is not modelled; one sentence each.
        diagnostics: those that are wanted, in the order of the text.
        most_requests: the largest max_num_seqs that starts, where a finding says that the one asked for does not.
    """

    launch: Launch
    outcome: Outcome
    assumptions: tuple[str, ...]
    ignored: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    most_requests: Most | None = None

    @property
    def line(self) -> int:
        """Where the command begins, from 1."""
        return next((token.span.line for token in self.launch.tokens if token.style != "made"), 1)


class FileResult(NamedTuple):
    """One file, standard input, or a line.

    Attributes:
        name: path as given, "-" for standard input, "" for a line.
        source: its text; None where it cannot be read.
        launches: servers that it starts.
        remarks: of its reader, about the file.
        diagnostics: of the file, not of one launch.
        error: why it cannot be read, or None.
        secrets: what of it must not be shown.
        passed_over: why it was met in a folder and not read, in a word or two; None: it was read.
    """

    name: str
    source: Source | None
    launches: tuple[LaunchResult, ...] = ()
    remarks: tuple[Remark, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    error: CgplanError | None = None
    secrets: Secrets = Secrets()
    passed_over: str | None = None

    @property
    def shown(self) -> str:
        """The name for people."""
        return shown_name(self.name)

    def all(self) -> Iterator[Diagnostic]:
        for launch in self.launches:
            yield from launch.diagnostics
        yield from self.diagnostics


class Summary(NamedTuple):
    """Counts over all files; `fixable` is what --fix mends. Those passed over are not among `files`."""

    errors: int
    warnings: int
    infos: int
    files: int
    servers: int
    unreadable: int
    fixable: int
    passed_over: int


def summary(files: Sequence[FileResult]) -> Summary:
    """Count what was found."""
    found = [one for file in files for one in file.all()]
    counts = {severity: sum(one.severity == severity for one in found) for severity in SEVERITIES}
    return Summary(
        errors=counts["error"],
        warnings=counts["warning"],
        infos=counts["info"],
        files=sum(file.passed_over is None for file in files),
        servers=sum(len(file.launches) for file in files),
        unreadable=sum(file.error is not None for file in files),
        fixable=sum(bool(one.edits) and one.safe for one in found),
        passed_over=sum(file.passed_over is not None for file in files),
    )


def to_paste(one: Diagnostic, beside: Sequence[Diagnostic]) -> str | None:
    """The corrected flag of a finding, for people.

    None where another finding of the launch has a value of the same flag with all of this one's in it: only that one
    is right for both.
    """
    if one.flag is None:
        return None
    name, *values = one.flag.replace("=", " ", 1).split()
    for other in beside:
        if other.flag is not None and other.flag.startswith(name):
            also, *more = other.flag.replace("=", " ", 1).split()
            if also == name and set(values) < set(more):
                return None
    return one.flag


def passed_over(files: Sequence[FileResult]) -> str | None:
    """How many files were passed over, and why: "3 files were passed over: 2 templates, 1 not UTF-8"."""
    reasons = Counter(file.passed_over for file in files if file.passed_over is not None)
    if not reasons:
        return None
    number = sum(reasons.values())
    said = ", ".join(f"{count} {PLURALS.get(word, word) if count > 1 else word}" for word, count in reasons.items())
    return f"{counted(number, 'file')} {'was' if number == 1 else 'were'} passed over: {said}"


PLURALS = {"template": "templates", "a link to nothing": "links to nothing"}


def shown_name(name: str) -> str:
    """The name of a source for people; without what would move the cursor."""
    name = NAMES.get(name, name)
    return "".join(c if c.isprintable() else "?" for c in name)


def forward(path: str) -> str:
    """`path` with forward slashes, relative to the working folder where it lies below it."""
    absolute = os.path.abspath(path)
    here = os.getcwd()
    if absolute.startswith(here.rstrip(os.sep) + os.sep):
        return os.path.relpath(absolute, here).replace(os.sep, "/")
    return absolute.replace(os.sep, "/")


def launch_result(report: Report, diagnostics: Sequence[Diagnostic], given: Sequence[str] = ()) -> LaunchResult:
    """A report without what was only needed to make it.

    Args:
        report: of check_launch.
        diagnostics: those of it that are wanted.
        given: which of "vllm", "gpu" and "model" the user named.
    """
    asked, resolution = report.asked, report.resolution
    assumed = [*asked.assumptions, *(resolution.assumptions if resolution is not None else ())]
    ignored = [*(asked.served.ignored if asked.served is not None else ())]
    ignored += resolution.not_modelled if resolution is not None else ()
    return LaunchResult(
        asked.launch,
        _outcome(report, diagnostics, given),
        tuple(dict.fromkeys(sentence(text) for text in assumed)),
        tuple(dict.fromkeys(sentence(text) for text in ignored)),
        tuple(diagnostics),
        report.most_requests,
    )


def _outcome(report: Report, diagnostics: Sequence[Diagnostic], given: Sequence[str]) -> Outcome:
    asked, hints = report.asked, report.asked.launch.hints
    deployment = asked.served.deployment if asked.served is not None else None
    gpu = "given" if "gpu" in given else "file" if asked.gpu_from == "given" else asked.gpu_from
    assumed = hints.release is None or asked.release_assumed
    release = "given" if "vllm" in given else "assumed" if assumed else "file"
    named = asked.served.model if asked.served is not None else None
    model = "given" if "model" in given else "assumed" if asked.model_assumed or _is_default(report) else "file"
    return Outcome(
        Origin(asked.release, release),
        Origin(deployment.gpu.name if deployment is not None else hints.gpu, gpu),
        Origin(deployment.model.name if deployment is not None else None, model),
        _starts(report, diagnostics),
        _resolved(report.resolution) if report.resolution is not None else None,
        named.stand_in if named is not None and not named.is_known else None,
    )


def _is_default(report: Report) -> bool:
    """Whether the line names no model, so that vLLM serves its own."""
    args = report.asked.args
    return args is not None and args.model is None


def _starts(report: Report, diagnostics: Sequence[Diagnostic]) -> bool | None:
    asked = report.asked
    if report.is_open:
        return None
    if report.resolution is not None and not any(one.severity == "error" for one in diagnostics):
        # What vLLM refuses has been silenced: whoever did so knows better.
        return True
    if any(not isinstance(error, ArgumentRefused) for error in asked.refused):
        return None
    if asked.refused or isinstance(report.problem, StartupError):
        return False
    if report.problem is not None and asked.problem is None:
        return False  # an unknown name, which vLLM refuses too
    return None if report.resolution is None else True


def _resolved(r: Resolution) -> dict[str, Any]:
    return {
        "runner": r.runner.value,
        "compilation_mode": r.compilation_mode.value,
        "requested_mode": r.requested_mode.value,
        "cudagraph_mode": r.cudagraph_mode.value,
        "decode_mode": r.decode_mode.value,
        "mixed_mode": r.mixed_mode.value,
        "backend": r.backend.name,
        "graphs": {
            "FULL": r.graph_count(CUDAGraphMode.FULL),
            "PIECEWISE": r.graph_count(CUDAGraphMode.PIECEWISE),
            "total": r.graph_count(),
        },
        "capture_sizes": list(r.capture_sizes),
        "max_cudagraph_capture_size": r.max_capture_size,
        "max_num_seqs": r.max_num_seqs,
        "max_num_batched_tokens": r.max_num_batched_tokens,
        "max_model_len": r.max_model_len,
    }
