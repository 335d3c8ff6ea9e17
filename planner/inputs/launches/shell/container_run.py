"""`docker run [options] IMAGE [words]`, also of podman and nerdctl."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

PROGRAMS = ("docker", "podman", "nerdctl", "nvidia-docker")
VERBS = ("run", "create")

_ALONE = frozenset((
    "detach", "interactive", "tty", "rm", "privileged", "init", "publish-all", "read-only", "no-healthcheck",
    "sig-proxy", "oom-kill-disable", "quiet", "disable-content-trust", "help", "replace", "rmi", "no-hosts",
    "no-hostname", "tls-verify", "env-host", "http-proxy",
))  # fmt: skip
"""Options that take no value."""
_SHORT_ALONE = frozenset("ditqP")


class ContainerRun(NamedTuple):
    """The parts of a `docker run`, as indices of its words.

    Attributes:
        image: of the image.
        env: of NAME=VALUE, or NAME, each with the characters in front of it.
        entrypoint: of the word of --entrypoint, with the characters in front of it, or None.
        gpus: text of --gpus, or None.
    """

    image: int
    env: tuple[tuple[int, int], ...]
    entrypoint: tuple[int, int] | None
    gpus: str | None


def container_run(texts: Sequence[str], start: int) -> ContainerRun | None:
    """The `docker run` that begins at word `start`, or None where there is none or it names no image."""
    if texts[start].rpartition("/")[2] not in PROGRAMS:
        return None
    at = start + 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 1
    if at < len(texts) and texts[at] == "container":
        at += 1
    if at >= len(texts) or texts[at] not in VERBS:
        return None
    at += 1
    env: list[tuple[int, int]] = []
    entrypoint: tuple[int, int] | None = None
    gpus: str | None = None
    while at < len(texts) and texts[at].startswith("-") and texts[at] != "--":
        name, place, at = _option(texts, at)
        if place is None or place[0] >= len(texts):
            continue
        if name in ("env", "e"):
            env.append(place)
        elif name == "entrypoint":
            entrypoint = place
        elif name == "gpus":
            gpus = texts[place[0]][place[1] :]
    at += at < len(texts) and texts[at] == "--"
    return ContainerRun(at, tuple(env), entrypoint, gpus) if at < len(texts) else None


def gpu_count(text: str | None) -> int | None:
    """How many GPUs `--gpus` gives: `2`, `"device=0,1"`; None for `all`."""
    if text is None:
        return None
    bare = text.strip("\"'")
    devices = re.search(r"device=([\w,:.-]+)", bare)
    if devices is not None:
        return len([one for one in devices[1].split(",") if one])
    number = re.fullmatch(r"(?:count=)?(\d{1,3})", bare)
    return int(number[1]) or None if number else None


def _option(texts: Sequence[str], at: int) -> tuple[str, tuple[int, int] | None, int]:
    """Name of the option at `at`, where its value stands, and the word behind."""
    text = texts[at]
    if text.startswith("--"):
        name, equals, _ = text[2:].partition("=")
        if equals:
            return name, (at, len(name) + 3), at + 1
        return (name, None, at + 1) if name in _ALONE else (name, (at + 1, 0), at + 2)
    letters = text[1:]
    for number, letter in enumerate(letters):
        if letter in _SHORT_ALONE:
            continue
        if number + 1 < len(letters):
            skip = number + 2 + (letters[number + 1] == "=")
            return letter, (at, skip), at + 1
        return letter, (at + 1, 0), at + 2
    return letters, None, at + 1
