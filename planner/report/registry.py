"""The registry of rules: a table on the screen, in Markdown, and the page docs/rules.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..releases import SUPPORTED, holds
from ..rules import all_rules
from ..trace import Rule
from .rules import FAMILIES, parts_of, source_of
from .topics import ranked_rules

if TYPE_CHECKING:
    from rich.console import Console

_CODE = re.compile(r"cg[0-9]{0,3}", re.IGNORECASE)
"""A code, or its beginning."""
WIDE = 110
"""From here on a rule's source has a column of its own."""


def select(release: str | None = None, since: str | None = None, text: str | None = None) -> list[Rule]:
    """Rules in the order of their codes, or those that fit words, best first.

    Args:
        release: only those that this supported release has.
        since: only those that came with this supported release or a later one.
        text: beginnings of codes, of which a rule must have one, and words, by which few rules are found.
    """
    return [
        rule
        for rule in _fitting(text or "")
        if (release is None or holds(release, rule.since, rule.until))
        and (since is None or (rule.since is not None and not holds(_before(since), rule.since)))
    ]


def _before(release: str) -> str:
    """The release before `release`, or one before all."""
    index = SUPPORTED.index(release)
    return SUPPORTED[index - 1] if index else "0"


def _fitting(text: str) -> Iterable[Rule]:
    words = text.split()
    codes = tuple(word.upper() for word in words if _CODE.fullmatch(word))
    rest = " ".join(word for word in words if not _CODE.fullmatch(word))
    found = ranked_rules(rest) if rest else all_rules().values()
    return [rule for rule in found if not codes or rule.code.startswith(codes)]


def show(rules: Sequence[Rule], out: Console | None = None) -> None:
    """Print the table."""
    from rich.table import Table
    from rich.text import Text

    from .console import console

    out = out or console()
    if not rules:
        out.print(Text("No rule matches."))
        return
    wide = out.width >= WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="key", pad_edge=False)
    table.add_column("Code", style="code", no_wrap=True)
    table.add_column("Since", no_wrap=True)
    table.add_column("Until", no_wrap=True)
    table.add_column("Rule", overflow="fold", ratio=3)
    if wide:
        table.add_column("Source", style="faint", overflow="fold", ratio=2)
    for rule in rules:
        text = Text(rule.title)
        if not wide:
            text.append(f"\n{source_of(rule)}", style="faint")
        further = [Text(source_of(rule))] if wide else []
        table.add_row(rule.code, rule.since or "-", rule.until or "-", text, *further)
    out.print(table)
    out.print()
    out.print(Text(f"{_count(rules)}; - under Since or Until: no end. `cgplan explain CODE` prints a rule's page."))


def markdown_table(rules: Sequence[Rule]) -> str:
    """The table in Markdown."""
    lines = ["| code | since | until | rule | source |", "|---|---|---|---|---|"]
    for rule in rules:
        title = rule.title.replace("|", "\\|")
        lines.append(f"| {rule.code} | {rule.since or '-'} | {rule.until or '-'} | {title} | {source_of(rule)} |")
    return "\n".join(lines) + "\n"


def pages(rules: Iterable[Rule]) -> str:
    """docs/rules.md: every rule's page, by family."""
    lines = [
        "# Rules",
        "",
        "Every rule that cgplan applies and every error that it reports; `cgplan explain CODE` prints the same text.",
        "Written by `tools/build_docs.py` from the rules themselves: change those, not this page.",
    ]
    family = ""
    for rule in rules:
        if rule.code[2] != family:
            family = rule.code[2]
            lines += ["", f"## CG{family}xx: {FAMILIES[family]}"]
        lines += ["", f"### {rule.code}", "", f"**{rule.title}**", ""]
        lines += [f"- {name}: {text}" for name, text in parts_of(rule)]
    return "\n".join(lines) + "\n"


def _count(rules: Sequence[Rule]) -> str:
    return "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
