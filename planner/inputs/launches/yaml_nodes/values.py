"""Plain scalars by the rules of YAML 1.1, and no objects: dates and unknown tags stay text."""

from __future__ import annotations

from importlib import import_module
from typing import Any

CORE = "tag:yaml.org,2002:"
TYPED = tuple(f"{CORE}{name}" for name in ("int", "float", "bool", "null"))
"""Tags under which a scalar is read as a plain one."""
_MAX_NUMBER = 100


def resolved(text: str) -> Any:
    """A plain scalar by the rules of YAML 1.1."""
    if len(text) > _MAX_NUMBER:
        return text
    resolvers: Any = import_module("yaml").SafeLoader.yaml_implicit_resolvers
    first = text[:1]
    tag = next((tag for tag, pattern in resolvers.get(first, ()) if pattern.match(text)), "")
    maker = _MAKERS.get(tag.removeprefix(CORE))
    if maker is None:
        return text
    try:
        return maker(text)
    except ValueError:
        return text


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits[:2] in ("0b", "0x"):
        return sign * int(digits, 0)
    if ":" in digits:
        return sign * int(_sixties(digits))
    return sign * int(digits, 8 if digits.startswith("0") and digits != "0" else 10)


def _real(text: str) -> float:
    digits = text.replace("_", "").lower()
    if ":" in digits:
        sign = -1 if digits.startswith("-") else 1
        return sign * _sixties(digits.lstrip("+-"))
    return float(digits.replace(".inf", "inf").replace(".nan", "nan"))


def _sixties(digits: str) -> float:
    total = 0.0
    for part in digits.split(":"):
        total = total * 60 + float(part)
    return total


_MAKERS: dict[str, Any] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() in ("yes", "true", "on"),
    "int": _integer,
    "float": _real,
}
