"""Code blocks of Markdown: shell commands, with or without a prompt, and manifests.

A block that names no language is read where it has prompts or holds commands alone; else it is a screen or a drawing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ...errors import InputError
from . import script
from .commands_alone import all_commands
from .launch import Launch, Reading, Remark, Source, first_line
from .places import Places

MAX_CHARS = 2**20
MAX_BLOCKS = 100

_FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[\w+-]*)[^`\n]*$", re.MULTILINE)
SHELL = ("bash", "sh", "shell", "zsh", "console", "shell-session", "sh-session", "terminal", "")
"""Languages of fenced blocks that are commands."""
_YAML = ("yaml", "yml", "json")
_PROMPT = re.compile(r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[^\n$#]{0,60})?[$#%][ \t]+(?=\S)", re.MULTILINE)
_COMMAND = re.compile(r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[^\n$#]{0,60})?\$[ \t]+(?=\S)")
_VISIBLE = re.compile(r"[^\n]")


class Block(NamedTuple):
    """A fenced block: its language, and the offsets of its first line and behind its last."""

    language: str
    start: int
    end: int


def launches(source: Source) -> Reading:
    """The servers that the code blocks of a text start. A block that cannot be read is named and passed over."""
    text = source.text[:MAX_CHARS]
    rest = source.text[MAX_CHARS:]
    blank = ""
    found: list[Launch] = []
    remarks: list[Remark] = []
    places = Places(source)
    read = 0
    for block in _wanted(text):
        read += 1
        blank = blank or _VISIBLE.sub(" ", text)
        body = text[block.start : block.end]
        if block.language in SHELL:
            without = _without_prompts(body)
            if not block.language and without == body and not all_commands(body):
                continue
            body = without
        inside = Source(source.name, blank[: block.start] + body)
        try:
            reading = _read(inside, block.language)
        except InputError as error:
            span = places.span(block.start, block.end)
            remarks.append(Remark("not_read", f"a code block cannot be read: {error.message}", span, error.fix))
            continue
        found.extend(replace(launch, source=source) for launch in reading.launches)
        remarks.extend(reading.remarks)
    if read == MAX_BLOCKS or "vllm" in rest.lower():
        what = f"{MAX_BLOCKS} code blocks" if read == MAX_BLOCKS else f"the first {MAX_CHARS // 1024} KiB"
        remarks.append(Remark("not_read", f"of this text {what} are read, not more"))
    if len(found) > 1:
        found = [replace(launch, label=_label(launch)) for launch in found]
    return Reading(tuple(found), tuple(remarks))


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a text; one that is not closed goes to its end."""
    at = 0
    while (opened := _FENCE.search(text, at)) is not None:
        start = min(opened.end() + 1, len(text))
        fence = opened["fence"]
        closes = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t\r]*$", re.MULTILINE)
        closed = closes.search(text, start)
        end = closed.start() if closed is not None else len(text)
        yield Block(opened["lang"].lower(), start, end)
        at = closed.end() if closed is not None else len(text)


def _wanted(text: str) -> Iterator[Block]:
    count = 0
    for block in blocks(text):
        known = block.language in SHELL or block.language in _YAML
        if known and "vllm" in text[block.start : block.end].lower():
            count += 1
            if count > MAX_BLOCKS:
                return
            yield block


def _read(source: Source, language: str) -> Reading:
    if language in _YAML:
        from .reading import read_yaml

        return read_yaml(source)
    return script.launches(source)


def _without_prompts(text: str) -> str:
    """A session with its prompts blanked, each character in its place; lines of output are no commands."""
    lines = text.splitlines(keepends=True)
    if not any(_COMMAND.match(line) for line in lines):
        return text
    kept = []
    continued = False
    for line in lines:
        prompt = _PROMPT.match(line)
        if prompt is not None and not continued:
            line = " " * prompt.end() + line[prompt.end() :]
        elif continued:
            line = re.sub(r"^[ \t]*>[ \t]", lambda found: " " * len(found[0]), line)
        else:
            line = _VISIBLE.sub(" ", line)
        continued = line.rstrip("\r\n").endswith("\\")
        kept.append(line)
    return "".join(kept)


def _label(launch: Launch) -> str:
    own = launch.label if not launch.label.startswith("line ") else ""
    return own or f"line {first_line(launch.tokens) or 1}"
