"""JSON options that vLLM validates against a config class: what the class accepts, and what it makes of it.

pydantic-core validates, as in vLLM, by a schema out of the data; the functions that the schema names are in
serve_args_config_rules. Only what was given is kept: a default is not filled in.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from functools import cache
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, ValidationError

from ..errors import shorten
from ..releases import holds
from .serve_args_config_context import Context, Rule
from .serve_args_config_rules import AFTER, BEFORE, PLAIN
from .serve_args_flags import config_class, flag_table
from .serve_args_numbers import expand_in_json

HUMAN_JSON_SINCE = "0.20.2"
"""First release that reads 1k in the JSON of a config class."""


class ConfigInvalid(ValueError):
    """The class refuses; `path` is the dotted key concerned, "" for the whole, and `known` the keys there."""

    def __init__(self, message: str, path: str, unknown_key: bool) -> None:
        super().__init__(message)
        self.path = path
        self.unknown_key = unknown_key


def read_config_json(release: str, name: str, text: str) -> dict[str, Any]:
    """The settings in `text` as class `name` leaves them; enums are their names, or texts where they are texts.

    Raises:
        ConfigInvalid: the class refuses.
        ValueError: a number with a unit cannot be read.
        Exception: KeyError, IndexError and the like, where vLLM lets one through.
    """
    if holds(release, HUMAN_JSON_SINCE):
        text = expand_in_json(text)
    try:
        found = _validator(release, name).validate_json(text)
    except ValidationError as error:
        raise _explain(error) from None
    plain: dict[str, Any] = _plain(found)
    return plain


def defaults(release: str, name: str) -> dict[str, dict[str, Any]]:
    """By class, `name` and those inside it: the default of each field."""
    return config_class(release, name).defaults


def _explain(error: ValidationError) -> ConfigInvalid:
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    unknown = first["type"] == "extra_forbidden"
    message = "unknown key" if unknown else shorten(first["msg"][:1].lower() + first["msg"][1:], 160)
    message = message.removeprefix("value error, ")
    if first["type"] == "dict_type":
        message = "not a JSON object"
    return ConfigInvalid(message, path, unknown)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return sorted(value) if isinstance(value, (set, frozenset)) else value


@cache
def _validator(release: str, name: str) -> SchemaValidator:
    builder = _Builder(Context(release, flag_table(release).words, config_class(release, name).defaults))
    try:
        return SchemaValidator(builder.build(config_class(release, name).schema))
    except SchemaError as error:  # the data and pydantic-core do not fit
        raise RuntimeError(f"schema of {name} at {release}: {error}") from error


class _Builder:
    """Makes a core schema of the data: classes, enums and functions by name become real ones."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.field = ""

    def build(self, schema: dict[str, Any]) -> Any:
        kind = schema["type"]
        if kind == "class":
            return self._class(schema)
        if kind == "enum":
            return _enum(schema, self.context)
        if kind.startswith("function-"):
            return self._function(schema)
        built = dict(schema)
        for part in ("schema", "items_schema", "keys_schema", "values_schema"):
            if part in schema:
                built[part] = self.build(schema[part])
        if "choices" in schema:
            built["choices"] = [self.build(choice) for choice in schema["choices"]]
        return built

    def _class(self, schema: dict[str, Any]) -> Any:
        fields = {}
        for name, field in schema["fields"].items():
            self.field = name
            fields[name] = {"type": "typed-dict-field", "schema": self.build(field), "required": False}
        built: Any = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        after = AFTER.get(schema["cls"])
        if after is None:
            return built
        return {"type": "function-after", "function": self._bound(after, ""), "schema": built}

    def _function(self, schema: dict[str, Any]) -> Any:
        kind, name, field = schema["type"], schema["function"].rpartition(".")[2], self.field
        if kind == "function-plain":
            return {"type": kind, "function": self._bound(PLAIN[name], field)}
        inner = self.build(schema["schema"])
        if kind == "function-wrap":
            return {"type": "nullable", "schema": inner}  # all of them let None pass
        before = BEFORE.get(name)
        if kind == "function-before" and before is not None:
            return {"type": kind, "function": self._bound(before, field), "schema": inner}
        return inner  # validators behind the fields are in AFTER, by class

    def _bound(self, function: Rule, field: str) -> dict[str, Any]:
        context = self.context
        return {"type": "no-info", "function": lambda value: function(value, context, field)}


class _TextEnum(str, Enum):
    """Base of enums whose members are texts."""


def _enum(schema: dict[str, Any], context: Context) -> Any:
    if schema["cls"] in context.enums:
        cls: Any = context.enums[schema["cls"]]
        return _enum_schema(cls, schema)
    members = [(name, tuple(value) if isinstance(value, list) else value) for name, value in schema["members"]]
    base = {"int": IntEnum, "str": _TextEnum}.get(schema.get("sub_type") or "", Enum)
    cls = base(schema["cls"], members)
    context.enums[schema["cls"]] = cls
    return _enum_schema(cls, schema)


def _enum_schema(cls: Any, schema: dict[str, Any]) -> Any:
    built = {"type": "enum", "cls": cls, "members": list(cls)}
    if schema.get("sub_type"):
        built["sub_type"] = schema["sub_type"]
    return built
