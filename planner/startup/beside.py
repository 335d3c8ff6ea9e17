"""What the user says beside a log, laid over a start: its release, where the log has none, and flags of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..releases import is_known, nearest
from .record import Start

LIMITS = ("max_num_seqs", "max_num_batched_tokens", "max_model_len")
"""Of what the log may print itself, which then counts."""


def rules_for(release: str) -> str | None:
    """The release by whose rules one that is not known is read; None: it is known, or no release at all."""
    if is_known(release) or re.match(r"v?[0-9]{1,4}\.[0-9]{1,4}(?![0-9])", release.strip()) is None:
        return None
    return nearest(release.strip())


def beside(start: Start, release: str | None, said: Mapping[str, Any]) -> Start:
    """The start with what the user says of it.

    Args:
        release: as the user names it, known or not; of a log that names its own it says nothing.
        said: values by vLLM's names; None: not said.
    """
    given = {name: value for name, value in said.items() if value is not None}
    if not given and (release is None or start.vllm_version is not None):
        return start
    limits = {name: given[name] for name in LIMITS if isinstance(given.get(name), int) and getattr(start, name) is None}
    return replace(start, vllm_version=start.vllm_version or release, said=given, **limits)
