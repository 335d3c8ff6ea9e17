"""The rule of a code, whichever part of cgplan has it."""

from __future__ import annotations

from ..trace import RULES, Rule


def rule(code: str) -> Rule:
    """The rule; all of them are read where it has not been yet."""
    if code not in RULES:
        from ..rules import all_rules

        return all_rules()[code]
    return RULES[code]
