"""From the tokens of an option to its value, as vLLM's type functions read them."""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import did_you_mean, shorten
from ..releases import holds
from .serve_args_errors import ArgumentRefused, uncaught
from .serve_args_flags import Flag
from .serve_args_grammar import Found, without_dashes
from .serve_args_numbers import BinaryFraction, human_int, human_int_or_auto

LORA_FIELDS = frozenset(("name", "path", "base_model_name"))
LORA_3D_SINCE = "0.22.1"
"""First release of is_3d_lora_weight."""
_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "human_int": "a whole number, for example 8192, 8k or 8K",
    "human_int_or_auto": "a whole number, for example 8192, 8k or 8K, or auto",
    "json": "JSON",
    "json_object_or_str": "a JSON object, or text without braces around it",
}


def value_of(found: Found, release: str) -> Any:
    """The value that the option gets.

    Raises:
        ArgumentRefused: vLLM refuses the value, or fails over it.
    """
    flag = found.flag
    if flag.kind in ("bool", "store_true"):
        return not _is_negative(flag, found.option)
    found = found._replace(values=without_dashes(found.values))
    if not found.values:
        return flag.const if flag.nargs == "?" else []  # argparse drops a `--`, also that of --x=--
    if flag.action == "LoRAParserAction":
        return _lora_modules(found, release)
    if flag.nargs != "+":
        value = _convert(flag, flag.kind, found.values[0].text, found, release)
        _check_choice(flag, value, found)
        return value
    values = [_convert(flag, flag.element, token.text, found, release) for token in found.values]
    for value in values:
        _check_choice(flag, value, found)
    return values


def _is_negative(flag: Flag, option: str) -> bool:
    if flag.kind == "store_true":
        return False
    return option in flag.negative if flag.negative else option.startswith("--no-")


def _convert(flag: Flag, kind: str, text: str, found: Found, release: str) -> Any:
    if text in flag.none_values:
        return None
    if kind == "choice":
        kind = flag.choice_type
    try:
        return _read(flag, kind, text, found, release)
    except BinaryFraction as error:
        raise _bad_value(found, str(error)) from None
    except RecursionError:
        raise uncaught(f"{flag.long}: nested too deeply", "RecursionError", found.token.place) from None
    except OverflowError:
        message = f"{flag.long}: {shorten(text, 40)} is too large for vLLM"
        raise uncaught(message, "OverflowError", found.token.place) from None
    except (ValueError, TypeError):
        wanted = _WANTED.get(kind, "a value that vLLM can read")
        raise _bad_value(found, f"{shorten(text, 60)!r} is not {wanted}", text) from None


def _read(flag: Flag, kind: str, text: str, found: Found, release: str) -> Any:
    if kind == "str":
        return text
    if kind in ("int", "float"):
        return int(text) if kind == "int" else float(text)
    if kind == "human_int":
        return human_int(text)
    if kind == "human_int_or_auto":
        return human_int_or_auto(text)
    if kind == "json":
        return json.loads(text)
    if kind == "json_object_or_str":
        stripped = text.strip()
        is_object = len(stripped) > 1 and stripped[0] == "{" and stripped[-1] == "}"
        return json.loads(text) if is_object else text
    if kind == "config_json":
        return _config(flag, text, found, release)
    if kind == "func:parse_reasoning_parser":
        return "" if text.lower() == "none" else text
    if flag.dest == "device_ids":
        return [int(part) if part.isdigit() else part for part in map(str.strip, text.split(","))]
    if kind.startswith("func:"):
        return text.lower().replace("-", "_")  # backends of kernels: 0.19 to 0.33
    return text


def _config(flag: Flag, text: str, found: Found, release: str) -> Any:
    from .serve_args_config import ConfigInvalid, defaults, read_config_json

    place = found.token.place
    try:
        return read_config_json(release, flag.config_class, text)
    except ConfigInvalid as error:
        where = f"{flag.long}.{error.path}" if error.path else flag.long
        key = error.path.rpartition(".")[2]
        known = [name for fields in defaults(release, flag.config_class).values() for name in fields]
        raise ArgumentRefused(
            f"{shorten(where, 80)}: {error}",
            "config_invalid",
            option=flag.name,
            where=shorten(where, 80),
            place=place,
            raised_in=flag.config_class,
            fix=(did_you_mean(key, known) if error.unknown_key else None)
            or _as_json(flag, text)
            or f"correct it; {flag.config_class} has it refused",
        ) from None
    except (KeyError, IndexError, ModuleNotFoundError) as error:
        name = type(error).__name__
        message = f"{flag.long}: {shorten(str(error), 80)} is not known to vLLM, which ends with a {name}"
        raise uncaught(message, name, place, _graph_modes(flag, error), flag.long) from None


def _as_json(flag: Flag, text: str) -> str | None:
    """What to write for an object that is no JSON; None where that cannot be told, or it is JSON."""
    meant = meant_as_json(text)
    return f"write {flag.long} '{shorten(meant, 200)}'" if meant is not None else None


def meant_as_json(text: str) -> str | None:
    """The JSON of an object that was written as in Python, with single quotes, or without any; None where there is
    none, or it is JSON already.
    """
    stripped = text.strip()
    if len(stripped) > MOST_MEANT or not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    try:
        json.loads(stripped)
        return None
    except (ValueError, RecursionError):
        pass
    bare = _BARE.sub(lambda word: word[0] if word[1] is None or word[1] in _JSON_WORDS else f'"{word[1]}"', stripped)
    for candidate in (_python(stripped), bare):
        try:
            value = json.loads(candidate) if isinstance(candidate, str) else candidate
            if isinstance(value, dict):
                return json.dumps(value, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError):  # noqa: PERF203
            continue
    return None


def _python(text: str) -> Any:
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


_BARE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|([A-Za-z_][\w./-]*)")
_JSON_WORDS = ("true", "false", "null")
MOST_MEANT = 2000
"""Longest text that is looked at for JSON that was meant, characters."""


def _graph_modes(flag: Flag, error: Exception) -> str | None:
    if not isinstance(error, KeyError) or flag.config_class != "CompilationConfig":
        return None
    modes = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
    return did_you_mean(str(error.args[0]), modes) or f"give one of {', '.join(modes)}"


def _check_choice(flag: Flag, value: Any, found: Found) -> None:
    if not flag.choices or value in flag.choices:
        return
    raise ArgumentRefused(
        f"{flag.long}: {shorten(str(value), 40)!r} is not one of its values",
        "invalid_choice",
        option=flag.name,
        place=found.token.place,
        fix=_instead(flag, value),
    )


def _instead(flag: Flag, value: Any) -> str:
    """What to give in the place of a value that is none of the choices."""
    known = [str(choice) for choice in flag.choices if choice is not None]
    listed = f"give one of {', '.join(known)}"
    if means_nothing(flag, value):
        return "leave it out: without it there is none"
    if isinstance(value, (int, float)) or str(value).lstrip("-").isdigit():
        larger = next_choice(flag, value)
        return f"give {larger}, the next one up; {listed}" if larger is not None else listed
    return did_you_mean(str(value), known) or listed


def means_nothing(flag: Flag, value: Any) -> bool:
    """Whether a value says that there is none of it, where leaving the option out says that."""
    return flag.default is None and str(value).casefold() in ("none", "null", "")


def next_choice(flag: Flag, value: Any) -> Any:
    """Of an option whose choices are numbers, the least that is not below `value`; None where there is none."""
    try:
        wanted = float(value)
    except (TypeError, ValueError):
        return None
    numbers = [choice for choice in flag.choices if isinstance(choice, int) and not isinstance(choice, bool)]
    return min((choice for choice in numbers if choice >= wanted), default=None)


def _bad_value(found: Found, message: str, text: str = "") -> ArgumentRefused:
    flag = found.flag
    return ArgumentRefused(
        f"{flag.long}: {message}",
        "invalid_value",
        option=flag.name,
        place=found.token.place,
        fix=_hint(flag, text),
    )


def _hint(flag: Flag, text: str) -> str:
    if flag.kind == "config_json" or flag.kind == "json":
        return f"write {flag.long} '{{\"key\": value}}', or {flag.long}.key=value"
    if flag.kind == "list":
        return f"write {flag.long} VALUE VALUE, with blanks between"
    share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text)
    if share is not None and flag.kind == "float":
        return f"write {flag.long} {float(share[1]) / 100:.6g}"
    wanted = _WANTED.get(flag.kind)
    if wanted is None:
        return f"write {flag.long} {flag.dest.upper()}"
    number = flag.default if isinstance(flag.default, (int, float)) and not isinstance(flag.default, bool) else None
    return f"give {flag.long} {wanted}" + (
        f", such as {number}" if number is not None and "example" not in wanted else ""
    )


def _lora_modules(found: Found, release: str) -> list[dict[str, Any]]:
    modules = []
    for token in found.values:
        text = token.text
        if text in ("", "None"):
            continue
        if "=" in text and "," not in text:
            modules.append(_lora_pair(text, found, release))
        else:
            modules.append(_lora_object(text, found, release))
    return modules


def _lora_pair(text: str, found: Found, release: str) -> dict[str, Any]:
    name, _, path = text.partition("=")
    if "=" in path and not holds(release, "0.30.0"):
        raise uncaught(
            f"--lora-modules {shorten(text, 60)}: a second = in it; vLLM ends with a ValueError",
            "ValueError",
            found.token.place,
            'write it as JSON: {"name": "...", "path": "..."}',
        )
    return {"name": name, "path": path}


def _lora_object(text: str, found: Found, release: str) -> dict[str, Any]:
    try:
        module = json.loads(text)
    except json.JSONDecodeError:
        raise _bad_lora("is neither NAME=PATH nor JSON", text, found) from None
    except RecursionError:
        raise uncaught("--lora-modules: nested too deeply", "RecursionError", found.token.place) from None
    except ValueError:
        raise uncaught("--lora-modules: cannot be read", "ValueError", found.token.place) from None
    if not isinstance(module, dict):
        raise _bad_lora("is not a JSON object", text, found)
    known = LORA_FIELDS | {"is_3d_lora_weight"} if holds(release, LORA_3D_SINCE) else LORA_FIELDS
    if not {"name", "path"} <= module.keys() or not module.keys() <= known:
        raise _bad_lora("needs name and path, and nothing beyond base_model_name", text, found)
    return module


def _bad_lora(message: str, text: str, found: Found) -> ArgumentRefused:
    return ArgumentRefused(
        f"--lora-modules: {shorten(text, 60)} {message}",
        "lora_modules",
        place=found.token.place,
        fix="write --lora-modules NAME=PATH NAME=PATH",
    )
