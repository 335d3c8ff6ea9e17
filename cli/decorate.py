"""`with_deployment` gives a command the shared options, and lets its errors name what the user typed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, get_args, get_origin, get_type_hints, overload

from cgplan.errors import CgplanError

from .options import DeploymentOptions

P = ParamSpec("P")

Function: TypeAlias = Callable[Concatenate[DeploymentOptions, P], int]

POSITIONAL = "model_tag"
"""The shared option that is an argument."""


@overload
def with_deployment(function: Function[P]) -> Callable[..., int]: ...


@overload
def with_deployment(*, positional: bool) -> Callable[[Function[P]], Callable[..., int]]: ...


def with_deployment(function: Function[P] | None = None, *, positional: bool = True) -> Any:
    """A typer command: `function`, with the shared options beside its own.

    With `positional=False` the command has no MODEL by position, so that it can have arguments of its own.
    """
    if function is None:
        return lambda function: _decorated(function, positional)
    return _decorated(function, positional)


def _decorated(function: Function[P], positional: bool) -> Callable[..., int]:
    hints = get_type_hints(DeploymentOptions, include_extras=True)
    if not positional:
        del hints[POSITIONAL]
    own_hints = {name: annotated(hint) for name, hint in get_type_hints(function, include_extras=True).items()}
    own = list(inspect.signature(function).parameters.values())[1:]

    def command(**given: Any) -> int:
        options = DeploymentOptions()
        for name in hints:
            setattr(options, name, given.pop(name))
        try:
            return function(options, **given)  # type: ignore[call-arg]
        except CgplanError as error:
            from .naming import as_typed

            raise as_typed(error, options) from None

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword, annotation=own_hints[p.name]) for p in own]
    parameters += [
        inspect.Parameter(name, keyword, default=getattr(DeploymentOptions, name), annotation=hint)
        for name, hint in hints.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = function.__doc__
    return command


def annotated(hint: Any) -> Any:
    """`hint` as written: Python 3.10 wraps that of a parameter whose default is None in one more Optional."""
    return next((part for part in get_args(hint) if get_origin(part) is Annotated), hint)
