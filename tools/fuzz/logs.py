"""Startup logs: public ones cut, mixed up and wrapped; no answer holds a number that is not in the log.

Each case takes a public log or a part of it, changes it (bytes, lines, numbers, wrapping, packing), reads it, looks for
every figure of the answer in the text of the line that the answer names as its place, and holds a plan against it.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable
from typing import Any

from cgplan.inputs.launches.asked import Context
from cgplan.inputs.vllm_logs import read_log
from cgplan.report.logs_document import as_document
from cgplan.report.logs_markdown import page
from cgplan.report.logs_secrets import LogSecrets
from cgplan.startup.analysis import analyse
from cgplan.startup.measured import read_back, record_of
from cgplan.startup.record import StartupLog

from .deployments import FIXTURES
from .kind import Kind, Wrong

LOGS = sorted((FIXTURES / "logs").glob("*.txt"))
GIB = 2**30
MOST = 4 * 2**20
"""Bytes of a case: a log may have any size, and takes its time."""
PLANNED = 3
"""One log in so many is held against a plan, and printed."""

Mutation = Callable[[bytes, random.Random], bytes]


def cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[start : start + rng.randrange(1, len(data))]


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 60)):
        changed[rng.randrange(len(changed))] = (
            rng.choice(b"\r\n\0\x1b{}[]()<>'\",.:;=%| 0123456789-\xff\xe2") if changed else 0
        )
    return bytes(changed)


def shuffle(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def interleave(data: bytes, rng: random.Random) -> bytes:
    """Another process writes into the middle of lines."""
    lines = data.split(b"\n")
    for _ in range(rng.randrange(1, 8)):
        at, other = rng.randrange(len(lines)), rng.choice(lines)
        where = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:where] + other + lines[at][where:]
    return b"\n".join(lines)


def renumber(data: bytes, rng: random.Random) -> bytes:
    def other(match: re.Match[bytes]) -> bytes:
        if rng.random() > 0.05:
            return match[0]
        return rng.choice([b"-1", b"0", b"1e999", b"9" * 40, b"1,5", b"nan", b"", b"12.345.678", match[0] + b" 7"])

    return re.sub(rb"[0-9]+(?:\.[0-9]+)?", other, data)


def words(data: bytes, rng: random.Random) -> bytes:
    """Words of a line change places, go or come twice."""
    lines = data.split(b"\n")
    for _ in range(rng.randrange(1, 20)):
        at = rng.randrange(len(lines))
        parts = lines[at].split(b" ")
        first, second = rng.randrange(len(parts)), rng.randrange(len(parts))
        if rng.random() < 0.5:
            parts[first], parts[second] = parts[second], parts[first]
        else:
            parts[first : first + 1] = rng.choice([[], [parts[first]] * 2])
        lines[at] = b" ".join(parts)
    return b"\n".join(lines)


def wrap(data: bytes, rng: random.Random) -> bytes:
    lines = [line.decode("utf-8", "replace") for line in data.split(b"\n")]
    how = rng.randrange(5)
    stamp = "2026-04-22T00:03:35.123456789Z"
    if how == 0:
        wrapped = [json.dumps({"log": line + "\n", "stream": "stderr", "time": stamp}) for line in lines]
    elif how == 1:
        wrapped = [f"{stamp} stderr {rng.choice('FFFP')} {line}" for line in lines]
    elif how == 2:
        wrapped = [json.dumps({"MESSAGE": list(line.encode()), "_SYSTEMD_UNIT": "u"}) for line in lines]
    elif how == 3:
        wrapped = [f"server-{rng.randrange(3)}  | {line}" for line in lines]
    else:
        wrapped = [f"Apr 22 00:03:35 host vllm[{rng.randrange(9)}]: {line}" for line in lines]
    return "\n".join(wrapped).encode()


def returns(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r", b"\r\n", b"\n\n", b"\r\r"]))


def double(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice([b"", b"\n"]) + rng.choice(LOGS).read_bytes()


def pack(data: bytes, rng: random.Random) -> bytes:
    packed = gzip.compress(data, 1)
    return flip(packed, rng) if rng.random() < 0.3 else packed[: rng.randrange(1, len(packed) + 1)]


def utf16(data: bytes, rng: random.Random) -> bytes:
    return data.decode("utf-8", "replace").encode("utf-16")[: rng.randrange(2, 2 * len(data))]


MUTATIONS: tuple[Mutation, ...] = (cut, flip, shuffle, interleave, renumber, words, wrap, returns, double, pack, utf16)


def foreign(log: StartupLog) -> list[str]:
    """Figures of ranks that the line of their place does not hold."""
    wrong = []
    for start in log.starts:
        for rank in start.ranks:
            for name, place in rank.places.items():
                value = getattr(rank, name, None)
                if name.endswith("_bytes") and isinstance(value, int) and not _is_in(value, place.text):
                    wrong.append(f"{name}={value} of {place.text!r}")
        if start.kv_tokens is not None and start.kv_tokens < 0:
            wrong.append(f"kv_tokens={start.kv_tokens}")
    return wrong


def _is_in(count: int, text: str) -> bool:
    """Whether a number of bytes stands in a text, as it is or in GiB; a text cut at its end may have lost it."""
    if len(text) >= 300 or str(count) in text:
        return True
    numbers = (float(digits) for digits in re.findall(r"-?[0-9]+(?:\.[0-9]+)?", text))
    return any(round(number * GIB) == count for number in numbers if abs(number) < 1e9)


def case(rng: random.Random) -> bytes:
    data = rng.choice(LOGS).read_bytes()
    for mutation in rng.choices(MUTATIONS, k=rng.randrange(1, 4)):
        if data:
            data = mutation(data, rng)
    return data


class Logs:
    """A log, read as `cgplan logs` reads it."""

    def __init__(self, folder: str) -> None:
        pass

    def make(self, dice: random.Random) -> bytes:
        return case(dice)[:MOST]

    def answer(self, given: bytes, dice: random.Random) -> Any:
        log = read_log(io.BytesIO(given))
        wrong = foreign(log)
        if wrong:
            raise Wrong(f"a figure that is not in the log: {wrong[0]}")
        reports = analyse(log, Context() if dice.randrange(PLANNED) == 0 else None)
        secrets = LogSecrets(log.starts)
        page(log, reports, secrets).encode("utf-8")
        for report in reports:
            if report.comparison is not None and report.came_up:
                read_back(record_of(report.start, report.comparison, None, "a log", report.diagnosis))
        return as_document(log, reports, secrets)


KIND = Kind("logs", "public logs, changed, through the reader, the diagnosis and some against a plan", 0.02, Logs)
