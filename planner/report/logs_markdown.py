"""`cgplan logs --markdown`: the same as the screen, for a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import as_fix
from ..startup.analysis import StartReport
from ..startup.record import StartupLog
from ..trace import Finding
from . import logs_words as words
from .logs_plan_rows import agreed, plan_alone, plan_rows
from .logs_secrets import LogSecrets
from .markdown_table import cell, table
from .words import as_option, counted, sentence


def page(log: StartupLog, reports: Sequence[StartReport], secrets: LogSecrets) -> str:
    """The page of a log."""
    return _Page(secrets).of(log, reports)


class _Page:
    """Writes the page; every text of the log passes `cell`, which hides secrets before it escapes signs."""

    def __init__(self, secrets: LogSecrets) -> None:
        self.secrets = secrets

    def cell(self, text: str) -> str:
        return cell(self.secrets.text(text))

    def of(self, log: StartupLog, reports: Sequence[StartReport]) -> str:
        lines = [f"# Log: {counted(len(reports), 'start')} of vLLM"]
        if not reports:
            lines += ["", "The log has no start of vLLM."]
        for report in reports:
            lines += ["", *self._start(log, report)]
        lines += self._list("Not recognised", words.not_read(log))
        lines += self._list("The log", log.remarks)
        return "\n".join(lines) + "\n"

    def _start(self, log: StartupLog, report: StartReport) -> list[str]:
        number = (
            f"Start {report.number} of {len(log.starts)}, line {report.start.first_line}"
            f"{self.cell(f', {report.start.where}' if report.start.where else '')}: "
            if len(log.starts) > 1
            else ""
        )
        lines = [f"## {number}{self.cell(words.title(report))}", "", f"**{self.cell(words.headline(report)[0])}**"]
        if report.diagnosis is not None:
            found = report.diagnosis
            lines += ["", *self._findings((Finding(found.code, "error", found.message[:600], found.fix), *found.also))]
        facts = words.facts(report)
        if facts:
            lines += ["", *(f"- {f'{name}: ' if name else ''}{self.cell(text)}" for name, text in facts)]
        rows = words.rank_rows(report.start)
        if rows:
            lines += [
                "",
                "Memory of each rank, GiB:",
                "",
                *self._table(words.rank_head(report.start), rows, range(1, 9)),
            ]
            if (note := words.estimate_note(report.start)) != "":
                lines += ["", sentence(note)]
        phases = words.phases(report.start)
        if phases:
            lines += [
                "",
                "Time to start: " + ", ".join(f"{phase.name} {phase.seconds:.1f} s" for phase in phases) + ".",
            ]
            if (whole := words.sum_line(report.start)) != "":
                lines[-1] += f" {sentence(whole)}"
        lines += self._plan(report)
        lines += self._list("KV cache that fits beside the graphs as captured", words.correction_lines(report))
        if report.findings:
            lines += ["", "### Findings", "", *self._findings(report.findings)]
        if report.comparison is not None:
            lines += self._list("Assumed", report.comparison.served.assumptions)
            lines += self._list("Not modelled", report.comparison.served.ignored)
        return lines

    def _plan(self, report: StartReport) -> list[str]:
        comparison = report.comparison
        if comparison is None:
            return []
        lines = []
        if comparison.rows:
            rows = plan_rows(comparison.rows, len(report.start.ranks))
            head = ("GiB", "planned", "bounds", "log", "off", "verdict")
            lines += ["", "### Plan and log", "", *self._table(head, rows, range(1, 5))]
            if (line := agreed(comparison.rows)) != "":
                lines += ["", self.cell(sentence(line))]
        if (alone := plan_alone(comparison)) != "":
            lines += ["", self.cell(sentence(alone))]
        if comparison.why_not is not None:
            what = "Only a part is planned" if comparison.rows else "No plan"
            fix = f" Fix: {self.cell(as_fix(comparison.fix))}." if comparison.fix else ""
            lines += ["", f"{self.cell(sentence(f'{what}: {comparison.why_not}'))}{fix}"]
        return lines

    def _findings(self, findings: Iterable[Finding]) -> list[str]:
        lines = []
        for finding in findings:
            fix = f" Fix: {self.cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
            lines.append(f"- {finding.severity} {finding.code}: {self.cell(sentence(finding.message))}{fix}")
        return lines

    def _list(self, heading: str, items: Iterable[str]) -> list[str]:
        listed = [f"- {self.cell(sentence(item))}" for item in items]
        return ["", f"### {heading}", "", *listed] if listed else []

    def _table(self, head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]) -> list[str]:
        return table(head, rows, frozenset(right), self.cell)
