"""Numbers as vLLM reads them: 1k is 1000, 1K is 1024, 25.6k is 25600."""

from __future__ import annotations

import re

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_IN_JSON = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|\b\d+(?:\.\d+)?[kKmMgGtT]\b', re.DOTALL)


class BinaryFraction(ValueError):
    """A fraction of a binary unit, 25.6K."""


def human_int(text: str) -> int:
    """A whole number, in full or with a unit.

    Raises:
        ValueError: it is none.
        OverflowError: it is beyond a float.
    """
    text = text.strip()
    found = _HUMAN.fullmatch(text)
    if found is None:
        return int(text)
    number, unit = found.groups()
    if unit in _DECIMAL:
        return int(float(number) * _DECIMAL[unit])
    if "." in number:
        raise BinaryFraction(f"{number}{unit} is a fraction of a binary unit; {number}{unit.lower()} may have one")
    return int(number) * _BINARY[unit]


def human_int_or_auto(text: str) -> int:
    """As human_int; `auto` is -1."""
    return -1 if text.strip().lower() in ("auto", "-1") else human_int(text)


def expand_in_json(text: str) -> str:
    """A JSON text whose bare numbers with a unit are written in full; strings stay as they are."""
    return _IN_JSON.sub(lambda found: found[0] if found[0][0] == '"' else str(human_int(found[0])), text)
