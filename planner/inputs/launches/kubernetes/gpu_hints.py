"""What a container's manifest says about its GPUs, its image and the release of vLLM in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..image import is_vllm_image, release_of
from ..launch import Hints, Remark, Span
from ..yaml_nodes import Mapping, Node, Scalar
from ..yaml_nodes import Sequence as Items
from .gpu_labels import gpu_of_label

NVIDIA = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
_OTHERS = {
    "amd.com/gpu": "AMD GPUs",
    "habana.ai/gaudi": "Intel Gaudi",
    "gpu.intel.com/i915": "Intel GPUs",
    "gpu.intel.com/xe": "Intel GPUs",
    "google.com/tpu": "TPUs",
    "aws.amazon.com/neuron": "AWS Neuron",
    "aws.amazon.com/neuroncore": "AWS Neuron",
    "huawei.com/Ascend910": "Ascend NPUs",
}
_MIG = "nvidia.com/mig-"


class Image(NamedTuple):
    """An image and where it is named; `release` is that of vLLM, by its tag."""

    name: str
    span: Span
    release: str | None = None
    release_span: Span | None = None


class Device(NamedTuple):
    """A resource that is requested, such as nvidia.com/gpu."""

    resource: str
    number: int | None
    span: Span


def image_of(node: Node | None) -> Image | None:
    """The image of a field `image`: a text, or a mapping of registry, repository and tag as charts have it."""
    if isinstance(node, Scalar):
        return _image(node.text, node) if node.text else None
    if not isinstance(node, Mapping):
        return None
    repository, tag, registry = (node.get(key) for key in ("repository", "tag", "registry"))
    if not isinstance(repository, Scalar) or not repository.text:
        return None
    name = repository.text
    if isinstance(registry, Scalar) and registry.text:
        name = f"{registry.text}/{name}"
    if not isinstance(tag, Scalar) or not tag.text:
        return Image(name, repository.span)
    name = f"{name}:{tag.text}"
    release = release_of(name) if is_vllm_image(name) else None
    return Image(name, repository.span, release, tag.span if release else None)


def _image(name: str, node: Scalar) -> Image:
    release = release_of(name) if is_vllm_image(name) else None
    if release is None:
        return Image(name, node.span)
    tag = name.partition("@")[0].rfind(":") + 1
    return Image(name, node.span, release, node.span_of(tag, len(name.partition("@")[0])))


def hints_of(image: Image | None, resources: Node | None, places: Sequence[Node | None]) -> tuple[Hints, list[Remark]]:
    """The hints of a container, and what they do not say.

    Args:
        image: of the container.
        resources: its field `resources`, or the limits themselves.
        places: what may hold nodeSelector, affinity or labels of a node, the pod's first.
    """
    devices = list(_devices(resources))
    gpus = next((one for one in devices if one.resource in NVIDIA), None)
    gpu = _gpu(places)
    if any(one.resource.startswith(_MIG) for one in devices):
        gpu = gpus = None
    hints = Hints(
        image=image.name if image else None,
        release=image.release if image else None,
        gpu=gpu[0] if gpu else None,
        gpus=gpus.number if gpus else None,
        release_span=image.release_span if image else None,
        gpu_span=gpu[1] if gpu else None,
        gpus_span=gpus.span if gpus else None,
    )
    return hints, list(_notes(devices))


def _notes(devices: Sequence[Device]) -> Iterator[Remark]:
    for one in devices:
        if one.resource in _OTHERS:
            message = f"runs on {_OTHERS[one.resource]}; what is said here holds for NVIDIA GPUs"
            yield Remark("not_nvidia", message, one.span)
            return
        if one.resource.startswith(_MIG):
            message = "gets a slice of a GPU; its memory and its multiprocessors are not known here"
            yield Remark("not_read", message, one.span, "say its memory with --gpu-memory-bytes")
            return


def _devices(resources: Node | None) -> Iterator[Device]:
    """Accelerators by `limits`, then by `requests`; each resource once."""
    if not isinstance(resources, Mapping):
        return
    seen = set()
    for part in (resources.get("limits"), resources.get("requests"), resources):
        for key, value in part.items if isinstance(part, Mapping) else ():
            known = key.text in NVIDIA or key.text in _OTHERS or key.text.startswith(_MIG)
            if known and key.text not in seen and isinstance(value, Scalar) and value.text.strip() != "0":
                seen.add(key.text)
                yield Device(key.text, number(value), key.span._replace(end=max(key.span.end, value.span.end)))


def number(node: Node | None) -> int | None:
    """A small whole number above 0, quoted or not; else None."""
    text = node.text.strip() if isinstance(node, Scalar) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 and int(text) > 0 else None


def _gpu(places: Sequence[Node | None]) -> tuple[str, Span] | None:
    """The GPU that all labels that name one agree on."""
    found = [one for place in places for one in _labels(place)]
    named = [(gpu, span) for gpu, span in found if gpu is not None]
    if not named or any(gpu != named[0][0] for gpu, _ in named):
        return None
    return named[0]


def _labels(pod: Node | None) -> Iterator[tuple[str | None, Span]]:
    if not isinstance(pod, Mapping):
        return
    selector = pod.get("nodeSelector")
    for key, value in selector.items if isinstance(selector, Mapping) else ():
        if isinstance(value, Scalar):
            yield gpu_of_label(key.text, value.text), value.span
    required = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for at in (("affinity", *required), required):
        terms = pod.at(*at)
        if isinstance(terms, Items) and terms.items:
            yield from _terms(terms.items)


def _terms(terms: Sequence[Node]) -> Iterator[tuple[str | None, Span]]:
    """Labels of nodeSelectorTerms. A node fits where one term fits, so each has to name a GPU."""
    of_terms = []
    for term in terms:
        expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        found = [one for node in getattr(expressions, "items", ()) for one in _expression(node)]
        of_terms.append(found)
    if all(any(gpu is not None for gpu, _ in found) for found in of_terms):
        yield from (one for found in of_terms for one in found)


def _expression(node: Node) -> list[tuple[str | None, Span]]:
    if not isinstance(node, Mapping):
        return []
    key, operator, values = node.get("key"), node.get("operator"), node.get("values")
    if not isinstance(key, Scalar) or not isinstance(operator, Scalar) or operator.text != "In":
        return []
    return _values(key, values)


def _values(key: Scalar, values: Node | None) -> list[tuple[str | None, Span]]:
    """The GPU that every value of a label stands for; several kinds of GPU are none."""
    items = [one for one in values.items if isinstance(one, Scalar)] if isinstance(values, Items) else []
    gpus = {gpu_of_label(key.text, one.text) for one in items}
    return [(gpus.pop(), items[0].span)] if len(gpus) == 1 else []


def label_gpu(key: Node | None, values: Node | None) -> tuple[str, Span] | None:
    """The GPU of a label key and its values, as charts ask for them."""
    found = _values(key, values) if isinstance(key, Scalar) else []
    return next(((gpu, span) for gpu, span in found if gpu is not None), None)
