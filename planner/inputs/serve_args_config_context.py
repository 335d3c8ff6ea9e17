"""What the rules of vLLM's config classes may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]


@dataclass
class Context:
    """The surroundings of a rule.

    Attributes:
        release: of vLLM.
        words: names that validators look up, by topic.
        defaults: by class, the default of each field.
        enums: by name, the enums of the class's fields.
    """

    release: str
    words: Mapping[str, list[str]]
    defaults: Mapping[str, Mapping[str, Any]]
    enums: dict[str, Any] = field(default_factory=dict)


Rule = Callable[[Any, Context, str], Any]
"""Takes a value, the surroundings and the name of the field; gives the value that takes its place."""


def getter(values: Values, context: Context, cls: str) -> Callable[[str], Any]:
    """Reads a field of class `cls`: what was given, else the class's default, else None."""
    own = context.defaults[cls]
    return lambda name: values[name] if name in values else own.get(name)
