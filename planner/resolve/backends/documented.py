"""Where vLLM's own documentation differs from its code, as far as releases/documented.toml knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...light_dataclass import dataclass
from ...releases import facts
from ...vocabulary import AttentionCGSupport
from .layer import Layer, fa_version

FLASH_ATTENTION = ("FLASH_ATTN", "FLASH_ATTN_DIFFKV")
"""Backends whose rows in the documentation name a version of FlashAttention."""


@dataclass(frozen=True)
class Difference:
    """One thing that the documentation says otherwise.

    Attributes:
        backend: the backend's name.
        says: what the page says.
        does: what the code does.
        page: file:line of the page, at the release.
        source: file:line of the code, at the release.
        row: what the page calls the backend; None: it leaves it out, and says what holds then.
        levels: the support levels that the page allows here; empty: it is not about the level.
    """

    backend: str
    says: str
    does: str
    page: str
    source: str
    row: str | None = None
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """The level of a backend by the code."""

    backend: str
    support: AttentionCGSupport
    condition: str
    source: str


def differences(release: str, layer: Layer, claims: Iterable[Claim]) -> tuple[Difference, ...]:
    """What the documentation of `release` says of the levels, and of the selection for `layer`, that is not so."""
    documented = facts("documented", release)
    claims = list(claims)
    found = [d for claim in claims if (d := _level(documented, claim, layer)) is not None]
    names = {claim.backend for claim in claims}
    found += [
        _statement(documented, statement)
        for statement in documented["statement"]
        if statement["backend"] in names and layer.capability[0] in statement["majors"]
    ]
    return tuple(sorted(found, key=lambda d: (d.row is None and bool(d.levels), bool(d.levels))))


def _level(documented: Mapping[str, Any], claim: Claim, layer: Layer) -> Difference | None:
    version = fa_version(layer) if claim.backend in FLASH_ATTENTION else None
    row = _row(documented["level"], claim.backend, layer, version)
    entry = row if row is not None else documented["unlisted"]
    levels = tuple(entry["levels"])
    if claim.support.name in levels or (row is None and version is None and claim.backend in FLASH_ATTENTION):
        return None
    page = entry.get("page", documented["page"]["levels"])
    missing = f"FlashAttention {version} is not listed" if version else "not listed"
    says = " or ".join(levels) if row is not None else f"{missing}, so {levels[0]}"
    return Difference(
        backend=claim.backend,
        says=says,
        does=f"{claim.support.name}: {claim.condition}",
        page=f"{page}:{entry['line']}",
        source=claim.source,
        row=row["row"] if row is not None else None,
        levels=levels,
    )


def _row(
    rows: Iterable[Mapping[str, Any]], backend: str, layer: Layer, version: int | None
) -> Mapping[str, Any] | None:
    for row in rows:
        if (
            backend in row["backends"]
            and layer.capability[0] in row.get("majors", (layer.capability[0],))
            and row.get("fa_version", version) == version
        ):
            return row
    return None


def _statement(documented: Mapping[str, Any], statement: Mapping[str, Any]) -> Difference:
    page = documented["page"]["backends"]
    return Difference(
        backend=statement["backend"],
        says=statement["says"],
        does=statement["does"],
        page=f"{page}:{statement['line']}",
        source=f"vllm/v1/attention/backends/{statement['source']}",
    )
