"""Make an input that shows a disagreement as small as it can be while it still shows the same one.

Delta debugging of the plain kind: try every smaller neighbour, keep the first that still disagrees in the same way,
go on until nothing smaller disagrees. Needs nothing but a function that says how an input disagrees.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Input = dict[str, Any]
Kind = Callable[[Input], str | None]
"""How an input disagrees, in few words; None where it does not."""
Step = Callable[[Input], Input | None]
Path = tuple[Any, ...]

MOST_BITS = 12
SIMPLEST_MODEL = "llama"
# Without these an input is no record.
NEEDED = {("device",), ("model",), ("args",), ("graph",), ("args", "speculative_config", "method")}


def shrink(found: Input, kind: Kind, most_tries: int = 300) -> Input:
    """The smallest input reached within `most_tries` calls of `kind`."""
    wanted = kind(found)
    left = most_tries if wanted is not None else 0
    smaller = True
    while smaller:
        smaller = False
        for step in steps(found):
            candidate = step(found)
            if candidate is None or candidate == found:
                continue
            if left <= 0:
                return found
            left -= 1
            if kind(candidate) == wanted:
                found, smaller = candidate, True
    return found


def steps(found: Input) -> Iterator[Step]:
    """What can be made smaller: first a field or an item less, outer ones first, then a simpler value.

    A step is applied to what the steps before it left, so it answers None where its field is gone.
    """
    # Items at the end go first, so that the places of the others stay the same.
    paths = list(_paths(found))
    paths.reverse()
    paths.sort(key=len)
    for path in paths:
        if path[0] != "device" and path not in NEEDED:
            yield partial(_without, path=path)
    yield lambda now: {**now, "model": SIMPLEST_MODEL}
    yield lambda now: {**now, "usage_context": "OPENAI_API_SERVER"} if now.get("usage_context") else None
    for path in paths:
        if path[0] == "args":
            yield partial(_simpler, path=path, change=lambda value: 1)
            for bits in range(1, MOST_BITS):
                yield partial(_simpler, path=path, change=partial(_less, bits=bits))


def _less(value: int, bits: int) -> int:
    return value - max(1, value >> bits)


def _paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every field and every list item, outer ones first. A list in a list is taken whole."""
    items: Any = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        if not (isinstance(node, list) and isinstance(value, list)):
            yield from _paths(value, (*path, key))


def _without(found: Input, path: Path) -> Input | None:
    changed = copy.deepcopy(found)
    try:
        del _at(changed, path[:-1])[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return changed


def _simpler(found: Input, path: Path, change: Callable[[int], int]) -> Input | None:
    changed = copy.deepcopy(found)
    try:
        value = _at(changed, path)
    except (KeyError, IndexError, TypeError):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < change(value) < value:
        return None
    _at(changed, path[:-1])[path[-1]] = change(value)
    return changed


def _at(node: Any, path: Path) -> Any:
    for key in path:
        node = node[key]
    return node
