"""Tokens of a vLLM command line that remember where they came from, and what is noted on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Place(NamedTuple):
    """Where a token came from.

    Attributes:
        token: its index among the tokens given; -1 for one out of the YAML file of `--config`.
        line: its line in that file, from 1; 0 for a token of the command line.
    """

    token: int = -1
    line: int = 0


NOWHERE = Place()


class Token(NamedTuple):
    """One token, as vLLM's argparse would see it."""

    text: str
    place: Place = NOWHERE


class Note(NamedTuple):
    """What the parser did without a word, or with one that is easily missed.

    Attributes:
        kind: `model_flag`, `repeated`, `duplicate_key`, `bucket_lost`, `list_replaced`, `abbreviation`, `yaml_false`,
            `yaml_overridden`, `config_unread`, `model_ignored`, `value_is_key`, `odd_level`, `deprecated`,
            `changed_value` or `hidden_spelling`.
        message: one line.
        option: the option concerned, as vLLM names it.
        place: where it is.
        lost: where the setting is that does not count, if there is one.
    """

    kind: str
    message: str
    option: str
    place: Place
    lost: Place | None = None


def tokens_of(texts: Iterable[str], first: int = 0) -> list[Token]:
    """Tokens of the command line; the first one has index `first`."""
    return [Token(text, Place(index)) for index, text in enumerate(texts, first)]
