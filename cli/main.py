"""Entry point of `cgplan`. `--version` answers before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from . import streams


def main() -> None:
    streams.mend()
    argv = sys.argv[1:]
    if "_CGPLAN_COMPLETE" not in os.environ and argv[:1] in (["--version"], ["-V"]):
        status = _version()
        if status:
            sys.exit(status)
        return
    # A short-lived process: looking for garbage and for pydantic plugins costs a tenth of its life.
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    shell = os.environ.pop("_CGPLAN_COMPLETE", "")
    if shell:
        from .complete import answer

        sys.exit(answer(shell, argv))
    try:
        from .app import run

        status = run(argv)
    except KeyboardInterrupt:  # while modules are loaded; the rest is seen to in `run`
        streams.say("interrupted")
        status = 130
    _leave(status)


def _leave(status: int) -> NoReturn:
    """End at once: to take every object of a short-lived process apart costs a fifth of its life.

    `run` has written stdout and said what went wrong with it.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _version() -> int:
    from cgplan._version import __version__

    try:
        print(f"cgplan {__version__}", flush=True)
    except BrokenPipeError:
        return streams.reader_gone()
    except OSError as error:
        return streams.write_failed(error)
    return 0
