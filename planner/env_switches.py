"""Environment variables of vLLM that are switches.

Source: vllm/envs.py @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InputError, shorten


def int_switch(env: Mapping[str, str], name: str) -> bool | None:
    """A variable that vLLM reads with int(): True, False, or None when it is not set.

    Raises:
        InputError: it is no whole number, which stops vLLM as well.
    """
    text = env.get(name)
    if text is None:
        return None
    try:
        return bool(int(text[:40]))
    except ValueError:
        raise InputError(
            f"{name} is {shorten(text, 20)}, which is no whole number",
            code="CG903",
            where=name,
            fix="set it to 0 or 1",
        ) from None
