"""A workload in a CSV or JSON file of the user's own.

CSV has a head with the names of fields: tokens, or requests and query_len; kind, lora, count as they are needed. Rows
without a count are one step. "9-16" is a range, an empty cell is not known.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from ...errors import InputError, did_you_mean, shorten
from ..document import FIELDS, MAX_BATCHES, batches_from, unreadable, workload_from
from ..histogram import Workload, workload_of

_ALIASES = {"num_tokens": "tokens", "num_reqs": "requests", "reqs": "requests", "num_requests": "requests",
            "steps": "count", "num_active_loras": "loras", "runtime_mode": "mode"}  # fmt: skip
_RANGE = re.compile(r"([0-9]{1,12}) ?(?:-|–|\.\.) ?([0-9]{1,12})", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]{0,39}", re.ASCII)
_DELIMITERS = (",", ";", "\t")


def read_json(text: str, where: str) -> Workload:
    """The workload of a JSON text.

    Raises:
        InputError: CG718, it is none.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise unreadable(f"not JSON: {error.msg} (line {error.lineno})", where) from None
    except (RecursionError, ValueError):
        raise unreadable("no usable JSON", where) from None
    return workload_from(document, where)


def read_csv(text: str, where: str) -> Workload:
    """The workload of a CSV text; commas, semicolons or tabs.

    Raises:
        InputError: CG718, the head or a row cannot be read.
    """
    head = text.splitlines()[0]
    delimiter = max(_DELIMITERS, key=head.count)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names = _names(next(rows), where)
        found = []
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            place = f"{where}:{rows.line_num}"
            if len(row) != len(names):
                raise unreadable(f"{len(row)} cells under {len(names)} names", place, "give each row a cell a name")
            found.append(batches_from(_item(dict(zip(names, row, strict=True)), place), place))
            if len(found) > MAX_BATCHES:
                raise unreadable(f"more than {MAX_BATCHES} rows", where)
    except csv.Error as error:
        raise unreadable(f"no CSV: {error}", where) from None
    if not found:
        raise unreadable("no row under the head", where)
    return workload_of(found, where)


def looks_like_csv(head: str) -> bool:
    """Whether a first line names fields of a workload."""
    delimiter = max(_DELIMITERS, key=head.count)
    names = {_name(cell) for cell in head.split(delimiter)}
    return "tokens" in names or "requests" in names


def foreign_head(head: str, where: str) -> str | None:
    """The names in a first line that is that of a CSV file with other columns; None: it is none.

    A sentence with a comma is none, but in a file that is called so.
    """
    delimiter = max(_DELIMITERS, key=head.count)
    cells = [cell.strip().strip('"').strip() for cell in head.split(delimiter)]
    if not where.casefold().endswith(".csv") and (len(cells) < 2 or any(" " in cell for cell in cells)):
        return None
    return ", ".join(cells) if all(_COLUMN.fullmatch(cell) for cell in cells) else None


def _name(cell: str) -> str:
    text = cell.strip().strip('"').strip().lower().replace(" ", "_")
    return _ALIASES.get(text, text)


def _names(row: list[str], where: str) -> list[str]:
    names = [_name(cell) for cell in row]
    for name in names:
        if name not in FIELDS:
            fix = did_you_mean(name, FIELDS) or f"give one of {', '.join(FIELDS)}"
            raise unreadable(f"unknown column {shorten(name, 40)!r}", f"{where}:1", fix)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise unreadable(f"two columns {twice}", f"{where}:1", "drop one of the two")
    return names


def _item(cells: dict[str, str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in cells.items():
        text = cell.strip()
        if text:
            found[name] = _value(name, text, where)
    return found


def _value(name: str, text: str, where: str) -> Any:
    if name in ("kind", "mode"):
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    if name == "count":
        return _number(text, where)
    if (match := _RANGE.fullmatch(text)) is not None:
        return [int(match[1]), int(match[2])]
    if text.endswith("+") and _WHOLE.fullmatch(text[:-1]):
        return [int(text[:-1]), None]
    raise unreadable(f"{name}: {shorten(text, 40)!r} is no whole number", where, "write it in digits alone")


def _number(text: str, where: str) -> float:
    try:
        value = float(text) if "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        raise InputError(
            f"{where}: count: {shorten(text, 40)!r} is no number", code="CG718", where=where, fix="write it with digits"
        )
    return value
