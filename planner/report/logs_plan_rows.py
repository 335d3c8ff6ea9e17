"""Rows of the plan against the log, of the screen and of Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence

from ..startup.against_plan import Comparison, Row
from ..startup.known import GIB, gib
from .logs_words import named

PLAN_HEAD = ("Plan and log, GiB", "planned", "bounds", "log", "off", "")


def agreed(rows: Sequence[Row]) -> str:
    """What of the graphs and limits is as planned, in one line; "": nothing."""
    parts = []
    for row in rows:
        if row.verdict == "same":
            parts.append(f"{row.name} {row.found}")
        elif row.verdict == "exact" and row.unit in EXACT_UNITS and not row.given:
            parts.append(f"{row.name} {row.measured:,.0f}")
    return f"As planned: {'; '.join(parts)}" if parts else ""


def plan_alone(comparison: Comparison) -> str:
    """What the plan says of a log without a value to hold against it; "": there is one, or there is no plan."""
    made = comparison.plan
    if made is None or comparison.rows or comparison.why_not is not None:
        return ""
    begins = "The log has no value to hold against the plan"
    sizes, held = made.best.kv_bytes, made.best.plan
    if held is not None and sizes:
        times = (
            f": {held.max_concurrency:.2f} requests of {held.max_model_len:,} tokens" if held.max_concurrency else ""
        )
        return f"{begins}; by it the KV cache has {gib(min(sizes))}{times}"
    longest = made.max_model_len_that_fits
    fits = f"; --max-model-len {longest} is the longest that does by the best estimate" if longest > 0 else ""
    return f"{begins}; by it this does not start{fits}"


EXACT_UNITS = ("graphs", "tokens")


def plan_rows(rows: Sequence[Row], ranks: int) -> list[tuple[str, ...]]:
    """The plan against the log, without what `agreed` says: name, planned, bounds, log, difference, verdict.

    Args:
        ranks: how many the log has; a figure of all of them names none.
    """
    shown = [
        row
        for row in rows
        if row.verdict != "same" and not (row.verdict == "exact" and row.unit in EXACT_UNITS and not row.given)
    ]
    found: dict[str, list[Row]] = {}
    for row in shown:
        found.setdefault(row.key, []).append(row)
    lines = []
    for some in found.values():
        lines += [_plan_row(row, ranks) for row in some] if len(some) <= MOST_ROWS else [_range_row(some, ranks)]
    return lines


MOST_ROWS = 3
"""Rows of one quantity; of more only their range is shown."""


def _range_row(rows: Sequence[Row], ranks: int) -> tuple[str, ...]:
    """One quantity whose ranks differ: the ranges of what was planned, measured and off."""
    first = rows[0]
    planned = [row.planned for row in rows if row.planned is not None]
    count = len({name for row in rows for name in row.ranks})
    low, high = min(one.low for one in planned), max(one.high for one in planned)
    bounds = "" if low == high else f"{amount(first, low)}–{amount(first, high)}"
    off = [f"{row.percent:+.1f}" for row in sorted(rows, key=lambda one: one.percent or 0) if row.percent is not None]
    verdicts = [row.verdict for row in rows]
    worst = next(one for one in ("different", "outside", "inside", "exact", "same") if one in verdicts)
    outside = sum(len(row.ranks) for row in rows if row.verdict == worst)
    return (
        first.name if count >= ranks else f"{first.name}, {count} ranks",
        _span(first, [one.best for one in planned]),
        bounds,
        _span(first, [row.measured for row in rows if row.measured is not None]),
        f"{off[0]} to {off[-1]}%" if off and worst != "exact" else "",
        worst if outside >= count else f"{worst} ({outside} of {count})",
    )


def _span(row: Row, values: Sequence[float]) -> str:
    least, most = amount(row, min(values)), amount(row, max(values))
    return least if least == most else f"{least}–{most}"


def _plan_row(row: Row, ranks: int) -> tuple[str, ...]:
    name = f"{row.name}, {named(row.ranks)}" if row.ranks and len(row.ranks) < ranks else row.name
    if row.planned is None or row.measured is None:
        return name, row.said, "", row.found, "", row.verdict
    if row.unit == "bytes" and row.key.startswith("kv") and row.planned.best < 0:
        return name, "does not fit", "", amount(row, row.measured), "", row.verdict
    bounds = "" if row.planned.is_exact else f"{amount(row, row.planned.low)}–{amount(row, row.planned.high)}"
    off = f"{row.percent:+.1f}%" if row.percent is not None and row.verdict != "exact" else ""
    return name, amount(row, row.planned.best), bounds, amount(row, row.measured), off, row.verdict


def amount(row: Row, value: float) -> str:
    """A value in the row's unit; bytes as GiB, seconds whole from 1 on."""
    if row.unit == "bytes":
        return f"{value / GIB:.2f}"
    if row.unit == "seconds":
        return f"{value / 10:.{int(value < 10)}f}"
    return f"{value / 100:.2f}" if row.unit == "times" else f"{value:,.0f}"
