"""Values of options that are more than a word or a number: JSON, human numbers, lists, NAME=VALUE."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cgplan.errors import InputError, shorten
from cgplan.releases import SUPPORTED, stand_in

_NUMBER = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_HUMAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmgtKMGT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BETWEEN = re.compile(r"\s*,\s*|\s+")
_SPAN = re.compile(r"([0-9]+)-([0-9]+)")
MAX_DIGITS = 18
MOST_IN_SPAN = 1024
MAX_BATCH = 2**31 - 1


def release(text: str, flag: str) -> str:
    """A release of vLLM that cgplan knows; 0.28 is its last patch."""
    return release_and_note(text, flag)[0]


def release_and_note(text: str, flag: str) -> tuple[str, str | None]:
    """The release that answers for `text`, and what to say where it is another patch or build of that minor version."""
    try:
        known, said = stand_in(text)
    except InputError as error:
        error.where = flag
        error.fix = f"give one of {(error.fix or '').partition('releases known: ')[2] or ', '.join(SUPPORTED)}"
        raise
    return known, None if said is None else f"{flag}: {said.partition(': ')[2].partition(';')[0]}"


def whole(text: str, flag: str) -> int:
    """A whole number."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) and len(stripped) > MAX_DIGITS:
        raise InputError(f"{shorten(stripped, 40)} is too large", code="CG903", where=flag, fix="give a smaller number")
    if not _NUMBER.fullmatch(stripped):
        raise _bad(f"{shorten(text, 40)!r} is not a whole number", flag, "give a whole number, for example 256")
    return int(stripped)


def human(text: str, flag: str) -> int:
    """A whole number as vLLM reads it: 1k is 1000, 1K is 1024, 25.6k is 25600."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None or len(text) > MAX_DIGITS:
        return whole(text, flag)
    number, unit = found.groups()
    if unit in _BINARY:
        if "." in number:
            raise _bad(
                f"{text!r} has a fraction of a binary unit",
                flag,
                f"{number}{unit.lower()} counts in thousands and may have one",
            )
        return int(number) * _BINARY[unit]
    return int(float(number) * _DECIMAL[unit])


def number(text: str, flag: str) -> float:
    """A number, 0 or more."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < MAX_BATCH:
        raise _bad(f"{shorten(text, 40)!r} is no number of 0 or more", flag, f"write {flag} 10")
    return found


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """Whole numbers apart by commas or blanks; brackets around them do not count."""
    inner = text.strip().strip("[]").strip()
    example = f"give one or more, for example {flag} 1 2 4 8"
    if not inner:
        raise _bad("no number is given", flag, example)
    items = _BETWEEN.split(inner)
    if not all(items):
        raise _bad(f"{shorten(text, 40)!r} has a comma with no number beside it", flag, example)
    return tuple(whole(item, flag) for item in items)


def batches(texts: Iterable[str]) -> tuple[int, ...]:
    """Batch sizes, each at least 1 and said once; 1-8 is 1 to 8; several lists add up."""
    found = [number for text in texts for number in _batches_of(text)]
    for number in found:
        if not 1 <= number <= MAX_BATCH:
            raise _bad(f"no batch has {number} requests or tokens", "--batch", f"give sizes from 1 to {MAX_BATCH}")
    return tuple(dict.fromkeys(found))


def _batches_of(text: str) -> tuple[int, ...]:
    items = _BETWEEN.split(text.strip().strip("[]").strip())
    return numbers(",".join(_expanded(item) for item in items), "--batch")


def _expanded(item: str) -> str:
    """A span as the sizes in it; anything else as it is."""
    bounds = _SPAN.fullmatch(item)
    if bounds is None:
        return item
    first, last = (whole(bound, "--batch") for bound in bounds.groups())
    if not first <= last < first + MOST_IN_SPAN:
        fix = f"give the smaller one first, {MOST_IN_SPAN} sizes at most"
        raise _bad(f"{shorten(item, 40)} is no span of batch sizes", "--batch", fix)
    return ",".join(map(str, range(first, last + 1)))


def level(text: str) -> int:
    """An optimisation level: 0 to 3, with or without the O."""
    digits = text.removeprefix("O")
    if digits not in ("0", "1", "2", "3"):
        raise _bad(f"there is no optimisation level {shorten(text, 20)!r}", "-O", "give -O0, -O1, -O2 or -O3")
    return int(digits)


def pairs(items: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE items; a name has one value."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        name = name.strip()
        if not equals or not name:
            raise _bad(f"{shorten(item, 40)!r} is no NAME=VALUE", flag, f"write {flag} {name or 'NAME'}=VALUE")
        if found.setdefault(name, value) != value:
            raise _twice(f"{flag} {shorten(name, 60)}", found[name], value, flag)
    return found


def merged(documents: Iterable[str], flag: str) -> dict[str, Any]:
    """JSON objects merged key by key; a key that ends in + appends to its list, another one has one value."""
    found: dict[str, Any] = {}
    for text in documents:
        _merge(found, _json_object(text, flag), flag)
    return found


def _json_object(text: str, flag: str) -> dict[str, Any]:
    example = f"write {flag} '{{\"key\": value}}' in JSON"

    def once(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in items:
            if not key.strip():
                raise _bad("a key of the JSON is empty", flag, example)
            if found.setdefault(key, value) != value:
                raise _twice(f"{flag}.{shorten(key, 60)}", found[key], value, f"{flag}.{shorten(key, 60)}")
        return found

    try:
        document = json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise _bad("the JSON is nested too deeply", flag, example) from None
    except json.JSONDecodeError as error:
        raise _bad(f"{shorten(text, 40)!r} is not JSON: {error}", flag, example) from None
    except ValueError:
        raise _bad(f"{shorten(text, 40)!r} has a number of too many digits", flag, "give a smaller number") from None
    if not isinstance(document, dict):
        raise _bad(f"{shorten(text, 40)!r} is no JSON object", flag, example)
    return document


def _merge(into: dict[str, Any], new: dict[str, Any], path: str) -> None:
    for key, value in new.items():
        before = into.get(key)
        if key.endswith("+") and isinstance(value, list):
            before = into.get(key[:-1])
            into[key[:-1]] = [*before, *value] if isinstance(before, list) else value
        elif isinstance(value, dict) and (before is None or isinstance(before, dict)):
            inner: dict[str, Any] = before if isinstance(before, dict) else {}
            _merge(inner, value, f"{path}.{key}")
            into[key] = inner
        elif before is not None and (before != value or isinstance(before, bool) is not isinstance(value, bool)):
            raise _twice(f"{path}.{key}", before, value, f"{path}.{key}")
        else:
            into[key] = value


def _twice(name: str, first: Any, second: Any, flag: str) -> InputError:
    message = f"{name} is given twice: {shorten(first, 40)} and {shorten(second, 40)}"
    return InputError(message, code="CG907", where=flag, fix="drop one of the two")


def _bad(message: str, flag: str, fix: str) -> InputError:
    return InputError(message, code="CG906", where=flag, fix=fix)
