"""Reads a JSON object from a file that nobody vouches for: quickly, whole, or with one clear line why not."""

from __future__ import annotations

import json
import os
import stat
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

from ..errors import InputError, cannot_read

MAX_BYTES = 16 * 2**20
"""Largest configuration file that is read; the largest published ones are under 4 MiB."""


def read_object(path: Path, *, marked: bool = False) -> dict[str, Any]:
    """The JSON object in `path`.

    Args:
        marked: a byte order mark before it is left out; Transformers and vLLM refuse a configuration with one.

    Raises:
        InputError: CG910 cannot be read, CG911 not a JSON object, CG914 over MAX_BYTES.
    """
    data = _read_bytes(path)
    return parse_object(data.removeprefix(BOM_UTF8) if marked else data, where=shown(path))


def read_list(path: Path) -> list[Any]:
    """The JSON list in `path`; errors as `read_object`."""
    where = shown(path)
    value = _parse(_read_bytes(path), where)
    if not isinstance(value, list):
        raise _not_json(f"a JSON {_kind(value)} where a list is expected", where)
    return value


def parse_object(data: bytes, *, where: str) -> dict[str, Any]:
    """The JSON object in `data`. Infinity and NaN pass, as in Python: published files hold them.

    Raises:
        InputError: CG911 not a JSON object.
    """
    value = _parse(data, where)
    if not isinstance(value, dict):
        raise _not_json(f"a JSON {_kind(value)} where an object is expected", where)
    return value


def _parse(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _not_json(f"not UTF-8 text (byte {error.start})", where) from None
    except json.JSONDecodeError as error:
        raise _not_json(f"not JSON: {error.msg}", f"{where}:{error.lineno}") from None
    except RecursionError:
        raise _not_json("JSON nested too deeply", where) from None
    except ValueError as error:
        raise _not_json(f"not usable JSON: {str(error).split(';')[0]}", where) from None


def exists(path: Path) -> bool:
    """Whether `path` names something; what cannot be looked at does not."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def is_directory(path: Path) -> bool:
    """Whether `path` is a directory.

    Raises:
        InputError: CG910 there is nothing to look at, and why.
    """
    return stat.S_ISDIR(_status(path).st_mode)


def shown(path: Path | str) -> str:
    """`path` as text that any terminal can print, in one line."""
    text = "".join(c if c.isprintable() else "?" for c in str(path))
    return text if len(text) <= 200 else f"{text[:99]}…{text[-100:]}"


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None


def _read_bytes(path: Path) -> bytes:
    _check(_status(path), path)
    try:
        # Not to hang on a FIFO that took the file's place since it was looked at.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            _check(os.fstat(file.fileno()), path)
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    if len(data) > MAX_BYTES:
        raise _too_large(path)
    return data


def _check(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise InputError(
            f"cannot read {shown(path)}: {kind}",
            code="CG910",
            where=shown(path),
            fix="give the model's directory or its config.json",
        )
    if status.st_size > MAX_BYTES:
        raise _too_large(path)


def _unreadable(error: Exception, path: Path) -> InputError:
    return cannot_read(error, shown(path), "give the model's directory, its config.json, or an id of the catalogue")


def _too_large(path: Path) -> InputError:
    return InputError(
        f"{shown(path)} is larger than {MAX_BYTES // 2**20} MiB",
        code="CG914",
        where=shown(path),
        fix="give the config.json, which has a few kB; weights are not read",
    )


def _not_json(message: str, where: str) -> InputError:
    return InputError(f"{where}: {message}", code="CG911", where=where, fix="give the config.json as published")


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
