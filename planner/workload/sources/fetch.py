"""Asks an address for its /metrics: once, where the user gives it, bounded in time and size."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from ...errors import InputError, shorten

SECONDS = 10.0
MAX_BYTES = 16 * 2**20
SCHEMES = ("http", "https")


def is_address(text: str) -> bool:
    """Whether `text` is an address, not a file."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def fetch(address: str, seconds: float = SECONDS, max_bytes: int = MAX_BYTES) -> str:
    """The text at `address`; without a path, at /metrics.

    Raises:
        InputError: CG719, it cannot be reached, answers with something else than 200, takes longer than `seconds` in
            all, or is larger than `max_bytes`.
    """
    url, where = _checked(address)
    request = urllib.request.Request(url, headers={"Accept": "text/plain", "User-Agent": "cgplan"})
    ends = time.monotonic() + seconds
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=seconds) as answer:
            data = _read(answer, where, ends, seconds, max_bytes)
    except urllib.error.HTTPError as error:
        raise _refused(_answered(error), where) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise _refused(f"no answer: {shorten(text, 100)}", where) from None
    return data.decode("utf-8", "replace")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere that the user did not name."""

    def redirect_request(self, *given: Any, **named: Any) -> None:
        return None


def _read(answer: IO[bytes], where: str, ends: float, seconds: float, max_bytes: int) -> bytes:
    """All of it; a server that sends a byte now and then is left when the time is over."""
    pieces, size = [], 0
    read = getattr(answer, "read1", answer.read)
    while piece := read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise _refused(f"the answer is larger than {max_bytes >> 20} MiB", where)
        if time.monotonic() > ends:
            raise _refused(f"the answer is not complete after {seconds:g} s", where)
    return b"".join(pieces)


def _checked(address: str) -> tuple[str, str]:
    """The address to ask, and the same without a password for messages."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused("no address that can be read", shorten(address.split("@")[-1], 80)) from None
    if not host or parts.scheme.lower() not in SCHEMES or any(c.isspace() or not c.isprintable() for c in address):
        raise _refused("no address that can be read", shorten(address.split("@")[-1], 80))
    place = f"[{host}]" if ":" in host else host
    netloc = f"{place}:{port}" if port is not None else place
    path = parts.path if parts.path not in ("", "/") else "/metrics"
    shown = urlunsplit((parts.scheme.lower(), netloc, path, "", ""))
    if parts.username is not None or parts.password is not None:
        raise _refused("a user name in the address is not sent", shown)
    return urlunsplit((parts.scheme.lower(), netloc, path, parts.query, "")), shorten(shown, 200)


def _answered(error: urllib.error.HTTPError) -> str:
    if 300 <= error.code < 400:
        target = shorten(str(error.headers.get("Location", "")), 100)
        return f"it redirects to {target}, which is not followed"
    return f"it answers {error.code} {shorten(str(error.reason), 60)}"


def _refused(message: str, where: str) -> InputError:
    return InputError(
        f"{where}: {message}",
        code="CG719",
        where=where,
        fix=f"give the server's own address, or save the text: curl -s {where} > metrics.txt",
    )
