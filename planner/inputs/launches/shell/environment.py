"""Variables that a server gets from the commands around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..launch import EnvVariable, Hints
from .script_text import Script
from .walk import Simple, Walk
from .word import Word

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
"""NAME= at the start of a word."""


def exported(walk: Walk, script: Script) -> list[EnvVariable]:
    """The variables that the script exports before its latest command."""
    found = []
    for name, one in walk.exported.items():
        value = walk.scope.variables.get(name)
        field = value.fields[0] if value is not None and value.known and value.fields else None
        text = field.text if field is not None and not field.unknown else None
        found.append(EnvVariable(name, text, script.span_of(one.start, one.end)))
    return found


def known_within(walk: Walk, *, all_of_them: bool) -> dict[str, str | None]:
    """Variables that a script within this one sees: those exported, of `eval` all."""
    names = walk.scope.variables if all_of_them else walk.exported
    known = {}
    for name in names:
        value = walk.scope.variables.get(name)
        if value is not None and not value.array and not any(field.unknown for field in value.fields):
            known[name] = value.text
    return known


def assigned(simple: Simple, script: Script) -> list[EnvVariable]:
    """The variables that are set in front of a command."""
    found = []
    for one in simple.front:
        unknown = not one.value.known or any(field.unknown for field in one.value.fields)
        span = script.span_of(one.start, one.end)
        found.append(EnvVariable(one.name, None if unknown else one.value.text, span))
    return found


def pairs(words: Sequence[Word]) -> tuple[EnvVariable, ...]:
    """NAME=VALUE among words: in front of a program, or behind `env`."""
    found = []
    for word in words:
        name = ASSIGNMENT.match(word.text)
        if name is not None:
            value = None if word.unknown else word.text[name.end() :]
            found.append(EnvVariable(name[1], value, word.span))
    return tuple(found)


def container_variable(words: Sequence[Word], index: int, skip: int) -> EnvVariable | None:
    """The variable of an `--env` of `docker run`: of word `index`, behind `skip` characters."""
    word = words[index]
    name, equals, value = word.text[skip:].partition("=")
    if not name.isidentifier():
        return None
    return EnvVariable(name, value if equals and not word.unknown else None, word.span)


def visible_gpus(env: Sequence[EnvVariable]) -> Hints:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible."""
    for one in reversed(env):
        if one.name == "CUDA_VISIBLE_DEVICES" and one.value and re.fullmatch(r"\d+(,\d+)*", one.value):
            return Hints(gpus=one.value.count(",") + 1, gpus_span=one.span)
    return Hints()
