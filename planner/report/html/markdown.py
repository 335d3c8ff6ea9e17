"""The same page as Markdown, for a pull request: charts are their tables."""

from __future__ import annotations

import re
from html import escape

from ...errors import as_fix
from ...trace import Finding
from ..markdown_table import cell, table
from ..words import as_option, sentence
from .blocks import Block, Figure, Findings, Heading, Items, Line, Page, Pairs, Table
from .page import SIGNS


def markdown(page: Page) -> str:
    """The text."""
    lines = [f"# {cell(page.title)}: {cell(page.about)}", "", f"**{cell(page.verdict)}**", ""]
    lines += [f"- {cell(name)}: {cell(text)}" for name, text in page.key]
    for section in page.sections:
        if section.blocks:
            lines += ["", f"## {cell(section.title)}"]
            for block in section.blocks:
                lines += ["", *_block(block)]
    return "\n".join([*lines, "", cell(page.made_by)]) + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, Line):
        return [_text(block.text)]
    if isinstance(block, Heading):
        return [f"### {cell(block.text)}"]
    if isinstance(block, Pairs):
        return [f"- {cell(name)}: {_text(text)}" for name, text in block.pairs]
    if isinstance(block, Items):
        return [f"- {_text(sentence(text))}" for text in block.texts]
    if isinstance(block, Findings):
        return [_finding(one) for one in block.findings]
    if isinstance(block, Figure):
        numbers = ["", *_folded(block.table)] if block.table is not None else []
        return [f"### {cell(block.name)}", "", cell(block.summary), *numbers]
    return _folded(block) if block.folded else _table(block)


def _finding(finding: Finding) -> str:
    fix = f" Fix: {_text(as_option(as_fix(finding.fix)))}." if finding.fix else ""
    sign = SIGNS.get(finding.severity, finding.severity)
    return f"- **{cell(sign)} {cell(finding.code)}** {_text(sentence(finding.message))}{fix}"


CODE = re.compile(r"`([^`]{1,8000})`")
SHORT = 8
"""Rows of a table that stands open."""


def _folded(made: Table) -> list[str]:
    if len(made.rows) <= SHORT:
        return _table(made)
    return [f"<details><summary>{escape(made.name)}</summary>", "", *_table(made), "", "</details>"]


def _table(made: Table) -> list[str]:
    return table(made.head, made.rows, made.right, safe=_cell)


def _text(text: str, pipe: str = "|") -> str:
    """Safe text, with what stands in backticks as code, as on the page of HTML; `pipe` is how code has a `|`."""
    written, at = [], 0
    for found in CODE.finditer(text):
        inside = "".join(c if c.isprintable() else " " for c in found[1]).replace("|", pipe)
        written += [cell(text[at : found.start()]), f"`{inside}`"]
        at = found.end()
    return "".join((*written, cell(text[at:])))


def _cell(text: str) -> str:
    """The same in a table, whose columns end at any `|` that is not escaped, in code too."""
    return _text(text, r"\|")
