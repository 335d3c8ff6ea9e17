"""`with_deployment` gives a command the shared options, and lets its errors name what the user typed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from cgplan.errors import CgplanError

from .options import DeploymentOptions

P = ParamSpec("P")

Options = TypeVar("Options", bound=DeploymentOptions)

Function: TypeAlias = Callable[Concatenate[Options, P], int]

POSITIONAL = "model_tag"
"""The shared option that is an argument."""


@overload
def with_deployment(function: Function[Options, P]) -> Callable[..., int]: ...


@overload
def with_deployment(*, positional: bool) -> Callable[[Function[Options, P]], Callable[..., int]]: ...


def with_deployment(function: Function[Options, P] | None = None, *, positional: bool = True) -> Any:
    """A typer command: `function`, with the options of the class that its first parameter names beside its own.

    With `positional=False` the command has no MODEL by position, so that it can have arguments of its own.
    """
    if function is None:
        return lambda function: _decorated(function, positional)
    return _decorated(function, positional)


def _decorated(function: Function[Options, P], positional: bool) -> Callable[..., int]:
    own_hints = {name: annotated(hint) for name, hint in get_type_hints(function, include_extras=True).items()}
    first, *own = inspect.signature(function).parameters.values()
    kind: type[Options] = own_hints[first.name]
    hints = get_type_hints(kind, include_extras=True)
    if not positional:
        del hints[POSITIONAL]

    def command(**given: Any) -> int:
        options = kind()
        for name in hints:
            setattr(options, name, given.pop(name))
        try:
            return function(options, **given)  # type: ignore[call-arg]
        except CgplanError as error:
            from .naming import as_typed

            raise as_typed(error, options) from None

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = {
        name: inspect.Parameter(name, keyword, default=getattr(kind, name), annotation=hint)
        for name, hint in hints.items()
    }
    # The help shows panels in this order: what the command adds to the shared options stands before them.
    added = [parameter for name, parameter in shared.items() if name not in DeploymentOptions.__annotations__]
    parameters = [*added, *(p.replace(kind=keyword, annotation=own_hints[p.name]) for p in own)]
    parameters += [parameter for name, parameter in shared.items() if name in DeploymentOptions.__annotations__]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = function.__doc__
    return command


def annotated(hint: Any) -> Any:
    """`hint` as written: Python 3.10 wraps that of a parameter whose default is None in one more Optional."""
    return next((part for part in get_args(hint) if get_origin(part) is Annotated), hint)
