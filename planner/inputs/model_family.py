"""A model of the catalogue that is of the same family and size as one that is not in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import nearest

_FAMILY = re.compile(r"(?:meta-)?([a-z]+)(?=[-_.0-9])")
_SIZE = re.compile(r"(?<![a-z0-9.])(?:[ae]?[0-9]+(?:\.[0-9]+)?[bt]|[0-9]+x[0-9]+b)(?![a-z0-9])")
_VERSION = re.compile(r"[-_]?v?([0-9]+(?:\.[0-9]+)?)(?![0-9.]*[a-z])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_KINDS = frozenset(
    ("vl", "omni", "audio", "asr", "embedding", "embed", "reranker", "rm", "reward", "next", "moe", "vision", "mamba",
     "coder", "math", "distill", "draft", "eagle", "h")
)  # fmt: skip
"""Words of a name that speak of other layers, or of another task."""


class _Parts(NamedTuple):
    """What a name says of a shape. `version`: 0 where it names none."""

    family: str
    version: float
    sizes: tuple[str, ...]
    kinds: frozenset[str]


def of_the_family(short: str, known: Iterable[str]) -> str | None:
    """Of the names `known` the one of the same family, first digit of the version, and size; None: there is none, or
    the name is one of them with a slip.

    Args:
        short, known: without organisation, in any case.
    """
    wanted = _parts(short.casefold())
    if wanted is None:
        return None
    names = tuple(known)
    if _is_a_slip(short.casefold(), names):
        return None
    found = []
    for name in names:
        parts = _parts(name.casefold())
        if parts is None or int(parts.version) != int(wanted.version):
            continue
        if (parts.family, parts.sizes, parts.kinds) == (wanted.family, wanted.sizes, wanted.kinds):
            found.append((abs(parts.version - wanted.version), len(name), name))
    return min(found)[2] if found else None


def _parts(name: str) -> _Parts | None:
    family = _FAMILY.match(name)
    sizes = tuple(_SIZE.findall(name))
    if family is None or not sizes:
        return None
    version = _VERSION.match(name, family.end())
    words = set(re.split(r"[-_.]", name))
    return _Parts(family[1], float(version[1]) if version else 0.0, sizes, frozenset(words.intersection(_KINDS)))


def _is_a_slip(name: str, known: Iterable[str]) -> bool:
    """Whether it is a known name, or nearly, with the same numbers; what adds words to one is a model of its own."""
    folded = {one.casefold() for one in known}
    near = [one for one in nearest(name, folded, least=0.8) if _NUMBER.findall(one) == _NUMBER.findall(name)]
    return bool(near) and not any(name.startswith((f"{one}-", f"{one}_", f"{one}.")) for one in folded)
