"""Keys and passwords that a run is given: what it says has none of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cgplan.errors import CgplanError

if TYPE_CHECKING:
    from cgplan.inputs.launches import Launch
    from cgplan.report.check_secrets import Secrets

_typed: list[str] = []
_read: list[Launch] = []
"""The words of this run, and what it has read: an error that ends it knows of neither."""


def begin(argv: Sequence[str]) -> None:
    """A run begins; what an earlier one in this process was given is forgotten."""
    _typed[:] = argv
    _read.clear()


def remember(launches: Iterable[Launch]) -> None:
    """Their keys and passwords are in no error of this run."""
    _read.extend(launches)


def without_secrets(error: CgplanError) -> CgplanError:
    """The same error without keys and passwords: those that were read or typed, and what looks like one."""
    mask = _secrets().mask
    error.message = mask(error.message)
    error.where = mask(error.where) if error.where else error.where
    error.fix = mask(error.fix) if error.fix else error.fix
    return error


def masked(text: str) -> str:
    """A text without them."""
    return _secrets().mask(text)


def lines_of(launch: Launch, texts: Iterable[str]) -> list[str]:
    """Texts about a launch without its keys and passwords."""
    from cgplan.report.check_secrets import secrets_of

    found = secrets_of(launch.source, [launch])
    return [found.mask(text) for text in texts] if found.values else list(texts)


def _secrets() -> Secrets:
    from cgplan.inputs.launches import launch_of
    from cgplan.inputs.launches.secret_names import is_secret_name
    from cgplan.report.check_secrets import Secrets, secrets_of

    values: list[str] = []
    try:
        typed = [launch_of(["vllm", *_typed])]
    except CgplanError:  # longer than a line may be
        typed = []
    for launch in (*typed, *_read):
        values += secrets_of(launch.source, [launch]).values
    for word in _typed:
        name, _, value = word.partition("=")
        inner, _, of_env = value.partition("=")
        values += [value] if value and is_secret_name(name) else []
        values += [of_env] if of_env and is_secret_name(inner) else []
    return Secrets(tuple(sorted(dict.fromkeys(values), key=len, reverse=True)))
