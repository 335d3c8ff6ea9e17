"""How an option is read beside what typer does: none twice with two values, none empty, and under the name typed."""

from __future__ import annotations

from typing import Any

from cgplan.errors import InputError, shorten

SPELLED = "cgplan.spelled"
"""Key of the context's `meta`: each option's name as it was typed, by the name of its parameter."""


class Heard:
    """An option of the parser under one of its names."""

    def __init__(self, option: Any, name: str, given: dict[str, tuple[str, Any]]) -> None:
        self._option, self._name, self._given = option, name, given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._option, name)

    def process(self, value: Any, state: Any) -> None:
        """Take `value`, unless it is empty or another one came before."""
        option = self._option
        if option.takes_value:
            check_not_empty(value, self._name)
        before = self._given.get(option.dest)
        if before is not None and option.action in ("store", "store_const"):
            _check_alike(before, (self._name, option.const if option.action == "store_const" else value))
        self._given[option.dest] = (self._name, option.const if option.action == "store_const" else value)
        option.process(value, state)


def listen(parser: Any, meta: dict[str, Any]) -> None:
    """Hear every option of a click parser; `meta` gets the names that were typed."""
    given: dict[str, tuple[str, Any]] = meta.setdefault(SPELLED, {})
    for names in (getattr(parser, "_long_opt", {}), getattr(parser, "_short_opt", {})):
        for name, option in names.items():
            names[name] = Heard(option, name, given)


def check_not_empty(value: Any, where: str) -> None:
    """Refuse a value without a letter in it."""
    if isinstance(value, str) and not value.strip():
        if not where.startswith("-"):  # an argument, by its metavar
            raise InputError(
                "an argument is empty",
                code="CG906",
                where=where,
                fix=f"name a {where.split('|')[0].lower()}, or drop it",
            )
        raise InputError(f"the value of {where} is empty", code="CG906", where=where, fix=f"give one, or drop {where}")


def typed(where: str | None, params: list[Any], meta: dict[str, Any]) -> str | None:
    """`where` under the name that the user typed, where it names one of the options `params`."""
    for param in params:
        if where in (*param.opts, *param.secondary_opts) and param.name in meta.get(SPELLED, {}):
            spelled: str = meta[SPELLED][param.name][0]
            return spelled
    return where


def _check_alike(before: tuple[str, Any], now: tuple[str, Any]) -> None:
    if before[1] == now[1]:
        return
    if isinstance(now[1], str):
        first, second = (shorten(value, 40) for _, value in (before, now))
        message = f"{now[0]} is given twice: {first} and {second}"
        if before[0] != now[0]:
            message = f"{before[0]} {first} and {now[0]} {second} are one setting"
    else:
        message = f"{before[0]} and {now[0]} contradict each other"
    raise InputError(message, code="CG907", where=now[0], fix="drop one of the two")
