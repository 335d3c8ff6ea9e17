"""`cgplan plan --markdown`: the same as the screen, for a ticket or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import as_fix
from ..memory.capacity_plan import CapacityPlan
from ..memory.what_if import BuyBack
from ..trace import Finding
from . import plan_graphs
from . import plan_what_if as variants
from . import plan_words as words
from .markdown_table import cell, table
from .plan_compared import compared_rows
from .plan_text import Titles, WhatIf
from .words import as_option, sentence


def page(
    made: CapacityPlan,
    titles: Titles,
    *,
    bought: Sequence[BuyBack] = (),
    what_if: WhatIf | None = None,
    assumptions: Iterable[str] = (),
    not_modelled: Iterable[str] = (),
) -> str:
    """The page of one deployment."""
    lines = [f"# Memory: {cell(titles.line(made.resolution.vllm_version))}", "", words.headline(made)[0]]
    lines += _findings(made.findings)
    rows = words.budget_rows(made)
    if rows:
        lines += ["", *table(words.budget_head(made), rows, right=(2, 3, 4))]
    lines += ["", *(f"- {name}: {cell(text)}" for name, text in words.cache_lines(made))]
    lengths = words.lengths(made)
    if len(lengths) > 1:
        lines += ["", *table(("tokens a request", "requests at once"), lengths, right=(0, 1))]
    graphs = plan_graphs.lines(made)
    if graphs:
        lines += ["", "## CUDA graphs", "", *(f"- {cell(line)}" for line in graphs)]
    if bought:
        head = (*words.BOUGHT_HEAD[:-1], "cost")
        lines += ["", *table(head, words.bought_rows(bought), right=(1, 2, 3, 4, 5))]
    if what_if is not None:
        shown = what_if.outcomes
        columns = (what_if.flag, *variants.head(shown))
        lines += ["", "## What if", "", *table(columns, variants.rows(shown), right=range(2, len(columns)))]
        said = [f"- {cell(sentence(text))}" for text in variants.to_know(shown, shown)]
        lines += ["", *said] if said else []
    for title, items in (("Assumed", assumptions), ("Not modelled", not_modelled)):
        listed = [f"- {cell(sentence(item))}" for item in items]
        if listed:
            lines += ["", f"## {title}", "", *listed]
    return "\n".join(lines) + "\n"


def compared_page(
    first: CapacityPlan, second: CapacityPlan, titles: Sequence[Titles], of_record: Iterable[str] = ()
) -> str:
    """Two deployments side by side."""
    lines = ["# Memory: two deployments", ""]
    for name, plan, title in zip(("A", "B"), (first, second), titles, strict=True):
        lines.append(f"- {name}: {cell(title.line(plan.resolution.vllm_version))}")
    lines += ["", *table(("", "A", "B", "B - A"), compared_rows(first, second), right=(1, 2, 3))]
    said = [f"- The record, for B: {cell(sentence(text))}" for text in of_record]
    lines += ["", *said] if said else []
    return "\n".join(lines) + "\n"


def _findings(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    lines = ["", "## Findings", ""]
    for finding in findings:
        fix = f" Fix: {cell(as_option(as_fix(finding.fix)))}." if finding.fix else ""
        lines.append(f"- {finding.severity} {finding.code}: {cell(sentence(finding.message))}{fix}")
    return lines
