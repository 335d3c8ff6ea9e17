"""The rooms of docs/architecture.md: who may import whom, held against the sources."""

from __future__ import annotations

import ast

import pytest
from house import imports, rooms

TABLE = sorted(rooms.rooms())
COMPUTED = {
    "cgplan": "names of the library, each from the table of their homes",
    "cgplan.__main__": "the command line",
    "cgplan.cli.app": "the command asked for, of its own room",
    "cgplan.cli.schema": "the form of a document, from the table of their homes",
    "cgplan.check.families": "each family of checks, of its own room",
    "cgplan.inputs.launches.reading": "the reader of a kind of file, of its own room",
    "cgplan.memory.profile.callable_engine": "a module of the user's",
}
"""Modules that import by a name they work out, and what they import so."""


def test_every_module_is_in_a_room_and_every_room_has_modules() -> None:
    assert [module for module in imports.modules() if rooms.room_of(module) == rooms.NOWHERE] == []
    assert {rooms.room_of(module) for module in imports.modules()} == set(TABLE)


def test_every_module_that_a_row_names_exists() -> None:
    for room in rooms.rooms().values():
        for name in room.modules:
            assert (imports.ROOT / room.folders[0] / f"{name}.py").exists(), f"{room.name}: {name}"


@pytest.mark.parametrize("name", TABLE)
def test_a_room_imports_what_its_row_allows(name: str) -> None:
    room = rooms.rooms()[name]
    for other, places in rooms.used()[name].items():
        if other.startswith("`"):
            assert other.strip("`") in room.packages, f"{name} may not import the package {other}: {places}"
        else:
            allowed = rooms.EVERY in room.rooms or other in room.rooms
            assert allowed, f"{name} may not import {other}, says docs/architecture.md: {places}"


@pytest.mark.parametrize("name", TABLE)
def test_a_row_allows_nothing_that_nobody_imports(name: str) -> None:
    room = rooms.rooms()[name]
    allowed = {*(room.rooms - {rooms.EVERY}), *(f"`{package}`" for package in room.packages)}
    assert allowed - rooms.used()[name].keys() == set()


def test_no_ring() -> None:
    assert rooms.ring(rooms.arrows()) == []


def test_rooms_come_in_the_order_of_their_imports() -> None:
    order = list(rooms.rooms())
    for room, others in rooms.arrows().items():
        late = [other for other in others - rooms.WAY_BACK.keys() if order.index(other) > order.index(room)]
        assert not late, f"{room} stands above {late}"


@pytest.mark.parametrize("name", sorted(rooms.WAY_BACK))
def test_ways_back_are_taken_late(name: str) -> None:
    for module in imports.modules():
        if rooms.room_of(module) != name:
            continue
        early = [one for one in imports.imports(module) if one.target.startswith("cgplan.") and not one.is_late]
        assert {rooms.room_of(one.target) for one in early} <= {"words"}, early


def test_names_that_are_worked_out_are_known() -> None:
    found = {module for module in imports.modules() if imports.computed(module)}
    assert found == set(COMPUTED)


@pytest.mark.parametrize(
    ("source", "target", "is_late"),
    [
        ("from ..errors import InputError", "cgplan.errors", False),
        ("from .. import errors", "cgplan.errors", False),
        ("from . import pipeline", "cgplan.resolve.pipeline", False),
        ("import cgplan.memory.plan", "cgplan.memory.plan", False),
        ("from importlib.resources import files", "importlib", False),
        ("def work():\n    import torch.cuda", "torch", True),
        ("if TYPE_CHECKING:\n    from cgplan.check import Report", "cgplan.check", True),
        ("crashes = import_module('cgplan.startup.crashes')", "cgplan.startup.crashes", False),
    ],
)
def test_reader_of_imports(source: str, target: str, is_late: bool) -> None:
    (found,) = imports._imports("cgplan.resolve.settle", ast.parse(source), is_late=False)
    assert (found.target, found.is_late) == (target, is_late)


def test_a_ring_is_found() -> None:
    graph: dict[str, set[str]] = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert rooms.ring(graph) in (["b", "c", "b"], ["c", "b", "c"])
    assert rooms.ring({**graph, "c": {"d"}}) == []
