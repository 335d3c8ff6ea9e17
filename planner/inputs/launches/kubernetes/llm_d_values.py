"""Values of llm-d's modelservice chart: decode and prefill, as its templates make a command of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..launch import Hints, Remark, Source, Span
from ..shell.word import Word, made
from ..yaml_nodes import Mapping, Node, Scalar, Sequence
from .container import Container
from .container_words import environment, program_of, words_of
from .gpu_hints import hints_of, image_of, label_gpu

_ROLES = ("decode", "prefill")
_NAME_TEMPLATE = re.compile(r'"?\{\{-?\s*\.Values\.modelArtifacts\.name\s*(\|\s*quote\s*)?-?\}\}"?')
_MOUNT = "/model-cache"
_ACCELERATORS = {
    "amd": "AMD GPUs",
    "cpu": "the CPU",
    "google": "TPUs",
    "intel-gaudi": "Intel Gaudi",
    "intel-i915": "Intel GPUs",
    "intel-xe": "Intel GPUs",
    "intel": "Intel GPUs",
    "rebellions-atom": "Rebellions ATOM",
}


def fits(node: Mapping) -> bool:
    """Whether these are the values of that chart."""
    return isinstance(node.get("modelArtifacts"), Mapping) and any(
        isinstance(node.at(role, "containers"), Sequence) for role in _ROLES
    )


def containers(values: Mapping, source: Source) -> Iterator[Container]:
    """The containers of decode and prefill."""
    for role in _ROLES:
        part, held = values.get(role), values.at(role, "containers")
        if not isinstance(part, Mapping) or not isinstance(held, Sequence) or _is_false(part.get("create")):
            continue
        for node in held.items:
            if isinstance(node, Mapping):
                yield _container(values, part, node, role, source)


def _container(values: Mapping, part: Mapping, node: Mapping, role: str, source: Source) -> Container:
    remarks: list[Remark] = []
    image = image_of(node.get("image"))
    mode = node.get("modelCommand")
    kind = mode.text if isinstance(mode, Scalar) and mode.text else "custom"
    args = words_of(node.get("args"), "args", remarks)
    if kind == "custom":
        words = [*words_of(node.get("command"), "command", remarks), *args]
    else:
        span = mode.span if mode is not None else node.span
        front = [made("vllm", span), made("serve", span)] if kind == "vllmServe" else program_of(image, [], [], span)
        words = [*front, *_made(values, part, role, kind == "imageDefault", span), *args]
    hints, notes = hints_of(image, node.get("resources"), [part])
    name = node.get("name")
    return Container(
        source=source,
        kind="helm",
        label=f"{role} container {name.text if isinstance(name, Scalar) and name.text else 'vllm'}",
        words=words,
        env=environment(node, {}, remarks),
        hints=_hints(part, hints),
        remarks=[*remarks, *notes, *_accelerator(values, part)],
    )


def _made(values: Mapping, part: Mapping, role: str, by_option: bool, span: Span) -> Iterator[Word]:
    """What the chart puts before the arguments of the values."""
    name, uri = (values.at("modelArtifacts", key) for key in ("name", "uri"))
    named = name.text if isinstance(name, Scalar) else ""
    model = _model(values, named)
    at = uri.span if uri is not None else name.span if name is not None else span
    if model is not None:
        if by_option:
            yield made("--model", at)
        yield made(model, at)
    yield from (made("--port", span), made(_port(values, role), span))
    for option, size, where in _parallelism(part):
        if size > 1:
            yield made(option, where)
            yield made(str(size), where)
    if named and isinstance(name, Scalar):
        yield from (made("--served-model-name", name.span), made(named, name.span))


def _model(values: Mapping, name: str) -> str | None:
    """The model that the chart gives to vLLM: modelArtifacts.uri by its protocol."""
    uri, mount = (values.at("modelArtifacts", key) for key in ("uri", "mountPath"))
    text = _NAME_TEMPLATE.sub(lambda _: name, uri.text) if isinstance(uri, Scalar) and uri.text else f"hf://{name}"
    protocol, _, path = text.partition("://")
    path = path.strip('"')
    if not path or "{{" in path:
        return None
    if protocol == "hf":
        return path
    if protocol == "pvc":
        where = mount.text if isinstance(mount, Scalar) and mount.text else _MOUNT
        return f"{where}/{path.partition('/')[2]}"
    return "/".join(path.split("/")[-2:]) if protocol == "pvc+hf" else None


def _port(values: Mapping, role: str) -> str:
    behind_proxy = role == "decode" and not _is_false(values.at("routing", "proxy", "enabled"))
    port = values.at("routing", "proxy", "targetPort") if behind_proxy else values.at("routing", "servicePort")
    return port.text if isinstance(port, Scalar) and port.text else ("8200" if behind_proxy else "8000")


def _parallelism(part: Mapping) -> Iterator[tuple[str, int, Span]]:
    """The sizes as the chart works them out: those left out follow from the others."""
    node = part.get("parallelism")
    if not isinstance(node, Mapping):
        return
    given = {key.text: _size(value) for key, value in node.items}
    tensor, data, local, workers = (given.get(key, 0) for key in ("tensor", "data", "dataLocal", "workers"))
    where = {key.text: value.span for key, value in node.items}
    span = node.span
    yield "--tensor-parallel-size", tensor or 1, where.get("tensor", span)
    all_ranks = data or (local * workers if local and workers else local or 1)
    of_node = local or (data // workers if data and workers else data or 1)
    yield "--data-parallel-size", all_ranks, where.get("data", span)
    yield "--data-parallel-size-local", of_node, where.get("dataLocal", span)


def _size(node: Node) -> int:
    text = node.text if isinstance(node, Scalar) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


def _hints(part: Mapping, hints: Hints) -> Hints:
    """The GPUs that the chart asks for where the container does not, and those of acceleratorTypes."""
    if hints.gpus is None:
        sizes = {option: (size, span) for option, size, span in _parallelism(part)}
        if sizes:
            tensor, span = sizes["--tensor-parallel-size"]
            hints = hints._replace(gpus=tensor * sizes["--data-parallel-size-local"][0], gpus_span=span)
    if hints.gpu is None:
        found = label_gpu(part.at("acceleratorTypes", "labelKey"), part.at("acceleratorTypes", "labelValues"))
        if found is not None:
            hints = hints._replace(gpu=found[0], gpu_span=found[1])
    return hints


def _accelerator(values: Mapping, part: Mapping) -> Iterator[Remark]:
    kind = part.at("accelerator", "type") or values.at("accelerator", "type")
    if isinstance(kind, Scalar) and kind.text in _ACCELERATORS:
        message = f"runs on {_ACCELERATORS[kind.text]}; what is said here holds for NVIDIA GPUs"
        yield Remark("not_nvidia", message, kind.span)


def _is_false(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is False
