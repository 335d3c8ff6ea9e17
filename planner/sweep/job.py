"""A measurement that a sweep asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Measure = Callable[[Sequence[str], str], dict[str, Any]]
"""What a process does for a job: its words and the folder where paths begin, to its record."""


class Job(NamedTuple):
    """One measurement.

    Attributes:
        key: of its record.
        words: options of `cgplan profile`.
        gpus: GPUs that it takes, all of one node.
        gpu: name of the GPU.
    """

    key: str
    words: tuple[str, ...]
    gpus: int
    gpu: str
