"""A sweep from its grid to the last record: what is there is kept, the rest is worked out and written as it comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .grid import Grid
from .local import INLINE, run_here
from .record_file import RecordFile
from .work import chunks_of

Take = Callable[[str, dict[str, Any]], None]
"""Gets each record, as its line and what it says."""


class Sweep:
    """The deployments of a grid, and which of them have a record.

    Attributes:
        grid: the deployments.
        kept: records that were in the file.
        waiting: the numbers of those that had none.
        done: how many of them have one since.
    """

    def __init__(self, grid: Grid, file: RecordFile | None = None, take: Take | None = None) -> None:
        """Read the records that are there; `take` gets those of this grid, each once."""
        self.grid = grid
        self._file = file
        self._take = take
        keys = {grid.key(grid.positions(number)): number for number in grid.numbers()}
        for line, record in file.records() if file is not None else ():
            if keys.pop(record["key"], None) is not None and take is not None:
                take(line, record)
        self.waiting: Sequence[int] = list(keys.values())
        self.kept = grid.count - len(self.waiting)
        self.done = 0

    def run(self, jobs: int = 1, ray: str | None = None) -> Iterator[int]:
        """Work out what is missing. Gives the number of new records each time that some are there.

        Args:
            jobs: processes of this machine, or CPUs of a local Ray.
            ray: address of a Ray cluster.

        Raises:
            CgplanError: CG737, CG738: the rest cannot be worked out. What came before is in the file.
        """
        jobs = max(1, jobs)
        chunks = chunks_of(self.waiting, jobs)
        if ray is not None:
            from .on_ray import run_on_ray

            results = run_on_ray(self.grid, chunks, ray, jobs)
        else:
            results = run_here(self.grid, chunks, 1 if len(self.waiting) <= INLINE else jobs)
        for lines in results:
            if self._file is not None:
                self._file.add(lines)
            self.done += len(lines)
            if self._take is not None:
                for line in lines:
                    self._take(line, json.loads(line))
            yield len(lines)
