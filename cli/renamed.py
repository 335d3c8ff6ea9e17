"""Options that had another name once. The old one works and is not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "check": {"--output": "--format"},
    "logs": {"--workload": "--metrics"},
    "sweep": {"--profile": "--measure"},
}
"""By command: the old name, or that of other commands, and the option that it stands for."""


def current(words: Sequence[str]) -> list[str]:
    """The words of a command line with the names of today."""
    names = OLD_NAMES.get(words[0], {}) if words else {}
    out = []
    for word in words:
        name, equals, value = word.partition("=")
        out.append(names.get(name, name) + equals + value)
    return out
