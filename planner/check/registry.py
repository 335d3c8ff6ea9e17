"""The checks: each a rule with its page, and a function that looks for it in a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..errors import as_fix
from ..trace import RULES, Rule
from .diagnostic import Diagnostic, Hit
from .subject import Subject

SEVERITIES = ("info", "warning", "error")

Finder = Callable[[Subject], Iterable[Hit]]


class Check(NamedTuple):
    """A rule, how bad it is, and the function that finds it."""

    rule: Rule
    severity: str
    find: Finder


CHECKS: dict[str, Check] = {}


def check(rule: Rule, severity: str) -> Callable[[Finder], Finder]:
    """Register a function as the check of `rule`. It is only asked about releases that have the rule."""

    def register(find: Finder) -> Finder:
        if severity not in SEVERITIES or rule.code in CHECKS:
            raise ValueError(f"check {rule.code} has no severity, or two functions")
        CHECKS[rule.code] = Check(rule, severity, find)
        return find

    return register


def run(subject: Subject) -> Iterator[Diagnostic]:
    """What all checks find."""
    for one in CHECKS.values():
        if subject.holds(one.rule.since, one.rule.until):
            for hit in one.find(subject):
                yield diagnostic(one.rule.code, one.severity, hit)


def diagnostic(code: str, severity: str, hit: Hit) -> Diagnostic:
    rule = RULES.get(code)
    return Diagnostic(
        code=code,
        severity=hit.severity or severity,
        message=hit.message,
        why=rule.why if rule is not None else "",
        fix=as_fix(hit.fix) if hit.fix else None,
        at=hit.at,
        flag=hit.flag,
        edits=hit.edits,
        safe=hit.safe,
        related=hit.related,
    )
