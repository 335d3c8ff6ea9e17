"""Where vLLM servers are started from: command lines, manifests, compose files, scripts, units.

Readers never run, expand or fetch anything. Each gives Launches: tokens with the place of each in the text.
"""

from .launch import ConfigText, EnvVariable, Hints, Launch, LaunchToken, Reading, Remark, Source, Span
from .pasted import launch_of, launch_of_text
from .reading import read

__all__ = [
    "ConfigText",
    "EnvVariable",
    "Hints",
    "Launch",
    "LaunchToken",
    "Reading",
    "Remark",
    "Source",
    "Span",
    "launch_of",
    "launch_of_text",
    "read",
]
