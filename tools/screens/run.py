"""The commands of the tour, and what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FROM_RECORD = """
import gzip, json, sys
from cgplan.report.profile_text import show_profile
for line in gzip.open(sys.argv[1], "rt"):
    made = json.loads(line)
    if made["name"] == sys.argv[2]:
        show_profile(made, sys.argv[3], {})
"""


class Screen(NamedTuple):
    """One step of the tour.

    Attributes:
        line: the command as a user types it.
        title: what the picture shows, for those who do not see it.
        status: its exit status.
        record: of a command that needs a GPU: file, name and title of the record whose screen is drawn.
    """

    name: str
    line: str
    title: str
    status: int = 0
    record: tuple[str, str, str] | None = None


def load() -> list[Screen]:
    """The screens, in the order of the tour."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    given = tomllib.loads((Path(__file__).parent / "screens.toml").read_text())["screen"]
    return [Screen(**{**one, "record": tuple(one["record"]) if "record" in one else None}) for one in given]


def printed(screen: Screen) -> str:
    """What the command prints on a terminal with colours.

    Raises:
        RuntimeError: it ends with another exit status than it should.
    """
    if screen.record is not None:
        words = ["-c", _FROM_RECORD, *screen.record]
    else:
        words = ["-m", *shlex.split(screen.line)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "CGPLAN_"))}
    env = {**kept, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    env.pop("NO_COLOR", None)
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, encoding="utf-8", cwd=ROOT, env=env, check=False
    )
    if done.returncode != screen.status:
        raise RuntimeError(f"{screen.line}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.rstrip("\n") + "\n"
