"""Files of --config on this machine's disk, for servers that may well start here."""

from __future__ import annotations

import os
from dataclasses import replace

from .launch import ConfigText, Launch, Source

KINDS = ("line", "shell", "systemd")
"""Kinds of launches whose files are looked for on disk; in a container there are others."""
SUFFIXES = (".yaml", ".yml")
"""Ends of the names that vLLM takes."""
MAX_BYTES = 256 * 1024
"""Largest file that is read; serve_args_yaml reads a quarter of that."""


def with_files(launch: Launch) -> Launch:
    """The launch with its file of --config, where that is on disk: beside the source, else in the working folder.

    A file that is not there, or cannot be read, is left to the parser, for its error. The path of a container says
    nothing here: the option is then left out, and a remark says so.
    """
    if launch.files:
        return launch
    at = next((i for i, token in enumerate(launch.tokens[:-1]) if token.text == "--config"), None)
    if at is None:
        return launch
    if launch.kind == "dockerfile" or (launch.kind == "shell" and launch.hints.image is not None):
        from .config_files import with_config

        tokens, _, remarks = with_config(launch.tokens, {})
        return replace(launch, tokens=tokens, remarks=(*launch.remarks, *remarks))
    name = launch.tokens[at + 1].text
    if launch.kind not in KINDS or not name.endswith(SUFFIXES):
        return launch
    folder = os.path.dirname(launch.source.name)
    for path in dict.fromkeys((os.path.normpath(os.path.join(folder, name)), name)):
        text = _text(path)
        if text is not None:
            source = Source(path, text)
            lines = tuple(range(1, text.count("\n") + text.count("\r") + 2))
            return replace(launch, files={name: ConfigText(text, lines, source)})
    return launch


def _text(path: str) -> str | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        return data.decode("utf-8") if len(data) <= MAX_BYTES else None
    except (OSError, ValueError):
        return None
