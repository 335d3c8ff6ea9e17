"""What a check says: a finding with its place, and the change that mends it."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs.launches.asked import Located
from ..inputs.launches.edit.kinds import ConfigEdit, TokenEdit
from ..light_dataclass import dataclass

__all__ = ["ConfigEdit", "Diagnostic", "Hit", "Related", "TokenEdit"]


class Related(NamedTuple):
    """Another place that the finding speaks of."""

    at: Located
    message: str


@dataclass(frozen=True)
class Hit:
    """What a rule found, before it has a code and a severity.

    Attributes:
        message: what is wrong, one line.
        fix: what to do, one line, or None.
        at: where; None: the launch as a whole.
        flag: the corrected flag, ready to paste, where there is one.
        edits: the mechanical change, or ().
        safe: the change does what the line was meant to do and nothing else; others are made on request only.
        related: other places.
        severity: where it is not that of the rule.
    """

    message: str
    fix: str | None = None
    at: Located | None = None
    flag: str | None = None
    edits: tuple[TokenEdit | ConfigEdit, ...] = ()
    safe: bool = True
    related: tuple[Related, ...] = ()
    severity: str | None = None


@dataclass(frozen=True)
class Diagnostic:
    """A hit of a rule. `severity` is "error" (will not start, or is ignored), "warning" (slower or smaller than
    asked) or "info"; the other fields are those of Hit.
    """

    code: str
    severity: str
    message: str
    why: str
    fix: str | None = None
    at: Located | None = None
    flag: str | None = None
    edits: tuple[TokenEdit | ConfigEdit, ...] = ()
    safe: bool = True
    related: tuple[Related, ...] = ()
