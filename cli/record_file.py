"""A measured record that an option names, as a document."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

from cgplan.errors import InputError
from cgplan.inputs.safe_json import MAX_BYTES, parse_object, read_object
from cgplan.inputs.secret_shapes import hidden


def read_record(name: str) -> dict[str, Any]:
    """The JSON object of the file, or of stdin where it is named -.

    What looks like a key or a password in its texts is left out: they are shown.

    Raises:
        InputError: CG910, CG911, CG914: the file cannot be read, or holds none.
    """
    found: dict[str, Any] = _clean(_of_stdin() if name == "-" else read_object(Path(name), marked=True))
    return found


def _of_stdin() -> dict[str, Any]:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(
            f"stdin has more than {MAX_BYTES // 2**20} MiB", code="CG914", where="stdin", fix="give a measured record"
        )
    return parse_object(data.removeprefix(BOM_UTF8), where="stdin")


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(own) for key, own in value.items()}
    if isinstance(value, list):
        return [_clean(own) for own in value]
    return hidden(value) if isinstance(value, str) else value
