"""A sweep on this machine: processes that take chunks through pipes.

A process that is ended from outside loses its chunk only, which another one takes; a deployment that ends its process
again and again is given up.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ..errors import CgplanError
from .evaluate import Evaluator
from .grid import Grid
from .rules import NO_ANSWER
from .work import Chunk, worker

MOST_DEATHS = 2
"""Processes that may end over one chunk; it is then cut into single deployments."""
MOST_IN_A_ROW = 8
"""Processes that may end with nothing done in between."""
INLINE = 300
"""So few deployments are done before the processes would have started."""


def run_here(grid: Grid, chunks: Iterable[Chunk], jobs: int) -> Iterator[list[str]]:
    """The records of the chunks, as lines of JSON, in the order in which they are done.

    Args:
        jobs: processes; 1: the work is done in this one.

    Raises:
        CgplanError: CG737, after all that could be done: processes were ended again and again.
    """
    if jobs == 1:
        evaluator = Evaluator(grid)
        for chunk in chunks:
            yield evaluator.lines(chunk)
        return
    crew = _Crew(grid, deque((chunk, 0) for chunk in chunks))
    try:
        yield from crew.work(jobs)
    finally:
        crew.dismiss()
    if crew.given_up:
        raise CgplanError(
            f"{crew.given_up} deployments have no answer: their processes were ended from outside",
            code=NO_ANSWER.code,
            where="--jobs",
            fix="give fewer --jobs or more memory, and start again: what is done is kept",
        )


class _Crew:
    """Processes, each with a pipe and the chunk that it works on."""

    def __init__(self, grid: Grid, waiting: deque[tuple[Chunk, int]]) -> None:
        self._grid = grid
        self._waiting = waiting
        self._context = multiprocessing.get_context("spawn")
        self._at_work: dict[Connection, tuple[SpawnProcess, tuple[Chunk, int]]] = {}
        self._hired: list[SpawnProcess] = []
        self._deaths = 0
        self.given_up = 0

    def work(self, jobs: int) -> Iterator[list[str]]:
        while len(self._at_work) < jobs and self._waiting:
            self._hire()
        while self._at_work:
            for pipe in wait(list(self._at_work)):
                assert isinstance(pipe, Connection)
                try:
                    lines = pipe.recv()
                except (EOFError, OSError):
                    self._mourn(pipe)
                    continue
                self._deaths = 0
                self._next(pipe)
                yield lines

    def _hire(self) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._grid), daemon=True)
        with _deaf():
            process.start()
        theirs.close()
        self._hired.append(process)
        self._at_work[ours] = (process, (range(0), 0))
        self._next(ours)

    def _next(self, pipe: Connection) -> None:
        """Give the process its next chunk, or let it go."""
        process, _ = self._at_work[pipe]
        if not self._waiting:
            del self._at_work[pipe]
            pipe.close()
            return
        task = self._waiting.popleft()
        self._at_work[pipe] = (process, task)
        with contextlib.suppress(OSError):  # it is gone: the next wait says so
            pipe.send(task[0])

    def _mourn(self, pipe: Connection) -> None:
        process, (chunk, deaths) = self._at_work.pop(pipe)
        pipe.close()
        process.join()
        self._deaths += 1
        if self._deaths >= MOST_IN_A_ROW:
            self.given_up += len(chunk) + sum(len(other) for other, _ in self._waiting)
            self._waiting.clear()
            return
        if deaths + 1 < MOST_DEATHS:
            self._waiting.appendleft((chunk, deaths + 1))
        elif len(chunk) > 1:
            self._waiting.extend(([number], 0) for number in chunk)
        else:
            self.given_up += 1
        if self._waiting:
            self._hire()

    def dismiss(self) -> None:
        for pipe, (process, _) in self._at_work.items():
            pipe.close()
            process.terminate()
        self._at_work.clear()
        for process in self._hired:
            process.join()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes started here never hear Ctrl-C, which reaches all of a terminal: the first one decides."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, which alone may say so
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe: Connection, grid: Grid) -> None:
    """The life of a process: chunks in, lines out, until the other end is closed, or gone with its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    evaluator = worker(grid)
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(evaluator.lines(pipe.recv()))
