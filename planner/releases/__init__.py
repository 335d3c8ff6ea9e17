"""Facts of vLLM by release, as data: one TOML file a topic beside this module.

A fact that changed over the releases is a list of entries, each with an optional `since` (first release) and
`until` (last release); `at` picks the one that holds. Anything else holds for every release supported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from packaging.version import InvalidVersion, Version

from ..errors import InputError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUPPORTED = ("0.33.0",)
"""Releases that cgplan answers for: the last patch of each minor version."""


@cache
def table(topic: str) -> Mapping[str, Any]:
    """The parsed TOML file of `topic`, for example "gpus"."""
    return tomllib.loads((files(__name__) / f"{topic}.toml").read_text(encoding="utf-8"))


def canonical(release: str) -> str:
    """The supported release that `release` means: 0.33 is its last patch.

    Raises:
        InputError: not a supported release; the nearest ones are named.
    """
    text = release.removeprefix("v")
    if text in SUPPORTED:
        return text
    try:
        wanted = Version(text[:40])
    except InvalidVersion:
        wanted = None
    if wanted is not None:
        for known in SUPPORTED:
            version = Version(known)
            if wanted.release[:2] == version.release[:2] and (len(wanted.release) == 2 or wanted == version):
                return known
    near = nearest(text, SUPPORTED) or list(SUPPORTED[-3:])
    raise InputError(
        f"vLLM release {release[:40]!r} is not known to cgplan",
        code="CG801",
        where="--vllm",
        fix=f"use {' or '.join(near)}; releases known: {', '.join(SUPPORTED)}",
    )


@cache
def _key(release: str) -> tuple[int, ...]:
    return Version(release).release


def holds(release: str, since: str | None, until: str | None = None) -> bool:
    """Whether `release` lies in [since, until]; None is open."""
    key = _key(release)
    return (since is None or key >= _key(since)) and (until is None or key <= _key(until))


def at(history: Iterable[Mapping[str, Any]], release: str) -> Any:
    """The `value` of the first entry of `history` that holds for `release`."""
    for entry in history:
        if holds(release, entry.get("since"), entry.get("until")):
            return entry["value"]
    raise KeyError(f"no entry holds for {release}")
