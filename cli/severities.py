"""The severities of findings, and --fail-on."""

from __future__ import annotations

from cgplan.errors import InputError, did_you_mean

SEVERITIES = ("info", "warning", "error")


def severity(name: str) -> int | None:
    """The place of --fail-on in SEVERITIES; None: never.

    Raises:
        InputError: CG902, it is none of them.
    """
    if name == "never":
        return None
    if name not in SEVERITIES:
        raise InputError(
            f"unknown severity {name[:40]!r}",
            code="CG902",
            where="--fail-on",
            fix=did_you_mean(name, ("never", *SEVERITIES)) or "give never, error, warning or info",
        )
    return SEVERITIES.index(name)
