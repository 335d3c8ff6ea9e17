"""ConfigMaps of a manifest, and the files that a container sees of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..yaml_nodes import Mapping, Node, Scalar, Sequence, mappings_in

_SHELLS = ("sh", "bash", "dash", "zsh")

ConfigMaps = dict[str, Mapping]
"""The field `data` of each ConfigMap, by name."""


def config_maps(resources: Iterable[Mapping]) -> ConfigMaps:
    """The ConfigMaps among these resources."""
    found: ConfigMaps = {}
    for resource in resources:
        kind, name, data = resource.get("kind"), resource.at("metadata", "name"), resource.get("data")
        is_map = isinstance(kind, Scalar) and kind.text == "ConfigMap"
        if is_map and isinstance(name, Scalar) and isinstance(data, Mapping):
            found[name.text] = data
    return found


def mounted(container: Mapping, pod: Mapping | None, maps: ConfigMaps) -> dict[str, Scalar]:
    """The files of ConfigMaps that a container sees, by path."""
    volumes = dict(_volumes(pod, maps))
    found: dict[str, Scalar] = {}
    for mount in mappings_in(container.get("volumeMounts")):
        name, path = (_text(mount, key) for key in ("name", "mountPath"))
        if name not in volumes or path is None:
            continue
        part = _text(mount, "subPath")
        for file, content in volumes[name].items():
            if part is None:
                found[f"{path.rstrip('/')}/{file}"] = content
            elif part == file:
                found[path] = content
    return found


def _volumes(pod: Mapping | None, maps: ConfigMaps) -> Iterator[tuple[str, dict[str, Scalar]]]:
    for volume in mappings_in(pod.get("volumes") if pod is not None else None):
        name = _text(volume, "name")
        asked = [volume.get("configMap")]
        asked += [source.get("configMap") for source in mappings_in(volume.at("projected", "sources"))]
        files: dict[str, Scalar] = {}
        for one in asked:
            data = maps.get((_text(one, "name") if isinstance(one, Mapping) else None) or "")
            if data is not None and isinstance(one, Mapping):
                files.update(_files(data, one.get("items")))
        if name is not None and files:
            yield name, files


def _files(data: Mapping, chosen: Node | None) -> Iterator[tuple[str, Scalar]]:
    if isinstance(chosen, Sequence):
        for item in mappings_in(chosen):
            key, path = _text(item, "key"), _text(item, "path")
            content = data.get(key or "")
            if path is not None and isinstance(content, Scalar):
                yield path, content
        return
    yield from ((key.text, content) for key, content in data.items if isinstance(content, Scalar))


def is_script(name: str, content: Scalar) -> bool:
    """Whether a file is a script of a shell."""
    first = content.text.lstrip().partition("\n")[0]
    if first.startswith("#!"):
        return any(word.rpartition("/")[2] in _SHELLS for word in first[2:].split())
    return name.endswith(tuple(f".{shell}" for shell in _SHELLS))


def _text(node: Mapping, key: str) -> str | None:
    value = node.get(key)
    return value.text if isinstance(value, Scalar) and value.text else None
