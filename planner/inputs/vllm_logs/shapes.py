"""The form of a line that carries values: what it says word for word, and its fields with their units."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

GIB = 2**30
MIB = 2**20

Value = int | float | str

_GIB = r"-?[0-9]{1,7}(?:\.[0-9]{1,2})?"
_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18}"

UNITS: dict[str, tuple[str, Callable[[str], Value]]] = {
    # Rounded by vLLM to two decimals, so within 0.005 GiB of the truth.
    "gib": (_GIB, lambda text: round(float(text) * GIB)),
    # As releases before 0.13 print the weights.
    "exactgib": (r"[0-9]{1,7}\.[0-9]{3,4}", lambda text: round(float(text) * GIB)),
    "mib": (r"-?[0-9]{1,9}\.[0-9]{2}", lambda text: round(float(text) * MIB)),
    "bytes": (r"-?[0-9]{1,18}", int),
    "count": (_COUNT, lambda text: int(text.replace(",", ""))),
    "seconds": (r"[0-9]{1,9}(?:\.[0-9]{1,6})?", float),
    "ratio": (r"-?[0-9]{1,12}(?:\.[0-9]{1,18})?", float),
    "percent": (r"-?[0-9]{1,30}\.[0-9]{1,2}", float),
    "word": (r"[\w.+:/-]{1,200}", str),
    "text": (r"\S(?:.{0,65535}\S)?", str),
}
"""Of each unit: the digits as vLLM prints them, in no other locale, and the number they are."""

_FIELD = re.compile(r"\{(?P<name>[a-z_0-9]+):(?P<unit>[a-z]+)\}")


@dataclass(frozen=True)
class Shape:
    """A line that vLLM prints.

    Attributes:
        id: name of the shape; L and a number where the reference on memory lists it.
        form: the message, fields as {name:unit}; a part in [[ ]] may be missing.
        since, until: releases that print it so; "" for until: still in 0.33.0. Since: of those that cgplan knows, but
            for lines that only older ones print.
    """

    id: str
    form: str
    since: str = "0.19.1"
    until: str = ""
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    units: dict[str, Callable[[str], Value]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", {m["name"]: UNITS[m["unit"]][1] for m in _FIELD.finditer(self.form)})
        object.__setattr__(self, "pattern", re.compile(_pattern(self.form)))

    def read(self, message: str) -> dict[str, Value] | None:
        """The values of a message that has this form from its first to its last character; else None."""
        match = self.pattern.fullmatch(message)
        if match is None:
            return None
        return {name: self.units[name](text) for name, text in match.groupdict().items() if text is not None}


def _pattern(form: str) -> str:
    parts, at = [], 0
    for match in _FIELD.finditer(form):
        parts.append(_literal(form[at : match.start()]))
        parts.append(f"(?P<{match['name']}>{UNITS[match['unit']][0]})")
        at = match.end()
    parts.append(_literal(form[at:]))
    return "".join(parts)


def _literal(text: str) -> str:
    return re.escape(text).replace(r"\[\[", "(?:").replace(r"\]\]", ")?")


@dataclass(frozen=True)
class Read:
    """A line that was understood."""

    shape: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Unfit:
    """A line with words that vLLM puts before values, in a form that is not known."""

    shape: str
