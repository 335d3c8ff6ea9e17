"""GPUs by name: what the driver says of each."""

from __future__ import annotations

import re
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


UNNAMED = "a GPU of compute capability"
"""How the name of a GPU begins of which no more is known than that and its memory."""
_CAPABILITY = re.compile(r"(?:sm[ _-]?|cc[ _-]?)([0-9]{1,2})\.?([0-9])a?|([0-9]{1,2})\.([0-9])", re.I)
MADE_BY_OTHERS = {"mi210": 64, "mi250": 64, "mi250x": 64, "mi300x": 192, "mi325x": 256, "mi350x": 288, "mi355x": 288}
"""GiB of one device by AMD's data sheets; of MI250 one of its two dies."""


def capability_of(name: str) -> tuple[int, int] | None:
    """The compute capability that a name such as sm90, sm_120 or 9.0 means; None: it means none."""
    found = _CAPABILITY.fullmatch(name.strip())
    if found is None:
        return None
    major, minor = found.group(1) or found.group(3), found.group(2) or found.group(4)
    return int(major), int(minor)


def gpu_of_capability(capability: tuple[int, int], memory_bytes: int) -> Gpu:
    """A GPU that the catalogue lacks; multiprocessors are those of its GPU of that capability with the nearest memory.

    Raises:
        InputError: CG904, the catalogue has no GPU of the capability.
    """
    alike = [record for record in _entries() if tuple(record["capability"]) == capability]
    if not alike:
        known = sorted({tuple(record["capability"]) for record in _entries()})
        raise InputError(
            f"no GPU of compute capability {capability[0]}.{capability[1]} is known",
            code="CG904",
            where="--gpu",
            fix=f"give one of {', '.join(f'sm{major}{minor}' for major, minor in known)}, or a name of `cgplan gpus`",
        )
    nearest = min(alike, key=lambda record: abs(record["memory_bytes"] - memory_bytes))
    named = f"{UNNAMED} {capability[0]}.{capability[1]}"
    return _gpu(nearest).model_copy(update={"name": named, "memory_bytes": memory_bytes})


def as_assumed(found: Gpu) -> str:
    """What is assumed of a GPU that the catalogue lacks; "": it has it."""
    if not found.name.startswith(UNNAMED):
        return ""
    return (
        f"GPU: {found.sm_count} multiprocessors, as the catalogue's GPU of that capability with the nearest memory has;"
        " --gpu-memory-bytes is taken for what CUDA says."
    )


def instead_of(name: str) -> str:
    """What to give in the place of a GPU by another maker than NVIDIA."""
    size = MADE_BY_OTHERS.get(_fold(name).removeprefix("amd").removeprefix("instinct"))
    beside = f"--gpu sm90 --gpu-memory-bytes {size}GiB" if size else "--gpu sm90 with --gpu-memory-bytes"
    return f"NVIDIA's alone are known; {beside} plans with the kernels of a Hopper GPU, and check needs no --gpu"


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
