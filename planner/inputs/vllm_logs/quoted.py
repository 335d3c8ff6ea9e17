"""An error that was pasted without its traceback: `max_num_seqs (1024) exceeds available Mamba cache blocks (512).`"""

from __future__ import annotations

import os

from ...startup.crashes import MAX_MESSAGE, UNKNOWN, classify
from ...startup.warnings import code_of
from .tracebacks import exception

MOST_BYTES = 1 << 16
MOST_LINES = 40
"""A longer text is no quotation; without a line of a start it is not a log of vLLM."""
MAX_LINE = 4000
REMARK = "it has no line of a start of vLLM; what it quotes is read as the error that ended one"


REMARK_OF_PARTS = "it has no beginning of a start of vLLM; what its lines say is read by itself"
SETS_A_MODE = "; setting cudagraph_mode="
"""Of a warning: vLLM goes on with the mode that follows; the error of the same words does not set one."""


def is_words(name: str) -> bool:
    """Whether what stands for a file is the words of an error, or the name of an exception, and no file."""
    try:
        return (len(name.split()) > 1 or exception(name) is not None) and not os.path.lexists(name)
    except ValueError:  # A NUL byte.
        return False


def warnings(text: str) -> list[tuple[int, str]]:
    """Lines of a short text that are a warning which a rule explains, with their numbers, from 1."""
    lines = [(number, bare) for number, line in enumerate(text.splitlines(), 1) if (bare := _bare(line))]
    if len(lines) > MOST_LINES:
        return []
    told = [(number, line) for number, line in lines if code_of(line) is not None]
    whole = " ".join(line for _, line in lines)[:MAX_LINE]
    if not told and len(lines) > 1 and code_of(whole) is not None:
        return [(lines[0][0], whole)]
    return told


def quoted(text: str) -> list[tuple[int, str]]:
    """Lines of a short text that have the words of an error that is known, with their numbers, from 1.

    An error over several lines, as terminals wrap it, is one, with the number of the first line.
    """
    lines = [(number, bare) for number, line in enumerate(text.splitlines(), 1) if (bare := _bare(line))]
    if len(lines) > MOST_LINES:
        return []
    if any(SETS_A_MODE in line for _, line in lines):
        return []
    told = [(number, line) for number, line in lines if classify(line)[0] != UNKNOWN]
    whole = " ".join(line for _, line in lines)[:MAX_MESSAGE]
    if len(lines) < 2 or len(told) > 1:
        return told
    kind, values = classify(whole)
    if kind != UNKNOWN and (not told or len(values) > len(classify(told[0][1])[1])):
        return [(lines[0][0], whole[:MAX_LINE])]
    return told


def _bare(line: str) -> str:
    """A line without what quotes it: marks of Markdown, quotation marks."""
    return line.strip().lstrip("> ").strip("`\"' ")[:MAX_LINE]
