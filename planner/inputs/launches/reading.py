"""Which kind of file a text is, and its reader."""

from __future__ import annotations

from .launch import Reading, Source


def read(source: Source) -> Reading:
    """The servers that a text starts.

    Raises:
        InputError: CG911 it cannot be read, CG914 it is too large.
    """
    raise NotImplementedError(source.name)
