"""Which codes are wanted: `--select` and `--ignore`, by code or by its first letters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import InputError, did_you_mean, shorten
from ..trace import RENAMED

ALL = "CG"
"""The beginning of every code."""

_PREFIX = re.compile(r"CG[0-9]{0,3}")
_BETWEEN = re.compile(r"[,\s]+")


class Selection(NamedTuple):
    """Beginnings of codes that are wanted, and of codes that are not.

    The longest beginning that fits a code decides; of two as long the one that is not wanted.
    """

    select: tuple[str, ...] = (ALL,)
    ignore: tuple[str, ...] = ()

    def takes(self, code: str) -> bool:
        """Whether diagnostics of this code are wanted."""
        return _longest(self.select, code) > _longest(self.ignore, code)


def _longest(beginnings: Iterable[str], code: str) -> int:
    return max((len(one) for one in beginnings if code.startswith(one)), default=-1)


def fits(code: str, beginnings: Iterable[str]) -> bool:
    """Whether `code` begins with one of them."""
    return any(code.startswith(one) for one in beginnings)


def known_codes() -> frozenset[str]:
    """Every code that cgplan may report."""
    from .. import input_rules, resolve  # noqa: F401
    from ..memory.budget import estimate_rules, rules  # noqa: F401
    from ..memory.kv import cache  # noqa: F401
    from ..resolve import memory_deduction  # noqa: F401
    from ..trace import RULES
    from . import families, suppress_rules  # noqa: F401
    from .registry import CHECKS

    return frozenset((*RULES, *CHECKS, *RENAMED))


def read_codes(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """The codes, or beginnings of codes, in `texts`: several in one text are parted by commas or blanks.

    Case does not count, and `all` is every code.

    Raises:
        InputError: CG908, no code begins so; `where` says who asked.
    """
    asked = [part for text in texts for part in _BETWEEN.split(text) if part]
    known = known_codes() if asked else frozenset()
    found: list[str] = []
    for one in asked:
        folded = ALL if one.casefold() == "all" else RENAMED.get(one.upper(), one.upper())
        if not _PREFIX.fullmatch(folded) or not any(code.startswith(folded) for code in known):
            raise InputError(
                f"no code begins with {shorten(one, 40)!r}",
                code="CG908",
                where=where,
                fix=did_you_mean(folded, known) or "cgplan explain lists all codes; CG9 stands for all that begin so",
            )
        found.append(folded)
    return tuple(dict.fromkeys(found))
