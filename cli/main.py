"""Entry point of `cgplan`. `--version` answers before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    argv = sys.argv[1:]
    if argv[:1] in (["--version"], ["-V"]):
        from cgplan._version import __version__

        print(f"cgplan {__version__}")
        return
    # A short-lived process: looking for garbage and for pydantic plugins costs a tenth of its life.
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from .app import run

    sys.exit(run(argv))
