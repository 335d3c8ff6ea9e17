"""The environment variables of vLLM by release, and how each is read: data made by tools/build_env_variables.py."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from . import SUPPORTED


class Reader(NamedTuple):
    """How vLLM reads one variable.

    Attributes:
        kind: `bool`, `int`, `float`, `choice` or `text`.
        on: of a bool, the values that mean true, as far as they were tried; others mean false, or fail.
        fails: of a bool, values that end vLLM with a ValueError.
        number: a bool that is read as a number: any other text fails.
        choices: of a choice, the values accepted.
        many: of a choice, several may stand with commas between.
        folds: of a choice, its case does not count.
        empty: of an int or a float, an empty text is taken.
    """

    kind: str
    on: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    number: bool = False
    choices: tuple[str, ...] = ()
    many: bool = False
    folds: bool = False
    empty: bool = False


@cache
def readers(release: str) -> dict[str, Reader]:
    """The variables that vLLM of a supported release knows, each with its reader."""
    data = _data()
    return {name: _reader(data["rows"][index]) for name, index in data["releases"][release]["known"].items()}


@cache
def read_elsewhere(release: str) -> frozenset[str]:
    """Names that parts of the release read although its list of variables lacks them."""
    return frozenset(_data()["releases"][release]["elsewhere"])


def releases_with(name: str) -> list[str]:
    """The supported releases that know the variable, oldest first."""
    releases = _data()["releases"]
    return [release for release in SUPPORTED if name in releases[release]["known"]]


def _reader(row: dict[str, Any]) -> Reader:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Reader(**fields)


@cache
def _data() -> dict[str, Any]:
    packed = (files(__package__) / "env_variables.json.gz").read_bytes()
    data: dict[str, Any] = json.loads(gzip.decompress(packed))
    return data
