"""Options of releases before the oldest known one, on a line that is planned by a later release's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cgplan.errors import shorten
from cgplan.inputs.serve_args_history import BEFORE_ALL

from .pasted import Pasted

_SWITCHES = (
    "--use-v2-block-manager",
    "--disable-async-output-proc",
    "--enable-prompt-adapter",
    "--guided-decoding-disable-fallback",
)
"""Those among them that take no value."""


class Older(NamedTuple):
    """A line without the options that nothing took the place of, and what is to be said of them."""

    line: Pasted
    notes: tuple[str, ...] = ()


def without_older(line: Pasted, wanted: str | None, by_rules_of: str | None) -> Older:
    """Pass over what `wanted`, an old release, had and the release of --assume-release has not.

    Options that something took the place of stay, and are refused with its name.
    """
    if line.words is None or wanted is None or by_rules_of is None:
        return Older(line)
    kept, left_out = _parted(line.words)
    notes = tuple(
        f"{shorten(text, 60)} of the line is passed over: {shorten(wanted, 30)} may have it, and"
        f" {shorten(by_rules_of, 30)} has nothing in its place. It is no part of the GPU's memory here."
        for text in left_out
    )
    return Older(Pasted(tuple(kept)), notes)


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    kept: list[str] = []
    left_out: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        option, _, value = word.partition("=")
        at += 1
        if BEFORE_ALL.get(option.replace("_", "-")) != "":
            kept.append(word)
            continue
        takes = not value and option.replace("_", "-") not in _SWITCHES
        if takes and at < len(words) and not words[at].startswith("-"):
            word = f"{word} {words[at]}"
            at += 1
        left_out.append(word)
    return kept, left_out
