"""What moves between two neighbouring releases: rules that come or go, and facts that change, by rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..releases import facts, holds, table
from ..rules import all_rules
from .changes import FactChange
from .fact_rules import code_of
from .path import newer

TOPICS = ("architectures", "backends", "memory", "names", "pipeline")
"""Fact files with histories of what vLLM does."""
ASKED = ("budget", "requested")
"""Of the memory, the one section that says what vLLM does by default; the rest are parts of an estimate."""


class Move(NamedTuple):
    """What happened to one rule: "new", "gone" or "fact"; and the facts that it goes by."""

    kind: str
    facts: tuple[FactChange, ...] = ()


@cache
def moves(previous: str, following: str) -> Mapping[str, Move]:
    """Rules that differ between two supported releases, by code; mirrored when the two are swapped."""
    changed: dict[str, list[FactChange]] = {}
    for change in changed_facts(previous, following):
        code = code_of(change.path)
        if code is not None:
            changed.setdefault(code, []).append(change)
    found = {code: Move("fact", tuple(items)) for code, items in changed.items()}
    for code, rule in all_rules().items():
        before = holds(previous, rule.since, rule.until)
        after = holds(following, rule.since, rule.until)
        if before is not after:
            found[code] = Move("new" if after else "gone", tuple(changed.get(code, ())))
    return found


def changed_facts(previous: str, following: str) -> Iterator[FactChange]:
    """Every fact that differs between two releases."""
    came, went = _architectures_of(following, previous), _architectures_of(previous, following)
    if came or went:
        yield FactChange("architecture_releases.first", went, came)
    for topic in TOPICS:
        yield from _differences(facts(topic, previous), facts(topic, following), topic, previous, following)
    topic, section = ASKED
    before, after = (facts(topic, release)[section] for release in (previous, following))
    yield from _differences(before, after, f"{topic}.{section}", previous, following)


def _architectures_of(release: str, other: str) -> list[str]:
    """Architectures that came with `release`, where that is the newer one."""
    names: str = table("architecture_releases")["first"].get(release, "")
    return names.split() if newer(release, other) == release else []


def _differences(before: Any, after: Any, path: str, previous: str, following: str) -> Iterator[FactChange]:
    before, after = _present(before, previous), _present(after, following)
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}", previous, following)
        return
    yield FactChange(path, before, after)


def _present(value: Any, release: str) -> Any:
    """A whole table may carry since and until, too: outside of them there is none."""
    if (
        isinstance(value, Mapping)
        and isinstance(value.get("since", ""), str)
        and isinstance(value.get("until", ""), str)
    ):
        return value if holds(release, value.get("since"), value.get("until")) else None
    return value
