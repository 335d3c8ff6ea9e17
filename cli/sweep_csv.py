"""`--csv` of `cgplan sweep`: the records as a table, a file that is written whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgplan.errors import cannot_write, shorten

if TYPE_CHECKING:
    from cgplan.errors import InputError
    from cgplan.sweep.grid import Grid


class CsvFile:
    """A table that grows beside its place, and takes it when `finish` is called.

    Raises:
        InputError: CG910, it cannot be written; NoRoomError: the disk is full.
    """

    def __init__(self, path: Path, grid: Grid) -> None:
        from cgplan.sweep.evaluate import FACTS

        self._path = Path(os.path.realpath(path))
        self._shown = shorten(str(path), 200)
        try:
            if self._path.is_dir():
                raise IsADirectoryError(21, "is a directory")
            handle, self._beside = tempfile.mkstemp(
                prefix=f".{self._path.name[:60]}.", suffix=".tmp", dir=self._path.parent
            )
        except (OSError, ValueError) as error:
            raise self._failed(error) from None
        # A record that was kept may hold half a character, which no file can.
        self._file = os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="")
        columns = ["key", *(axis.name for axis in grid.axes), *FACTS]
        self._table = csv.DictWriter(self._file, columns, extrasaction="ignore", lineterminator="\n")
        with self._takes():
            self._table.writeheader()

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what it still held is not wanted
            self._file.close()
        if os.path.exists(self._beside):
            os.unlink(self._beside)

    def add(self, record: dict[str, Any]) -> None:
        with self._takes():
            self._table.writerow(record)

    def finish(self) -> None:
        """Put the table into its place."""
        with self._takes():
            self._file.close()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._beside, 0o666 & ~mask)
            os.replace(self._beside, self._path)

    @contextmanager
    def _takes(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError | ValueError) -> InputError:
        return cannot_write(error, self._shown, "--csv", "name a file that can be written")
