"""The file of a sweep's records: lines of JSON that are only ever added to, so that a sweep can go on where it stopped.

A last line that was half written when the process was ended is cut off. One sweep at a time writes a file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InputError, cannot_write, shorten
from .rules import BAD_RECORDS

START = b'{"key":"'
"""What every record begins with."""


DELETE = "delete line {}, and what it was is worked out again"


class RecordFile:
    """An open file of records; `with` closes it.

    Args:
        column: beside the key, what every record has.

    Raises:
        InputError: CG910 it cannot be opened; CG736 it holds something else, or another sweep writes it.
    """

    def __init__(self, path: str, column: str = "fits") -> None:
        self._column = column
        self._shown = shorten(path, 200)
        try:
            # "a" alone keeps two writers from each other's lines; reading needs "+".
            self._file: BinaryIO = Path(path).open("a+b")  # noqa: SIM115
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                # What is read back from a device or a pipe is not what was written, and may have no end.
                self._file.close()
                raise ValueError("it is no regular file")
        except (OSError, ValueError) as error:
            raise cannot_write(error, self._shown, self._shown, "name a file that can be written") from None
        try:
            self._lock()
            self._mend()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what a full disk did not take is worked out again
            self._file.close()

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each record that is there, as its line and what it says. Empty lines are passed over."""
        self._file.seek(0)
        some = False
        for number, raw in enumerate(self._file, 1):
            if not raw.strip():
                continue
            found = self._record(raw)
            if found is None:
                raise InputError(
                    f"{self._shown}, line {number} is no record of a sweep",
                    code=BAD_RECORDS.code,
                    where=self._shown,
                    fix=f"{DELETE.format(number)}, or name another file" if some else "name another file",
                )
            some = True
            yield raw.decode().rstrip("\r\n"), found

    def add(self, lines: Sequence[str]) -> None:
        """Add records; they are in the file when this returns.

        Raises:
            NoRoomError: the disk is full. Started again, the sweep goes on.
        """
        if not lines:
            return
        try:
            self._file.write(("\n".join(lines) + "\n").encode())
            self._file.flush()
        except OSError as error:
            kept = "; start it again and it goes on"
            raise cannot_write(error, self._shown, self._shown, "name a file that can be written", kept=kept) from None

    def _mend(self) -> None:
        """Cut off a last line that was not written in full; one that only lacks its end gets it."""
        size = self._file.seek(0, os.SEEK_END)
        tail, begin = self._last_line(size)
        if not tail:
            return
        if self._record(tail) is not None:
            self._file.write(b"\n")
            self._file.flush()
        elif tail.startswith(START) or START.startswith(tail):
            self._file.truncate(begin)
        # Anything else is left for `records` to refuse: it is somebody's file.

    def _last_line(self, size: int) -> tuple[bytes, int]:
        """What stands behind the last end of a line, and where it begins."""
        begin, tail = size, b""
        while begin:
            step = min(begin, 1 << 16)
            self._file.seek(begin - step)
            piece = self._file.read(step)
            at = piece.rfind(b"\n")
            if at >= 0:
                return piece[at + 1 :] + tail, begin - step + at + 1
            begin -= step
            tail = piece + tail
        return tail, 0

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has none; there two sweeps of one file are the user's care
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another sweep writes {self._shown}",
                code=BAD_RECORDS.code,
                where=self._shown,
                fix="wait for it, or name another file",
            ) from None
        except OSError:  # a file system without locks
            return

    def _record(self, raw: bytes) -> dict[str, Any] | None:
        """What a line says; None: it is no record."""
        if not raw.startswith(START):
            return None
        try:
            # Not the bytes themselves: json.loads takes half a character in them, which is no UTF-8.
            found = json.loads(raw.decode("utf-8"), parse_constant=_no_json)
        except (ValueError, RecursionError):
            return None
        is_one = isinstance(found, dict) and isinstance(found.get("key"), str) and self._column in found
        return found if is_one else None


def _no_json(name: str) -> float:
    """NaN and Infinity, which Python reads and JSON has not; the line would be printed as it is."""
    raise ValueError(name)
