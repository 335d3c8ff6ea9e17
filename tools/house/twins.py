"""Lines of logic that stand in two places.

    python tools/house/twins.py [LINES]     print the places that share LINES lines (6)

A line of logic is a line inside a function: no signature, docstring, comment, import, lone name or bracket. Lines are
compared without their indentation, and without the names of variables: `low = middle` is `high = below`.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("planner", "cli", "tools", "tests")
LINES = 6
_BRACKETS = frozenset("()[]{},:_")
_VARIABLE = re.compile(r"(?<![.\w\"'])[a-z_]\w*(?![\w(])")
_KEPT = {*keyword.kwlist, "self", "cls"}


class Line(NamedTuple):
    """A line of a function: its number, its text, and the text with `_` for each variable."""

    number: int
    text: str
    worn: str


class Twin(NamedTuple):
    """A run of lines that two functions share: file:line of the first line of each, and the lines."""

    one: str
    other: str
    lines: tuple[str, ...]


def sources() -> dict[str, str]:
    """The text of each file of FOLDERS by its path."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def functions(text: str) -> Iterator[list[Line]]:
    """The lines of logic of each outermost function and of each method."""
    lines = text.split("\n")
    tree = ast.parse(text)
    for node in _outermost(tree):
        left_out = set(range(node.lineno, node.body[0].lineno))
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                left_out |= set(range(inner.lineno, inner.body[0].lineno))
                if ast.get_docstring(inner, clean=False) is not None:
                    left_out |= _span(inner.body[0])
            elif isinstance(inner, ast.Import | ast.ImportFrom):
                left_out |= _span(inner)
        yield [
            Line(number, line, worn(line))
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if number not in left_out and (line := lines[number - 1].strip()) and not _says_nothing(line)
        ]


def worn(line: str) -> str:
    """The line with `_` for each variable; attributes, calls, classes and constants keep their names."""
    return _VARIABLE.sub(lambda found: found[0] if found[0] in _KEPT else "_", line)


def twins(texts: dict[str, str], length: int = LINES) -> list[Twin]:
    """All runs of at least `length` lines that two places share, each once and at its full length."""
    bodies = [(path, body) for path, text in texts.items() for body in functions(text)]
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for index, (_, body) in enumerate(bodies):
        for at in range(len(body) - length + 1):
            places[tuple(line.worn for line in body[at : at + length])].append((index, at))
    found = []
    for spots in places.values():
        for first, (index, at) in enumerate(spots):
            for other, there in spots[first + 1 :]:
                one, two = bodies[index][1], bodies[other][1]
                if at and there and one[at - 1].worn == two[there - 1].worn:
                    continue  # told already, from its first line
                size = length
                while (
                    at + size < len(one) and there + size < len(two) and one[at + size].worn == two[there + size].worn
                ):
                    size += 1
                found.append(
                    Twin(
                        f"{bodies[index][0]}:{one[at].number}",
                        f"{bodies[other][0]}:{two[there].number}",
                        tuple(line.text for line in one[at : at + size]),
                    )
                )
    return found


def _outermost(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _outermost(child)


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _says_nothing(line: str) -> bool:
    return line.startswith("#") or set(worn(line)) <= _BRACKETS


def main() -> int:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    found = twins(sources(), length)
    for twin in found:
        print(f"{twin.one} and {twin.other}: {len(twin.lines)} lines")
        for line in twin.lines:
            print(f"    {line}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
