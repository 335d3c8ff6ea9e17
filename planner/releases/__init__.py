"""Facts of vLLM by release, as data: one TOML file a topic beside this module.

A fact that changed over the releases is a history: a list of entries with a `value` and an optional `since` (first
release) and `until` (last release); `at` picks the first that holds. In other lists a row may carry the two as well,
and a plain item is then written { item = ..., since = ... }.
Anything else holds for every release supported. `facts` gives a topic as it stands at one release.
tables.json.gz holds the files in parsed form: to parse them takes a short command a tenth of its life.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from ..errors import InputError

SUPPORTED = (
    "0.19.1",
    "0.20.2",
    "0.21.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.1",
    "0.26.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
"""Releases that cgplan answers for: the last patch of each minor version."""
OLDER_MEMORY = "before 0.20.2 the graphs come on top of --gpu-memory-utilization (before 0.19 as far as known)"
"""What differs for memory in releases older than those known."""


@cache
def table(topic: str) -> Mapping[str, Any]:
    """The TOML file of `topic`, for example "gpus". A file that changed since tools/build_tables.py ran is parsed."""
    raw = (files(__name__) / f"{topic}.toml").read_bytes()
    kept = _kept().get(topic)
    if kept is None or kept["crc32"] != zlib.crc32(raw):
        return parse(raw)
    found: Mapping[str, Any] = kept["table"]
    return found


def parse(raw: bytes) -> Mapping[str, Any]:
    """A TOML file as it stands."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    parsed: Mapping[str, Any] = tomllib.loads(raw.decode("utf-8"))
    return parsed


@cache
def _kept() -> dict[str, dict[str, Any]]:
    """By topic: the parsed file and the checksum of its text."""
    kept: dict[str, dict[str, Any]] = json.loads(gzip.decompress((files(__name__) / "tables.json.gz").read_bytes()))
    return kept


def canonical(release: str) -> str:
    """The supported release that `release` means: 0.33 is its last patch.

    Raises:
        InputError: not a supported release; the nearest ones are named.
    """
    text = release.removeprefix("v") if isinstance(release, str) else repr(release)
    if text in SUPPORTED:
        return text
    # Imported where a release is not one of SUPPORTED: the module takes a short command a hundredth of its life.
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(text[:40])
    except InvalidVersion:
        wanted = None
    if wanted is not None:
        for known in SUPPORTED:
            version = Version(known)
            if wanted.release[:2] == version.release[:2] and (len(wanted.release) == 2 or wanted == version):
                return known
    near = nearest(text)
    older = f"; {OLDER_MEMORY}" if wanted is not None and wanted.release < _key(SUPPORTED[0])[:2] else ""
    raise InputError(
        f"vLLM release {text[:40]!r} is not known to cgplan; the nearest is {near}",
        code="CG801",
        where="--vllm",
        fix=f"--assume-release {near} answers by its rules; releases known: {', '.join(SUPPORTED)}{older}",
    )


def stand_in(release: str) -> tuple[str, str | None]:
    """The supported release that answers for `release`, and what to say of it in one line; None: it is that very one.

    Another patch (0.22.0) of a minor version that is known, or a build of it (0.29.1rc1.dev339, 0.29.0+cu130), goes by
    the one known.

    Raises:
        InputError: CG801, its minor version is not known.
    """
    try:
        return canonical(release), None
    except InputError:
        near = nearest(release)
        if not _is_of_minor(release, near):
            raise
    if release.removeprefix("v").partition("+")[0] == near:
        return near, None
    shown = release[:40]
    return near, f"vLLM: {shown} goes by the rules of {near}, the nearest release known; --assume-release takes others"


def _is_of_minor(release: str, known: str) -> bool:
    """Whether `release` is a patch or a build of the same minor version as `known`."""
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(release.removeprefix("v")) if isinstance(release, str) and len(release) <= 80 else None
    except InvalidVersion:
        return False
    return wanted is not None and wanted.epoch == 0 and wanted.release[:2] == _key(known)[:2]


def is_known(release: str) -> bool:
    """Whether `canonical` has an answer."""
    try:
        canonical(release)
    except InputError:
        return False
    return True


def nearest(release: str) -> str:
    """The supported release nearest to `release`: of the same minor version, else the newest before it."""
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(release.removeprefix("v")[:40]).release
    except InvalidVersion:
        return SUPPORTED[-1]
    same_minor = [known for known in SUPPORTED if _key(known)[:2] == wanted[:2]]
    before = [known for known in SUPPORTED if _key(known) <= wanted]
    return (same_minor or before or SUPPORTED[:1])[-1]


def assume(wanted: str | None, rules: str) -> tuple[str, str | None]:
    """The release to give to a Deployment where `wanted` shall be answered by the rules of `rules`, and what to say.

    Returns:
        The supported release, and the assumption in one line; None where `wanted` means that very release.

    Raises:
        InputError: `rules` is not supported.
    """
    try:
        release = canonical(rules)
    except InputError as error:
        error.where = "--assume-release"
        error.fix = f"give one of {', '.join(SUPPORTED)}"
        raise
    if wanted is None:
        return release, f"vLLM: rules of {release} assumed; no --vllm was given"
    try:
        own = canonical(wanted)
    except InputError:
        shown = "".join(c for c in wanted[:40] if c.isprintable()) or "a release without a name"
        return release, f"vLLM: rules of {release} assumed for {shown}"
    if own == release:
        return release, None
    return release, f"vLLM: rules of {release} assumed for {own}, which cgplan knows; leave --assume-release out"


@cache
def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@lru_cache(4096)
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


@cache
def facts(topic: str, release: str) -> Mapping[str, Any]:
    """The file of `topic` with every history replaced by its value at `release`, and rows that do not hold left out.

    The result is shared: callers must not change it.
    """
    found = _at_release(table(topic), release)
    assert isinstance(found, Mapping)
    return found


def _at_release(value: Any, release: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _at_release(item, release) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(row, Mapping) and "value" in row for row in value):
        return at(value, release)
    return [
        _at_release(row.get("item", row), release) if isinstance(row, Mapping) else row
        for row in value
        if not isinstance(row, Mapping) or holds(release, row.get("since"), row.get("until"))
    ]
