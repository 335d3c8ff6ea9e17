"""Runs numbered cases of one kind, and holds what must hold of every answer.

A case is made from the seed, the kind and its number alone. What must hold: an answer, or one CgplanError on one line
with a code, a place and a way to mend it; no other exception; no more than SECONDS; nothing started, connected to or
written; of every SAMPLE-th case the same answer twice, and JSON that is JSON.
"""

from __future__ import annotations

import collections
import contextlib
import json
import random
import re
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cgplan.errors import CgplanError

from .guard import Forbidden, Guard
from .kind import Input, Kind, Wrong

SECONDS = 5.0
"""Of the processor, most for an answer."""
SAMPLE = 8
"""One case in so many is asked twice, and its JSON is read back."""
MEGABYTES = 600
"""Resident, most for the process of a campaign."""
SHOWN = 3
"""Failures of one cause that are printed."""
_CODE = re.compile(r"CG[0-9]{3}")


class TooSlow(BaseException):
    """A case ran longer than it may; no handler of errors may hide it."""


class Result(NamedTuple):
    """What came of the cases of a kind. `seconds` are the processor's; `slowest` is a case's."""

    kind: str
    seed: int
    cases: int
    refused: int
    failures: int
    causes: int
    seconds: float
    slowest: float
    megabytes: float

    def __str__(self) -> str:
        counts = f"{self.cases:7,} cases, {self.refused:7,} refused, {self.failures} failures of {self.causes} causes"
        spent = f"{self.seconds:5.0f} s, slowest {self.slowest:.2f} s, {self.megabytes:.0f} MiB"
        return f"{self.kind:12} seed {self.seed}: {counts}, {spent}"


def _peak() -> float:
    """The most memory that this process has held, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Campaign:
    """The cases of one kind."""

    def __init__(self, kind: Kind, seed: int, folder: Path, guard: Guard) -> None:
        self.kind, self.seed, self.guard = kind, seed, guard
        self.input: Input = kind.opens(str(folder))
        self.causes: collections.Counter[str] = collections.Counter()
        self.refused = 0
        self.slowest = 0.0

    def run(self, numbers: range) -> Result:
        """Run these cases; failures are printed as they come."""
        start, held = time.process_time(), _peak()
        for number in numbers:
            self.case(number)
        seconds = time.process_time() - start
        peak = _peak()
        if peak > max(MEGABYTES, held):  # what the process held before is none of the cases'
            self._failed("memory", numbers[-1], f"the process holds {peak:.0f} MiB")
        failures = sum(self.causes.values())
        return Result(
            self.kind.name, self.seed, len(numbers), self.refused, failures, len(self.causes), seconds, self.slowest,
            peak,
        )  # fmt: skip

    def made(self, number: int) -> Any:
        """The case of a number."""
        return self.input.make(self._dice(number, "made"))

    def case(self, number: int) -> None:
        """Run one case."""
        given = self.made(number)
        start = time.process_time()
        try:
            answer, error = self._answer(given, number)
            seconds = time.process_time() - start
            if error is not None:
                self.refused += 1
                _check_error(error)
            if number % SAMPLE == 0:
                self._again(number, answer, error)
        except TooSlow:
            seconds = SECONDS
            self._failed("time", number, f"longer than {SECONDS} s")
        except (Exception, Forbidden) as wrong:  # the point of it
            seconds = time.process_time() - start
            self._failed(_cause(wrong), number, traceback.format_exc())
        self.slowest = max(self.slowest, seconds)

    def _answer(self, given: Any, number: int) -> tuple[Any, CgplanError | None]:
        with self.guard.closed(), _at_most(SECONDS):
            try:
                return self.input.answer(given, self._dice(number, "answered")), None
            except CgplanError as error:
                return None, error

    def _again(self, number: int, answer: Any, error: CgplanError | None) -> None:
        if answer is not None and self.kind.is_json:
            _check_json(answer)
        # Made anew: what the first answer did to the case, if anything, is not to help the second.
        again, other = self._answer(self.made(number), number)
        first = error.as_dict() if error is not None else repr(answer)
        second = other.as_dict() if other is not None else repr(again)
        if first != second:
            raise Wrong(f"two answers: {str(first)[:600]} and {str(second)[:600]}")

    def _dice(self, number: int, what: str) -> random.Random:
        return random.Random(f"{self.seed}:{self.kind.name}:{number}:{what}")

    def _failed(self, cause: str, number: int, why: str) -> None:
        self.causes[cause] += 1
        if self.causes[cause] <= SHOWN:
            print(f"{self.kind.name} {number} of seed {self.seed}: {cause}\n{why[-2500:]}", flush=True)


def _check_error(error: CgplanError) -> None:
    said = str(error)
    if not _CODE.fullmatch(error.code) or not said.strip() or "\n" in said:
        raise Wrong(f"no error of one line with a code: {error.as_dict()}")
    if not error.where or not error.fix:
        raise Wrong(f"no {'place' if not error.where else 'fix'}: {error.as_dict()}")
    if len(said) + len(error.fix) + len(error.where) > 3000:
        raise Wrong(f"an error of {len(said)} + {len(error.where)} + {len(error.fix)} characters: {said[:300]}")


def _check_json(answer: Any) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer, allow_nan=False)
    json.loads(text, parse_constant=_no_number)
    text.encode("utf-8")


def _no_number(name: str) -> float:
    raise Wrong(f"{name} in JSON")


def _cause(wrong: BaseException) -> str:
    """What failures of one cause share: the type, and the last place in cgplan."""
    frames = [frame for frame in traceback.extract_tb(wrong.__traceback__) if "/tools/fuzz/" not in frame.filename]
    at = next((f"{frame.filename}:{frame.lineno}" for frame in reversed(frames) if "/planner/" in frame.filename
               or "/cli/" in frame.filename or "/cgplan/" in frame.filename), "")  # fmt: skip
    said = re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"", "_", str(wrong))[:60] if isinstance(wrong, Wrong) or not at else ""
    return f"{type(wrong).__name__} {at or said} {said if at else ''}".strip()


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
