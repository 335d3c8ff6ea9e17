"""GPUs by name: what the driver says of each."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import InputError, did_you_mean, shorten
from . import table

if TYPE_CHECKING:
    from ..sections import Gpu


def gpu(name: str) -> Gpu:
    """The GPU that `name` means: a driver name or an alias; case, blanks, `-` and `_` do not count.

    Raises:
        InputError: CG904, no such GPU; the nearest names are given.
    """
    if not isinstance(name, str):
        raise InputError(
            f"the name of a GPU is a text, not {type(name).__name__}",
            code="CG904",
            where="--gpu",
            fix='as in gpu("h100")',
        )
    entry = _by_name().get(_fold(name))
    if entry is None:
        known = [alias for record in _entries() for alias in [*record["aliases"], record["name"]]]
        raise InputError(
            f"unknown GPU {shorten(name, 60)!r}",
            code="CG904",
            where="--gpu",
            fix=did_you_mean(name, known) or _somewhat_like(name),
        )
    return _gpu(entry)


def _somewhat_like(name: str) -> str:
    near = get_close_matches(name.casefold()[:60], gpu_names(), cutoff=0.5)
    return "`cgplan gpus` lists those known" + (f", such as {', '.join(near)}" if near else "")


def known_as(name: str) -> Gpu | None:
    """The GPU of that driver name or alias, or None."""
    entry = _by_name().get(_fold(name))
    return None if entry is None else _gpu(entry)


def gpu_names() -> list[str]:
    """The short name of every GPU, in the order of the catalogue."""
    return [record["aliases"][0] for record in _entries()]


def records() -> list[dict[str, Any]]:
    """The entries as they stand in gpus.toml, with their sources."""
    return [dict(record) for record in _entries()]


def _gpu(entry: dict[str, Any]) -> Gpu:
    from ..sections import Gpu

    return Gpu(
        name=entry["name"],
        capability=tuple(entry["capability"]),
        memory_bytes=entry["memory_bytes"],
        sm_count=entry["sm_count"],
        integrated=entry.get("integrated", False),
    )


def _entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table("gpus")["gpu"]
    return found


@cache
def _by_name() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for record in _entries():
        for name in (record["name"], *record["aliases"]):
            found.setdefault(_fold(name), record)
    return found


def _fold(name: str) -> str:
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    text = "".join(words)
    for prefix in ("nvidia", "tesla", "geforce"):
        text = text.removeprefix(prefix)
    return text
