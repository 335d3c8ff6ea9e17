"""What a question asks by words that stand together, whatever else it names: "out of memory" beside "while serving".

An ask is written as groups of phrases: "out of memory|oom + long prompt|under load". A question has it where it holds
a phrase of every group; behind " - " stand phrases that it must not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

MOST_CHARACTERS = 2000
"""Characters of a question that are looked at: what is longer is a pasted log."""
_SPACES = re.compile(r"[\s_]+")


class Ask(NamedTuple):
    """Phrases as patterns: one of each of `groups`, and none of `unless`."""

    groups: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None


@lru_cache(maxsize=256)
def parse(text: str) -> Ask:
    """The ask that `text` writes.

    Raises:
        ValueError: a group is empty.
    """
    wanted, _, unless = text.partition(" - ")
    return Ask(tuple(map(_any_of, wanted.split(" + "))), _any_of(unless) if unless else None)


def _any_of(text: str) -> re.Pattern[str]:
    phrases = [phrase.strip().casefold() for phrase in text.split("|")]
    if not all(phrases):
        raise ValueError(f"an ask has an empty phrase: {text!r}")
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)")


def asked(question: str, asks: Iterable[str]) -> bool:
    """Whether the question has one of the asks."""
    said = _SPACES.sub(" ", question[:MOST_CHARACTERS].casefold())
    return any(_has(said, parse(ask)) for ask in asks)


def ruled_out(question: str, asks: Iterable[str]) -> bool:
    """Whether the question begins one of the asks, and holds a phrase that this one must not hold."""
    said = _SPACES.sub(" ", question[:MOST_CHARACTERS].casefold())
    return any(_denied(said, ask) and ask.groups[0].search(said) for ask in map(parse, asks))


def _has(said: str, ask: Ask) -> bool:
    return all(group.search(said) for group in ask.groups) and not _denied(said, ask)


def _denied(said: str, ask: Ask) -> bool:
    return ask.unless is not None and ask.unless.search(said) is not None
