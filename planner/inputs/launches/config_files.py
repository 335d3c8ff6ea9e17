"""Files of --config that stand in the same text as the command, as in a ConfigMap."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from ...errors import shorten
from .launch import ConfigText, LaunchToken, Remark
from .yaml_nodes import Scalar

MAX_CONFIG = 64 * 1024
"""Longest file of --config that is read, in characters; as in serve_args_yaml."""


def with_config(
    tokens: Sequence[LaunchToken], files: Mapping[str, Scalar]
) -> tuple[tuple[LaunchToken, ...], dict[str, ConfigText], list[Remark]]:
    """The tokens, the file of --config, and what to say of it.

    The option is left out where the content of the file is not known.

    It is a path within the container, so that nothing is looked for where cgplan runs.

    Args:
        tokens: of the command.
        files: that the container sees, by path.
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


def config_text(content: Scalar) -> ConfigText:
    """A file of --config that stands in a manifest. One that is too long to be read has no lines."""
    if len(content.text) > MAX_CONFIG:
        return ConfigText(content.text, ())
    lines = []
    at = 0
    for line in content.text.split("\n"):
        lines.append(content.span_of(at, at + len(line)).line)
        at += len(line) + 1
    return ConfigText(content.text, tuple(lines))
