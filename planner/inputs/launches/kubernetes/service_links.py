"""The variable that Kubernetes makes of a Service named vllm, which has the name of one of vLLM's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..launch import EnvVariable, Launch
from ..yaml_nodes import Mapping, Scalar, walk
from .pod_templates import kind_of

NAME = "vllm"
VARIABLE = "VLLM_PORT"


MOST = 20
"""Services of that name in one text that are looked at."""


def services_named_so(every: Sequence[Mapping]) -> list[Mapping]:
    """The Services of that name that have an address."""
    found = (one for one in every if kind_of(one) == "Service" and _has_address(one))
    return [one for one in found if (name := _scalar(one, "metadata", "name")) is not None and name.text == NAME][:MOST]


def with_service_links(found: list[Launch], resource: Mapping, services: Sequence[Mapping]) -> list[Launch]:
    """The servers of a resource with the variable, where there is such a Service beside it.

    Kubernetes gives each container <NAME>_PORT=tcp://ADDRESS:PORT for every Service of its namespace that has an
    address, unless enableServiceLinks is false; what the container itself sets counts.
    """
    service = next((one for one in services if _same_namespace(one, resource)), None)
    name = _scalar(service, "metadata", "name") if service is not None else None
    if not found or service is None or name is None or _is_off(resource):
        return found
    variable = EnvVariable(VARIABLE, f"tcp://{NAME}:{_port(service)}", name.span)
    return [
        launch if any(one.name == VARIABLE for one in launch.env) else replace(launch, env=(variable, *launch.env))
        for launch in found
    ]


def _is_off(resource: Mapping) -> bool:
    for node in walk(resource):
        if isinstance(node, Mapping):
            found = node.get("enableServiceLinks")
            if isinstance(found, Scalar) and found.value is False:
                return True
    return False


def _has_address(service: Mapping) -> bool:
    address, kind = _scalar(service, "spec", "clusterIP"), _scalar(service, "spec", "type")
    return (address is None or address.text != "None") and (kind is None or kind.text != "ExternalName")


def _same_namespace(one: Mapping, other: Mapping) -> bool:
    first, second = _scalar(one, "metadata", "namespace"), _scalar(other, "metadata", "namespace")
    return first is None or second is None or first.text == second.text


def _port(service: Mapping) -> str:
    spec = service.get("spec")
    ports = spec.get("ports") if isinstance(spec, Mapping) else None
    first = next((one for one in getattr(ports, "items", ()) if isinstance(one, Mapping)), None)
    port = first.get("port") if first is not None else None
    return port.text if isinstance(port, Scalar) else "PORT"


def _scalar(node: Mapping, *keys: str) -> Scalar | None:
    found: object = node
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Scalar) else None
