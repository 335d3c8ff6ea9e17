"""A file that a command writes: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from errno import EACCES, EISDIR
from pathlib import Path

from cgplan.errors import cannot_write, shorten


def write_whole(path: Path, text: str) -> None:
    """Write `text`. A reader sees the old file or the new one; what is no regular file is written to as it is.

    Raises:
        InputError: CG910, it cannot be written; NoRoomError: the disk is full.
    """
    shown = shorten(str(path), 200)
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        real = Path(os.path.realpath(path))
        handle, name = tempfile.mkstemp(prefix=f".{real.name[:60]}.", suffix=".tmp", dir=real.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, real)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise cannot_write(error, shown, shown, "name a file that can be written") from None


def check_writable(path: Path, where: str) -> None:
    """Find out whether `write_whole` will be able to, without a trace in the folder.

    Raises:
        InputError: CG910, it will not.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "is a directory")
        if path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise PermissionError(EACCES, "permission denied")
            return
        folder = Path(os.path.realpath(path)).parent
        try:
            handle, name = tempfile.mkstemp(suffix=".tmp", dir=folder)
        except FileNotFoundError:
            if not folder.is_dir():
                raise
            raise PermissionError(EACCES, "its folder takes no new file") from None
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        fix = "name a file in a folder that is there and can be written, or - for stdout"
        raise cannot_write(error, shorten(str(path), 200), where, fix) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
