"""What each module of cgplan imports, read off the sources: nothing is imported to find it out.

Imports inside functions, those for the type checker alone, and `import_module("...")` count like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = {"planner": "cgplan", "cli": "cgplan.cli"}


class Import(NamedTuple):
    """One module naming another.

    Attributes:
        target: a module of cgplan, or the top name of another package.
        is_late: it stands in a function, or is for the type checker alone: importing the module does not run it.
    """

    target: str
    line: int
    is_late: bool


@cache
def modules() -> dict[str, Path]:
    """The file of each module by its name, as it is imported."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(part for part in inner if part != "__init__")])] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> tuple[Import, ...]:
    """What `module` imports of cgplan's modules and of other packages, in the order of its lines."""
    return tuple(_imports(module, tree(module), is_late=False))


def computed(module: str) -> list[int]:
    """Lines with an `import_module` whose name is not written out."""
    return [call.lineno for call in _import_module_calls(tree(module)) if _constant(call) is None]


def _imports(module: str, parent: ast.AST, *, is_late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(_known(alias.name), node.lineno, is_late)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node.level, node.module)
            for alias in node.names:
                yield Import(_known(f"{base}.{alias.name}"), node.lineno, is_late)
        elif isinstance(node, ast.Call) and (name := _constant(node)) is not None:
            yield Import(_known(name), node.lineno, is_late)
        late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_types(node)
        yield from _imports(module, node, is_late=late)


def _import_module_calls(within: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(within):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module"):
            yield node


def _constant(call: ast.Call) -> str | None:
    if ast.unparse(call.func) not in ("import_module", "importlib.import_module") or not call.args:
        return None
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _absolute(module: str, level: int, name: str | None) -> str:
    if not level:
        return name or ""
    parts = module.split(".")
    if modules()[module].name != "__init__.py":
        parts = parts[:-1]
    kept = parts[: len(parts) - level + 1]
    return ".".join([*kept, name] if name else kept)


def _known(name: str) -> str:
    """The module that holds `name`; of a foreign package its top name."""
    top = name.split(".")[0]
    if top != "cgplan":
        return top
    while name not in modules():
        name = name.rpartition(".")[0]
    return name
