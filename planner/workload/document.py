"""A workload as JSON, and back.

    {"schema_version": 1, "source": "a trace of our own", "exact": true, "steps": 812.0,
     "batches": [{"kind": "decode", "tokens": 24, "requests": 8, "query_len": 3, "loras": 0, "count": 812,
                  "mode": null, "padded": null},
                 {"kind": "any", "tokens": [9, 16], "count": 40}, {"kind": "any", "tokens": [16385, null], "count": 1}]}

A range is a list of two; null as its second: no bound. `exact` and `steps` follow from the batches and are not read.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError, shorten
from ..vocabulary import CUDAGraphMode
from .histogram import MAX_SIZE, RUN_MODES, Batches, Kind, Range, Seen, Workload, workload_of

SCHEMA_VERSION = 1
MAX_BATCHES = 500_000
FIELDS = ("kind", "tokens", "requests", "query_len", "loras", "lora", "count", "mode", "padded")
MODES = {str(mode): mode for mode in RUN_MODES}


def as_document(workload: Workload) -> dict[str, Any]:
    """`workload` as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "source": workload.source,
        "exact": workload.exact,
        "steps": workload.steps,
        "batches": [_batches_document(item) for item in workload.batches],
    }


def workload_from(document: Any, where: str) -> Workload:
    """The workload of a document; a list of batches alone is one, too.

    Raises:
        InputError: CG718, it is no such document; the message names the batch.
    """
    if isinstance(document, list):
        document = {"batches": document}
    if not isinstance(document, dict):
        raise unreadable("no JSON object with batches", where)
    if document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise unreadable(
            f"schema_version {shorten(repr(document['schema_version']), 20)} is not {SCHEMA_VERSION}", where
        )
    given = document.get("batches")
    if not isinstance(given, list) or not given:
        raise unreadable("no list `batches` with one batch at least", where)
    if len(given) > MAX_BATCHES:
        raise unreadable(f"more than {MAX_BATCHES} batches", where)
    source = document.get("source", "")
    if not isinstance(source, str) or len(source) > 500:
        raise unreadable("source is no text of at most 500 characters", where)
    found = []
    for number, item in enumerate(given):
        if not isinstance(item, dict):
            raise unreadable(f"batches[{number}] is no object", where)
        found.append(batches_from(item, f"{where}: batches[{number}]"))
    return workload_of(found, source or where)


def batches_from(item: dict[str, Any], where: str) -> Batches:
    """One entry; what is left out is not known, a count left out is 1.

    Raises:
        InputError: CG718, a field is unknown or has a value that it cannot have.
    """
    unknown = [name for name in item if name not in FIELDS]
    if unknown:
        raise unreadable(f"unknown field {shorten(unknown[0], 40)!r}", where, f"give one of {', '.join(FIELDS)}")
    query_len = _whole(item, "query_len", where)
    requests = _range(item, "requests", where)
    kind = _kind(item, query_len, where)
    tokens = _range(item, "tokens", where) or _tokens_of(requests, query_len, where)
    loras = _whole(item, "loras", where)
    count = item.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise unreadable(f"count: {shorten(repr(count), 40)} is no number", where)
    try:
        return Batches(
            kind,
            tokens,
            count,
            requests,
            query_len,
            (_whole(item, "lora", where) if loras is None else loras) or 0,
            _seen(item, where),
        )
    except InputError as error:
        raise unreadable(error.message, where, error.fix) from None


def unreadable(message: str, where: str, fix: str | None = None) -> InputError:
    return InputError(
        f"{where}: {message}", code="CG718", where=where, fix=fix or "`cgplan schema workload` prints the form"
    )


def _batches_document(item: Batches) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "tokens": _range_value(item.tokens),
        "requests": None if item.requests is None else _range_value(item.requests),
        "query_len": item.query_len,
        "loras": item.loras,
        "count": item.count,
        "mode": None if item.seen is None else str(item.seen.mode),
        "padded": None if item.seen is None else item.seen.padded,
    }


def _range_value(value: Range) -> int | list[int | None]:
    return value.low if value.is_point else [value.low, value.high]


def _kind(item: dict[str, Any], query_len: int | None, where: str) -> Kind:
    kind = item.get("kind") or ("decode" if query_len is not None else "any")
    for known in ("decode", "mixed", "any"):
        if kind == known:
            return known
    raise unreadable(f"kind: {shorten(repr(kind), 40)} is none of decode, mixed, any", where)


def _whole(item: dict[str, Any], name: str, where: str) -> int | None:
    value = item.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
        raise unreadable(f"{name}: {shorten(repr(value), 40)} is no whole number", where)
    return value


def _range(item: dict[str, Any], name: str, where: str) -> Range | None:
    value = item.get(name)
    if value is None:
        return None
    pair = value if isinstance(value, list) and len(value) == 2 else [value, value]
    low = _whole({name: pair[0]}, name, where)
    high = _whole({name: pair[1]}, name, where)
    if low is None:
        raise unreadable(f"{name}: a range needs its lower end", where)
    return Range(low, high)


def _tokens_of(requests: Range | None, query_len: int | None, where: str) -> Range:
    if requests is None:
        raise unreadable("neither tokens nor requests", where, "give tokens, or requests and query_len")
    length = query_len or 0
    if not length:
        raise unreadable("requests without query_len do not say the tokens", where, "add query_len, or tokens")
    return Range(requests.low * length, None if requests.high is None else requests.high * length)


def _seen(item: dict[str, Any], where: str) -> Seen | None:
    mode, padded = item.get("mode"), _whole(item, "padded", where)
    if mode is None and padded is None:
        return None
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise unreadable(f"mode: {shorten(repr(mode), 40)} is none of {', '.join(MODES)}", where)
    if padded is None:
        raise unreadable("a mode without the padded size", where, "add padded, or leave mode out")
    return Seen(CUDAGraphMode(mode.upper()), padded)
