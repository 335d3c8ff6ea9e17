"""Hostile cases through the command line, a process each, and the measure of what it makes of them.

This is a program of its own: the system counts the memory of whoever starts a process as the process's own peak, so
that one must be small.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .hostile import GENERATORS, Hostile

HERE = Path(__file__).parent
SECONDS = 5.0
MEGABYTES = 300.0
"""Of the processor and resident, most for a case."""
ADDRESS_SPACE = 2 * 2**30
"""Bytes that a subprocess may ask for; what it really takes is measured."""
CPU_LIMIT = 30
WALL_LIMIT = 120
EXPECTED = (0, 1, 2)
"""Exit statuses that `cgplan check` may have."""
UNGUARDED = "--write"
PROCESSES = "processes"


class Measured(NamedTuple):
    """What a subprocess did: exit status, CPU seconds, peak resident MiB, and the ends of what it wrote."""

    status: int
    seconds: float
    megabytes: float
    out: str
    err: str


def measure(case: Hostile, folder: Path) -> Measured:
    """Run `cgplan` with the words of a case."""
    guard = [] if UNGUARDED in case.arguments else [str(HERE / "guard.py")]
    command = [sys.executable, *(guard or [str(Path(sys.executable).with_name("cgplan"))]), *case.arguments]
    with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
        feeds_stdin = case.feed is not None and case.pipe is None
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE if feeds_stdin else subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=_limits, cwd=folder, env={**os.environ, "PYTHONUTF8": "1"},
        )  # fmt: skip
        feeder = threading.Thread(target=_feed, args=(case, process), daemon=True)
        feeder.start()
        alarm = threading.Timer(WALL_LIMIT, process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        alarm.cancel()
        if case.pipe is not None:  # lets a feeder go that waits for a reader
            os.close(os.open(case.pipe, os.O_RDONLY | os.O_NONBLOCK))
        feeder.join(5)
        ends = []
        for file in (out, err):
            file.seek(0)
            ends.append(file.read(3000).decode("utf-8", "replace"))
    seconds = usage.ru_utime + usage.ru_stime
    return Measured(process.returncode, seconds, usage.ru_maxrss / 1024, *ends)


def _feed(case: Hostile, process: subprocess.Popen[bytes]) -> None:
    if case.feed is None:
        return
    try:
        with open(case.pipe, "wb") if case.pipe is not None else process.stdin as file:  # type: ignore[union-attr]
            for data in case.feed:
                file.write(data)
                if process.returncode is not None:
                    return
    except (BrokenPipeError, ValueError):
        pass


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def campaign(seed: int, first: int, cases: int, keep: Path | None = None) -> int:
    """Run numbered cases in a process that is small; with `keep`, their files are left there. Returns the failures."""
    command = [sys.executable, "-m", "fuzz.processes", str(seed), str(first), str(cases), str(keep or "")]
    return subprocess.run(command, check=False, cwd=HERE.parent).returncode


def run(seed: int, numbers: Sequence[int], folder: Path, seconds: float, megabytes: float, keeps: bool = False) -> int:
    """Run numbered cases; print what came of them. Returns the number of failures."""
    statuses: Counter[int] = Counter()
    slow: list[tuple[float, int, str]] = []
    large: list[tuple[float, int, str]] = []
    failures = 0
    for number in numbers:
        dice = random.Random(f"{seed}:process:{number}")
        own = folder / str(number)
        own.mkdir()
        case = dice.choice(GENERATORS)(dice, own)
        done = measure(case, own)
        statuses[done.status] += 1
        options = " ".join(word for word in case.arguments[2:] if word.startswith("-") and len(word) < 20)[:40]
        what = f"{case.what} {options}"
        slow = sorted([*slow, (done.seconds, number, what)], reverse=True)[:5]
        large = sorted([*large, (done.megabytes, number, what)], reverse=True)[:5]
        why = _fault(done, seconds, megabytes)
        if why:
            failures += 1
            print(f"process {number} of seed {seed} ({what}): {why}", flush=True)
            print(f"    {done.seconds:.2f} s, {done.megabytes:.0f} MiB, {done.out[-300:]!r}", flush=True)
            print(f"    {done.err[-1500:]!r}", flush=True)
        if keeps:
            print(f"process {number}: {what}: cd {own}; cgplan {' '.join(case.arguments)[:300]}")
        else:
            shutil.rmtree(own, ignore_errors=True)
    print(f"{PROCESSES}, seed {seed}: {len(numbers)} cases, {failures} failures, statuses {sorted(statuses.items())}")
    for figure, number, what in slow:
        print(f"  slowest: {figure:.2f} s, process {number} ({what})")
    for figure, number, what in large:
        print(f"  largest: {figure:.0f} MiB, process {number} ({what})")
    return failures


def _fault(done: Measured, seconds: float, megabytes: float) -> str:
    if done.status not in EXPECTED:
        return f"exit status {done.status}"
    if "Traceback" in done.err or "forbidden:" in done.err:
        return "a traceback, or something forbidden"
    if done.status == 2 and not done.err.startswith("error["):
        return "no line that says why"
    if done.seconds > seconds:
        return f"more than {seconds} s"
    return f"more than {megabytes} MiB" if done.megabytes > megabytes else ""


def main() -> int:
    seed, first, cases = (int(word) for word in sys.argv[1:4])
    numbers = range(first, first + cases)
    if sys.argv[4]:
        keep = Path(sys.argv[4])
        keep.mkdir(parents=True)
        return min(100, run(seed, numbers, keep, SECONDS, MEGABYTES, keeps=True))
    with tempfile.TemporaryDirectory() as folder:
        return min(100, run(seed, numbers, Path(folder), SECONDS, MEGABYTES))


if __name__ == "__main__":
    sys.exit(main())
