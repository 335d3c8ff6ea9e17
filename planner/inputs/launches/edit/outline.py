"""Whether two texts of YAML say the same outside of what was replaced in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import zip_longest
from typing import Any

from ..launch import Launch
from .kinds import Splice

BOM = "\ufeff"
YAML_KINDS = ("kubernetes", "helm", "compose", "recipe", "task")


def same_elsewhere(old: str, new: str, splices: Sequence[Splice], launches: Sequence[Launch]) -> bool:
    """Whether `new`, which is `old` with `splices`, has the same structure and the same scalars outside of them.

    Texts that are not read as YAML are not looked at.
    """
    if not any(launch.kind in YAML_KINDS for launch in launches):
        return True
    ordered = sorted(splices)
    before = [(splice.start, splice.end) for splice in ordered]
    after = []
    moved = 0
    for splice in ordered:
        after.append((splice.start + moved, splice.start + moved + len(splice.text)))
        moved += len(splice.text) - (splice.end - splice.start)
    pairs = zip_longest(_outline(old, before), _outline(new, after))
    return all(one == other for one, other in pairs)


def _outline(text: str, changed: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, ...]]:
    """The events of the text; of scalars that a changed stretch touches the anchor alone. The last says: no YAML."""
    yaml = import_module("yaml")
    if text.startswith(BOM):  # the C parser does not count it
        text, changed = text[1:], [(start - 1, end - 1) for start, end in changed]
    stretches = iter(changed)
    stretch = next(stretches, None)
    try:
        for event in _events(text):
            while stretch is not None and stretch[1] < event.start_mark.index:
                stretch = next(stretches, None)
            scalar = isinstance(event, yaml.ScalarEvent)
            if scalar and stretch is not None and stretch[0] <= event.end_mark.index:
                if event.anchor:
                    yield "anchor", event.anchor
                continue
            yield (
                type(event).__name__, getattr(event, "anchor", None), getattr(event, "tag", None),
                getattr(event, "value", None) if scalar else None,
            )  # fmt: skip
    except (yaml.YAMLError, RecursionError):
        yield ("no YAML",)


def _events(text: str) -> Iterator[Any]:
    yaml = import_module("yaml")
    return iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
