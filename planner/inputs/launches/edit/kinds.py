"""Changes of a launch: what is asked for, what of it was not done, and the replacements of text that do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..launch import Launch


class TokenEdit(NamedTuple):
    """A change of a launch's tokens: those from `start` to before `end` become `texts`.

    With `start == end` the texts are put in before token `start`; with no texts the tokens go.
    """

    start: int
    end: int
    texts: tuple[str, ...] = ()


class ConfigEdit(NamedTuple):
    """A change of a file of --config: the setting `key` becomes `new_key: new_value`, or goes where that is None.

    `new_value` is a JSON value; `line` is that of the key within the file's text, from 1.
    """

    key: str
    line: int
    new_key: str | None = None
    new_value: object = None


class Splice(NamedTuple):
    """A replacement in a text: the characters from `start` to before `end` become `text`."""

    start: int
    end: int
    text: str = ""


class Skipped(NamedTuple):
    """An edit that was not made. `reason` is one line that ends the sentence "not changed: ..."."""

    launch: Launch
    edit: TokenEdit | ConfigEdit
    reason: str


class CannotEdit(Exception):
    """An edit cannot be written into the text; the message is the reason of Skipped."""


def check_apart(splices: list[Splice]) -> list[Splice]:
    """The replacements from the front to the back; those at one place in the order given.

    Raises:
        CannotEdit: two of them overlap.
    """
    at = 0
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end))
    for splice in ordered:
        if splice.start < at:
            raise CannotEdit("another fix changes the same text")
        at = splice.end
    return ordered


def spliced(text: str, splices: list[Splice]) -> str:
    """`text` with all replacements made.

    Raises:
        CannotEdit: two of them overlap.
    """
    parts: list[str] = []
    at = 0
    for splice in check_apart(splices):
        parts += text[at : splice.start], splice.text
        at = splice.end
    return "".join((*parts, text[at:]))
