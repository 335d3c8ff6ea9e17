"""Programs by name: those that start a server, those that run another command, and those that only speak of one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...serve_args import MAIN_MODULE, SERVER_MODULE
from ..image import entrypoint_of, is_official
from .word import Word

SHELLS = ("sh", "bash", "dash", "zsh", "ash", "ksh")
CARRIERS = (
    "ssh",
    "tmux",
    "su",
    "eval",
    "watch",
    "screen",
    "script",
    "runuser",
    "pdsh",
    "xargs",
    "parallel",
    "timeout",
    "sbatch",
)
"""Programs that get a command as one word."""
CARRYING_OPTION = "--wrap="
"""An option of theirs that may be joined to the command."""
NOT_RUNNING = frozenset((
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "pgrep", "pkill", "killall", "kill", "ps", "which",
    "type", "command", "whereis", "man", "cat", "less", "more", "ls", "cp", "rm", "mv", "mkdir", "pip", "pip3",
    "pipx", "conda", "mamba", "apt", "apt-get", "yum", "dnf", "brew", "curl", "wget", "sed", "awk", "tee",
    "touch", "test", "[", "[[", ":", "alias", "cd", "head", "tail", "logger", "git", "make", "helm", "kubectx",
    "log", "info", "warn", "error", "die", "usage",
))  # fmt: skip


def entrypoint_before(image: str, release: str | None, words: Sequence[Word]) -> tuple[str, ...]:
    """The words that the image puts before these.

    Who writes `vllm serve` again behind an image that is not vLLM's own means one without an entrypoint.
    """
    again = bool(words) and starts_server([word.text for word in words], 0)
    return () if again and not is_official(image) else entrypoint_of(image, release)


def starts_server(texts: Sequence[str], index: int) -> bool:
    """Whether the word at `index` is the program of a vLLM server."""
    program = texts[index].rpartition("/")[2]
    if program == "vllm":
        return index + 1 < len(texts) and texts[index + 1] == "serve"
    if not re.fullmatch(r"python[0-9.]*", program):
        return False
    for at in range(index + 1, min(index + 6, len(texts) - 1)):
        if texts[at] == "-m":
            module = texts[at + 1]
            return module == SERVER_MODULE or (module == MAIN_MODULE and texts[at + 2 : at + 3] == ["serve"])
    return False
