"""Several logs as one, as an operator has them who keeps a file for each start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ...errors import InputError, shorten
from ...startup.record import StartupLog
from .reading import EXAMPLES, MAX_REMARKS, Tap, read_log

MOST_FILES = 64


def read_logs(names: Sequence[str], tap: Tap | None = None) -> StartupLog:
    """The starts of all logs, in the order of the names, each with its file.

    Args:
        names: paths, of which one may be "-"; or, where none of them is there, the words of an error without quotation
            marks.
        tap: what else listens, to all of them.

    Raises:
        InputError: CG905 too many files, or "-" twice; else as `read_log`, of the first that cannot be read.
    """
    if len(names) == 1:
        return read_log(names[0], tap)
    if not any(name == "-" or os.path.lexists(name) for name in names if "\0" not in name):
        found = read_log(" ".join(names), tap)
        if found.starts:
            return found
    if len(names) > MOST_FILES or list(names).count("-") > 1:
        raise InputError(
            f"{len(names)} logs are given" if len(names) > MOST_FILES else "- is given twice",
            code="CG905", where="cgplan logs", fix=f"give at most {MOST_FILES} files, and - once",
        )  # fmt: skip
    return _joined(names, [_one(name, tap) for name in names])


def _one(name: str, tap: Tap | None) -> StartupLog:
    found = read_log(name, tap)
    if tap is not None:
        list(tap.through([b"\n"]))  # A table ends with its file, which may end without a line feed.
    return found


def _joined(names: Sequence[str], logs: Sequence[StartupLog]) -> StartupLog:
    short = _short(names)
    starts = [replace(start, file=name) for name, log in zip(short, logs, strict=True) for start in log.starts]
    examples = [
        replace(place, text=f"{name}: {place.text}")
        for name, log in zip(short, logs, strict=True)
        for place in log.examples
    ]
    remarks = [f"{name}: {text}" for name, log in zip(short, logs, strict=True) for text in log.remarks]
    remarks += [
        f"{name}: it has no line of a start of vLLM and no error that is known"
        for name, log in zip(short, logs, strict=True)
        if not log.starts
    ]
    return StartupLog(
        tuple(starts),
        sum(log.lines for log in logs),
        sum(log.not_recognised for log in logs),
        tuple(examples[:EXAMPLES]),
        tuple(remarks[:MAX_REMARKS]),
    )


def _short(names: Sequence[str]) -> list[str]:
    """File names without folders, where that tells them apart."""
    bases = ["stdin" if name == "-" else os.path.basename(name) or name for name in names]
    shown = bases if len(set(bases)) == len(bases) else ["stdin" if name == "-" else name for name in names]
    return [shorten(name, 120) for name in shown]
