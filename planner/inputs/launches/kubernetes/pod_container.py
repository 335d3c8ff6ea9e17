"""A container of a pod template as it will run: its words, variables, files and hints."""

from __future__ import annotations

from ..launch import Remark, Source
from ..yaml_commands import word_of
from ..yaml_nodes import Scalar
from .config_maps import ConfigMaps, mounted
from .container import Container
from .container_words import environment, program_of, words_of
from .gpu_hints import hints_of, image_of
from .pod_templates import Found

_PLAIN = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "CronJob", "Service")
"""Kinds whose containers run as they are written; others may be given a command by their controller."""


def container_of(found: Found, maps: ConfigMaps, source: Source) -> Container:
    """A container of a pod template as it will run."""
    node = found.node
    remarks: list[Remark] = []
    image = image_of(node.get("image"))
    command = words_of(node.get("command"), "command", remarks)
    args = words_of(node.get("args"), "args", remarks)
    script = node.get("source") if found.role == "script" else None
    if isinstance(script, Scalar):
        args = [word_of(script, flow=False)]
        command = [*command, command[0]._replace(text="-c", style="made")] if command else []
    words = program_of(image, command, args)
    if not command and not args and (found.kind not in _PLAIN or found.role == "mainContainer"):
        words = []  # a controller puts the command in
    resources = next((one for one in (node, *found.places[:2]) if one.get("resources") is not None), node)
    hints, notes = hints_of(image, resources.get("resources"), found.places)
    return Container(
        source=source,
        kind="kubernetes",
        label=found.label,
        words=words,
        env=environment(node, maps, remarks),
        hints=hints,
        remarks=[*remarks, *notes],
        files=mounted(node, found.pod, maps),
    )
