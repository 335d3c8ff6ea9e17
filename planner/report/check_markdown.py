"""A check in Markdown, for a pull request or a job's summary page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..check.diagnostic import Diagnostic
from .check_places import region_of
from .check_results import LINE, FileResult, LaunchResult, Origin, Summary, shown_name, summary, to_paste
from .words import counted

MOST_ROWS = 200
"""Rows of a table; a page has an end."""

ORDER = ("error", "warning", "info")

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def page(files: Sequence[FileResult]) -> str:
    """The page."""
    counts = summary(files)
    lines = [f"# Check: {_headline(counts)}", ""]
    found = [
        (file, one, to_paste(one, launch.diagnostics))
        for file in files
        for launch in file.launches
        for one in launch.diagnostics
    ]
    found += [(file, one, one.flag) for file in files for one in file.diagnostics]
    found.sort(key=lambda row: ORDER.index(row[1].severity))
    if found:
        lines += ["| | where | code | what | fix |", "|---|---|---|---|---|"]
        lines += [_row(*row) for row in found[:MOST_ROWS]]
        lines += _more(len(found) - MOST_ROWS)
        lines.append("")
    errors = [(file, file.error) for file in files if file.error is not None]
    if errors:
        lines += ["Not read:", ""]
        for file, error in errors[:MOST_ROWS]:
            lines.append(f"- {_code(file.shown)}: {_plain(file.secrets.mask(error.message))} ({error.code})")
        lines += ["", *_more(len(errors) - MOST_ROWS)]
    servers = [(file, launch) for file in files for launch in file.launches]
    if servers:
        lines += ["| server | CUDA graphs | graphs | vLLM | GPU | model |", "|---|---|---:|---|---|---|"]
        lines += [_server(file, launch) for file, launch in servers[:MOST_ROWS]]
        lines += _more(len(servers) - MOST_ROWS)
        lines.append("")
    return "\n".join(lines)


def _headline(counts: Summary) -> str:
    parts = [
        counted(number, noun)
        for number, noun in ((counts.errors, "error"), (counts.warnings, "warning"), (counts.infos, "info"))
        if number
    ]
    scope = f"{counted(counts.servers, 'server')} in {counted(counts.files, 'file')}"
    unreadable = f", {counted(counts.unreadable, 'file')} not read" if counts.unreadable else ""
    if parts:
        return f"{', '.join(parts)} in {scope}{unreadable}"
    if not counts.servers:
        return f"no vLLM server in {counted(counts.files, 'file')}{unreadable}"
    return f"{'nothing to say of' if unreadable else 'all good,'} {scope}{unreadable}"


def _row(file: FileResult, one: Diagnostic, flag: str | None) -> str:
    mask = file.secrets.mask
    where = file.shown
    if one.at is not None:
        where = f"{shown_name(one.at.source.name)}:{region_of(one.at).line}"
    fix = [_plain(mask(one.fix))] if one.fix else []
    fix += [_code(mask(flag))] if flag else []
    cells = (one.severity, _code(where), one.code, _plain(mask(one.message)), "<br>".join(fix))
    return f"| {' | '.join(cells)} |"


def _server(file: FileResult, launch: LaunchResult) -> str:
    name = _code(f"{file.shown}:{launch.line}" if file.name != LINE else file.shown)
    if launch.launch.label:
        name += f" {_plain(file.secrets.mask(launch.launch.label))}"
    outcome = launch.outcome
    mode, graphs = "cannot tell" if outcome.starts is None else "does not start", ""
    if outcome.starts and outcome.resolution is not None:
        mode, graphs = outcome.resolution["cudagraph_mode"], str(outcome.resolution["graphs"]["total"])
    cells = (name, _plain(mode), graphs, _origin(outcome.vllm), _origin(outcome.gpu), _origin(outcome.model))
    return f"| {' | '.join(cells)} |"


def _origin(origin: Origin) -> str:
    if origin.value is None:
        return ""
    return _plain(origin.value) + (" (assumed)" if origin.is_assumed else "")


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield ""
        yield f"and {count} more."


def _plain(text: str) -> str:
    """Text that Markdown does not read anything into, in one line."""
    line = " ".join(shown_name(" ".join(text.split())).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return _SPECIAL.sub(r"\\\1", line)


def _code(text: str) -> str:
    """Text as code, in one line of a table."""
    line = " ".join(shown_name(text).split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"
