"""Pages of the rules: what `cgplan explain` prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import InputError, nearest, shorten
from ..rules import all_rules
from ..trace import RENAMED, Rule

if TYPE_CHECKING:
    from rich.console import Console

FAMILIES = {
    "1": "Defaults and the grid of sizes",
    "2": "Mode and compilation",
    "3": "Attention backends",
    "4": "LoRA and speculative decoding",
    "5": "Memory and KV cache",
    "6": "Parallelism and runners",
    "7": "Batches and padding",
    "8": "Environment and version",
    "9": "Input",
}


_CODE = re.compile(r"(?:cg)?[0-9]{3}", re.IGNORECASE)
_LENGTH = len("CG701")
_LIKE = 0.75
"""Likeness of a code that is named beside an unknown one: all but one sign."""


def find(code: str) -> Rule:
    """The rule of that code; `cg701` and `701` are CG701.

    Raises:
        InputError: CG908, there is none.
    """
    rules = all_rules()
    folded = code.strip().upper()
    folded = folded if folded.startswith("CG") else f"CG{folded}"
    rule = rules.get(RENAMED.get(folded, folded))
    if rule is None:
        near = nearest(folded, rules, least=_LIKE) if len(folded) == _LENGTH else []
        named = f"; near it are {', '.join(near)}" if near else ""
        raise InputError(
            f"there is no code {shorten(code, 40)!r}",
            code="CG908",
            where="cgplan explain",
            fix=f"cgplan explain lists all codes{named}",
        )
    return rule


def is_code(text: str) -> bool:
    """Whether a word looks like a code, known or not: CG701, cg701 and 701."""
    return _CODE.fullmatch(text.strip()) is not None


def as_document(rule: Rule) -> dict[str, Any]:
    """The page as JSON values."""
    return {
        "code": rule.code,
        "title": rule.title,
        "why": rule.why,
        "example": rule.example,
        "instead": rule.instead,
        "source": source_of(rule),
        "since": rule.since,
        "until": rule.until,
        "history": rule.history,
    }


def show_page(rule: Rule, out: Console | None = None) -> None:
    """Print one page."""
    from rich.table import Table
    from rich.text import Text

    from .console import console

    out = out or console()
    title = Text(rule.code, style="code")
    title.append(f"  {rule.title}", style="head")
    out.print(title)
    out.print()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="key", no_wrap=True)
    grid.add_column()
    for name, text in parts_of(rule):
        grid.add_row(name, text)
    out.print(grid)


def parts_of(rule: Rule) -> tuple[tuple[str, str], ...]:
    """The parts of a page below its title, each with its name."""
    return (
        ("Why", rule.why),
        ("Example", rule.example),
        ("Instead", rule.instead),
        ("Source", source_of(rule)),
        ("Releases", releases_of(rule)),
    )


def show_list(out: Console | None = None) -> None:
    """Print every code with its title, by family."""
    from rich.table import Table
    from rich.text import Text

    from .console import console

    out = out or console()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="code", no_wrap=True)
    grid.add_column()
    family = ""
    for code, rule in all_rules().items():
        if code[2] != family:
            if family:
                grid.add_row("", "")
            family = code[2]
            grid.add_row("", Text(FAMILIES.get(family, "Other"), style="key"))
        grid.add_row(code, rule.title)
    out.print(grid)


def source_of(rule: Rule) -> str:
    """`file:lines @ release` of vLLM. A rule of cgplan itself has neither, and some name the release on their own."""
    return rule.source if ":" not in rule.source or " @ " in rule.source else rule.citation


def releases_of(rule: Rule) -> str:
    """The releases that have it, in words, and what changed between them."""
    since = f"since {rule.since}" if rule.since else ""
    until = f"until {rule.until}" if rule.until else ""
    found = ", ".join(part for part in (since, until) if part) or "every release that cgplan knows"
    return f"{found}; {rule.history}" if rule.history else found
