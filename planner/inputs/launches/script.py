"""Shell scripts, those of batch systems among them, and lines that were pasted."""

from __future__ import annotations

import re

from ...releases.gpus import known_as
from .launch import Hints, Launch, Reading, Source, first_line
from .places import Places
from .shell.commands import Found, in_script

_BATCH = re.compile(r"^#(?:SBATCH|BSUB|PBS)[ \t]+(.*)$", re.MULTILINE)
_GPUS = re.compile(
    r"(?:--gpus-per-node|--gpus|--gpus-per-task|-G|--gres)[= \t]*(?:gpu:)?"
    r"(?:(?P<name>[A-Za-z][\w.-]*):)?(?P<count>\d{1,4})"
)
_ONE_NODE = re.compile(r"--gpus-per-node|--gres")


def launches(source: Source) -> Reading:
    """The servers that a script starts.

    Raises:
        InputError: CG906 a quote is not closed, CG914 the script is too long.
    """
    text = shell_text(source.text)
    places = Places(source)
    found = in_script(text, places.span, {})
    hints = batch_hints(text, places)
    return Reading(tuple(_launch(source, one, len(found) > 1, hints) for one in found))


def shell_text(text: str) -> str:
    """A text without what is no part of it, each character in its place: byte order mark, NUL."""
    return text.replace("\ufeff", " ", 1).replace("\0", " ") if text[:1] == "\ufeff" or "\0" in text else text


def batch_hints(text: str, places: Places) -> Hints:
    """The GPUs of a node that `#SBATCH` lines ask for."""
    hints = Hints()
    for line in _BATCH.finditer(text):
        found = _GPUS.search(line[1])
        if found is None:
            continue
        if hints.gpus is not None and not _ONE_NODE.search(line[1]):
            continue  # a figure of a node goes before one of the job
        start = line.start(1)
        span = places.span(start + found.start(), start + found.end())
        hints = hints._replace(gpus=int(found["count"]) or None, gpus_span=span)
        if found["name"] and known_as(found["name"]) is not None:
            hints = hints._replace(gpu=found["name"], gpu_span=span)
    return hints


def _launch(source: Source, found: Found, several: bool, batch: Hints) -> Launch:
    hints = found.hints if found.hints.gpus is not None else found.hints.with_gpus_of(batch)
    if hints.gpu is None:
        hints = hints._replace(gpu=batch.gpu, gpu_span=batch.gpu_span)
    label = f"line {first_line(found.tokens) or 1}" if several else ""
    return Launch(source, "shell", label, found.tokens, found.env, hints=hints, remarks=found.remarks)
