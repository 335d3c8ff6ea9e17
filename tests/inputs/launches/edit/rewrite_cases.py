"""Texts with servers, for tests of changes to them."""

from __future__ import annotations

from cgplan.inputs.launches.launch import Launch, Reading, Source
from cgplan.inputs.launches.shell.commands import in_script


def shell(source: Source) -> Reading:
    """The servers of a script."""
    found = in_script(source.text, source.span, {})
    return Reading(tuple(Launch(source, "shell", "", one.tokens, one.env) for one in found))
