"""`with_deployment` gives a command the shared options, and lets its errors name what the user typed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
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
def with_deployment(
    *, positional: bool = True, helps: Mapping[str, str] | None = None, refused: Sequence[str] = ()
) -> Callable[[Function[Options, P]], Callable[..., int]]: ...


def with_deployment(
    function: Function[Options, P] | None = None,
    *,
    positional: bool = True,
    helps: Mapping[str, str] | None = None,
    refused: Sequence[str] = (),
) -> Any:
    """A typer command: `function`, with the options of the class that its first parameter names beside its own.

    Args:
        positional: whether it has MODEL by position; else it can have arguments of its own.
        helps: by the name of a shared option what the command's own help says of it.
        refused: shared options that have no say here. The help leaves them out; the command refuses them in its words.
    """
    if function is None:
        return lambda function: _decorated(function, positional, helps or {}, refused)
    return _decorated(function, positional, {}, ())


def _decorated(
    function: Function[Options, P], positional: bool, helps: Mapping[str, str], refused: Sequence[str]
) -> Callable[..., int]:
    own_hints = {name: annotated(hint) for name, hint in get_type_hints(function, include_extras=True).items()}
    first, *own = inspect.signature(function).parameters.values()
    kind: type[Options] = own_hints[first.name]
    hints = get_type_hints(kind, include_extras=True)
    if not positional:
        del hints[POSITIONAL]
    for name, text in helps.items():
        hints[name] = _changed(hints[name], help=text)
    for name in refused:
        hints[name] = _changed(hints[name], hidden=True)

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


def _changed(hint: Any, **values: object) -> Any:
    """The annotation of an option, with other values of its own."""
    kind, option, *_ = get_args(hint)
    own = copy.copy(option)
    vars(own).update(values)
    return Annotated[kind, own]


def annotated(hint: Any) -> Any:
    """`hint` as written: Python 3.10 wraps that of a parameter whose default is None in one more Optional."""
    return next((part for part in get_args(hint) if get_origin(part) is Annotated), hint)
