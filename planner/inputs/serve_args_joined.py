"""An option and its value in one token, "--max-num-seqs 100": what a shell would have made two of.

In lists of arguments every item is a token. vLLM takes such a one for a value, most often for the model's name.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from ..errors import shorten
from .serve_args_errors import ArgumentRefused
from .serve_args_flags import Flag, FlagTable
from .serve_args_tokens import Place

MAX_JOINED = 4096
"""Longest token that is looked at, characters."""
_LONG = re.compile(r"--[A-Za-z][\w.-]*")
_JSON = ("config_json", "json", "json_object_or_str")
_ONE_WORD = ("int", "float", "human_int", "human_int_or_auto", "choice")


class Joined(NamedTuple):
    """A token that holds an option and more.

    Attributes:
        option: as written.
        texts: the tokens that were meant.
    """

    option: str
    texts: tuple[str, ...]


def split_joined(text: str, table: FlagTable) -> Joined | None:
    """The tokens that one token was meant as, where it holds an option and, behind a blank, its value or more options;
    else None.
    """
    if len(text) > MAX_JOINED or not text.lstrip().startswith("-") or not re.search(r"\s", text):
        return None
    head, *rest = text.strip().split(None, 1)
    option, equals, _ = head.partition("=")
    flag = _flag(option, table)
    if flag is None and not (_LONG.fullmatch(option) and rest and not equals):
        return None
    if equals:
        return _more_options(option, flag, text, table)
    if not rest:
        return Joined(option, (head,))
    if flag is not None and not flag.takes_value and "." not in option:
        words = _words(rest[0])
        return Joined(option, (head, *words)) if words and _flag(words[0], table) is not None else None
    return Joined(option, (head, *_values(rest[0], flag, table)))


DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
"""What web pages and word processors make of one or two dashes."""


def with_plain_dashes(text: str, table: FlagTable) -> str | None:
    """The option that a token which begins with a typographic dash was meant as; None: it was not."""
    if not text or text[0] not in DASHES:
        return None
    bare = text.lstrip(f"{DASHES}-")
    known = next((one for one in (f"--{bare}", f"-{bare}") if _flag(one, table) is not None), None)
    return known or (f"--{bare}" if re.match(r"[a-z][a-z-]{2}", bare) else None)


def dash_refusal(text: str, plain: str, place: Place) -> ArgumentRefused:
    """How vLLM's command line meets such a token."""
    return ArgumentRefused(
        f"{shorten(text, 60)!r} begins with a typographic dash (U+{ord(text[0]):04X}), which is no option to vLLM",
        "long_dash",
        place=place,
        fix=f"write {shorten(plain, 60)}",
    )


def refusal(joined: Joined, place: Place) -> ArgumentRefused:
    """How vLLM's command line meets such a token."""
    values = joined.texts[1:]
    if not values:
        message, fix = f"{shorten(joined.option, 60)} has a blank beside it in one word", f"write {joined.option}"
    else:
        message = f"{shorten(joined.option, 60)} and what stands behind it are one word, which is no option to vLLM"
        fix = f"make two words of it: {shorten(shlex.join(joined.texts[:1]), 60)} and the value"
        if len(values) > 1:
            fix = f"make {len(joined.texts)} words of it, one for each option and each value"
    return ArgumentRefused(message, "joined", option=joined.option, place=place, fix=fix)


def _flag(word: str, table: FlagTable) -> Flag | None:
    option = word.partition("=")[0].partition(".")[0]
    return table.by_option.get(option.replace("_", "-") if option.startswith("--") else option)


def _more_options(option: str, flag: Flag | None, text: str, table: FlagTable) -> Joined | None:
    """`--model=NAME --port 80`. A text may hold what looks like an option; of others vLLM takes none of it."""
    if flag is None or (flag.dest != "model" and flag.kind not in _ONE_WORD):
        return None
    words = _words(text)
    if len(words) > 1 and any(_flag(word, table) is not None for word in words[1:]):
        return Joined(option, tuple(words))
    return None


def _values(rest: str, flag: Flag | None, table: FlagTable) -> tuple[str, ...]:
    words = _words(rest)
    if len(words) == 1:
        return (words[0],)
    if flag is not None and flag.kind in _JSON and rest[:1] in ("{", "["):
        return (rest,)
    several = flag is not None and flag.nargs in ("+", "*")
    if words and (several or any(_flag(word, table) is not None for word in words[1:])):
        return tuple(words)
    return (rest,)


def _words(text: str) -> list[str]:
    if text[:1] in ("{", "["):
        return []
    try:
        return shlex.split(text)
    except ValueError:
        return []
