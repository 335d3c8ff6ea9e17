"""Coverage of the pure core, held to its limits; other rooms are shown beside it.

coverage json && python tools/house/covered.py coverage.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from house.core import counted
from house.imports import ROOT, modules
from house.rooms import room_of, rooms

LINES, BRANCHES = 95.0, 90.0
"""Per cent of the core."""


class Share(NamedTuple):
    """Lines and branches, and those that ran."""

    lines_run: int = 0
    lines: int = 0
    branches_run: int = 0
    branches: int = 0

    def plus(self, other: Share) -> Share:
        return Share(*(one + two for one, two in zip(self, other, strict=True)))

    @property
    def per_cent(self) -> tuple[float, float]:
        return _per_cent(self.lines_run, self.lines), _per_cent(self.branches_run, self.branches)

    def __str__(self) -> str:
        lines, branches = self.per_cent
        return f"lines {lines:6.2f}% of {self.lines:6,}   branches {branches:6.2f}% of {self.branches:5,}"


def shares(report: Mapping[str, Any]) -> dict[str, Share]:
    """Of each module that the report has, what ran."""
    names = {path.relative_to(ROOT).as_posix(): module for module, path in modules().items()}
    found = {}
    for path, file in report["files"].items():
        summary = file["summary"]
        module = names.get(Path(path).as_posix())
        if module is not None:
            found[module] = Share(
                summary["covered_lines"],
                summary["num_statements"],
                summary["covered_branches"],
                summary["num_branches"],
            )
    return found


def rows(found: Mapping[str, Share]) -> Iterator[tuple[str, Share]]:
    """Each room's share, of what is held to the limits and of the rest, and last that of the core."""
    held = set(counted())
    groups: dict[str, Share] = defaultdict(Share)
    for module, share in found.items():
        room = room_of(module)
        groups[room if module in held else f"({room})"] = groups[room if module in held else f"({room})"].plus(share)
    for room in rooms():
        for name in (room, f"({room})"):
            if name in groups:
                yield name, groups[name]
    whole = Share()
    for module in held:
        whole = whole.plus(found.get(module, Share()))
    yield "the core", whole


def _per_cent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def main(argv: list[str]) -> int:
    report = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    found = shares(report)
    missing = [module for module in counted() if module not in found]
    if missing:
        print(f"the report does not have {', '.join(missing[:5])}", file=sys.stderr)
        return 1
    share = Share()
    for name, share in rows(found):
        print(f"{name:16} {share}")
    lines, branches = share.per_cent
    print(f"limits: {LINES:g}% of lines and {BRANCHES:g}% of branches of the core; rooms in brackets are not of it")
    return int(lines < LINES or branches < BRANCHES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
