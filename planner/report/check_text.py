"""The screen of `cgplan check`: each finding with its lines of the file, each server in one line, and a count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..check.diagnostic import Diagnostic
from ..inputs.launches.launch import Remark
from .check_lines import Line, is_screen, width, wrapped, write
from .check_places import region_of
from .check_results import LINE, FileResult, LaunchResult, Origin, Summary, passed_over, shown_name, summary, to_paste
from .words import counted

INDENT = "  "


class Style(NamedTuple):
    """What is shown.

    Attributes:
        quiet: findings only.
        assumptions: list what was assumed and what is not modelled, for each server.
        width: columns.
        wraps: break long lines between words; a pipe gets them whole.
    """

    quiet: bool = False
    assumptions: bool = False
    width: int = 120
    wraps: bool = False


def show(files: Sequence[FileResult], quiet: bool = False, assumptions: bool = False) -> None:
    """Print the screen."""
    write(screen(files, Style(quiet, assumptions, width(), is_screen())))


def show_concise(files: Sequence[FileResult]) -> None:
    """Print one line a finding, and nothing else."""
    write(_in_one_line(file, one) for file in files for one in file.all())


def screen(files: Sequence[FileResult], style: Style) -> Iterator[Line]:
    """The lines of the screen."""
    counts = summary(files)
    alone = counts.servers == 1 and counts.files == 1
    before = 0
    for block in _blocks(files, style, counts, alone):
        # Blocks of one line stand together, others apart.
        if before and (before > 1 or len(block) > 1):
            yield ()
        yield from block
        before = len(block)


def _blocks(files: Sequence[FileResult], style: Style, counts: Summary, alone: bool) -> Iterator[list[Line]]:
    for file in files:
        yield from _file(file, style, alone)
    if not style.quiet:
        yield list(_summary(files, counts, alone, style))


def _file(file: FileResult, style: Style, alone: bool) -> Iterator[list[Line]]:
    """Each server in a line, followed by what is to be said of it."""
    if file.passed_over is not None:
        if style.assumptions and not style.quiet:
            yield [((f"{file.shown}: ", "head"), ("passed over: ", "info"), (file.passed_over, ""))]
        return
    for launch in file.launches:
        in_summary = alone and not launch.diagnostics
        if not style.quiet and (style.assumptions or not in_summary):
            yield [_server(file, launch), *(_assumptions(file, launch, style) if style.assumptions else ())]
        for one in launch.diagnostics:
            yield list(_diagnostic(file, one, to_paste(one, launch.diagnostics), style))
    for one in file.diagnostics:
        yield list(_diagnostic(file, one, one.flag, style))
    if not style.quiet and not file.launches:  # of a file with servers they are findings
        for remark in file.remarks:
            yield list(_remark(file, remark, style))


def _diagnostic(file: FileResult, one: Diagnostic, flag: str | None, style: Style) -> Iterator[Line]:
    from .check_excerpt import excerpt

    mask = file.secrets.mask
    room = style.width if style.wraps else None
    yield from wrapped(_head(file, one), mask(one.message), "head", len(INDENT), room)
    gutter = 1
    if one.at is not None:
        gutter = len(str(region_of(one.at).end_line))
        for line in excerpt(one.at, file.secrets, style.width - gutter - 3):
            number = str(line.number) if line.number else "." * min(gutter, 3)
            yield (f"{number:>{gutter}} | ", "faint"), (line.text, "")
            if line.number:
                yield (f"{'':>{gutter}} | ", "faint"), (line.marks, one.severity)
    pad = " " * (gutter + 1)
    if one.fix:
        yield from wrapped(((pad, ""), ("fix: ", "fix")), mask(one.fix), "", gutter + 6, room)
    if flag:
        yield (pad, ""), ("= ", "fix"), (mask(flag), "head")
    for related in one.related:
        place = region_of(related.at)
        where = f"{shown_name(related.at.source.name)}:{place.line}:{place.column}: "
        yield from wrapped(((pad, ""), (where, "faint")), mask(related.message), "", gutter + 3, room)


def _head(file: FileResult, one: Diagnostic) -> Line:
    return (_where(file, one), "head"), (" ", ""), (one.severity, one.severity), (f" {one.code} ", "code")


def _where(file: FileResult, one: Diagnostic) -> str:
    if one.at is None:
        return f"{file.shown}:"
    place = region_of(one.at)
    return f"{shown_name(one.at.source.name)}:{place.line}:{place.column}:"


def _server(file: FileResult, launch: LaunchResult) -> Line:
    name = f"{file.shown}:{launch.line}: " if file.name != LINE else f"{file.shown}: "
    label = launch.launch.label
    said = f"{file.secrets.mask(shown_name(label))}: " if label else ""
    return (name, "head"), (said, ""), *outcome(launch)


def outcome(launch: LaunchResult) -> Line:
    """What a server comes to: mode, graphs, release, GPU, model."""
    found = launch.outcome
    if not found.starts or found.resolution is None:
        head = ("cannot tell whether it starts", "warning") if found.starts is None else ("does not start", "error")
        return head, (_conditions(launch), "faint")
    graphs = found.resolution["graphs"]["total"]
    mode = found.resolution["cudagraph_mode"]
    words = f"{mode}, {counted(graphs, 'graph')}"
    return (words, "full" if graphs else "eager"), (_conditions(launch), "faint")


def _conditions(launch: LaunchResult) -> str:
    vllm, gpu, model = launch.outcome[:3]
    said = [_said("vLLM ", vllm), _said("", gpu)]
    if model.is_assumed and model.value:
        stand_in = launch.outcome.stand_in
        said.append(f"{shown_name(model.value)}{f' as {stand_in}' if stand_in else ''} (assumed)")
    return "".join(f", {text}" for text in said if text)


def _said(before: str, origin: Origin) -> str:
    if origin.value is None:
        return ""
    note = " (assumed)" if origin.is_assumed else " (here)" if origin.said_by == "here" else ""
    return before + shown_name(origin.value).removeprefix("NVIDIA ") + note


def _assumptions(file: FileResult, launch: LaunchResult, style: Style) -> Iterator[Line]:
    room = style.width if style.wraps else None
    for title, texts in (("assumed: ", launch.assumptions), ("not modelled: ", launch.ignored)):
        for text in texts:
            yield from wrapped(((INDENT + title, "faint"),), file.secrets.mask(text), "faint", 4, room)


def _remark(file: FileResult, remark: Remark, style: Style) -> Iterator[Line]:
    where = f"{file.shown}:{remark.span.line}:{remark.span.column}: " if remark.span is not None else f"{file.shown}: "
    text = remark.message + (f"; fix: {remark.fix}" if remark.fix else "")
    head = (where, "head"), ("note ", "info")
    yield from wrapped(head, file.secrets.mask(text), "", len(INDENT), style.width if style.wraps else None)


def _summary(files: Sequence[FileResult], counts: Summary, alone: bool, style: Style) -> Iterator[Line]:
    what = [(counts.errors, "error", "error"), (counts.warnings, "warning", "warning"), (counts.infos, "info", "info")]
    parts: list[tuple[str, str]] = []
    for number, noun, colour in what:
        if number:
            parts += [(", " if parts else "", ""), (counted(number, noun), colour)]
    unreadable = f", {counted(counts.unreadable, 'file')} could not be read" if counts.unreadable else ""
    scope = f"{counted(counts.servers, 'server')} in {counted(counts.files, 'file')}"
    only = next((launch for file in files for launch in file.launches), None) if alone else None
    if parts:
        yield (*parts, (f" in {scope}{unreadable}" if only is None else unreadable, ""))
        if counts.fixable:
            yield ((f"{counts.fixable} of them can be mended by --fix", "faint"),)
    elif not counts.servers:
        yield ((f"no vLLM server in {counted(counts.files, 'file')}{unreadable}", "warning"),)
    elif unreadable:
        yield (("nothing to say", ""), (f" of {scope}{unreadable}", ""))
    elif only is not None:
        yield (("all good: ", "fix"), *outcome(only))
    else:
        yield (("all good", "fix"), (f": {scope}", ""))
    over = passed_over(files)
    if over is not None:
        yield ((over, "warning"), ("" if style.assumptions else "; -v names them", "faint"))


def concise(file: FileResult, one: Diagnostic) -> str:
    """A finding in one line, without colours."""
    return "".join(text for text, _ in _in_one_line(file, one))


def _in_one_line(file: FileResult, one: Diagnostic) -> Line:
    """Editors look for a line and a column; what has none is of the file as a whole."""
    fix = f" (fix: {file.secrets.mask(one.fix)})" if one.fix else ""
    where, *rest = _head(file, one)
    where = (f"{file.shown}:1:1:", "head") if one.at is None else where
    return (where, *rest, (file.secrets.mask(one.message), ""), (fix, "faint"))
