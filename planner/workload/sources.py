"""Reads what --metrics names: text of /metrics in a file, from standard input or an address; or an own CSV or JSON."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..errors import InputError, shorten
from .fetch import fetch, is_address
from .gathered import Gathered, Part, joined
from .metrics import Snapshot, gathered, snapshot
from .own_file import looks_like_csv, read_csv, read_json

MAX_BYTES = 64 * 2**20
"""Largest text that is read; /metrics of a server with 64 engines has about 2 MiB."""

STDIN = "standard input"


def read_sources(given: Sequence[str]) -> Gathered:
    """The steps of the values of --metrics. Two texts of /metrics are two moments of one server, the earlier first.

    Raises:
        InputError: CG718 a text cannot be read, CG719 an address, CG905 more than two texts of /metrics, or - twice;
            CG910, CG914 a file.
    """
    if list(given).count("-") > 1:
        raise InputError("standard input is read once", code="CG905", where="--metrics", fix="give - once")
    snapshots: list[Snapshot] = []
    found: list[Gathered] = []
    for name in given:
        text, where = _text(name)
        read = read_text(text, where)
        if isinstance(read, Snapshot):
            snapshots.append(read)
        else:
            found.append(read)
    if len(snapshots) > 2:
        raise InputError(
            f"{len(snapshots)} texts of /metrics", code="CG905", where="--metrics", fix="give one, or two moments"
        )
    if snapshots:
        found.insert(0, gathered(snapshots[-1], snapshots[0] if len(snapshots) == 2 else None))
    return joined(*found)


def read_text(text: str, where: str) -> Snapshot | Gathered:
    """A text by its looks: JSON, CSV with a head of known names, else text of /metrics.

    Raises:
        InputError: CG718, it cannot be read.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise InputError(f"{where} is empty", code="CG718", where=where, fix="give /metrics as the server serves it")
    if "\0" in start[:4096]:
        raise InputError(f"{where} is no text", code="CG718", where=where, fix="give /metrics as the server serves it")
    if start[0] in "{[":
        workload = read_json(start, where)
    elif looks_like_csv(start.partition("\n")[0]):
        workload = read_csv(start, where)
    else:
        return snapshot(text.split("\n"), where)
    return Gathered((Part("", workload, "file"),))


def _text(name: str) -> tuple[str, str]:
    if is_address(name):
        return fetch(name), shorten(name.split("?")[0], 100)
    if name == "-":
        return _decoded(_bounded(sys.stdin.buffer, STDIN)), STDIN
    shown = "".join(c if c.isprintable() else "?" for c in shorten(name, 150))
    try:
        kind = Path(name).stat().st_mode
        if stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
            raise _no_file(shown, "a directory" if stat.S_ISDIR(kind) else "a device")
        with open(os.open(name, os.O_RDONLY), "rb") as file:
            return _decoded(_bounded(file, shown)), shown
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no valid path"
        raise _no_file(shown, reason) from None


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


def _no_file(name: str, reason: str) -> InputError:
    return InputError(
        f"cannot read {name}: {reason}", code="CG910", where=name, fix="give a file, -, or an http:// address"
    )
