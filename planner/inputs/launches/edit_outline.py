"""Whether two texts of YAML say the same outside of what was replaced in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from .edit_kinds import Splice
from .launch import Launch

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
    return _outline(old, before) == _outline(new, after)


def _outline(text: str, changed: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]] | None:
    """The events of the text; of scalars that a changed stretch touches the anchor alone. None: it is no YAML."""
    yaml = import_module("yaml")
    if text.startswith(BOM):  # the C parser does not count it
        text, changed = text[1:], [(start - 1, end - 1) for start, end in changed]
    found: list[tuple[Any, ...]] = []
    stretches = iter(changed)
    stretch = next(stretches, None)
    try:
        for event in _events(text):
            while stretch is not None and stretch[1] < event.start_mark.index:
                stretch = next(stretches, None)
            scalar = isinstance(event, yaml.ScalarEvent)
            if scalar and stretch is not None and stretch[0] <= event.end_mark.index:
                if event.anchor:
                    found.append(("anchor", event.anchor))
                continue
            found.append((
                type(event).__name__, getattr(event, "anchor", None), getattr(event, "tag", None),
                getattr(event, "value", None) if scalar else None,
            ))  # fmt: skip
    except (yaml.YAMLError, RecursionError):
        return None
    return found


def _events(text: str) -> Iterator[Any]:
    yaml = import_module("yaml")
    return iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
