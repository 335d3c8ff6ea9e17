"""Where the containers of a resource stand, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..yaml_nodes import Mapping, Node, Scalar
from ..yaml_nodes import Sequence as Items

_LISTS = ("containers", "initContainers", "ephemeralContainers")
_SINGLE = ("mainContainer", "container", "script", "runner")
"""Fields of Dynamo, Argo and OME that hold one container."""
_SKIPPED = ("CustomResourceDefinition", "ConfigMap", "Secret")


class Found(NamedTuple):
    """A container of a resource.

    Attributes:
        node: the container.
        places: the mappings around it, the pod's first; node selectors and volumes are in one of them.
        label: "Deployment/qwen container vllm".
        role: the field that holds it.
        kind: of the resource.
    """

    node: Mapping
    places: tuple[Mapping, ...]
    label: str
    role: str
    kind: str = ""

    @property
    def pod(self) -> Mapping:
        return self.places[0]


def resources(documents: Sequence[Node]) -> Iterator[Mapping]:
    """The resources of a manifest; those of a List and of OpenShift's Template one by one."""
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        kind = kind_of(document)
        items = document.get("objects" if kind == "Template" else "items")
        if isinstance(items, Items) and (kind == "Template" or kind.endswith("List")):
            yield from resources(items.items)
        else:
            yield document


def kind_of(resource: Mapping) -> str:
    kind = resource.get("kind")
    return kind.text if isinstance(kind, Scalar) else ""


def name_of(resource: Mapping) -> str:
    for key in ("name", "generateName"):
        name = resource.at("metadata", key)
        if isinstance(name, Scalar) and name.text:
            return name.text
    return ""


def label_of(resource: Mapping) -> str:
    """ "Deployment/qwen"."""
    return "/".join(part for part in (kind_of(resource), name_of(resource)) if part)


def containers(resource: Mapping) -> Iterator[Found]:
    """The containers of a resource, in the order of the text; init containers in front of the others of their pod."""
    if kind_of(resource) in _SKIPPED:
        return
    label, kind = label_of(resource), kind_of(resource)
    waiting: list[tuple[Node, tuple[Mapping, ...]]] = [(resource, ())]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, Items):
            waiting += [(one, around) for one in reversed(node.items)]
        if not isinstance(node, Mapping):
            continue
        inside = (node, *around)
        deeper: list[tuple[Node, tuple[Mapping, ...]]] = []
        for key, value in node.items:
            held = list(_held(key.text, value))
            yield from (Found(one, inside, _label(label, one, key.text), key.text, kind) for one in held)
            if not held:
                deeper.append((value, inside))
        waiting += reversed(deeper)


def _held(key: str, value: Node) -> list[Mapping]:
    if key in _LISTS and isinstance(value, Items):
        return [one for one in value.items if isinstance(one, Mapping)]
    if key in _SINGLE and isinstance(value, Mapping) and any(value.get(one) for one in ("image", "args", "command")):
        return [value]
    return []


def _label(label: str, container: Mapping, role: str) -> str:
    name = container.get("name")
    what = {"initContainers": "init container", "ephemeralContainers": "ephemeral container"}.get(role, "container")
    named = f"{what} {name.text}" if isinstance(name, Scalar) and name.text else what
    return f"{label} {named}".strip()
