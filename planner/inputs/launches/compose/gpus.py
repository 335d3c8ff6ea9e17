"""Which GPUs a compose file gives to a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..launch import Span
from ..yaml_nodes import Mapping as Fields
from ..yaml_nodes import Node, Scalar, Sequence

_CDI = "nvidia.com/gpu="
_KFD = "/dev/kfd"


class Gpus(NamedTuple):
    """How many GPUs a service gets and where that is said; None: it is not, or all of the machine's."""

    number: int | None = None
    span: Span | None = None


def gpus_of(fields: Mapping[str, Node], env: Mapping[str, str | None]) -> Gpus:
    """The GPUs of a service, by the fewest that one of the ways to say it leaves.

    Args:
        fields: of the service.
        env: its environment.
    """
    found = [*_reserved(fields), *_named(fields.get("devices")), *_visible(fields, env)]
    return min(found, key=lambda one: one.number or 0) if found else Gpus()


def on_amd(fields: Mapping[str, Node]) -> Span | None:
    """Where the service is given AMD's device, or None."""
    devices = fields.get("devices")
    items = devices.items if isinstance(devices, Sequence) else []
    return next((one.span for one in items if isinstance(one, Scalar) and one.text.startswith(_KFD)), None)


def _reserved(fields: Mapping[str, Node]) -> Iterator[Gpus]:
    """deploy.resources.reservations.devices, and the short `gpus`."""
    deploy = fields.get("deploy")
    devices = deploy.at("resources", "reservations", "devices") if isinstance(deploy, Fields) else None
    counts = [*_devices(devices), *_devices(fields.get("gpus"))]
    if counts and all(one.number is not None for one in counts):
        yield Gpus(sum(one.number or 0 for one in counts), counts[0].span)


def _devices(node: Node | None) -> Iterator[Gpus]:
    for device in node.items if isinstance(node, Sequence) else []:
        if not isinstance(device, Fields) or not _is_gpu(device):
            continue
        ids, count = device.get("device_ids"), device.get("count")
        if isinstance(ids, Sequence):
            known = all(isinstance(one, Scalar) and "$" not in one.text for one in ids.items)
            yield Gpus(len(ids.items) if known else None, ids.span)
        else:
            yield Gpus(_number(count), count.span if count is not None else None)
    if isinstance(node, Scalar):
        yield Gpus(_number(node), node.span)


def _is_gpu(device: Fields) -> bool:
    driver = device.get("driver")
    if isinstance(driver, Scalar) and driver.text != "nvidia":
        return False
    capabilities = device.get("capabilities")
    names = (
        [one.text for one in capabilities.items if isinstance(one, Scalar)]
        if isinstance(capabilities, Sequence)
        else []
    )
    return not names or "gpu" in names


def _number(node: Node | None) -> int | None:
    text = node.text if isinstance(node, Scalar) else ""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 5 and int(text) else None


def _named(node: Node | None) -> Iterator[Gpus]:
    """devices: nvidia.com/gpu=0, one each."""
    items = node.items if isinstance(node, Sequence) else []
    named = [one for one in items if isinstance(one, Scalar) and one.text.startswith(_CDI)]
    if named and all(one.text.removeprefix(_CDI).isdigit() for one in named):
        yield Gpus(len(named), named[0].span)


def _visible(fields: Mapping[str, Node], env: Mapping[str, str | None]) -> Iterator[Gpus]:
    """CUDA_VISIBLE_DEVICES=0,1 and the variable of NVIDIA's runtime."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        ids = [one.strip() for one in (env.get(name) or "").split(",")]
        if all(one.isascii() and one.isdigit() for one in ids) and len(set(ids)) == len(ids):
            where = fields.get("environment")
            yield Gpus(len(ids), where.span if where is not None else None)
