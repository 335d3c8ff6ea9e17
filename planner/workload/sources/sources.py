"""Reads what --metrics names: text of /metrics in a file, from standard input or an address; or an own CSV or JSON."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from ...errors import InputError, cannot_read, shorten
from ..document import FIELDS, unreadable
from ..gathered import Gathered, Part, joined
from .fetch import fetch, is_address
from .metrics import Snapshot, gathered, snapshot
from .own_file import foreign_head, looks_like_csv, read_csv, read_json

MAX_BYTES = 64 * 2**20
"""Largest text that is read; /metrics of a server with 64 engines has about 2 MiB."""

STDIN = "stdin"
FIX = "give a file, -, or an http:// address"
MOST_WEIGHT = 1_000_000


def read_sources(given: Sequence[str]) -> Gathered:
    """The steps of the values of --metrics. Two texts of /metrics are two moments of one server, the earlier first.

    Raises:
        InputError: CG718 a text cannot be read, CG719 an address, CG905 more than two texts of /metrics, or - twice;
            CG910, CG914 a file.
    """
    for text in given:
        if named(text, "--metrics")[1] is not None:
            raise InputError(
                f"{shorten(text, 80)}: sources of --metrics have no weights, they are shown one after another",
                code="CG905", where="--metrics", fix="leave out what stands behind the @; --workload takes weights",
            )  # fmt: skip
    if list(given).count("-") > 1:
        raise InputError("stdin is read once", code="CG905", where="--metrics", fix="give - once")
    read = [read_text(*_text(name)) for name in given]
    moments = moments_of(read, "--metrics")
    found = [one for one in read if not isinstance(one, Snapshot)]
    if moments:
        found.insert(0, gathered(moments[-1], moments[0] if len(moments) == 2 else None))
    return joined(*found)


def moments_of(read: Iterable[Snapshot | Gathered], where: str) -> tuple[Snapshot, ...]:
    """The texts of /metrics among sources: of two the first is the earlier one, and what came in between is meant.

    Raises:
        InputError: CG905, there are more than two.
    """
    found = tuple(one for one in read if isinstance(one, Snapshot))
    if len(found) > 2:
        weights = ", or a weight with each of several servers: FILE@1" if where == "--workload" else ""
        raise InputError(
            f"{len(found)} texts of /metrics are given", code="CG905", where=where,
            fix=f"give one, or two moments of one server{weights}",
        )  # fmt: skip
    return found


def read_text(text: str, where: str) -> Snapshot | Gathered:
    """A text by its looks: JSON, CSV with a head of known names, else text of /metrics.

    Raises:
        InputError: CG718, it cannot be read.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise InputError(f"{where} is empty", code="CG718", where=where, fix="give text of /metrics, CSV or JSON")
    if "\0" in start[:4096]:
        raise InputError(f"{where} is no text", code="CG718", where=where, fix="give text of /metrics, CSV or JSON")
    if start[0] in "{[":
        workload = read_json(start, where)
    elif looks_like_csv(start.partition("\n")[0]):
        workload = read_csv(start, where)
    elif (names := foreign_head(start.partition("\n")[0], where)) is not None:
        raise unreadable(
            f"a CSV with the columns {shorten(names, 60)}, without tokens, or requests and query_len", where,
            f"name the columns so; known are {', '.join(FIELDS)}",
        )  # fmt: skip
    else:
        return snapshot(text.split("\n"), where)
    return Gathered((Part("", workload, "file"),))


def named(text: str, where: str) -> tuple[str, float | None]:
    """A name, and the weight behind its last @. A file that has such a name is meant by it.

    Raises:
        InputError: CG906, the weight is none.
    """
    name, mark, weight = text.rpartition("@")
    if not mark or not name or (not is_address(text) and Path(text).exists()):
        return text, None
    try:
        value = float(weight)
    except ValueError:
        return text, None
    if not 1 / MOST_WEIGHT <= value <= MOST_WEIGHT:
        raise InputError(
            f"{shorten(weight, 40)} is no weight", code="CG906", where=where,
            fix=f"give a number behind the @, from {1 / MOST_WEIGHT:f} to {MOST_WEIGHT}",
        )  # fmt: skip
    return name, value


def _text(name: str) -> tuple[str, str]:
    if is_address(name):
        return fetch(name), shorten(name.split("?")[0], 100)
    if name == "-":
        return _decoded(_bounded(sys.stdin.buffer, STDIN)), STDIN
    shown = "".join(c if c.isprintable() else "?" for c in shorten(name, 150))
    try:
        kind = Path(name).stat().st_mode
        if stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
            what = "a directory" if stat.S_ISDIR(kind) else "a device"
            raise InputError(f"cannot read {shown}: {what}", code="CG910", where=shown, fix=FIX)
        with open(os.open(name, os.O_RDONLY), "rb") as file:
            return _decoded(_bounded(file, shown)), shown
    except (OSError, ValueError) as error:
        raise cannot_read(error, shown, FIX) from None


def _bounded(file: IO[bytes], where: str) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{where} is larger than {MAX_BYTES >> 20} MiB",
            code="CG914",
            where=where,
            fix="give the text of one moment; a log is given as FILE",
        )
    return data


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
