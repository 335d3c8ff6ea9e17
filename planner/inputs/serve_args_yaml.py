"""The YAML file of `vllm serve --config FILE`, as the tokens that vLLM makes of it.

PyYAML reads it, as in vLLM; it is imported only when there is such a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import InputError, shorten
from ..releases import holds
from .safe_json import shown
from .serve_args_errors import ArgumentRefused
from .serve_args_flags import FlagTable
from .serve_args_tokens import Note, Place, Token

MAX_CHARS = 64 * 1024
"""Longest file that is read. The reader manages some 100 kB a second; files of settings are a few kB."""
_MERGE = "tag:yaml.org,2002:merge"
MAX_NODES = 100_000
"""Most values in a file once its aliases are written out."""
FALSE_SINCE = "0.28.0"
"""First release in which `x: false` gives --no-x. It looks for that among the options of the outermost parser, so that
`vllm serve`, whose options are those of a parser inside, still passes it over; the module form does not."""


class ConfigFile:
    """Reads the file of --config; `notes` says what is lost in it."""

    def __init__(self, table: FlagTable, style: str, contents: Mapping[str, str] | None) -> None:
        self.table = table
        self.style = style
        self.contents = contents
        self.notes: list[Note] = []

    def tokens(self, name: Token) -> list[Token]:
        """The tokens that vLLM puts in the place of --config FILE.

        Raises:
            ArgumentRefused: vLLM cannot read it.
            InputError: it is too large or too deep to be read here.
        """
        suffix = name.text.rpartition(".")[2]
        if suffix not in ("yaml", "yml"):
            raise ArgumentRefused(
                f"--config {shown(name.text)}: vLLM reads .yaml and .yml files",
                "config_file",
                raised_as="ValueError",
                place=name.place,
                fix="give the file a name that ends in .yaml",
            )
        text = self._text(name)
        document, lines = _parse(text, name)
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise _broken(f"its content is no mapping of settings ({kind})", "AttributeError", name)
        return [token for key, value in document.items() for token in self._setting(key, value, lines, name)]

    def _text(self, name: Token) -> str:
        if self.contents is not None:
            text = self.contents.get(name.text)
            if text is None:
                raise _missing(name, "FileNotFoundError", "no such file")
        else:
            text = _read(name)
        if len(text) > MAX_CHARS:
            raise InputError(
                f"{shown(name.text)} is longer than {MAX_CHARS // 1024} KiB",
                code="CG914",
                where=shown(name.text),
                fix="give the file of settings alone; it has a few kB",
            )
        return text

    def _setting(self, key: Any, value: Any, lines: Mapping[Any, int], name: Token) -> list[Token]:
        place = Place(-1, lines.get(key, 0))
        if not isinstance(key, str):
            if value is False or value == []:
                return []  # never joined to the dashes
            raise _broken(f"the key {shorten(str(key), 40)!r} is no text; quote it", "TypeError", name, place)
        flag = Token(f"--{key}", place)
        if isinstance(value, bool):
            return [flag] if value else self._switched_off(key, place)
        if isinstance(value, list):
            return [flag, *(Token(_as_text(item, key, name, place), place) for item in value)] if value else []
        if isinstance(value, dict):
            return [flag, Token(_as_json(value, key, name, place), place)]
        return [flag, Token(_as_text(value, key, name, place), place)]

    def _switched_off(self, key: str, place: Place) -> list[Token]:
        off = f"--no-{key}"
        if self.style == "module" and holds(self.table.release, FALSE_SINCE) and off in self.table.by_option:
            return [Token(off, place)]
        dashed = off.replace("_", "-")
        instead = f"write `{dashed[2:]}: true`" if dashed in self.table.by_option else "leave it out"
        self.notes.append(
            Note("yaml_false", f"`{shorten(key, 60)}: false` is passed over; {instead}", f"--{key}", place)
        )
        return []


def _read(name: Token) -> str:
    path = Path(name.text)
    try:
        if not path.is_file():
            raise _missing(name, "IsADirectoryError" if path.is_dir() else "FileNotFoundError", "no such file")
        with path.open("rb") as file:
            return file.read(4 * MAX_CHARS + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise _broken("it is not UTF-8 text", "UnicodeDecodeError", name) from None
    except PermissionError:
        raise _missing(name, "PermissionError", "permission denied") from None
    except (OSError, ValueError):
        raise _missing(name, "FileNotFoundError", "no such file") from None


def _parse(text: str, name: Token) -> tuple[Any, dict[Any, int]]:
    """The document, and the line of each of its keys."""
    yaml = _yaml()
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        if merged_size(node) > MAX_NODES:
            raise _too_deep(name)
        document = loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Place(-1, mark.line + 1) if mark is not None else None
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML"
        raise _broken(f"not YAML: {problem}", type(error).__name__, name, place) from None
    except RecursionError:
        raise _too_deep(name) from None
    except (ValueError, TypeError, OverflowError) as error:  # a date or a number that Python cannot hold
        raise _broken(f"a value cannot be read: {error}", type(error).__name__, name) from None
    _check_size(document, name)
    return document, _lines(node)


def merged_size(node: Any) -> int:
    """Keys of the largest mapping in a PyYAML node once `<<` has put in what it names; it may double at each level."""
    sizes: dict[int, int] = {}

    def size(one: Any) -> int:
        if not isinstance(one.value, list):
            return 1
        if id(one) not in sizes:
            sizes[id(one)] = 0  # of a node within itself
            if one.id == "sequence":
                sizes[id(one)] = sum(map(size, one.value))
            else:
                inner = [(key, size(value), size(key)) for key, value in one.value]
                sizes[id(one)] = sum(of_value if key.tag == _MERGE else 1 for key, of_value, _ in inner)
        return sizes[id(one)]

    size(node)
    return max(sizes.values(), default=1)


def _yaml() -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        raise InputError(
            "--config needs PyYAML, which is not installed", code="CG910", where="--config", fix="pip install pyyaml"
        ) from None


def _lines(node: Any) -> dict[Any, int]:
    if not isinstance(node.value, list) or node.id != "mapping":
        return {}
    return {key.value: key.start_mark.line + 1 for key, _ in node.value if isinstance(key.value, str)}


def _check_size(document: Any, name: Token) -> None:
    """Refuse a document that a few aliases blow up: it would be written out as JSON."""
    left = MAX_NODES
    level = [document]
    for _ in range(200):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, (list, set, tuple)):
                inner += value
            left -= 1
            if left < 0 or len(inner) > left:
                raise _too_deep(name)
        if not inner:
            return
        level = inner
    # Deeper than any setting, or a value that holds itself: vLLM fails over the latter as well.


def _too_deep(name: Token) -> InputError:
    return InputError(
        f"{shown(name.text)} is nested too deeply, or its aliases make it too large",
        code="CG914",
        where=shown(name.text),
        fix="write the settings out",
    )


def _as_text(value: Any, key: str, name: Token, place: Place) -> str:
    try:
        return str(value)
    except ValueError as error:  # a number of thousands of digits
        raise _broken(f"`{shorten(key, 60)}`: {error}", "ValueError", name, place) from None
    except RecursionError:
        raise _too_deep(name) from None


def _as_json(value: dict[Any, Any], key: str, name: Token, place: Place) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        message = f"`{shorten(key, 60)}` holds what JSON cannot: {error}"
        raise _broken(message, type(error).__name__, name, place) from None
    except RecursionError:
        raise _too_deep(name) from None


def _missing(name: Token, raised_as: str, reason: str) -> ArgumentRefused:
    return ArgumentRefused(
        f"cannot read {shown(name.text)}: {reason}",
        "config_file",
        raised_as=raised_as,
        place=name.place,
        fix="--config takes the path of a YAML file",
    )


def _broken(message: str, raised_as: str, name: Token, place: Place | None = None) -> ArgumentRefused:
    if place is None or not place.line:
        place = name.place
        where = shown(name.text)
    else:
        where = f"{shown(name.text)}:{place.line}"
    message = re.sub(r"\s+", " ", message)
    return ArgumentRefused(
        f"{where}: {shorten(message, 200)}",
        "config_content",
        raised_as=raised_as,
        place=place,
        fix="the file holds one mapping: setting: value",
    )
