"""The base of input models: a wrong value is one InputError with its place, as any other wrong input is."""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import InputError, shorten


class StrictModel(BaseModel):
    """Frozen, strict, no unknown field.

    Raises:
        InputError: CG903, a value has the wrong type or range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise explained(error) from None

    # pydantic marks its own __init__ so. A model inside another is then made without coming by here, and an error has
    # the whole path of the value.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def explained(error: ValidationError) -> InputError:
    """One readable line of pydantic's first complaint; the number of further ones is said."""
    complaints = error.errors(include_url=False)
    first = complaints[0]
    where = _place(first["loc"])
    others = len({_place(complaint["loc"]) for complaint in complaints}) - 1
    more = f" (and {others} more)" if others else ""
    given = first.get("input")
    text = repr(given) if isinstance(given, str) and not given.strip() else shorten(given, 60)
    shown = f", got {text}" if first["type"] != "missing" else ""
    message = _KIND.get(first["type"]) or first["msg"][0].lower() + first["msg"][1:]
    return InputError(
        f"{where}: {message}{shown}{more}",
        code="CG903",
        where=where,
        fix=_RANGE_FIX.get(first["type"], "give a value of the type that vLLM's flag takes"),
    )


def _place(parts: tuple[int | str, ...]) -> str:
    """The path of a field, without pydantic's names for the types of a union."""
    return shorten(".".join(str(part) for part in parts if not _UNION.fullmatch(str(part))) or "input", 120)


_KIND = {
    "tuple_type": "input should be a list",
    "dict_type": "input should be a JSON object",
    "model_type": "input should be a JSON object",
}
"""Python's words for a kind of value, in JSON's."""

_UNION = re.compile(r"constrained-\w+|str|int|float|bool|(function-\w+|tuple|list|dict)\[.*\]")

_RANGE_FIX = {
    "greater_than_equal": "give a larger number",
    "greater_than": "give a larger number",
    "less_than_equal": "give a smaller number",
    "less_than": "give a smaller number",
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "bool_type": "give true or false",
    "string_type": "give text",
    "literal_error": "give one of the values named",
    "json_invalid": "give a valid JSON document",
}
