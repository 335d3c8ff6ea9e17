"""Words of the screen: 1 request, 2 requests; whole sentences; variables as the option that sets them."""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"(?<!--env )\b((?:VLLM|TORCH)_[A-Z0-9_]+=)")
_UNSET = re.compile(r"\b[Uu]nset ((?:VLLM|TORCH)_[A-Z0-9_]+)")
_PLAIN_WORD = re.compile(r"[a-z]+\b(?![_.])")


def counted(number: int, noun: str) -> str:
    """1 request, 2 requests."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sentence(text: str) -> str:
    """`text` with a capital and a full stop; a name at its beginning stays as it is."""
    if _PLAIN_WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def as_option(text: str) -> str:
    """`text` with each variable to set or unset written as the option that does it."""
    return _UNSET.sub(r"drop --env \1", _VARIABLE.sub(r"--env \1", text))
