"""Task files of SkyPilot and dstack: a mapping that holds scripts, and what they run on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...releases.gpus import known_as
from .config_files import with_config
from .image import release_of
from .launch import EnvVariable, Hints, Launch, Reading, Remark, Source, Span, label_with_line
from .yaml_commands import in_scalar
from .yaml_nodes import Mapping, Node, Scalar
from .yaml_nodes import Sequence as Items

_DSTACK_TYPES = ("service", "task", "dev-environment")
_SKYPILOT_KEYS = ("resources", "setup", "envs", "num_nodes", "service", "workdir", "file_mounts")
_GPU = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?::(?P<memory>\d+GB))?(?::(?P<number>\d{1,3}))?")
_AMD = re.compile(r"MI\d{3}", re.IGNORECASE)
_ALIASES = {"A100": "a100-40", "A100-80GB": "a100-80", "A10G": "a10g"}
"""SkyPilot's names that are not those of the catalogue."""


def fits(documents: Sequence[Node]) -> bool:
    """Whether one of the documents is a task of SkyPilot or of dstack."""
    return any(_is_task(document) for document in documents)


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that the scripts of the tasks start."""
    tasks = [document for document in documents if isinstance(document, Mapping) and _is_task(document)]
    return Reading(tuple(launch for task in tasks for launch in _of_task(task, source)))


def _is_task(document: Node) -> bool:
    if not isinstance(document, Mapping) or document.get("apiVersion") is not None:
        return False
    kind = document.get("type")
    if isinstance(kind, Scalar) and kind.text in _DSTACK_TYPES and document.get("commands") is not None:
        return True
    return isinstance(document.get("run"), Scalar) and any(document.get(key) for key in _SKYPILOT_KEYS)


def _of_task(task: Mapping, source: Source) -> Iterator[Launch]:
    env = [one for key in ("envs", "secrets", "env") for one in _variables(task.get(key))]
    name = task.get("name")
    label = f"task {name.text}" if isinstance(name, Scalar) else "task"
    values = {variable.name: variable.value for variable in env}
    hints, amd = _hints(task)
    starts = [found for script in _scripts(task) for found in in_scalar(script, values)]
    for found in starts:
        tokens, files, notes = with_config(found.tokens, {})
        where = hints.with_gpus_of(found.hints)
        which = label_with_line(label, tokens) if len(starts) > 1 else label
        yield Launch(source, "task", which, tokens, (*env, *found.env), files, where, (*found.remarks, *notes, *amd))


def _scripts(task: Mapping) -> Iterator[Scalar]:
    run, commands = task.get("run"), task.get("commands")
    if isinstance(run, Scalar):
        yield run
    if isinstance(commands, Items):
        yield from (item for item in commands.items if isinstance(item, Scalar))


def _variables(node: Node | None) -> Iterator[EnvVariable]:
    if isinstance(node, Mapping):
        for key, value in node.items:
            known = value.text if isinstance(value, Scalar) and value.value is not None else None
            yield EnvVariable(key.text, known, key.span)
    elif isinstance(node, Items):
        for item in node.items:
            if isinstance(item, Scalar):
                name, equals, text = item.text.partition("=")
                yield EnvVariable(name, text if equals and not text.startswith("${{") else None, item.span)


def _hints(task: Mapping) -> tuple[Hints, list[Remark]]:
    image = task.get("image") or task.at("resources", "image_id")
    name = image.text.removeprefix("docker:") if isinstance(image, Scalar) else None
    release = release_of(name) if name is not None else None
    hints = Hints(image=name, release=release, release_span=image.span if image is not None and release else None)
    wanted = list(_wanted(task.at("resources", "accelerators") or task.at("resources", "gpu")))
    if not wanted:
        return hints, []
    where = wanted[0].span
    if all(_AMD.match(one.name) for one in wanted):
        message = "runs on AMD GPUs; what is said here holds for NVIDIA GPUs"
        return hints, [Remark("not_nvidia", message, where)]
    kinds, numbers = {one.gpu for one in wanted}, {one.number for one in wanted}
    if len(kinds) == 1 and (gpu := kinds.pop()) is not None:
        hints = hints._replace(gpu=gpu, gpu_span=where)
    if len(numbers) == 1 and (number := numbers.pop()) is not None:
        hints = hints._replace(gpus=number, gpus_span=where)
    return hints, []


class _Wanted(NamedTuple):
    """A kind of GPU as written, its name in the catalogue, and how many."""

    name: str
    gpu: str | None
    number: int | None
    span: Span


def _wanted(node: Node | None) -> Iterator[_Wanted]:
    """The GPUs of each kind of machine that the task takes."""
    if isinstance(node, Scalar) and node.value is not None:
        yield _gpu(node, None)
    elif isinstance(node, Items):
        yield from (_gpu(item, None) for item in node.items if isinstance(item, Scalar))
    elif isinstance(node, Mapping):
        name, count = node.get("name"), node.get("count")
        if isinstance(name, Scalar):
            yield _gpu(name, count)
        else:
            yield from (_gpu(key, value) for key, value in node.items)


def _gpu(node: Scalar, number: Node | None) -> _Wanted:
    found = _GPU.fullmatch(node.text)
    if found is None:
        return _Wanted(node.text, None, None, node.span)
    names = [f"{found['name']}-{found['memory']}"] if found["memory"] else []
    known = [known_as(_ALIASES.get(name, name)) for name in (*names, found["name"])]
    gpu = next((one for one in known if one is not None), None)
    written = (number.text if isinstance(number, Scalar) else "") or found["number"] or "1"
    name = gpu.name if gpu is not None else None
    return _Wanted(found["name"], name, int(written) if written.isdigit() else None, node.span)
