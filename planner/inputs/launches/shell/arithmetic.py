"""Sums and products of whole numbers, as in $((N * 2))."""

from __future__ import annotations

import re

from .values import Scope


def calculated(text: str, scope: Scope) -> int | None:
    """A sum or product of numbers that are known, or None."""
    import ast

    def put_in(found: re.Match[str]) -> str:
        value = scope.find(found[1])
        known = value.text if value is not None and not (value.fields and value.fields[0].unknown) else None
        return known if known is not None and known.isdigit() and len(known) < 10 else "?"

    filled = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", put_in, text).strip()
    if not re.fullmatch(r"[0-9+\-*/%() ]{1,100}", filled):
        return None
    try:
        return _number(ast.parse(filled.replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _number(node: object) -> int:
    import ast

    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < 10**10:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv):
            return left // right
        if isinstance(node.op, ast.Mod):
            return left % right
    raise ValueError("no plain sum")
