"""Every message that cgplan has for a person who did something wrong, in one list, for reading.

    python tools/messages.py            # all, by file
    python tools/messages.py CG905      # of one code

The list is read off the source: each InputError, StartupError, CgplanError, ArgumentRefused, Hit, Finding, Remark and
Note that is made, and each error that calls the constructor of its base, with what stands in its code, message, place
and fix. What is put in at run time stands in braces. Functions that make an error of their arguments are followed to
who calls them.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIELDS = {
    "InputError": ("message", "code", "where", "fix"),
    "StartupError": ("message", "code", "stage", "raised_as", "raised_in", "where", "fix"),
    "CgplanError": ("message", "code", "where", "fix"),
    "ArgumentRefused": ("message", "kind", "where", "fix"),
    "Hit": ("message", "fix", "at"),
    "Finding": ("code", "severity", "message", "fix", "where"),
    "Remark": ("kind", "message", "span", "fix"),
    "Note": ("kind", "message", "option"),
}
"""What makes a message, and the order of its fields; those of the errors behind the message are given by name."""

ERRORS = ("InputError", "StartupError", "CgplanError", "ArgumentRefused")

PLACED = ("ArgumentRefused", "Hit", "Remark", "Note")
"""They point into the text that was read."""

SHOWN = ("code", "message", "where", "fix")
MOST = 12
"""Ways in which one field is told apart; more are one way."""
DEEPEST = 4
"""Functions that are followed from the message to who asks for it."""
LONGEST = 30
"""Longest source text in braces."""


@dataclass(frozen=True)
class Message:
    """One message; two ways to say it are two. `code`, `where` and `fix` are None where there is none."""

    kind: str
    file: str
    line: int
    code: str | None
    message: str
    where: str | None
    fix: str | None

    def __str__(self) -> str:
        where = f" [{self.where}]" if self.where is not None else ""
        fix = f"\n    fix: {self.fix}" if self.fix is not None else ""
        return f"{self.file}:{self.line} {self.kind} {self.code or '-'}\n    {self.message}{where}{fix}"


@dataclass
class _Module:
    """A file of the project: its names, and what they are in the installed package."""

    path: Path
    tree: ast.Module
    name: str
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: list[tuple[ast.Call, ast.FunctionDef | None]] | None = None

    def value(self, name: str) -> Any:
        """A global of the module, or None."""
        return getattr(import_module(self.name), name, None)


@dataclass(frozen=True)
class _Scope:
    """Where an expression stands: its function, and what the arguments of that are."""

    module: _Module
    function: ast.FunctionDef | None
    bound: Mapping[str, list[str | None]]


class _Missing(Exception):
    """A field is an argument of the function, and nothing is known of it."""


def messages() -> list[Message]:
    """Every message, by file and line."""
    modules = {module.name: module for module in _modules()}
    found: dict[Message, None] = {}
    for module in modules.values():
        for call, function in _calls(module):
            if _called(call) in FIELDS and not (_called(call) == "Note" and module.name.startswith("cgplan.compare")):
                for one in _followed(modules, module, call, function, DEEPEST):
                    found[one] = None
    return sorted(found, key=lambda one: (one.file, one.line, one.message, one.fix or ""))


def _modules() -> Iterator[_Module]:
    for top, name in (("planner", "cgplan"), ("cli", "cgplan.cli")):
        for path in sorted((ROOT / top).rglob("*.py")):
            inside = path.relative_to(ROOT / top).with_suffix("").parts
            dotted = ".".join([name, *(part for part in inside if part != "__init__")])
            module = _Module(path, ast.parse(path.read_text(encoding="utf-8")), dotted)
            package = dotted if path.name == "__init__.py" else dotted.rpartition(".")[0]
            for node in ast.walk(module.tree):
                if isinstance(node, ast.FunctionDef):
                    module.functions.setdefault(node.name, node)
                elif isinstance(node, ast.ImportFrom):
                    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                    home = ".".join([*base, *([node.module] if node.module else [])])
                    for alias in node.names:
                        module.imported[alias.asname or alias.name] = (home, alias.name)
            yield module


def _calls(module: _Module) -> list[tuple[ast.Call, ast.FunctionDef | None]]:
    """Every call, with the innermost function that it stands in."""
    if module.calls is None:
        module.calls = list(_walk(module.tree, None))
    return module.calls


def _walk(node: ast.AST, function: ast.FunctionDef | None) -> Iterator[tuple[ast.Call, ast.FunctionDef | None]]:
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call):
            yield child, inner
        yield from _walk(child, inner)


def _called(call: ast.Call) -> str:
    """The name that is called; that of an error where a class of errors calls its base."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    is_base = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
    return "StartupError" if is_base and any(word.arg == "raised_as" for word in call.keywords) else ""


def _followed(
    modules: Mapping[str, _Module], module: _Module, call: ast.Call, function: ast.FunctionDef | None, deep: int
) -> Iterator[Message]:
    """The messages of one call; where its fields are arguments of `function`, those of all who call that."""
    kind = _called(call)
    fields = _given(call, FIELDS[kind])
    values = [fields[name] for name in SHOWN if name in fields]
    for scope, line, file in _scopes(modules, module, function, values, deep):
        ways = [_ways(fields.get(name), scope) for name in SHOWN]
        if kind == "Hit":
            ways[0] = [_code_of_check(module, function)]
        elif kind == "ArgumentRefused":
            ways[0] = [_code_of_refusal(way) for way in _ways(fields.get("kind"), scope)]
        if kind in PLACED:
            ways[2] = ["the place"]
        for code, message, where, fix in itertools.product(*ways):
            yield Message(kind, file, line, code, message or "{message}", where, fix)


def _given(call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    given = dict(zip(names, call.args, strict=False))
    given.update({word.arg: word.value for word in call.keywords if word.arg is not None})
    return given


def _scopes(
    modules: Mapping[str, _Module],
    module: _Module,
    function: ast.FunctionDef | None,
    values: Sequence[ast.expr],
    deep: int,
) -> Iterator[tuple[_Scope, int, str]]:
    """Each scope in which the values are known: that of the call itself, or one for each call of its function."""
    line = min((value.lineno for value in values), default=0)
    own = (_Scope(module, function, {}), line, _file(module))
    if function is None or deep == 0:
        yield own
        return
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    whole = {node.id for value in values for node in _alternatives(value) if isinstance(node, ast.Name)}
    if not whole & {*names, *(one.arg for one in arguments.kwonlyargs)}:
        yield own
        return
    callers = list(_callers(modules, module, function))
    if not callers:
        yield own
    for caller, call, outer in callers:
        given = _given(call, tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names))
        for scope, at, file in _scopes(modules, caller, outer, list(given.values()), deep - 1):
            bound = {name: _ways(value, scope) for name, value in given.items()}
            bound |= {
                one.arg: _ways(default, own[0])
                for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                if one.arg not in bound and default is not None
            }
            for one, default in zip(reversed(names), reversed(arguments.defaults), strict=False):
                bound.setdefault(one, _ways(default, own[0]))
            yield _Scope(module, function, bound), at, file


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """What the expression may be as a whole."""
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body)
        yield from _alternatives(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _alternatives(value)
    else:
        yield node


def _callers(
    modules: Mapping[str, _Module], module: _Module, function: ast.FunctionDef
) -> Iterator[tuple[_Module, ast.Call, ast.FunctionDef | None]]:
    for other in modules.values():
        here = other is module and other.functions.get(function.name) is function
        if not here and function.name not in other.imported:
            continue
        if not here and other.imported[function.name][0] != module.name:
            continue
        for call, outer in _calls(other):
            name = call.func.attr if isinstance(call.func, ast.Attribute) and here else _called(call)
            if name == function.name and outer is not function:
                yield other, call, outer


def _file(module: _Module) -> str:
    return module.path.relative_to(ROOT).as_posix()


def _code_of_check(module: _Module, function: ast.FunctionDef | None) -> str | None:
    """The code of the rule whose check the function is, `@check(RULE)`."""
    for decorator in function.decorator_list if function is not None else ():
        if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Name):
            return getattr(module.value(decorator.args[0].id), "code", None)
    return None


def _code_of_refusal(kind: str | None) -> str | None:
    """The code of a refusal of vLLM's parser, by its kind."""
    codes: dict[str, str] = import_module("cgplan.inputs.serve_args_errors").CODES
    return codes.get(kind or "", "{CODES[kind]}")


def _ways(node: ast.expr | None, scope: _Scope) -> list[str | None]:
    """What an expression may be as text, None for nothing; at most MOST ways."""
    if node is None:
        return [None]
    found = list(dict.fromkeys(_texts(node, scope, DEEPEST)))
    return found if len(found) <= MOST else [_braced(node)]


def _texts(node: ast.expr, scope: _Scope, deep: int) -> Iterator[str | None]:
    if isinstance(node, ast.Constant):
        yield None if node.value is None else str(node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = [list(_part(part, scope, deep)) for part in node.values]
        if len(list(itertools.islice(itertools.product(*parts), MOST + 1))) > MOST:
            parts = [[_braced(part.value)] if isinstance(part, ast.FormattedValue) else list(_part(part, scope, 0))
                     for part in node.values]  # fmt: skip
        found = ["".join(words) for words in itertools.product(*parts)]
        # Two blanks: a part that is empty in another case.
        yield from [text for text in found if "  " not in text] or found
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, scope, deep)
        yield from _texts(node.orelse, scope, deep)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        *first, last = node.values
        for value in first:
            yield from (text for text in _texts(value, scope, deep) if text)
        yield from _texts(last, scope, deep)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one, other in itertools.product(_texts(node.left, scope, deep), _texts(node.right, scope, deep)):
            yield f"{one}{other}"
    elif isinstance(node, ast.Name) and deep:
        yield from _of_name(node, scope, deep)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        there = getattr(scope.module.value(node.value.id), node.attr, None)
        yield there if isinstance(there, str) else _braced(node)
    else:
        yield _braced(node)


def _part(part: ast.expr, scope: _Scope, deep: int) -> Iterator[str]:
    if isinstance(part, ast.Constant):
        yield str(part.value)
    elif isinstance(part, ast.FormattedValue):
        inner = part.value
        if deep and isinstance(inner, (ast.IfExp, ast.Name)):
            texts = [text for text in _texts(inner, scope, deep - 1) if text is not None]
            yield from texts or [_braced(inner)]
        else:
            yield _braced(inner)


def _of_name(node: ast.Name, scope: _Scope, deep: int) -> Iterator[str | None]:
    if node.id in scope.bound:
        yield from scope.bound[node.id]
        return
    values = [
        statement.value
        for statement in (ast.walk(scope.function) if scope.function is not None else ())
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and target.id == node.id
    ]
    if values:
        more = "{…}" if _grows(node.id, scope.function) else ""
        for text in (text for value in values for text in _texts(value, scope, deep - 1)):
            yield text if text is None else text + more
        return
    value = scope.module.value(node.id)
    yield value if isinstance(value, str) else _braced(node)


def _grows(name: str, function: ast.FunctionDef | None) -> bool:
    """Whether more is put behind the text of this name, `name += ...`."""
    return any(
        isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name) and one.target.id == name
        for one in (ast.walk(function) if function is not None else ())
    )


def _braced(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return f"{{{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}}}"


def main(codes: list[str]) -> int:
    found = [one for one in messages() if not codes or any(re.match(code, one.code or "") for code in codes)]
    for one in found:
        print(one)
    print(f"{len(found)} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
