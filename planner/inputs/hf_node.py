"""One level of a config.json as the configuration class of its model_type would show it.

A key that is absent has the default of the class (releases/config_defaults.toml), and a key may have a second
spelling. Every read checks its type, because config.json comes from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ..errors import InputError, shorten
from ..model_shape import MOST_LAYERS
from ..releases import table

MAX_INT = 2**31 - 1
"""vLLM keeps sizes and positions in 32-bit tensors."""

# configuration_utils.py:94-99 of Transformers 5.20.
_RENAMED_LAYER_TYPES = {
    "mamba": "linear_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}


def words(text: str) -> frozenset[str]:
    """The blank-separated names of `text`."""
    return frozenset(text.split())


@cache
def class_defaults(model_type: str) -> Mapping[str, Any]:
    """What the configuration class of `model_type` fills in; empty for an unknown one."""
    text = table("config_defaults").get(model_type)
    defaults: dict[str, Any] = json.loads(text) if text is not None else {}
    return defaults


def bad_value(where: str, message: str, fix: str = "give the value of the published config.json") -> InputError:
    return InputError(f"{where}: {message}", code="CG912", where=where, fix=fix)


class ConfigNode:
    """A JSON object with the defaults of its configuration class.

    Attributes:
        raw: the object itself.
        model_type: of the object, or of the class that its parent gives it.
        where: how to name it in an error.
    """

    def __init__(self, raw: Mapping[str, Any], defaults: Mapping[str, Any], model_type: str, where: str) -> None:
        self.raw = raw
        self.model_type = model_type
        self.where = where
        self.defaults = defaults
        self._aliases: Mapping[str, str] = defaults.get("@map", {})

    def get(self, key: str) -> Any:
        """The value of `key` or None; like getattr with a default of None."""
        name = self._aliases.get(key, key)
        # The class sets its own fields first and other spellings after them, so another spelling wins.
        for alias, target in self._aliases.items():
            if target == name and alias in self.raw and alias != name:
                return self.raw[alias]
        if name in self.raw:
            value = self.raw[name]
            # A null leaves it to the class, which fills in what it can.
            if value is not None:
                return value
            return self._default(name) if isinstance(self.defaults.get(name), str) else None
        return self._default(name)

    def has(self, key: str) -> bool:
        """Whether the configuration class has the attribute, even as None."""
        name = self._aliases.get(key, key)
        return (
            name in self.raw
            or name in self.defaults
            or any(target == name and alias in self.raw for alias, target in self._aliases.items())
        )

    def _default(self, name: str) -> Any:
        value = self.defaults.get(name)
        if isinstance(value, str) and value.startswith("="):
            return self.get(value[1:])
        return value

    def at(self, key: str) -> str:
        return f"{self.where}{key}"

    def integer(self, key: str, *, low: int = 0) -> int | None:
        """The whole number of `key`, at least `low`, or None."""
        return checked_int(self.get(key), self.at(key), low=low, high=_most(key))

    def first_integer(self, keys: Iterable[str]) -> int | None:
        """The whole number of the first of `keys` that the class has, as vllm/config/utils.py:132-158 looks."""
        for key in keys:
            if self.has(key):
                value = self.get(key)
                if isinstance(value, list):
                    value = value[0] if value else None
                return checked_int(value, self.at(key), high=_most(key))
        return None

    def flag(self, key: str) -> bool | None:
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise bad_value(self.at(key), f"true or false expected, got {shorten(value, 40)}")

    def text(self, key: str) -> str | None:
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise bad_value(self.at(key), f"text expected, got {shorten(value, 40)}")

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        value = self.get(key)
        if value is None or isinstance(value, dict):
            return value
        raise bad_value(self.at(key), f"an object expected, got {shorten(value, 40)}")

    def names(self, key: str) -> list[str] | None:
        """The list of texts of `key`, or None."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise bad_value(self.at(key), f"a list of texts expected, got {shorten(value, 40)}")

    def layer_types(self) -> list[str] | None:
        """`layer_types` as given, in today's names, or None."""
        given = self.names("layer_types")
        return None if given is None else [_RENAMED_LAYER_TYPES.get(name, name) for name in given]


def _most(key: str) -> int:
    """A layer has its own entry in every table, so that a count of them is not any number."""
    return MOST_LAYERS if "layers" in key else MAX_INT


def checked_int(value: Any, where: str, *, low: int = 0, high: int = MAX_INT) -> int | None:
    """`value` as a whole number in [low, high]; a float without fraction counts.

    Raises:
        InputError: CG912 no such number.
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_value(where, f"a whole number expected, got {shorten(value, 40)}")
    if not low <= value <= high:
        shown = str(value) if abs(value) < 10**20 else "a number of over 20 digits"
        raise bad_value(where, f"a number from {low} to {high} expected, got {shown}")
    return value
