"""Small changes of JSON-like values: what a slip, another program or an evil mind makes of a document."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from .texts import PIECES

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 255, 4096, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63, 10**30, -(10**30), 0.0,
    -0.0,
    0.5, 1.0, 1.5, 1e-300, 1e308, float("inf"), float("-inf"), float("nan"), "", " ", "0", "1", "-1", "true", "None",
    "auto", "8k", "1e9", "\0", "\ud800", "é", "\x1b[2J", "a\nb", "9" * 5000, "x" * 20_000, "../../etc/passwd", "FULL",
    "PIECEWISE", "bfloat16", "fp8", [], {}, [[]], [None], [0], [1, 2, 4], [1, "a", None], {"": None}, {"a": {"b": []}},
    [[1, 2], [3]], ["x"] * 300, list(range(2000)),
)  # fmt: skip
"""What a value is put in place of."""
MOST_NODES = 4000


def changed(dice: random.Random, document: Any, words: Sequence[str] = ()) -> Any:
    """A copy after one to six changes; `words` are names and texts that fit the document."""
    try:
        found = copy.deepcopy(document)
    except RecursionError:
        return document
    for _ in range(min(6, 1 + int(dice.expovariate(0.7)))):
        places = list(_places(found))
        if not places:
            return odd(dice, words)
        holder, key = dice.choice(places)
        dice.choice(CHANGES)(dice, holder, key, words)
    return found


def odd(dice: random.Random, words: Sequence[str] = ()) -> Any:
    """A value that is seldom right."""
    if words and dice.random() < 0.3:
        return dice.choice(words)
    if dice.random() < 0.15:
        return dice.randint(-5, 2 ** dice.choice((3, 8, 16, 40)))
    if dice.random() < 0.05:
        return deep(dice.choice((20, 150)))
    return copy.deepcopy(dice.choice(ODD))


def deep(levels: int) -> Any:
    """A list in a list and so on."""
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def as_text(document: Any) -> str:
    """As JSON, with whatever Python writes beside it."""
    try:
        return json.dumps(document)
    except (RecursionError, ValueError):
        return "[" * 2000


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every holder and key, nearest to the root first."""
    found: list[tuple[Any, Any]] = []
    left = [node]
    while left and len(found) < MOST_NODES:
        one = left.pop(0)
        keys: Any = one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            left.append(one[key])
    return found


def _replace(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    holder[key] = odd(dice, words)


def _near(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    """A value of the same type, not far off."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        holder[key] = dice.choice((value - 1, value + 1, value * 2, value // 2, -value, value * 10**9, float(value)))
    elif isinstance(value, float):
        holder[key] = dice.choice((-value, value * 1e9, value / 1e9, value + 1))
    elif isinstance(value, str):
        at = dice.randrange(len(value) + 1)
        holder[key] = value[:at] + dice.choice((*PIECES, "")) + value[at + dice.choice((0, 1)) :]
    elif isinstance(value, list):
        holder[key] = dice.choice((value * 2, value[:-1], [*value, *value[:1]], value[::-1], value * 50))
    elif isinstance(value, dict):
        holder[key] = [value]
    else:
        holder[key] = odd(dice, words)


def _retype(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    value = holder[key]
    holder[key] = dice.choice((str(value), [value], {"a": value}, {str(key): value}, None))


def _drop(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    del holder[key]


def _add(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    if isinstance(holder, dict):
        holder[dice.choice((*words, *PIECES[:40], str(key) + "s"))] = odd(dice, words)
    else:
        holder.insert(dice.randrange(len(holder) + 1), odd(dice, words))


def _rename(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    if isinstance(holder, dict):
        text = str(key)
        names = (text.upper(), text[:-1], text + "_", text.replace("_", "-"), *words[:50], "")
        holder[dice.choice(names)] = holder.pop(key)


def _move(dice: random.Random, holder: Any, key: Any, words: Sequence[str]) -> None:
    """Two values change places."""
    other = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


Change = Callable[[random.Random, Any, Any, Sequence[str]], None]
CHANGES: tuple[Change, ...] = (_replace, _replace, _replace, _near, _near, _near, _retype, _drop, _add, _rename, _move)
