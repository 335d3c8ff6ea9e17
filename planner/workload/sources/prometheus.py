"""Text of /metrics: the samples of vLLM in it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isnan
from typing import NamedTuple

from ...errors import InputError, shorten

MAX_LINE = 1 << 16
MAX_SAMPLES = 500_000

_OWN = re.compile(r"(?:ray_)?vllm[:_](?P<name>[a-zA-Z0-9_]+)(?=[{ \t])")
"""vLLM's names; through Ray's exporter ":" is "_" and "ray_" stands before."""

_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_VALUE = re.compile(r"\s*(\S+)(?:\s+-?[0-9.eE+]+)?(?:\s+#.*)?\s*$")


class Sample(NamedTuple):
    """One line: name without "vllm:", labels, value."""

    name: str
    labels: dict[str, str]
    value: float
    line: int


def samples(lines: Iterable[str], wanted: frozenset[str], where: str) -> list[Sample]:
    """The samples whose names are `wanted`; other metrics and comments are passed over unread.

    Raises:
        InputError: CG718, a wanted line cannot be read.
    """
    found = []
    for number, line in enumerate(lines, 1):
        match = _OWN.match(line)
        if match is None or match["name"] not in wanted:
            continue
        if len(line) > MAX_LINE:
            raise broken("the line is far too long", where, number)
        labels, at = _labels(line, match.end(), where, number)
        found.append(Sample(match["name"], labels, _value(line[at:], where, number), number))
        if len(found) > MAX_SAMPLES:
            raise broken(f"more than {MAX_SAMPLES} samples", where, number)
    return found


def broken(message: str, where: str, line: int | None = None) -> InputError:
    """CG718 at a line."""
    place = where if line is None else f"{where}:{line}"
    said = f"{place}: {shorten(message, 300)}"
    return InputError(said, code="CG718", where=place, fix="give /metrics as the server serves it")


def _labels(line: str, at: int, where: str, number: int) -> tuple[dict[str, str], int]:
    if line[at : at + 1] != "{":
        return {}, at
    at += 1
    labels: dict[str, str] = {}
    while not line.startswith("}", at):
        match = _LABEL.match(line, at)
        if match is None:
            raise broken(f"labels that cannot be read: {shorten(line, 60)}", where, number)
        labels[match[1]] = re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), match[2])
        at = match.end()
    return labels, at + 1


def _value(text: str, where: str, number: int) -> float:
    match = _VALUE.match(text)
    try:
        value = float(match[1]) if match is not None and "_" not in match[1] else None
    except ValueError:
        value = None
    if value is None or isnan(value):
        raise broken(f"no number where the value is: {shorten(text.strip() or 'nothing', 40)}", where, number)
    return value
