"""A file that a command writes: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cgplan.errors import InputError, shorten


def write_whole(path: Path, text: str) -> None:
    """Write `text`. A reader sees the old file or the new one; what is no regular file is written to as it is.

    Raises:
        InputError: CG910, it cannot be written.
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
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{shown} cannot be written: {reason}", code="CG910", where=shown, fix="name a file that can be written"
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
