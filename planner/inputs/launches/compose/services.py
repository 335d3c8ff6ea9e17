"""Docker compose files: a server is a service whose entrypoint and command, or whose image, start vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....errors import shorten
from ..config_files import with_config
from ..image import entrypoint_of, is_vllm_image, release_of
from ..launch import EnvVariable, Hints, Launch, Reading, Remark, Source, Span, label_with_line
from ..options_alone import of_options_alone
from ..shell.commands import in_words
from ..shell.word import Word, made
from ..yaml_commands import word_of
from ..yaml_nodes import Mapping, Node, Scalar
from ..yaml_nodes import Sequence as Items
from .configs import files_of
from .gpus import gpus_of, on_amd
from .words import put_in, split, with_defaults

MAX_SERVERS = 250
"""Servers of one text that are read; fewer are looked at, as reading.py says."""
MAX_EXTENDS = 20
"""Services that one builds upon, one after the other."""
_SERVICE_KEYS = ("image", "build", "command", "entrypoint", "extends", "environment", "deploy")


def fits(documents: Sequence[Node]) -> bool:
    """Whether one of the documents has `services` as compose writes them."""
    return any(_services(document) for document in documents)


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that the services start, in the order of the text."""
    found: list[Launch] = []
    remarks: list[Remark] = []
    for document in documents:
        services = _services(document)
        for name, node in services.items():
            service = _service(name, node, services, files_of(document, node))
            of_service, notes = _launches(service, source)
            found += of_service
            remarks += notes
            if len(found) >= MAX_SERVERS:
                return Reading(tuple(found), tuple(remarks))
    return Reading(tuple(found), tuple(remarks))


def _services(document: Node) -> dict[str, Mapping]:
    services = document.get("services") if isinstance(document, Mapping) else None
    if not isinstance(services, Mapping) or (isinstance(document, Mapping) and document.get("apiVersion")):
        return {}
    found = {key.text: node for key, node in services.items if isinstance(node, Mapping)}
    return found if any(node.get(key) for node in found.values() for key in _SERVICE_KEYS) else {}


class _Service(NamedTuple):
    """A service with what it builds upon.

    Attributes:
        label: what it is called.
        fields: by key, the value that counts.
        environments: values of `environment`, the one that counts most last.
        elsewhere: where it builds upon a service of another file, or None.
        files: that it sees and whose content is in this file, by path.
    """

    label: str
    fields: dict[str, Node]
    environments: list[Node]
    elsewhere: Span | None
    files: dict[str, Scalar]


def _service(name: str, node: Mapping, services: dict[str, Mapping], files: dict[str, Scalar]) -> _Service:
    chain = [node]
    elsewhere = None
    for _ in range(MAX_EXTENDS):
        extends = chain[-1].get("extends")
        if isinstance(extends, Mapping) and extends.get("file") is not None:
            elsewhere = extends.span
            break
        base = extends.get("service") if isinstance(extends, Mapping) else extends
        following = services.get(base.text) if isinstance(base, Scalar) else None
        if following is None or following in chain:
            break
        chain.append(following)
    fields: dict[str, Node] = {}
    environments = []
    for one in reversed(chain):
        for key, value in one.items:
            if not (isinstance(value, Scalar) and value.value is None):
                fields[key.text] = value
        if (environment := one.get("environment")) is not None:
            environments.append(environment)
    return _Service(f"service {name}", fields, environments, elsewhere, files)


def _launches(service: _Service, source: Source) -> tuple[list[Launch], list[Remark]]:
    image = service.fields.get("image")
    name = put_in(image.text) if isinstance(image, Scalar) else None
    words, remarks = _command(service, name, image)
    env = _environment(service)
    values = {variable.name: variable.value for variable in env}
    hints = _hints(service, name, image, values)
    starts = in_words([with_defaults(word) for word in words], values) if words else []
    launches = []
    for found in starts:
        tokens, files, left_out = with_config(found.tokens, service.files)
        label = label_with_line(service.label, tokens) if len(starts) > 1 else service.label
        notes = (*found.remarks, *left_out, *remarks, *_notes(service))
        where = hints.with_gpus_of(found.hints)
        launches.append(Launch(source, "compose", label, tokens, (*env, *found.env), files, where, notes))
    return launches, [] if launches else _unread(service, name, words)


def _command(service: _Service, name: str | None, image: Node | None) -> tuple[list[Word], list[Remark]]:
    """What the container runs: its entrypoint, or that of the image, and the command.

    With neither there are no words: a file that changes a part of a service starts no server of its own.
    """
    remarks: list[Remark] = []
    entrypoint = _words(service.fields.get("entrypoint"), remarks)
    command = _words(service.fields.get("command"), remarks)
    if "entrypoint" not in service.fields and command and name is not None and image is not None:
        entrypoint = [made(word, image.span) for word in entrypoint_of(name, release_of(name))]
    return [*entrypoint, *command], remarks


def _words(node: Node | None, remarks: list[Remark]) -> list[Word]:
    if isinstance(node, Scalar):
        found = split(node)
        remarks += found.remarks
        return found.words
    if not isinstance(node, Items):
        return []
    words = []
    for item in node.items:
        if not isinstance(item, Scalar):
            remarks.append(Remark("not_read", "an item of the command is no text; compose refuses it", item.span))
            continue
        if not isinstance(item.value, str):
            message = f"compose takes only texts in a command, and {shorten(item.text, 40)} is none"
            remarks.append(Remark("not_text", message, item.span, "put it in quotes"))
        words.append(word_of(item, node.flow))
    return words


def _environment(service: _Service) -> list[EnvVariable]:
    found: list[EnvVariable] = []
    for node in service.environments:
        if isinstance(node, Mapping):
            for key, value in node.items:
                text = None if not isinstance(value, Scalar) or value.value is None else put_in(value.text)
                found.append(EnvVariable(key.text, text, key.span._replace(end=max(key.end, value.end))))
        elif isinstance(node, Items):
            for item in node.items:
                if isinstance(item, Scalar):
                    name, equals, written = item.text.partition("=")
                    found.append(EnvVariable(name, put_in(written) if equals else None, item.span))
    return found


def _hints(service: _Service, name: str | None, image: Node | None, env: dict[str, str | None]) -> Hints:
    gpus = gpus_of(service.fields, env)
    release = release_of(name) if name is not None else None
    return Hints(
        image=name,
        release=release,
        gpus=gpus.number,
        release_span=image.span if image is not None and release else None,
        gpus_span=gpus.span,
    )


def _notes(service: _Service) -> Iterator[Remark]:
    """What the file does not say about a server."""
    env_file = service.fields.get("env_file")
    if env_file is not None:
        message = "variables of env_file are not read"
        yield Remark("not_read", message, env_file.span, "give those that matter with --env NAME=VALUE")
    if service.elsewhere is not None:
        message = "what it takes over from a service of another file is not read"
        yield Remark("not_read", message, service.elsewhere, "docker compose config | cgplan check -")
    amd = on_amd(service.fields)
    if amd is not None:
        yield Remark("not_nvidia", "runs on AMD GPUs; what is said here holds for NVIDIA ones", amd)


def _unread(service: _Service, name: str | None, words: Sequence[Word]) -> list[Remark]:
    """Why a service that looks like a server of vLLM gave none: its command is options, of an image unknown."""
    if name is not None and is_vllm_image(name):
        return []
    remark = of_options_alone(service.label, words, name, 'name it: entrypoint: ["vllm", "serve"]')
    return [] if remark is None else [remark]
