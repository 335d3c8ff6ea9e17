"""As much of JSON Schema as the schemas of the tests use; an unknown keyword is an error, not a pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
SAYS_NOTHING = {
    "$schema", "$id", "$defs", "definitions", "title", "description", "default", "format", "discriminator", "id",
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, at: str = "") -> list[str]:
    """What is wrong with `value`, each with its place; [] where it fits."""
    return list(_faults(value, schema, root if root is not None else schema, at))


def _faults(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    for keyword, wanted in schema.items():
        if keyword in SAYS_NOTHING:
            continue
        if keyword == "$ref":
            target = root
            for part in wanted.removeprefix("#/").split("/"):
                target = target[part]
            yield from _faults(value, target, root, at)
        elif keyword in ("anyOf", "oneOf"):
            count = sum(not faults(value, one, root) for one in wanted)
            if count == 0 or (keyword == "oneOf" and count > 1):
                yield f"{at}: {keyword} has {count} that fit"
        elif keyword == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            if not any(isinstance(value, TYPES[kind]) and not _false_int(value, kind) for kind in kinds):
                yield f"{at}: no {wanted}: {value!r}"
        elif keyword == "enum":
            if value not in wanted:
                yield f"{at}: {value!r} is none of {wanted}"
        elif keyword == "const":
            if value != wanted:
                yield f"{at}: {value!r} is not {wanted!r}"
        else:
            yield from _of_kind(keyword, wanted, value, schema, root, at)


def _false_int(value: Any, kind: str) -> bool:
    return isinstance(value, bool) and kind in ("integer", "number")


def _of_kind(
    keyword: str, wanted: Any, value: Any, schema: dict[str, Any], root: dict[str, Any], at: str
) -> Iterator[str]:
    if keyword == "properties":
        for name, one in wanted.items():
            if isinstance(value, dict) and name in value:
                yield from _faults(value[name], one, root, f"{at}/{name}")
    elif keyword == "additionalProperties":
        others = value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ()
        for name in others:
            if wanted is False:
                yield f"{at}: {name} is unknown"
            elif isinstance(wanted, dict):
                yield from _faults(value[name], wanted, root, f"{at}/{name}")
    elif keyword == "required":
        yield from (f"{at}: no {name}" for name in wanted if isinstance(value, dict) and name not in value)
    elif keyword == "items":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _faults(item, wanted, root, f"{at}/{index}")
    elif keyword in ("minItems", "uniqueItems"):
        if isinstance(value, list) and (
            len(value) < wanted if keyword == "minItems" else wanted and any(value.count(one) > 1 for one in value)
        ):
            yield f"{at}: {keyword}"
    elif keyword in ("minimum", "maximum"):
        if isinstance(value, (int, float)) and (value < wanted if keyword == "minimum" else value > wanted):
            yield f"{at}: {value} beyond {wanted}"
    elif keyword == "pattern":
        if isinstance(value, str) and re.search(wanted, value) is None:
            yield f"{at}: {value!r} does not match {wanted}"
    else:
        raise NotImplementedError(keyword)
