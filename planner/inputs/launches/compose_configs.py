"""Files of --config whose content a compose file holds itself: `configs` with `content`."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from ...errors import shorten
from .config_maps import config_text, items_of
from .launch import ConfigText, LaunchToken, Remark
from .yaml_nodes import Mapping as Fields
from .yaml_nodes import Node, Scalar
from .yaml_nodes import Sequence as Items


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
    for item in items_of(node):
        name, target = item.get("source"), item.get("target")
        if isinstance(name, Scalar):
            found.append((name.text, target.text if isinstance(target, Scalar) else f"/{name.text}"))
    return found


def with_config(
    tokens: Sequence[LaunchToken], files: Mapping[str, Scalar]
) -> tuple[tuple[LaunchToken, ...], dict[str, ConfigText], list[Remark]]:
    """The tokens and the file of --config; the option is left out where the content of the file is not known.

    It is a path within the container, so that nothing is looked for where cgplan runs.
    """
    at = next((i for i, token in enumerate(tokens) if token.text == "--config" and i + 1 < len(tokens)), None)
    if at is None:
        return tuple(tokens), {}, []
    name = tokens[at + 1]
    content = files.get(posixpath.normpath(name.text))
    if content is not None:
        return tuple(tokens), {name.text: config_text(content)}, []
    message = f"--config {shorten(name.text, 60)} is left out: the file is not in this one"
    remark = Remark("unknown_value", message, name.span, "check it on its own: cgplan check FILE")
    return (*tokens[:at], *tokens[at + 2 :]), {}, [remark]
