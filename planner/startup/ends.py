"""An end that the log does not print and that is sure: vLLM refuses to start where nothing is left for the KV cache."""

from __future__ import annotations

from dataclasses import replace

from .beside import LIMITS
from .diagnosis import came_up
from .known import argument, is_manual, tightest
from .record import Crash, Place, Start
from .siblings import cause


def with_sure_end(start: Start) -> Start:
    """The start with that end; the same where it came up, ended otherwise, or has memory for the KV cache."""
    least = tightest(start.ranks)
    if start.crash is not None or came_up(start) or least is None or least.kv_bytes is None or least.kv_bytes > 0:
        return start
    if start.kv_tokens is not None or is_manual(start, least):
        return start
    place = least.places.get("kv_bytes", Place(start.last_line))
    rank = least.name if len(start.ranks) > 1 else ""
    return replace(start, crash=Crash("no_blocks", place.text, place, rank, chain=(place.text,)))


def with_limits_of_its_end(start: Start) -> Start:
    """The start with the limits that the error names, where neither its lines nor the user do: the server had them."""
    if start.crash is None:
        return start
    values = cause(start, start.crash)[1]
    found = {
        name: values[name]
        for name in LIMITS
        if isinstance(values.get(name), int)
        and values[name] > 0
        and getattr(start, name) is None
        and argument(start, name) is None
    }
    return replace(start, said={**found, **start.said}, **found) if found else start
