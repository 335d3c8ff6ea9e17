"""Files of --config whose content a compose file holds itself: `configs` with `content`."""

from __future__ import annotations

import posixpath

from ..yaml_nodes import Mapping as Fields
from ..yaml_nodes import Node, Scalar, mappings_in
from ..yaml_nodes import Sequence as Items


def files_of(document: Node, service: Fields) -> dict[str, Scalar]:
    """Files that a service sees and whose content is in the compose file, by path."""
    configs = document.get("configs") if isinstance(document, Fields) else None
    found = {}
    for name, target in _mounts(service.get("configs")):
        content = configs.at(name, "content") if isinstance(configs, Fields) else None
        if isinstance(content, Scalar):
            found[posixpath.normpath(target)] = content
    return found


def _mounts(node: Node | None) -> list[tuple[str, str]]:
    """Name and path of each config of a service."""
    found = []
    if isinstance(node, Items):
        found += [(item.text, f"/{item.text}") for item in node.items if isinstance(item, Scalar)]
    for item in mappings_in(node):
        name, target = item.get("source"), item.get("target")
        if isinstance(name, Scalar):
            found.append((name.text, target.text if isinstance(target, Scalar) else f"/{name.text}"))
    return found
