"""The same page as Markdown, for a pull request: charts are their tables."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ...errors import as_fix
from ...trace import Finding
from ..diff_markdown import cell
from ..words import as_option, sentence
from .blocks import Block, Figure, Findings, Heading, Items, Line, Page, Pairs, Table
from .page import SIGNS


def markdown(page: Page) -> str:
    """The text."""
    lines = [f"# {cell(page.title)}", "", cell(page.about), "", f"**{cell(page.verdict)}**", ""]
    lines += [f"- {cell(name)}: {cell(text)}" for name, text in page.key]
    for section in page.sections:
        if section.blocks:
            lines += ["", f"## {cell(section.title)}"]
            for block in section.blocks:
                lines += ["", *_block(block)]
    return "\n".join([*lines, "", cell(page.made_by)]) + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, Line):
        return [cell(block.text)]
    if isinstance(block, Heading):
        return [f"### {cell(block.text)}"]
    if isinstance(block, Pairs):
        return [f"- {cell(name)}: {cell(text)}" for name, text in block.pairs]
    if isinstance(block, Items):
        return [f"- {cell(sentence(text))}" for text in block.texts]
    if isinstance(block, Findings):
        return [_finding(one) for one in block.findings]
    if isinstance(block, Figure):
        return [f"### {cell(block.name)}", "", cell(block.summary), "", *_folded(block.table)]
    return _folded(block) if block.folded else _table(block)


def _finding(finding: Finding) -> str:
    fix = f" Fix: {cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
    sign = SIGNS.get(finding.severity, finding.severity)
    return f"- **{cell(sign)} {cell(finding.code)}** {cell(sentence(finding.message))}{fix}"


SHORT = 8
"""Rows of a table that stands open."""


def _folded(table: Table) -> list[str]:
    if len(table.rows) <= SHORT:
        return _table(table)
    return [f"<details><summary>{escape(table.name)}</summary>", "", *_table(table), "", "</details>"]


def _table(table: Table) -> list[str]:
    marks = ["---:" if at in table.right else "---" for at in range(len(table.head))]
    lines = [_row(table.head), f"|{'|'.join(marks)}|"]
    return lines + [_row(row) for row in table.rows]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell(text) for text in cells)} |"
