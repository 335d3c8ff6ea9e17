"""The ways in which streams go wrong: a closed descriptor, a full disk, a reader that is gone."""

from __future__ import annotations

import os
import sys

CANNOT_WRITE = 74
PIPE_CLOSED = 141


def mend() -> None:
    """Put files where Python has None because the descriptor was closed.

    stdin is then empty. What is written to stdout fails when it is flushed, as on any file that takes nothing; stderr
    swallows it. A letter that stdout does not have is written as "?".
    """
    if sys.stdin is None:
        _reopen(0, os.O_RDONLY)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        _reopen(1, os.O_RDONLY)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _reopen(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and sys.stdout.errors in ("strict", "surrogateescape"):
        # A terminal without a letter shows "?" for it; a name of a file may hold bytes that are no letter anywhere.
        reconfigure(errors="replace")


def write_failed(error: OSError) -> int:
    """Say that stdout takes nothing. Returns the exit status."""
    _drop(1)
    say(f"cannot write output: {error.strerror or error}")
    return CANNOT_WRITE


def reader_gone() -> int:
    """Say nothing. Returns the exit status."""
    _drop(1)
    return PIPE_CLOSED


def say(line: str) -> None:
    """One line on stderr; where even that cannot be written, nothing is left to be done."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    printable = "".join(c if c.isprintable() else "?" for c in line)
    try:
        print(printable.encode(encoding, "replace").decode(encoding), file=sys.stderr, flush=True)
    except OSError:
        _drop(2)


def _reopen(descriptor: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)


def _drop(descriptor: int) -> None:
    """What is left in the buffer goes nowhere, so that no complaint follows at exit."""
    _reopen(descriptor, os.O_WRONLY)


def put(text: str) -> None:
    """Text on stdout; what its encoding lacks becomes a question mark."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
