"""Rules, and the record of what they changed.

A rule is one statement about vLLM with a stable code. It says from which release on it holds, why it exists and
where in vLLM's source it stands. The resolver never prints: it notes decisions on a Trace, and reporters read it.
"""

from __future__ import annotations

from typing import Any

from .light_dataclass import dataclass

RULES: dict[str, Rule] = {}
RENAMED = {"CG591": "CG525", "CG595": "CG529"}
"""Codes that were given twice to one rule, and the one that it has now."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule of vLLM. Creating it puts it into RULES, so `explain` and the docs find it.

    Attributes:
        code: CGnnn, stable for ever.
        title: the rule in one line.
        why: why vLLM has it.
        example: a deployment it touches, and the outcome.
        instead: what an operator does who does not want the outcome.
        source: file:line of vLLM, at `release`.
        since: first release that has it; None: older than the oldest release supported.
        until: last release that has it; None: still there.
        release: the release that `source` refers to.
        history: how it changed between the releases that have it, or what stood in its place; "": nothing is known.
    """

    code: str
    title: str
    why: str
    example: str
    instead: str
    source: str
    since: str | None = None
    until: str | None = None
    release: str = "0.33.0"
    history: str = ""

    def __post_init__(self) -> None:
        if self.code in RULES:
            raise ValueError(f"rule {self.code} is defined twice")
        RULES[self.code] = self

    @property
    def citation(self) -> str:
        return f"{self.source} @ {self.release}"


@dataclass(frozen=True)
class Decision:
    """One change that a rule made. `before` and `after` are JSON values."""

    code: str
    field: str
    before: Any
    after: Any
    why: str
    source: str


@dataclass(frozen=True)
class Finding:
    """Something the operator should know. `severity` is "info", "warning" or "error"."""

    code: str
    severity: str
    message: str
    fix: str | None = None
    where: str | None = None


class Trace:
    """Collects decisions, findings and assumptions in the order in which they arise."""

    __slots__ = ("assumptions", "decisions", "findings")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.findings: list[Finding] = []
        self.assumptions: list[str] = []

    def decide(self, rule: Rule, field: str, before: Any, after: Any, why: str | None = None) -> None:
        """Note that `rule` changed `field`. `why` replaces the rule's title where the case says more."""
        self.decisions.append(Decision(rule.code, field, before, after, why or rule.title, rule.citation))

    def find(
        self,
        rule: Rule,
        severity: str,
        message: str,
        *,
        fix: str | None = None,
        where: str | None = None,
    ) -> None:
        self.findings.append(Finding(rule.code, severity, message, fix, where))

    def assume(self, text: str) -> None:
        if text not in self.assumptions:
            self.assumptions.append(text)
