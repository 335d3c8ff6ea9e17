"""Numbers that vLLM's parser takes and its configuration refuses: data made by tools/build_field_ranges.py."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..errors import StartupError
from ..releases import facts
from .serve_args import ServeArgs
from .serve_args_flags import flag_table

PERCENT = 10
"""A share of 1 from which on it is taken for one of 100."""


def out_of_range(args: ServeArgs, besides: Collection[str] = ()) -> Iterator[StartupError]:
    """What vLLM's configuration refuses of the numbers of a line, by the options' order.

    Args:
        args: of parse_serve.
        besides: settings that are not looked at.
    """
    ranges = {row["option"]: row for row in facts("field_ranges", args.release)["range"]}
    for dest, value in args.values.items():
        row = ranges.get(dest)
        if row is None or dest in besides or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if "with" in row and not args.get(row["with"]):
            continue
        reason = _reason(row, value)
        if reason is not None:
            option = flag_table(args.release).by_dest[dest].long
            yield StartupError(
                f"{option}: {value:g} {reason}" if isinstance(value, float) else f"{option}: {value} {reason}",
                code="CG903",
                raised_in=row["config"],
                where=option,
                fix=_fix(row, option, value),
            )


def _reason(row: Mapping[str, Any], value: float) -> str | None:
    """Why vLLM refuses it; as in pydantic, NaN lies in every range."""
    if "gt" in row and value <= row["gt"]:
        return f"is not above {row['gt']:g}"
    if "ge" in row and value < row["ge"]:
        return f"is below {row['ge']:g}"
    if "lt" in row and value >= row["lt"]:
        return f"is not below {row['lt']:g}"
    if "le" in row and value > row["le"]:
        return f"is above {row['le']:g}"
    return None


def _fix(row: Mapping[str, Any], option: str, value: float) -> str:
    if row.get("le") == 1 and row.get("gt") == 0 and PERCENT <= value < 100:
        return f"write {option} {value / 100:g}"
    low = f"above {row['gt']:g}" if "gt" in row else f"of {row['ge']:g} or more" if "ge" in row else ""
    high = f"up to {row['le']:g}" if "le" in row else f"below {row['lt']:g}" if "lt" in row else ""
    return f"give a number {' and '.join(text for text in (low, high) if text)}"
