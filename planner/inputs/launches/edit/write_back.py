"""A rewritten text back into its file, whole or not at all; and the difference as a patch."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from ....errors import NO_ROOM, InputError, NoRoomError, shorten
from ..launch import Source

CODE = "CG910"
BY_HAND = "drop --write, and make the change by hand"
CONTEXT = 3
"""Lines around a change that a patch shows."""

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space"),
    errno.EDQUOT: ("the quota is used up", "free some space"),
    errno.EROFS: ("the file system is read-only", "copy the file to where it can be written"),
    errno.EACCES: ("permission denied", "make the folder writable, or use the patch that --fix prints"),
    errno.EPERM: ("not permitted", "make the folder writable, or use the patch that --fix prints"),
}


def write_back(path: str | os.PathLike[str], source: Source, text: str) -> None:
    """Put `text` into the file that `source` was read from. A reader sees the old file or the new one.

    The mode stays, the owner where the system lets it; a symbolic link stays one. A file with several hard links
    becomes one of its own.

    Raises:
        InputError: CG910 the file has changed since, is read-only, or cannot be written. It is then as it was.
    """
    shown = shorten(os.fspath(path), 200)
    real = Path(os.path.realpath(path))
    try:
        before = os.stat(path)
        _check(real, before, source, shown)
        temporary = _written(real, before, text)
        try:
            _check(real, before, source, shown)
            os.replace(temporary, real)
        except BaseException:
            _remove(temporary)
            raise
        _sync_folder(real.parent)
    except (OSError, UnicodeError) as error:
        raise _failed(error, shown) from None


def _check(real: Path, before: os.stat_result, source: Source, shown: str) -> None:
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"{shown} is no regular file; it is not rewritten", code=CODE, where=shown, fix=BY_HAND)
    if not before.st_mode & 0o222 or not os.access(real, os.W_OK):
        raise InputError(
            f"{shown} is read-only; it is not rewritten",
            code=CODE,
            where=shown,
            fix=f"chmod u+w {shown}, and try again",
        )
    if real.read_bytes() != source.text.encode("utf-8"):
        raise InputError(
            f"{shown} has changed since it was read; it is not rewritten", code=CODE, where=shown, fix="check it again"
        )


def _written(real: Path, before: os.stat_result, text: str) -> str:
    """Path of a new file beside `real` that holds `text` and is on the disk."""
    content = text.encode("utf-8")
    handle, temporary = tempfile.mkstemp(prefix=f".{real.name[:60]}.", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            _keep_owner_and_mode(temporary, before)
            os.fsync(file.fileno())
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _keep_owner_and_mode(temporary: str, before: os.stat_result) -> None:
    now = os.stat(temporary)
    if hasattr(os, "chown") and (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        for owner in ((before.st_uid, before.st_gid), (-1, before.st_gid)):
            try:
                os.chown(temporary, *owner)
            except OSError:  # only the superuser gives files away
                continue
            break
    os.chmod(temporary, stat.S_IMODE(before.st_mode))


def _remove(temporary: str) -> None:
    try:
        os.unlink(temporary)
    except OSError:
        return


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk too. Not every system can; the file is whole either way."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)


def _failed(error: OSError | UnicodeError, shown: str) -> InputError:
    if isinstance(error, UnicodeError):
        return InputError(
            f"{shown}: the new text is no Unicode text; it is not rewritten", code=CODE, where=shown, fix=BY_HAND
        )
    reason, fix = _REASONS.get(error.errno or 0, (error.strerror or type(error).__name__, BY_HAND))
    kind = NoRoomError if error.errno in NO_ROOM else InputError
    return kind(f"{shown} cannot be written: {reason}; it is as it was", code=CODE, where=shown, fix=fix)


def diff_of(source: Source, text: str) -> str:
    """What changes from `source` to `text`, as a unified diff that `git apply` and `patch -p1` take; "" for nothing."""
    old, new = _lines(source.text), _lines(text)
    if old == new:
        return ""
    name = _name(source.name)
    return "".join((f"--- {_quoted(f'a/{name}')}\n", f"+++ {_quoted(f'b/{name}')}\n", *_hunks(old, new)))


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Hunks of the lines that differ. What is alike in front and behind is not compared line by line."""
    least = min(len(old), len(new))
    front = next((index for index in range(least) if old[index] != new[index]), least)
    back = next((index for index in range(least - front) if old[-1 - index] != new[-1 - index]), least - front)
    skip = max(front - CONTEXT, 0)
    ends = [max(len(side) - back + CONTEXT, 0) for side in (old, new)]
    left, right = old[skip : ends[0]], new[skip : ends[1]]
    for group in SequenceMatcher(None, left, right, autojunk=len(left) > 2000).get_grouped_opcodes(CONTEXT):
        _, a, _, c, _ = group[0]
        _, _, b, _, d = group[-1]
        yield f"@@ -{_range(skip + a, skip + b)} +{_range(skip + c, skip + d)} @@\n"
        for kind, i, j, k, m in group:
            if kind == "equal":
                yield from (_line(" ", line) for line in left[i:j])
            else:
                yield from (_line("-", line) for line in left[i:j])
                yield from (_line("+", line) for line in right[k:m])


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, as in git."""
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *lines[-1:]] if lines[-1] else [f"{line}\n" for line in lines[:-1]]


def _name(name: str) -> str:
    name = (name or "line").replace("\\", "/") if os.sep == "\\" else name or "line"
    while name.startswith("./"):
        name = name[2:]
    return name.lstrip("/")


def _quoted(name: str) -> str:
    """A file name as git writes it: with control characters, quotes or backslashes in C's quotes."""
    if not any(char in '"\\' or ord(char) < 32 or ord(char) == 127 for char in name):
        return f"{name}\t" if " " in name else name
    inside = "".join(f"\\{ord(c):03o}" if ord(c) < 32 or ord(c) == 127 else f"\\{c}" if c in '"\\' else c for c in name)
    return f'"{inside}"'
