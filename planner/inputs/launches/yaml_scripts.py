"""Any other YAML that holds shell scripts: CI workflows, Ansible, benchmark scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import shorten
from .config_files import with_config
from .launch import Launch, Reading, Source, label_with_line
from .yaml_commands import in_scalar
from .yaml_nodes import Mapping, Node, Scalar
from .yaml_nodes import Sequence as Items

MAX_SCRIPTS = 200
"""Scripts read from one text."""
_STARTS = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\b")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_RUNS = frozenset(
    ("run", "command", "commands", "cmd", "script", "scripts", "shell", "exec", "entrypoint", "start", "launch")
)
"""Words of the keys whose value a shell runs; prose that speaks of `vllm serve` stands under others."""


class _Script(NamedTuple):
    text: Scalar
    path: str


def fits(documents: Sequence[Node]) -> bool:
    """Whether there is a script that may start a server."""
    return any(True for document in documents for _ in _scripts(document))


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The servers that the scripts start."""
    return Reading(tuple(launch for document in documents for launch in _of(document, source)))


def _of(document: Node, source: Source) -> Iterator[Launch]:
    for script in _scripts(document):
        starts = in_scalar(script.text, {})
        for found in starts:
            tokens, files, notes = with_config(found.tokens, {})
            label = label_with_line(script.path, tokens) if len(starts) > 1 else script.path
            remarks = (*found.remarks, *notes)
            yield Launch(source, "task", label, tokens, found.env, files, found.hints, remarks)


def _scripts(document: Node) -> Iterator[_Script]:
    """Scripts in the order of the text, each with the keys that lead to it."""
    waiting: list[tuple[Node, str, bool]] = [(document, "", False)]
    left = MAX_SCRIPTS
    while waiting and left:
        node, path, runs = waiting.pop()
        if isinstance(node, Mapping):
            waiting += [(value, _joined(path, key.text), _is_run(key.text)) for key, value in reversed(node.items)]
        elif isinstance(node, Items):
            waiting += [(item, f"{path}[{i}]", runs) for i, item in reversed(list(enumerate(node.items)))]
        elif isinstance(node, Scalar) and runs and _STARTS.search(node.text):
            left -= 1
            yield _Script(node, path)


def _joined(path: str, key: str) -> str:
    return f"{path}.{shorten(key, 40)}".lstrip(".")


def _is_run(key: str) -> bool:
    return any(word.lower() in _RUNS for word in _WORD.findall(key[:100]))
