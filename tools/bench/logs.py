"""Logs of any size: seconds of one core and peak memory for one GB of a server's log, and for hostile ones.

    python tools/bench/logs.py [MB]

The logs are made while they are read, so that no disk is measured. Figures are of MB megabytes (200 by default), and
are held to the same share of the limits for 1,000. `python tools/bench` runs it too.
"""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START = Path(__file__).parents[2] / "fixtures" / "logs" / "A02.txt"
MB = 10**6
SECONDS_A_GB = {"a server's log": 30, "docker's JSON around it": 30, "no line end": 30, "one progress bar": 60}
PEAK_MB = 100
REQUESTS = 20_000
"""Lines of requests between one start and the next."""


def requests() -> bytes:
    """What a server prints while it serves: throughput, requests with their parameters, accesses."""
    lines = []
    for index in range(REQUESTS):
        head = f"(APIServer pid=1) INFO 04-22 00:{index // 60 % 60:02d}:{index % 60:02d}"
        if index % 10 == 0:
            lines.append(
                f"{head} [v1/metrics/loggers.py:259] Engine 000: Avg prompt throughput: {index % 977}.5 tokens/s, "
                f"Avg generation throughput: {index % 1009}.5 tokens/s, Running: {index % 64} reqs, Waiting: 0 reqs, "
                f"GPU KV cache usage: {index % 100}.0%, Prefix cache hit rate: 0.0%\n"
            )
        elif index % 10 < 3:
            lines.append(
                f"{head} [entrypoints/logger.py:63] Received request chatcmpl-{index:016x}: params: "
                f"SamplingParams(n=1, temperature=0.7, max_tokens={index % 4000}), lora_request: None.\n"
            )
        else:
            lines.append(
                f"(APIServer pid=1) INFO:     10.1.2.{index % 250}:{index} - "
                '"POST /v1/chat/completions HTTP/1.1" 200 OK\n'
            )
    return "".join(lines).encode()


def bars() -> bytes:
    states = (f"{done * 100 // 51:3d}%|####      | {done}/51 [00:01<00:00, 47.35it/s]" for done in range(52))
    return "".join(f"\rCapturing CUDA graphs (decode, FULL): {state}" for state in states).encode()


KINDS: dict[str, Callable[[], bytes]] = {
    "a server's log": lambda: START.read_bytes() + requests(),
    "no line end": lambda: b"GiB memory x" * 10_000,
    "one progress bar": bars,
    "docker's JSON around it": lambda: b"".join(
        b'{"log":"' + text.replace(b'"', b'\\"') + b'\\n","stream":"stderr","time":"2026-04-22T00:03:35.1Z"}\n'
        for text in (START.read_bytes() + requests()).splitlines()
        if b"\\" not in text
    ),
}


class Made:
    """A pattern, again and again, up to a size."""

    def __init__(self, pattern: bytes, size: int) -> None:
        self.pieces: Iterator[bytes] = itertools.repeat(pattern, size // len(pattern))

    def read(self, _: int) -> bytes:
        return next(self.pieces, b"")


def one(kind: str, megabytes: int) -> None:
    """Reads one log in this process, and prints seconds and peak memory in MB."""
    from cgplan.inputs.vllm_logs import read_log

    log = Made(KINDS[kind](), megabytes * MB)
    begun = time.process_time()
    read_log(log)  # type: ignore[arg-type]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.process_time() - begun:.3f} {peak:.1f}")


def rows(megabytes: int = 200) -> list[tuple[str, str, str, bool]]:
    """What, figure, limit, and whether it is held; one row a kind of log."""
    found = []
    for kind in KINDS:
        limit = SECONDS_A_GB[kind] * megabytes / 1000
        done = subprocess.run(
            [sys.executable, __file__, "--one", kind, str(megabytes)], capture_output=True, text=True, check=True
        )
        seconds, peak = (float(figure) for figure in done.stdout.split())
        found.append(
            (
                f"a log of {megabytes} MB, {kind}: seconds of one core, peak memory",
                f"{seconds:.1f} s, {peak:.0f} MB",
                f"at most {limit:.0f} s, {PEAK_MB} MB",
                seconds <= limit and peak <= PEAK_MB,
            )
        )
    return found


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], int(sys.argv[3]))
        return 0
    told = rows(int(sys.argv[1])) if len(sys.argv) > 1 else rows()
    for what, figure, limit, good in told:
        print(f"{'ok  ' if good else 'MISS'}  {what}: {figure}; {limit}")
    return 0 if all(row[3] for row in told) else 1


if __name__ == "__main__":
    raise SystemExit(main())
