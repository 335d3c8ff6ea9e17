"""Fail a pipeline where a manifest starts a server otherwise than it says.

    python examples/check_in_ci.py deploy.yaml charts/

Prints each finding as FILE:LINE: SEVERITY CODE message, and what to do. Exit status 1 where there is an error, 2 where
a file cannot be read. `cgplan check` does the same with more forms of output; this is for a pipeline in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from cgplan import Context, Diagnostic, InputError, gpu
from cgplan.check import check_launch
from cgplan.inputs.launches import read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.files import load, walk

HARDWARE = Context(gpu=gpu("h100"))
"""What the files do not say."""


def findings(paths: list[str]) -> Iterator[tuple[str, Diagnostic]]:
    """Each finding of the servers that the files and folders start, with the name of its file."""
    for path, passed_over in walk(paths):
        if passed_over is None:
            for launch in read(load(path)).launches:
                for found in check_launch(ask(launch, HARDWARE)).diagnostics:
                    yield path, found


def main(paths: list[str]) -> int:
    worst = 0
    try:
        for path, found in findings(paths):
            line = found.at.span.line if found.at is not None and found.at.span is not None else 1
            print(f"{path}:{line}: {found.severity} {found.code} {found.message}")
            if found.fix:
                print(f"    fix: {found.fix}")
            worst = max(worst, int(found.severity == "error"))
    except InputError as error:
        print(f"{error.where}: {error.message}", file=sys.stderr)
        return 2
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
