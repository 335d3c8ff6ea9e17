"""Values files of Helm charts: what the charts of llm-d and of vLLM's production stack make of them, and containers
that any chart takes over as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..launch import Launch, Reading, Remark, Source
from ..yaml_nodes import Mapping, Node, Scalar, walk
from ..yaml_nodes import Sequence as Items
from . import llm_d_values, production_stack_values
from .container import Container, launches_of
from .container_words import environment, program_of, words_of
from .gpu_hints import hints_of, image_of

_ARGUMENTS = ("args", "extraArgs", "extra_args", "command", "containerArgs", "additionalArgs")
MAX_SERVERS = 250
"""Servers of one text that are read; fewer are looked at, as reading.py says."""
_RENDER = "helm template CHART | cgplan check -"


def fits(documents: Sequence[Node]) -> bool:
    """Whether one of the documents looks like the values of a chart that runs vLLM."""
    return any(_fits(document) for document in documents if isinstance(document, Mapping))


def _fits(document: Mapping) -> bool:
    if document.get("apiVersion") is not None and document.get("kind") is not None:
        return False
    return any(
        production_stack_values.fits(one) or llm_d_values.fits(one) or _is_container(one)
        for one in walk(document)
        if isinstance(one, Mapping)
    )


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that a chart makes of the values, in the order of the text."""
    found: list[Launch] = []
    remarks: list[Remark] = []
    for document in documents:
        for container in _containers(document, source):
            of_container, notes = launches_of(container)
            found += of_container
            remarks += notes
            if len(found) >= MAX_SERVERS:
                return Reading(tuple(found), tuple(remarks))
    return Reading(tuple(found), tuple(remarks))


def template(source: Source) -> Reading | None:
    """What is said of a text that is no YAML since it is a template of a chart; None where it is none."""
    at = source.text.find("{{")
    if at < 0 or "}}" not in source.text:
        return None
    message = "this is a template, which only Helm can turn into a manifest"
    return Reading((), (Remark("template", message, source.span(at, at + 2), _RENDER),))


def _containers(document: Node, source: Source) -> Iterator[Container]:
    waiting: list[tuple[Node, str, tuple[Mapping, ...]]] = [(document, "", ())]
    while waiting:
        node, name, around = waiting.pop()
        if isinstance(node, Items):
            waiting += [(one, name, around) for one in reversed(node.items)]
        if not isinstance(node, Mapping):
            continue
        if production_stack_values.fits(node):
            yield from production_stack_values.containers(node, source)
        elif llm_d_values.fits(node):
            yield from llm_d_values.containers(node, source)
        else:
            inside = (node, *around)
            found = _is_container(node)
            if found:
                yield _generic(node, name, inside, source)
            waiting += [
                (value, key.text, inside)
                for key, value in reversed(node.items)
                if not (found and key.text == "image")  # read with it
            ]


def _is_container(node: Mapping) -> bool:
    """Whether a mapping has an image of vLLM, or a command that starts it, and arguments of its own."""
    image = node.get("image")
    within = image.get("command") if isinstance(image, Mapping) else None
    lists = [one for one in (*(node.get(key) for key in _ARGUMENTS), within) if one is not None]
    if not lists or any(isinstance(one, Mapping) for one in lists):
        return False
    items = [item for one in lists for item in (one.items if isinstance(one, Items) else [one])]
    texts = [item.text for item in items if isinstance(item, Scalar)]
    named = image_of(image)
    return any("vllm" in text for text in [*texts[:50], named.name if named is not None else ""])


def _generic(node: Mapping, name: str, around: tuple[Mapping, ...], source: Source) -> Container:
    """A container as any chart has it: image, command, args, env, resources, nodeSelector."""
    remarks: list[Remark] = []
    field = node.get("image")
    image = image_of(field)
    command = words_of(node.get("command"), "command", remarks)
    if isinstance(field, Mapping):
        command = command or words_of(field.get("command"), "command", remarks)
    args = [word for key in _ARGUMENTS if key != "command" for word in words_of(node.get(key), key, remarks)]
    nodes = [node, *([field] if isinstance(field, Mapping) else [])]
    hints, notes = hints_of(image, node.get("resources"), around)
    called = node.get("name")
    label = called.text if isinstance(called, Scalar) and called.text else name
    return Container(
        source=source,
        kind="helm",
        label=label,
        words=program_of(image, command, args),
        env=[variable for one in nodes for variable in environment(one, {}, remarks)],
        hints=hints,
        remarks=[*remarks, *notes],
    )
