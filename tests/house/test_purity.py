"""The core reads nothing, prints nothing and needs no heavy package; the modules that must are named here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from house import core, imports

HEAVY = {"torch", "triton", "vllm", "ray", "pynvml", "rich", "typer", "pygal"}
MODULES = HEAVY | {
    *("os", "io", "pathlib", "shutil", "tempfile", "subprocess", "socket", "urllib", "http", "ssl", "ctypes"),
    *("multiprocessing", "concurrent", "asyncio", "threading", "signal", "logging", "time", "datetime"),
}
CALLS = {"open", "print", "input"}
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "urlopen", "mkdir", "unlink", "environ"}


def effects(module: str) -> set[str]:
    """What of the world outside a module touches, by the names of MODULES, CALLS and METHODS."""
    return {one.target for one in imports.imports(module)} & MODULES | set(_uses(imports.tree(module)))


def _uses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.func.id
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "open":
            yield "open"
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            yield node.attr


@pytest.mark.parametrize("module", core.core())
def test_core_does_what_is_named_and_no_more(module: str) -> None:
    allowed, _ = core.ALLOWED.get(module, (frozenset(), ""))
    assert effects(module) == allowed


@pytest.mark.parametrize("module", sorted(core.ON_THE_DEVICE))
def test_on_the_device_heavy_packages_come_late(module: str) -> None:
    assert effects(module)
    early = {one.target for one in imports.imports(module) if not one.is_late} & HEAVY
    assert not early or module == "cgplan.memory.profile.synthetic.attention_kernel"


def test_every_module_named_is_of_the_core() -> None:
    assert core.ALLOWED.keys() <= set(core.core())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open('x')", {"open"}),
        ("path.open()", {"open"}),
        ("path.read_text()", {"read_text"}),
        ("os.environ['A']", {"environ"}),
        ("read_text(text)", set()),
        ("is_open(subject)", set()),
    ],
)
def test_reader_of_effects(source: str, found: set[str]) -> None:
    assert set(_uses(ast.parse(source))) == found
