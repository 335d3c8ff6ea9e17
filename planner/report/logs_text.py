"""The screen of `cgplan logs`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import as_fix
from ..startup.analysis import StartReport
from ..startup.record import StartupLog
from ..trace import Finding
from . import logs_words as words
from .console import console
from .logs_plan_rows import PLAN_HEAD, agreed, plan_alone, plan_rows
from .logs_secrets import LogSecrets
from .tables import show_list, show_pairs
from .words import as_option, counted, sentence

BAR = 40
"""Cells of the longest bar."""
MOST_FINDINGS = 12


def show(
    log: StartupLog,
    reports: Sequence[StartReport],
    secrets: LogSecrets,
    *,
    chosen: bool = False,
    out: Console | None = None,
) -> None:
    """Print the reports of a log's starts.

    Args:
        chosen: one start of several was asked for.
    """
    out = out or console()
    if not reports:
        out.print(Text("The log has no start of vLLM.", style="warning"))
    for at, report in enumerate(reports):
        if at:
            out.print()
        if len(log.starts) > 1 or chosen:
            start = report.start
            source = f", {secrets.text(start.where)}" if start.where else ""
            out.print(Text(f"Start {report.number} of {len(log.starts)}, line {start.first_line}{source}", style="key"))
        _show_start(out, report, secrets)
    show_list(out, "Not recognised", (secrets.text(line) for line in words.not_read(log)))
    show_list(out, "The log", (secrets.text(text) for text in log.remarks))


def _show_start(out: Console, report: StartReport, secrets: LogSecrets) -> None:
    out.print(Text(secrets.text(words.title(report)), style="head"))
    text, style = words.headline(report)
    out.print(Text(secrets.text(text), style=style))
    if report.diagnosis is not None:
        _show_crash(out, report, secrets)
    pairs = [(name, secrets.text(one)) for name, one in words.facts(report)]
    if pairs:
        out.print()
        show_pairs(out, pairs, style="key")
    _show_ranks(out, report)
    _show_phases(out, report)
    _show_plan(out, report, secrets)
    show_list(out, "KV cache that fits beside the graphs as captured", words.correction_lines(report))
    _show_findings(out, report.findings, secrets)
    if report.comparison is not None:
        served = report.comparison.served
        show_list(out, "Assumed", (secrets.text(one) for one in served.assumptions))
        show_list(out, "Not modelled", (secrets.text(one) for one in served.ignored))


def _show_crash(out: Console, report: StartReport, secrets: LogSecrets) -> None:
    found = report.diagnosis
    assert found is not None
    error = Finding(found.code, "error", found.message[:600], found.fix)
    for finding in (error, *found.also):
        _show_finding(out, finding, secrets)


def _show_ranks(out: Console, report: StartReport) -> None:
    rows = words.rank_rows(report.start)
    if not rows:
        return
    out.print()
    head = words.rank_head(report.start)
    shown = [at for at in range(len(head)) if at == 0 or any(row[at] not in ("-", "") for row in rows)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    for at in shown:
        heading = f"{head[at]}" if at else f"{head[at]}, GiB"
        table.add_column(heading, justify="left" if at == 0 else "right", overflow="fold", no_wrap=at == 0)
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    out.print(table)
    if (note := words.estimate_note(report.start)) != "":
        out.print(Text(sentence(note), style="faint"))


def _show_phases(out: Console, report: StartReport) -> None:
    found = words.phases(report.start)
    if not found:
        return
    out.print()
    out.print(Text("Time to start, slowest rank", style="key"))
    longest = max(phase.seconds for phase in found)
    width = max(len(phase.name) for phase in found)
    cells = max(8, min(BAR, out.width - width - 14))
    for phase in found:
        bar = "█" * max(1, round(cells * phase.seconds / longest))
        line = Text(f"{phase.name.ljust(width)} {phase.seconds:8.1f} s  ")
        line.append(bar, style="cyan")
        out.print(line)
    if (line_of_sum := words.sum_line(report.start)) != "":
        out.print(Text(sentence(line_of_sum)))


def _show_plan(out: Console, report: StartReport, secrets: LogSecrets) -> None:
    comparison = report.comparison
    if comparison is None:
        return
    rows = plan_rows(comparison.rows, len(report.start.ranks))
    alone = plan_alone(comparison)
    if rows or agreed(comparison.rows) or comparison.why_not is not None or alone:
        out.print()
    if alone:
        out.print(Text(secrets.text(sentence(alone))))
    if rows:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
        for at, heading in enumerate(PLAN_HEAD):
            table.add_column(heading, justify="left" if at in (0, 5) else "right", overflow="fold", no_wrap=at > 0)
        for row in rows:
            style = "warning" if row[-1].startswith(("outside", "different")) else ""
            table.add_row(*(Text(secrets.text(cell)) for cell in row[:-1]), Text(row[-1], style=style))
        out.print(table)
    if (line := agreed(comparison.rows)) != "":
        out.print(Text(secrets.text(sentence(line))))
    if comparison.why_not is not None:
        what = "Only a part is planned" if comparison.rows else "No plan"
        out.print(Text(secrets.text(sentence(f"{what}: {comparison.why_not}")), style="warning"))
        if comparison.fix:
            out.print(_fix(comparison.fix))


def _show_findings(out: Console, findings: Sequence[Finding], secrets: LogSecrets) -> None:
    for finding in findings[:MOST_FINDINGS]:
        _show_finding(out, finding, secrets)
    if len(findings) > MOST_FINDINGS:
        out.print()
        out.print(Text(f"{counted(len(findings) - MOST_FINDINGS, 'more finding')}; --json has all of them."))


def _show_finding(out: Console, finding: Finding, secrets: LogSecrets) -> None:
    out.print()
    line = Text()
    line.append(finding.severity, style=finding.severity)
    line.append(f" {finding.code}", style="code")
    if finding.where:
        line.append(f"  {secrets.text(finding.where)}", style="faint")
    out.print(line)
    out.print(Padding(Text(secrets.text(finding.message)), (0, 0, 0, 2)))
    if finding.fix:
        out.print(_fix(secrets.text(finding.fix)))


def _fix(text: str) -> Padding:
    fix = Text()
    fix.append("fix: ", style="fix")
    fix.append(as_option(as_fix(text)))
    return Padding(fix, (0, 0, 0, 2))
