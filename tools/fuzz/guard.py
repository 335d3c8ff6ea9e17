"""Watches that nothing is run, fetched or written while a guard is closed.

Run as a program it is `cgplan` under that guard: python tools/fuzz/guard.py check FILE ...
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

BROKEN = 99
"""Exit status of the program where something forbidden was done."""

_FORBIDDEN = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "os.remove", "os.rename",
    "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.symlink", "os.link", "shutil.rmtree", "pickle.find_class",
)  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Forbidden(BaseException):
    """Something was done that reading an input must never do; no handler of errors may hide it."""


class Guard:
    """An audit hook cannot be taken away again, but it can look away.

    Args:
        ends: end the process, in place of an exception.
        own: the folder in which files may be written, with a separator at its end.
    """

    def __init__(self, ends: bool = False, own: str | None = None) -> None:
        self.is_closed = False
        self.ends = ends
        self.own = own
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        self.is_closed = True
        try:
            yield
        finally:
            self.is_closed = False

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_closed:
            return
        is_one = event in _FORBIDDEN and not (self.own is not None and str(arguments[0]).startswith(self.own))
        if is_one or (event == "open" and self._writes(arguments)):
            if self.ends:
                os.write(2, f"forbidden: {event} {arguments!r}\n".encode(errors="replace")[:500])
                os._exit(BROKEN)
            raise Forbidden(f"{event} {arguments!r}"[:500])

    def _writes(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a file is opened to be written; Python's own cache of compiled modules is none of ours."""
        path, flags = arguments[0], arguments[2]
        own = isinstance(path, int) or "__pycache__" in str(path)
        own = own or (self.own is not None and str(path).startswith(self.own))
        return isinstance(flags, int) and bool(flags & _WRITES) and not own


def main() -> None:
    """`cgplan` as it is, under guard."""
    from cgplan.cli.main import main as cgplan

    with Guard(ends=True).closed():
        cgplan()


if __name__ == "__main__":
    main()
