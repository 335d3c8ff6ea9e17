"""Kubernetes manifests: the servers of every kind of resource that has containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..launch import Launch, Reading, Remark, Source, label_with_line
from ..yaml_commands import in_scalar
from ..yaml_nodes import Mapping, Node, Scalar
from .config_maps import ConfigMaps, config_maps, is_script
from .container import Container, launches_of
from .custom_resources import READERS
from .kserve import referred
from .pod_container import container_of
from .pod_templates import containers, kind_of, label_of, resources
from .service_links import services_named_so, with_service_links

MAX_SERVERS = 250
"""Servers of one text that are read; fewer are looked at, as reading.py says."""


def fits(documents: Sequence[Node]) -> bool:
    """Whether one of the documents is a resource of Kubernetes."""
    return any(kind_of(one) and _is_resource(one) for one in documents if isinstance(one, Mapping))


def _is_resource(document: Mapping) -> bool:
    return isinstance(document.get("apiVersion"), Scalar) or isinstance(document.get("metadata"), Mapping)


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that a manifest starts, in the order of the text."""
    every = list(resources(documents))
    maps = config_maps(every)
    elsewhere = referred(every)
    services = services_named_so(every)
    started: set[int] = set()
    found: list[Launch] = []
    remarks: list[Remark] = []
    for resource in every:
        if id(resource) in elsewhere:
            continue
        for container in _containers(resource, every, maps, source):
            of_container, notes = launches_of(container, started)
            found += with_service_links(of_container, resource, services)
            remarks += notes
            if len(found) >= MAX_SERVERS:
                return Reading(tuple(_told_apart(found)), tuple(remarks))
    for resource in every:
        found += _scripts(resource, started, source)
    return Reading(tuple(_told_apart(found)), tuple(remarks))


def _containers(resource: Mapping, every: Sequence[Mapping], maps: ConfigMaps, source: Source) -> Iterator[Container]:
    reader = READERS.get(kind_of(resource))
    if reader is not None:
        own = reader(resource, every, maps, source)
        if own is not None:
            yield from own
            return
    for one in containers(resource):
        yield container_of(one, maps, source)


def _scripts(resource: Mapping, started: set[int], source: Source) -> list[Launch]:
    """Servers of scripts in a ConfigMap that no container of the text runs."""
    data = resource.get("data")
    if kind_of(resource) != "ConfigMap" or not isinstance(data, Mapping):
        return []
    found = []
    for key, value in data.items:
        if not isinstance(value, Scalar) or id(value) in started:
            continue
        if "vllm" in value.text and is_script(key.text, value):
            for one in in_scalar(value, {}):
                label = f"{label_of(resource)} {key.text}"
                found.append(Launch(source, "kubernetes", label, one.tokens, one.env, remarks=one.remarks))
    return found


def _told_apart(found: list[Launch]) -> list[Launch]:
    """Labels that are given twice get their line."""
    counts = Counter(launch.label for launch in found)
    return [
        replace(launch, label=label_with_line(launch.label, launch.tokens)) if counts[launch.label] > 1 else launch
        for launch in found
    ]
