"""Values of options that are bytes or shares of a memory."""

from __future__ import annotations

import re

from cgplan.errors import InputError, shorten

from . import values

SIZES = "give bytes, 21.88GiB, or 2G for 2 GiB and 2g for 2,000,000,000; K, M, T and k, m, t likewise"
OF_VLLM = "--kv-cache-memory-bytes"
"""vLLM reads it itself, and takes no fraction of a binary unit."""
_PRINTED = re.compile(r"([+-]?[0-9]{1,6}(?:\.[0-9]{1,9})?) ?([KMGT]i?B|[KMGT])")
_UNITS = {unit: 1 << 10 * at for at, letter in enumerate("KMGT", 1) for unit in (letter, f"{letter}iB")} | {
    f"{letter}B": 1000**at for at, letter in enumerate("KMGT", 1)
}
MAY_BE_NEGATIVE = ("--graph-bytes", "--graph-estimate-bytes")
"""Differences of free memory, which other processes change, too."""


def share(text: str, flag: str) -> float:
    """A share of the GPU, above 0 to 1.

    Raises:
        InputError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise InputError(
            f"{shorten(text, 40)!r} is no share of a GPU", code="CG906", where=flag, fix="give a number above 0 to 1"
        )
    return value


def size(text: str, flag: str) -> int:
    """Bytes; 2G is 2 GiB, 2g is 2 * 10**9. Of a value that was measured also 21.88 GiB, as logs print it.

    Raises:
        InputError: it is no size.
    """
    printed = _PRINTED.fullmatch(text.strip())
    if printed is not None and flag != OF_VLLM:
        number = round(float(printed[1]) * float(_UNITS[printed[2]]))
        if number < 0 and flag not in MAY_BE_NEGATIVE:
            raise _below(text, flag)
        return number
    try:
        number = values.human(text, flag)
    except InputError as error:
        if "." not in text:
            error.fix = SIZES
        raise
    if number < 0 and flag not in MAY_BE_NEGATIVE:
        raise _below(text, flag)
    return number


def _below(text: str, flag: str) -> InputError:
    return InputError(f"{text} is below 0", code="CG903", where=flag, fix="give 0 or more")
