"""Annotations for GitHub Actions: workflow commands on stdout, one a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..check.diagnostic import Diagnostic
from ..errors import CgplanError
from .check_places import region_of
from .check_results import NAMES, FileResult, forward

LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def commands(files: Sequence[FileResult]) -> Iterator[str]:
    """The lines."""
    for file in files:
        if file.error is not None:
            yield _unreadable(file, file.error)
        for one in file.all():
            yield _annotation(file, one)


def _annotation(file: FileResult, one: Diagnostic) -> str:
    mask = file.secrets.mask
    text = [mask(one.message), *([f"fix: {mask(one.fix)}"] if one.fix else []), *([mask(one.flag)] if one.flag else [])]
    name, place = file.name, ""
    if one.at is not None:
        name = one.at.source.name
        at = region_of(one.at, utf16=True)
        place = f"line={at.line},endLine={at.end_line}"
        # GitHub takes columns only of what lies in one line.
        if at.line == at.end_line:
            place += f",col={at.column},endColumn={max(at.end_column, at.column + 1)}"
    return _command(LEVELS[one.severity], name, place, one.code, "\n".join(text))


def _unreadable(file: FileResult, error: CgplanError) -> str:
    text = error.message + (f"\nfix: {error.fix}" if error.fix else "")
    return _command("error", file.name, "", error.code, file.secrets.mask(text))


def _command(level: str, name: str, place: str, title: str, text: str) -> str:
    """A line of no file has no place for GitHub to show; the message says where."""
    if name in NAMES:
        return f"::{level} title={_property(title)}::{_data(f'{NAMES[name]}: {text}')}"
    parts = [f"file={_property(forward(name))}", *([place] if place else []), f"title={_property(title)}"]
    return f"::{level} {','.join(parts)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
