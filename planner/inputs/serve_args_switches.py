"""A switch in the file of --config that has a text for a value: `enforce-eager: "true"`.

vLLM writes it as two tokens, --enforce-eager and true, of which the second is the model's name, or one value too many.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import shorten
from .serve_args_errors import ArgumentRefused
from .serve_args_flags import FlagTable
from .serve_args_tokens import Place

OFF = ("false", "0", "no", "off", "none", "null", "")
_SETTING = re.compile(r"([ ]*)[\"']?([A-Za-z][\w-]*)[\"']?[ \t]*:[ \t]+([^#\[{|>&*!\s].*?)[ \t]*(?:[ \t]#.*)?\r?$")


class Switch(NamedTuple):
    """A setting that is to be on or off.

    Attributes:
        key: as written.
        line: of the file, from 1.
        value: the text that it has.
        new_key: the key that says what was meant, with `true` behind it; None: leaving it out does.
    """

    key: str
    line: int
    value: str
    new_key: str | None


def switch_at(text: str, line: int, table: FlagTable) -> Switch | None:
    """The switch at a line of a file of --config, where it has a text for a value."""
    lines = text.split("\n")
    found = _SETTING.match(lines[line - 1]) if 0 < line <= len(lines) else None
    if found is None:
        return None
    key, value = found[2], found[3].strip("\"'")
    flag = table.by_option.get(f"--{key}".replace("_", "-"))
    if flag is None or flag.takes_value or found[3] in ("true", "false", "True", "False"):
        return None
    if value.lower() not in OFF:
        return Switch(key, line, value, key)
    off = f"--no-{key}".replace("_", "-")
    return Switch(key, line, value, off[2:] if off in table.by_option else None)


def refusal(switch: Switch, place: Place, *, is_model: bool) -> ArgumentRefused:
    """How vLLM meets it; `is_model`: there is no other model in front, so that the value is taken for it."""
    what = "which vLLM takes for the model" if is_model else "which is one value too many"
    fix = f"write `{switch.new_key}: true`, without quotes" if switch.new_key else "leave it out"
    return ArgumentRefused(
        f"`{shorten(switch.key, 60)}` takes no value, but has {shorten(switch.value, 40)!r}, {what}",
        "switch_value",
        option=f"--{switch.key}",
        place=place,
        fix=fix,
    )


def mended(text: str, switch: Switch) -> str:
    """The file as it was meant, line by line."""
    lines = text.split("\n")
    indent = len(lines[switch.line - 1]) - len(lines[switch.line - 1].lstrip(" "))
    lines[switch.line - 1] = " " * indent + (f"{switch.new_key}: true" if switch.new_key else "#")
    return "\n".join(lines)
