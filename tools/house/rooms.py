"""The rooms of cgplan, as the table in docs/architecture.md has them, and as the imports have them.

The table is the one place that says what a room may import. A row names a room, its folders, or the modules of a folder
that make a room of their own; folders below without a row belong to it. Names in backticks in the last column are
packages that are not cgplan's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from house.imports import FOLDERS, ROOT, imports, modules

PAGE = ROOT / "docs" / "architecture.md"
HEAD = "| room | where | what lives there | may import |"
EVERY = "all"
NOWHERE = "nowhere"
DRAWN = ("<!-- rooms: drawn by tools/build_docs.py from the imports -->\n", "<!-- /rooms -->")
WAY_BACK = {
    "rules": "it gathers the rules of all rooms, and rooms that show rules ask it for them, inside a function",
    "doors": "it names what other rooms make, and imports a room when its name is first asked for",
}
"""Rooms whose own imports are no arrows, with the reason."""
LATER = {"compression", "tomllib"}
"""Of the standard library, but not of every release of Python that cgplan runs on."""


class Room(NamedTuple):
    """A row of the table.

    Attributes:
        folders: as the project has them, with a slash at the end.
        modules: of the first folder, the modules that make up the room; empty: all that no other row has.
        rooms: the rooms that it may import; packages: the packages that are not cgplan's.
    """

    name: str
    folders: tuple[str, ...]
    modules: tuple[str, ...]
    rooms: frozenset[str]
    packages: frozenset[str]


@cache
def rooms() -> dict[str, Room]:
    """The table, by room."""
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    found = {}
    for line in lines[lines.index(HEAD) + 2 :]:
        if not line.startswith("|"):
            break
        name, where, _, allowed = (cell.strip() for cell in line.strip("|").split(" | "))
        quoted = re.findall("`([^`]+)`", where)
        folders = tuple(text for text in quoted if text.endswith("/"))
        packages = re.findall("`([^`]+)`", allowed)
        named = [text for text in re.split(r",\s*", re.sub("`[^`]+`", "", allowed)) if text.strip(", –")]
        found[name] = Room(
            name,
            folders,
            tuple(text for text in quoted if not text.endswith("/")),
            frozenset(text.strip() for text in named),
            frozenset(packages),
        )
    return found


@cache
def room_of(module: str) -> str:
    """The room of a module; NOWHERE where no row has it."""
    path = modules()[module].relative_to(ROOT)
    best, length = NOWHERE, -1
    for room in rooms().values():
        if room.modules:
            if path.parent.as_posix() + "/" == room.folders[0] and path.stem in room.modules:
                return room.name
            continue
        for folder in room.folders:
            if f"{path.parent.as_posix()}/".startswith(folder) and len(folder) > length:
                best, length = room.name, len(folder)
    return best


@cache
def used() -> dict[str, dict[str, list[str]]]:
    """Of each room, the other rooms and packages that it imports, each with the places: file:line.

    The standard library is left out.
    """
    found: dict[str, dict[str, list[str]]] = {name: {} for name in (*rooms(), NOWHERE)}
    for module in modules():
        here = room_of(module)
        for one in imports(module):
            is_own = one.target.split(".")[0] in FOLDERS.values()
            if not is_own and one.target in sys.stdlib_module_names | LATER:
                continue
            there = room_of(one.target) if is_own else f"`{one.target}`"
            if there != here:
                place = f"{modules()[module].relative_to(ROOT).as_posix()}:{one.line}"
                found[here].setdefault(there, []).append(place)
    if not found[NOWHERE]:
        del found[NOWHERE]
    return found


def arrows() -> dict[str, set[str]]:
    """Of each room, the rooms that it imports; none of a room of WAY_BACK."""
    return {
        room: set() if room in WAY_BACK else {other for other in others if not other.startswith("`")}
        for room, others in used().items()
    }


def ring(graph: Mapping[str, set[str]]) -> list[str]:
    """Rooms that import one another in a ring; empty where there is none."""
    left = {name: set(others) for name, others in graph.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    path = [next(iter(left))]
    while path.count(path[-1]) == 1:
        path.append(min(left[path[-1]] & left.keys()))
    return path[path.index(path[-1]) :]


def drawing() -> str:
    """The rooms as a Mermaid graph. An arrow that follows from others is left out."""
    graph = arrows()

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset().union(*({other} | reached(other) for other in graph[name]))

    lines = ["```mermaid", "graph TD"]
    for name in graph:
        direct = {other for other in graph[name] if not any(other in reached(via) for via in graph[name] - {other})}
        lines += [f"  {_node(name)} --> {_node(other)}" for other in sorted(direct)]
    return "\n".join([*lines, "```\n"])


def _node(name: str) -> str:
    return f"{name.replace(' ', '_')}[{name}]"


def page() -> str:
    """docs/architecture.md with the drawing as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(DRAWN[0])
    _, _, after = rest.partition(DRAWN[1])
    return f"{before}{DRAWN[0]}\n{drawing()}\n{DRAWN[1]}{after}"
