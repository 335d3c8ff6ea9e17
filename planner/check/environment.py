"""Environment variables that vLLM does not know, no longer reads, or reads as something else than they say.

Values are shown only where they are short words or numbers, and never those of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import nearest, shorten
from ..inputs.launches.launch import EnvVariable
from ..inputs.serve_args_config import defaults
from ..releases import SUPPORTED, holds
from ..releases.env_variables import Reader, read_elsewhere, readers, releases_with
from ..trace import Rule
from .diagnostic import Hit, Related
from .environment_history import ALREADY_SO, BEFORE_ALL, REPLACED
from .occurrences import flag_text, is_secret
from .registry import check
from .subject import Subject

PREFIX = "VLLM_"
CHECK_OF_NAMES = "vllm/platforms/interface.py:1458-1470"

UNKNOWN = Rule(
    "CG810",
    title="An environment variable named VLLM_... is not one of vLLM's.",
    why="vLLM reads the names that it knows; of others it logs a warning, or ends with --fail-on-environ-validation.",
    example="VLLM_LOGING_LEVEL=DEBUG changes nothing.",
    instead="Write the name as vLLM has it; give variables of your own another prefix.",
    source=CHECK_OF_NAMES,
)
REMOVED = Rule(
    "CG811",
    title="An environment variable is not read by this release of vLLM.",
    why="It was removed, most often in favour of an option, or it came with a later release; what it sets is ignored.",
    example="VLLM_ATTENTION_BACKEND=FLASHINFER: the backend is chosen as if it were not there.",
    instead="Use what took its place.",
    source=CHECK_OF_NAMES,
)
FAILS = Rule(
    "CG812",
    title="vLLM cannot read the value of an environment variable, and ends.",
    why="Many switches are read as whole numbers, some values are checked against a list; the engine reads all "
    "variables when it starts.",
    example="VLLM_USE_V2_MODEL_RUNNER=true: a ValueError, invalid literal for int().",
    instead="Write 1 or 0, or one of the values that the message names.",
    source="vllm/v1/engine/core.py:248",
)
MISREAD = Rule(
    "CG813",
    title="An environment variable is read as the opposite of what its value says.",
    why="There is no one way in which vLLM reads a switch: some are on for 1 alone, some for 1 and true, some for "
    "anything but 0.",
    example="VLLM_USE_BREAKABLE_CUDAGRAPH=true: off, only 1 switches it on.",
    instead="Write 1 or 0, as the message says.",
    source="vllm/envs.py:619",
)
TWICE = Rule(
    "CG814",
    title="An environment variable is set twice, to different values.",
    why="The last one counts.",
    example="VLLM_USE_V2_MODEL_RUNNER=0 in the script, and =1 in front of the command.",
    instead="Set it once.",
    source="cgplan",
)
SERVICE_LINK = Rule(
    "CG815",
    title="VLLM_PORT is an address: a Kubernetes service is named vllm.",
    why="Kubernetes gives every container variables for each service, <NAME>_PORT among them; vLLM reads its own "
    "VLLM_PORT as a number and ends.",
    example="VLLM_PORT=tcp://10.0.0.1:8000.",
    instead="Rename the service, or set enableServiceLinks: false.",
    source="vllm/envs.py:518-545",
)


_PLAIN = re.compile(r"[A-Za-z0-9_.+-]{0,24}")
_PUT_IN = re.compile(r"\$|\{\{")
"""Text that a shell or a template engine replaces."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def shown(variable: EnvVariable) -> str:
    """NAME=VALUE where the value may be shown, else NAME."""
    value = variable.value
    if not value or is_secret(variable.name) or not _PLAIN.fullmatch(value):
        return variable.name
    return f"{variable.name}={value}"


@check(UNKNOWN, "error")
def find_unknown(subject: Subject) -> Iterator[Hit]:
    ends = subject.get("fail_on_environ_validation") is True
    for variable in _unknown(subject):
        name = variable.name
        if releases_with(name) or name in BEFORE_ALL:
            continue
        near = nearest(name, readers(subject.release), 1)
        near = near if near and _is_near(name, near[0]) else []
        if not near and not ends and _is_used(subject, name):
            continue  # a name of the file's own, which it puts into the line
        severity = "error" if near or ends else "warning"
        does = "vLLM ends over it" if ends else "vLLM ignores it"
        yield Hit(
            f"{shorten(name, 60)} is no variable of vLLM {subject.release}; {does}",
            f"did you mean {near[0]}?" if near else f"give variables of your own another prefix than {PREFIX}",
            subject.at_variable(name),
            severity=severity,
        )


def _is_near(name: str, known: str) -> bool:
    """Whether one is a slip of the other: a few letters, not another word."""
    import difflib

    return difflib.SequenceMatcher(None, name.removeprefix(PREFIX), known.removeprefix(PREFIX)).ratio() >= 0.85


def _is_used(subject: Subject, name: str) -> bool:
    pattern = rf"\$(?:{re.escape(name)}\b|[({{]{re.escape(name)}\b)"
    return re.search(pattern, subject.launch.source.text) is not None


def _unknown(subject: Subject) -> Iterator[EnvVariable]:
    """Variables with vLLM's prefix that its list lacks."""
    ends = subject.get("fail_on_environ_validation") is True
    for variable in _own(subject):
        name = variable.name
        if name not in readers(subject.release) and (ends or name not in read_elsewhere(subject.release)):
            yield variable


def _own(subject: Subject) -> list[EnvVariable]:
    """The variables of the launch that are named as vLLM's are, the one that counts of each name."""
    return list({one.name: one for one in subject.launch.env if one.name.startswith(PREFIX)}.values())


@check(REMOVED, "error")
def find_removed(subject: Subject) -> Iterator[Hit]:
    for variable in _unknown(subject):
        name = variable.name
        holding = releases_with(name)
        if not holding and name not in BEFORE_ALL:
            continue
        at = subject.at_variable(name)
        if holding and not holds(subject.release, holding[-1]):
            message = f"{name} is read since vLLM {holding[0]}; this is {subject.release}, which ignores it"
            yield Hit(message, "leave it out, or upgrade", at, severity="warning")
            continue
        gone = f"after {holding[-1]}" if holding else f"before {SUPPORTED[0]}"
        fix, flag = _successor(subject, variable)
        yield Hit(
            f"{shown(variable)} is ignored: vLLM removed {name} {gone}",
            fix,
            at,
            flag,
            severity=_how_bad(variable, flag is not None or fix.startswith("use ")),
        )


def _how_bad(variable: EnvVariable, has_successor: bool) -> str | None:
    """An info where vLLM does what the variable asks for all the same; a warning where nothing does it any more."""
    if ALREADY_SO.get(variable.name) == variable.value:
        return "info"
    return None if has_successor else "warning"


def _successor(subject: Subject, variable: EnvVariable) -> tuple[str, str | None]:
    """The fix, and the flag where the value can be carried over."""
    found = BEFORE_ALL.get(variable.name) or REPLACED.get(variable.name)
    if found is None or not _exists(subject, found.option):
        return (found.note if found is not None and found.note else "leave it out; nothing took its place"), None
    value = variable.value or ""
    if found.valued and value and _PLAIN.fullmatch(value):
        return f"use {found.option}", flag_text([found.option, value])
    return f"use {found.option}", None


def _exists(subject: Subject, option: str) -> bool:
    name, _, key = option.partition(".")
    flag = subject.flags.by_option.get(name)
    if flag is None:
        return False
    return not key or not flag.config_class or key in defaults(subject.release, flag.config_class)[flag.config_class]


@check(FAILS, "error")
def find_failing(subject: Subject) -> Iterator[Hit]:
    for variable, reader in _read(subject):
        value = variable.value or ""
        if _said_by_resolve(subject, variable.name) or (variable.name == "VLLM_PORT" and "://" in value):
            continue
        accepted = _accepted(reader, value)
        if accepted is not None:
            at = subject.at_variable(variable.name)
            yield Hit(f"{shown(variable)}: vLLM cannot read the value, and does not start", f"write {accepted}", at)


@check(SERVICE_LINK, "error")
def find_service_link(subject: Subject) -> Iterator[Hit]:
    variable = subject.variable("VLLM_PORT")
    if variable is not None and variable.value and "://" in variable.value:
        service = variable.value.startswith("tcp://vllm:")
        yield Hit(
            "the service vllm gives the container VLLM_PORT, an address; vLLM reads a number there and does not start"
            if service
            else "VLLM_PORT is an address; vLLM reads a number there and does not start",
            "rename the service vllm, or set enableServiceLinks: false",
            subject.at_variable("VLLM_PORT"),
        )


def _read(subject: Subject) -> Iterator[tuple[EnvVariable, Reader]]:
    """vLLM's own variables whose values are known, each with its reader."""
    for variable in _own(subject):
        reader = readers(subject.release).get(variable.name)
        if reader is not None and variable.value is not None and not _PUT_IN.search(variable.value):
            yield variable, reader


def _said_by_resolve(subject: Subject, name: str) -> bool:
    return subject.problem is not None and subject.problem.where == name


def _accepted(reader: Reader, value: str) -> str | None:
    """What a value that vLLM fails over should be; None where it does not."""
    if reader.kind == "bool":
        fails = value in reader.fails or (reader.number and not _is_number(value, int))
        return "1 or 0" if fails else None
    if reader.kind in ("int", "float"):
        fails = not (value == "" and reader.empty) and not _is_number(value, int if reader.kind == "int" else float)
        return ("a whole number" if reader.kind == "int" else "a number") if fails else None
    if reader.kind == "choice":
        values = [one.strip() for one in value.split(",") if one.strip()] if reader.many else [value]
        fold = str.lower if reader.folds else str
        known = {fold(choice) for choice in reader.choices}
        fails = any(fold(one) not in known for one in values)
        return ("some of " if reader.many else "one of ") + ", ".join(reader.choices) if fails else None
    return None


def _is_number(text: str, kind: type[int] | type[float]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


@check(MISREAD, "error")
def find_misread(subject: Subject) -> Iterator[Hit]:
    for variable, reader in _read(subject):
        if reader.kind != "bool" or _accepted(reader, variable.value or "") is not None:
            continue
        value = (variable.value or "").strip().lower()
        is_on = variable.value in reader.on
        if value == "" or is_on == (value in _TRUE) or value not in (*_TRUE, *_FALSE):
            continue
        write = next((one for one in reader.on if one in ("1", "true")), reader.on[0]) if not is_on else "0"
        yield Hit(
            f"{shown(variable)} is read as {'on' if is_on else 'off'}",
            f"write {write}",
            subject.at_variable(variable.name),
            f"{variable.name}={write}",
        )


@check(TWICE, "warning")
def find_twice(subject: Subject) -> Iterator[Hit]:
    last = {variable.name: variable for variable in subject.launch.env}
    for variable in subject.launch.env:
        counts = last[variable.name]
        if counts is variable or None in (variable.value, counts.value) or counts.value == variable.value:
            continue
        if variable.span is None or variable.name not in readers(subject.release):
            continue
        there = subject.at_variable(variable.name)
        at = there._replace(span=variable.span) if there is not None else None
        related = (Related(there, "this one counts"),) if there is not None and there != at else ()
        yield Hit(f"{variable.name} is set twice; the last value counts", "set it once", at, related=related)
