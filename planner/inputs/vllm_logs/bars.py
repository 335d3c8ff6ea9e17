"""Progress bars of the capture, as tqdm draws them: one state after another, each over the last."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATE = r"(?P<percent>[0-9]{1,3})%\|[^|\r]{0,400}\| *(?P<done>[0-9]{1,9})/(?P<total>[0-9]{1,9}) \[[^\]\r]{1,80}\]"
_NAME = r"Capturing (?P<whose>[A-Za-z0-9_. -]{0,60}?)CUDA graphs \((?P<what>[^()\r]{1,60})\)"

BAR = re.compile(rf"(?P<name>{_NAME}): *{_STATE}")
"""0.19.1 to 0.33.0: V1 "(mixed prefill-decode, PIECEWISE)" and "(decode, FULL)"; V2 "(PIECEWISE)", "(FULL)", and of
drafters "Capturing eagle CUDA graphs (FULL)", "Capturing prefill CUDA graphs (FULL)" and so on."""

BAR_ONLY = re.compile(
    rb"(?P<name>(?:\([^()\r]{1,160} pid=[0-9]{1,10}\) ?)?Capturing [^%|\r]{1,160}?): *"
    rb"[0-9]{1,3}%\|[^|\r]{0,400}\|[^\r\]]{0,80}\] *"
)
"""A line that is one state of a bar and nothing else."""

KINDS = ("FULL", "PIECEWISE", "ENCODER")


@dataclass(frozen=True)
class Bar:
    """One state of a bar.

    Attributes:
        kind: "FULL" or "PIECEWISE", "DRAFTER_FULL" and so on for those of a drafter.
        name: the words that tell bars of one kind apart.
    """

    kind: str
    name: str
    done: int
    total: int


def read(match: re.Match[str]) -> Bar | None:
    """The bar of a match of BAR; None where its numbers contradict each other or its mode is no mode."""
    mode = match["what"].rpartition(",")[2].strip()
    done, total = int(match["done"]), int(match["total"])
    if mode not in KINDS or done > total or int(match["percent"]) > 100:
        return None
    whose = match["whose"].strip()
    return Bar(f"DRAFTER_{mode}" if whose else mode, f"{whose} {match['what']}".strip(), done, total)
