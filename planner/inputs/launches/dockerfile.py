"""Dockerfiles: the command of the image that the last stage makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from ...errors import InputError
from ...light_dataclass import dataclass
from .image import is_vllm_image, release_of
from .joined import Joined
from .launch import EnvVariable, Hints, Launch, Reading, Remark, Source
from .lines import next_line
from .places import Places
from .shell.commands import Found, Word, in_script, in_words
from .shell.programs import entrypoint_before
from .shell.word import made

MAX_INSTRUCTIONS = 5_000
MAX_LENGTH = 256 * 1024
"""Longest instruction that is read, in characters."""
_READ = ("FROM", "ARG", "ENV", "CMD", "ENTRYPOINT")

_ESCAPE = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*([`\\])", re.IGNORECASE)
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_HERE = re.compile(r"<<-?[ \t]*([\"']?)([A-Za-z_]\w*)\1")
_VARIABLE = re.compile(
    r"\\\$|\$(?P<bare>[A-Za-z_]\w*)|\$\{(?P<name>[A-Za-z_]\w*)(?:(?P<sign>:?[-+])(?P<word>[^{}]*))?\}"
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_][\w.]*)=((?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^']*'|\\.|[^\s\"'\\]+)*)", re.DOTALL)
_PARTS = re.compile(r"\"([^\"\\]*(?:\\.[^\"\\]*)*)\"|'([^']*)'|(\\.)|([^\"'\\]+)", re.DOTALL)
_FROM = re.compile(r"(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<name>\S+))?\s*$", re.IGNORECASE)


class Instruction(NamedTuple):
    """One instruction: its name in capitals, and what stands behind it."""

    name: str
    text: Joined


@dataclass(frozen=True)
class _Stage:
    """What one stage sets, that of the stage it starts from included."""

    image: str = ""
    hints: Hints = field(default_factory=Hints)
    env: tuple[EnvVariable, ...] = ()
    entrypoint: Joined | None = None
    command: Joined | None = None
    values: Mapping[str, str | None] = field(default_factory=dict)


def launches(source: Source) -> Reading:
    """The server that a container of the last stage starts, where CMD and ENTRYPOINT say so.

    Raises:
        InputError: CG906 a quote of a command is not closed, CG914 a command is too long.
    """
    stage = _last_stage(source)
    if stage is None:
        return Reading()
    found, remarks = _started(stage)
    made = []
    for one in found:
        hints = stage.hints if one.hints.gpus is None else stage.hints._replace(gpus=one.hints.gpus)
        env = (*stage.env, *one.env)
        made.append(Launch(source, "dockerfile", "", one.tokens, env, hints=hints, remarks=(*remarks, *one.remarks)))
    return Reading(tuple(made), () if made else tuple(remarks))


def instructions(source: Source) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, continued lines joined, comments and here-documents left out."""
    text = source.text
    places = Places(source)
    escape = "\\"
    directives = True
    at = 1 if text.startswith("\ufeff") else 0
    count = 0
    while at < len(text) and count < MAX_INSTRUCTIONS:
        end = next_line(text, at)
        line = text[at:end].strip()
        found = _ESCAPE.fullmatch(line) if directives else None
        if found is not None:
            escape = found[1]
        directives = directives and line.startswith("#")
        if not line or line.startswith("#"):
            at = end
            continue
        joined, at = _joined(text, at, escape, places)
        head = _INSTRUCTION.match(joined.text)
        if head is not None:
            if joined.length > MAX_LENGTH and head[1].upper() in _READ:
                raise InputError(
                    f"an instruction is longer than {MAX_LENGTH // 1024} KiB",
                    code="CG914",
                    where=f"line {joined.span_of(0, 1).line}",
                    fix="check the command alone",
                )
            count += 1
            instruction = Instruction(head[1].upper(), joined.part(head.end(), joined.length))
            yield instruction
            if instruction.name in ("RUN", "COPY", "ADD"):
                at = _behind_documents(text, at, joined.text)


def _joined(text: str, at: int, escape: str, places: Places) -> tuple[Joined, int]:
    """A line and those that continue it."""
    joined = Joined(places)
    first = True
    while at < len(text):
        end = next_line(text, at)
        line = text[at:end].rstrip(" \t\r\n")
        bare = line.strip()
        if not first and (not bare or bare.startswith("#")):
            at = end  # comments and empty lines do not end a continued line
            continue
        first = False
        if not line.endswith(escape):
            joined.add(at, at + len(line))
            return joined, end
        joined.add(at, at + len(line) - 1)
        at = end
    return joined, at


def _behind_documents(text: str, at: int, line: str) -> int:
    for found in _HERE.finditer(line):
        closed = re.compile(rf"^\t*{re.escape(found[2])}[ \t\r]*$", re.MULTILINE).search(text, at)
        if closed is None:
            return len(text)
        at = min(closed.end() + 1, len(text))
    return at


def _last_stage(source: Source) -> _Stage | None:
    outer: dict[str, str | None] = {}
    stages: dict[str, _Stage] = {}
    stage: _Stage | None = None
    name = ""
    for one in instructions(source):
        if one.name == "FROM":
            if stage is not None and name:
                stages[name.lower()] = stage
            stage, name = _from(one.text, outer, stages)
        elif one.name == "ARG":
            values = outer if stage is None else dict(stage.values)
            _set_arguments(one.text.text, values, outer)
            if stage is not None:
                stage = replace(stage, values=values)
        elif stage is not None:
            stage = _with(stage, one)
    return stage


def _from(text: Joined, outer: Mapping[str, str | None], stages: Mapping[str, _Stage]) -> tuple[_Stage, str]:
    found = _FROM.match(text.text)
    if found is None:
        return _Stage(), ""
    image, _ = _put_in(found["image"], outer)
    name = found["name"] or ""
    base = stages.get(image.lower())
    if base is not None:
        return replace(base, values={one.name: one.value for one in base.env}), name
    release = release_of(image)
    span = text.span_of(*found.span("image"))
    known = image if is_vllm_image(image) else None
    return _Stage(image, Hints(known, release, release_span=span if release else None)), name


def _with(stage: _Stage, one: Instruction) -> _Stage:
    if one.name == "CMD":
        return replace(stage, command=one.text)
    if one.name == "ENTRYPOINT":
        return replace(stage, entrypoint=one.text, command=None)
    if one.name != "ENV":
        return stage
    values = dict(stage.values)
    env = list(stage.env)
    for name, written, start, end in _pairs(one.text.text):
        text, known = _put_in(_unquoted(written), stage.values)
        values[name] = text if known else None
        env.append(EnvVariable(name, values[name], one.text.span_of(start, end)))
    return replace(stage, values=values, env=tuple(env))


def _set_arguments(text: str, values: dict[str, str | None], outer: Mapping[str, str | None]) -> None:
    for name, written, _, _ in _pairs(text):
        value, known = _put_in(_unquoted(written), values)
        values[name] = value if known else None
    for name in text.split():
        if name.isidentifier():
            values.setdefault(name, outer.get(name))


def _pairs(text: str) -> Iterator[tuple[str, str, int, int]]:
    """NAME=VALUE of ENV and ARG, and the old form `ENV NAME VALUE`."""
    if _PAIR.match(text.strip()) is None:
        name, _, value = text.strip().partition(" ")
        if name.isidentifier() and value.strip():
            yield name, value.strip(), len(text) - len(text.lstrip()), len(text.rstrip())
        return
    for found in _PAIR.finditer(text):
        yield found[1], found[2], found.start(), found.end()


def _unquoted(text: str) -> str:
    parts = []
    for double, single, escaped, bare in _PARTS.findall(text):
        parts.append(re.sub(r"\\([\"\\])", r"\1", double) + single + escaped[1:] + bare)
    return "".join(parts)


def _put_in(text: str, values: Mapping[str, str | None]) -> tuple[str, bool]:
    """A text with its variables put in, and whether all of them are known."""
    known = True

    def put(found: re.Match[str]) -> str:
        nonlocal known
        name = found["bare"] or found["name"]
        if name is None:
            return "$"
        value = values.get(name)
        sign = found["sign"] or ""
        if sign.endswith("-") and not value:
            return found["word"] or ""
        if sign.endswith("+"):
            return found["word"] or "" if value else ""
        if value is None:
            known = False
            return found[0]
        return value

    return _VARIABLE.sub(put, text), known


def _started(stage: _Stage) -> tuple[list[Found], list[Remark]]:
    """The servers of ENTRYPOINT and CMD together."""
    env = {one.name: one.value for one in stage.env}
    remarks: list[Remark] = []
    entry = _words(stage.entrypoint, remarks) if stage.entrypoint is not None else []
    if entry is None and stage.entrypoint is not None:
        return in_script(stage.entrypoint.text, stage.entrypoint.span_of, env), remarks
    command = _words(stage.command, remarks) if stage.command is not None else []
    if command is None and stage.command is not None:
        if not entry and not (stage.entrypoint is None and is_vllm_image(stage.image)):
            return in_script(stage.command.text, stage.command.span_of, env), remarks
        text = stage.command
        span = text.span_of(0, text.length)
        shell = [made(part, span) for part in ("/bin/sh", "-c")]
        command = [*shell, Word(text.text, span, "word", True, "", text.span_of)]
    front = list(entry or [])
    if stage.entrypoint is None and command and is_vllm_image(stage.image):
        span = command[0].span
        front = [made(text, span) for text in entrypoint_before(stage.image, stage.hints.release, command)]
    return in_words([*front, *(command or [])], env), remarks


def _words(text: Joined, remarks: list[Remark]) -> list[Word] | None:
    """The words of the exec form; None where it is the shell form."""
    whole = text.text
    if not whole.lstrip().startswith("["):
        return None
    try:
        values = json.loads(whole)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        if "vllm" in whole:
            message = "this is no JSON list, so that Docker gives it to a shell, brackets and all"
            span = text.span_of(0, len(whole))
            remarks.append(Remark("not_json", message, span, "write the words in double quotes, with commas between"))
        return []
    found = list(_STRING.finditer(whole))
    if len(found) != len(values):
        return None
    words = []
    for string, value in zip(found, values, strict=True):
        span = text.span_of(*string.span())
        inside = None if "\\" in string[0] else text.part(string.start() + 1, string.end() - 1).span_of
        words.append(Word(value, span, "flow", True, "", inside))
        if re.search(r"\$\{?[A-Za-z_]", value) and not re.search(r"\s", value):
            message = f"this form runs no shell: vLLM gets {value} as it is written"
            remarks.append(Remark("not_expanded", message, span, 'write ["sh", "-c", "exec vllm serve ..."]'))
    return words
