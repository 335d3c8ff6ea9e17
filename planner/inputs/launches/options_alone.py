"""Commands that are options alone: of a server whose program is not in the file."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import shorten
from .launch import Remark
from .shell.word import Word

_TELLING = frozenset((
    "--max-model-len", "--gpu-memory-utilization", "--tensor-parallel-size", "--served-model-name", "--max-num-seqs",
    "--enforce-eager", "--compilation-config", "--max-num-batched-tokens",
))  # fmt: skip
"""Options that say vLLM."""


def of_options_alone(label: str, words: Sequence[Word], image: str | None, fix: str) -> Remark | None:
    """What to say of a container whose words are options of vLLM and no program; None where they are not.

    Args:
        label: what the container is called.
        words: that it runs.
        image: that they are put behind, or None.
        fix: as of Remark.
    """
    if not words or not words[0].text.startswith("-"):
        return None
    options = {word.text.partition("=")[0].replace("_", "-") for word in words}
    if not options & _TELLING:
        return None
    program = f"the image {shorten(image, 60)}" if image else "its image"
    message = f"{label} has options of vLLM, but what {program} starts is not in the file"
    return Remark("not_read", message, words[0].span, fix)
