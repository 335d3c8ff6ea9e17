"""Commands in the scalars of a YAML text, with their places."""

from __future__ import annotations

from collections.abc import Mapping

from .shell.commands import in_script
from .shell.word import Found, Word
from .yaml_nodes import Scalar


def in_scalar(script: Scalar, env: Mapping[str, str | None]) -> list[Found]:
    """The servers that a scalar starts whose text is a shell script.

    Args:
        script: the scalar.
        env: variables that are set for it.

    Raises:
        InputError: CG906 a quote is not closed, CG914 the script is too long.
    """
    return in_script(script.text, script.span_of, env, script.inner)


def word_of(item: Scalar, flow: bool) -> Word:
    """An item of a list as one word; `flow`: the list is written in brackets."""
    return Word(item.text, item.span, "flow" if flow else "item", True, item.inner, item.span_of)
