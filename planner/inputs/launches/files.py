"""Files as texts, and the files of folders that may start a server."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from ...errors import InputError, cannot_read, did_you_mean, shorten
from ..safe_json import shown
from .launch import Source

MAX_BYTES = 16 * 2**20
"""Largest file that is read."""
MAX_WALKED_BYTES = 2**20
"""Largest file of a folder that is read without being named."""
MAX_WALKED = 200_000
"""Entries of folders that are looked at."""
MAX_DEPTH = 100
"""Folders within folders that are looked into."""
PATIENCE = 5.0
"""Seconds for which a pipe that is named may have no writer."""

_SKIPPED = frozenset((
    "node_modules", "__pycache__", "venv", "env", "site-packages", "dist", "build", "target",
))  # fmt: skip
_SUFFIXES = frozenset((
    ".yaml", ".yml", ".json", ".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".job", ".pbs", ".service", ".dockerfile",
    ".containerfile", ".md", ".markdown", ".j2",
))  # fmt: skip
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""
_NAMES = ("dockerfile", "containerfile")
_OPENED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})", re.ASCII)
"""Files that this process was given open, as a shell names a pipe."""


def load(path: str | Path) -> Source:
    """The text of a file; "-" is standard input. A byte order mark and the line ends stay as they are.

    Raises:
        InputError: CG910 it cannot be read, CG911 it is no UTF-8 text, CG914 over MAX_BYTES.
    """
    name = str(path)
    if name == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise _too_large("stdin")
        return Source("-", _decoded(data, "stdin"))
    return Source(name, _decoded(_read(name), name))


class Met(NamedTuple):
    """A file that a walk comes to. `passed_over` says in a word or two why it is not read; None: it is."""

    path: str
    passed_over: str | None = None


def walk(paths: Sequence[str | Path], exclude: Sequence[str] = ()) -> Iterator[Met]:
    """The files that `paths` mean: files as they are named, and those of folders by kind, sorted.

    Hidden folders, virtual environments and links to folders are left out; large and binary files of a kind that is
    read are met and passed over.

    Args:
        paths: files, folders, or "-".
        exclude: patterns of names or paths that are left out in folders.

    Raises:
        InputError: CG910 a path is not there.
    """
    given = set()
    for path in paths:
        name = str(path)
        if name != "-" and os.path.isdir(name):
            for found in _folder(name, exclude):
                if found.path not in given:
                    given.add(found.path)
                    yield found
        elif name not in given:
            if name != "-" and not os.path.lexists(name):
                raise _missing(name)
            given.add(name)
            yield Met(name)


def _folder(root: str, exclude: Sequence[str]) -> Iterator[Met]:
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and folder.count(os.sep) - root.count(os.sep) < MAX_DEPTH
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
            and not _is_excluded(os.path.join(folder, name), root, exclude)
        )
        for name in sorted(names):
            seen += 1
            if seen > MAX_WALKED:
                yield Met(folder, f"behind {MAX_WALKED:,} others")
                return
            path = os.path.join(folder, name)
            if _may_start(name) and not _is_excluded(path, root, exclude):
                reason = _not_read(path)
                if reason != "":
                    yield Met(path, reason)


def _may_start(name: str) -> bool:
    """Whether a file of that name can start a server."""
    low = name.lower()
    return low.startswith(_NAMES) or os.path.splitext(low)[1] in _SUFFIXES or "." not in low


def _is_excluded(path: str, root: str, exclude: Sequence[str]) -> bool:
    inside = os.path.relpath(path, root).replace(os.sep, "/")
    name = os.path.basename(path)
    for pattern in exclude:
        bare = pattern.rstrip("/")
        whole = path.replace(os.sep, "/")
        if fnmatch(name, bare) or fnmatch(inside, bare) or fnmatch(whole, bare):
            return True
    return False


def _not_read(path: str) -> str | None:
    """Why a file of a folder is passed over; "" where there is nothing to say of it, None where it is read."""
    has_kind = "." in os.path.basename(path).lstrip(".") or os.path.basename(path).lower().startswith(_NAMES)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return ""
        with open(path, "rb") as file:
            head = file.read(1024)
    except FileNotFoundError:
        return "a link to nothing" if has_kind else ""
    except OSError:
        return "not readable" if has_kind else ""
    if not has_kind and not (head.startswith(b"#!") and b"sh" in head.split(b"\n", 1)[0]):
        return ""
    if status.st_size > MAX_WALKED_BYTES:
        return f"over {MAX_WALKED_BYTES // 2**20} MiB"
    return "binary" if b"\0" in head and not head.startswith(_UTF16) else None


def _read(name: str) -> bytes:
    try:
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            raise InputError(
                f"{shorten(name)} is a folder", code="CG910", where=name, fix="name a file in it, or check the folder"
            )
        if stat.S_ISFIFO(status.st_mode):
            data = _read_pipe(name)
            if len(data) > MAX_BYTES:
                raise _too_large(name)
            return data
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{shorten(name)} is no regular file", code="CG910", where=name, fix="name a file, or -")
        if status.st_size > MAX_BYTES:
            raise _too_large(name)
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(name) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise InputError(
                f"{shorten(name)} is a link that leads back to itself", code="CG910", where=name,
                fix="name the file itself",
            ) from None  # fmt: skip
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"{shorten(name)} cannot be read: {reason.lower()}",
            code="CG910",
            where=shown(name),
            fix="check its permissions",
        ) from None
    if len(data) > MAX_BYTES:
        raise _too_large(name)
    return data


def _read_pipe(name: str) -> bytes:
    """What comes out of a pipe such as `<(helm template .)`, until it ends, or is too much.

    A pipe that nobody writes into would be waited for without end; one with a writer is, as standard input is.
    """
    opened = _OPENED.fullmatch(name)
    if opened is not None:
        with open(os.dup(int(opened[1])), "rb") as file:
            return file.read(MAX_BYTES + 1)
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _drained(descriptor, name)
    finally:
        os.close(descriptor)


def _drained(descriptor: int, name: str) -> bytes:
    import select
    import time

    found = bytearray()
    was_open = False
    until = time.monotonic() + PATIENCE
    while len(found) <= MAX_BYTES:
        select.select([descriptor], [], [], 0.1)
        try:
            part = os.read(descriptor, 2**16)
        except BlockingIOError:
            was_open = True  # someone holds it open, and writes nothing yet
            continue
        if part:
            was_open = True
            found += part
        elif was_open:
            break
        elif time.monotonic() > until:
            raise InputError(
                f"nothing writes into the pipe {shorten(name)}", code="CG910", where=name, fix="name a file"
            )
        else:
            time.sleep(0.02)
    return bytes(found)


def _decoded(data: bytes, name: str) -> str:
    if data.startswith(_UTF16):
        raise InputError(f"{shorten(name)} is UTF-16 text", code="CG911", where=name, fix="save it as UTF-8")
    if b"\0" in data:
        raise InputError(
            f"{shorten(name)} is a binary file", code="CG911", where=name, fix="name a script, manifest or config file"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{shorten(name)} is not UTF-8 text: line {line}",
            code="CG911",
            where=f"{name}:{line}",
            fix="save it as UTF-8",
        ) from None


def _missing(name: str) -> InputError:
    """An error that names the files nearby that are called much the same."""
    folder, base = os.path.split(name)
    if os.path.islink(name):
        target = shorten(os.readlink(name))
        return InputError(
            f"{shorten(name)} is a link to {target}, which is not there", code="CG910", where=name,
            fix="mend the link, or name the file itself",
        )  # fmt: skip
    try:
        siblings = sorted(os.listdir(folder or "."))[:2000]
    except (OSError, ValueError):
        siblings = []
    near = did_you_mean(base, siblings)
    return cannot_read(
        FileNotFoundError(),
        shorten(name),
        near or "name a file, a folder, or - for stdin; a command line goes behind --",
    )


def _too_large(name: str) -> InputError:
    return InputError(
        f"{shorten(name)} is larger than {MAX_BYTES // 2**20} MiB",
        code="CG914",
        where=shown(name),
        fix="name the manifest or script alone",
    )
