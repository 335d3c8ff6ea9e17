"""`with_deployment` gives a command the shared options, and lets its errors name what the user typed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, get_args, get_origin, get_type_hints

from cgplan.errors import CgplanError

from .options import DeploymentOptions

P = ParamSpec("P")


def with_deployment(
    function: Callable[Concatenate[DeploymentOptions, P], int],
) -> Callable[..., int]:
    """A typer command: `function`, with the shared options beside its own."""
    hints = get_type_hints(DeploymentOptions, include_extras=True)
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
