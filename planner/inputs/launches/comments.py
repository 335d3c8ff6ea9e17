"""Which stretches of a text are comments, by the kind of the file: what stands in quotes or in a value is none."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ...errors import InputError
from .launch import Source
from .reading import kind_of
from .shell.lexer import MAX_SCRIPT, Lexer
from .yaml_nodes import Scalar, documents, walk

MAX_DEPTH = 3
"""Here-documents within scripts within YAML."""
_STARTS_SERVER = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\b")
_OUTSIDE_QUOTES = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|(?P<comment>(?<![^\s;&|()\ufeff])#.*)|['\"]")
_WHOLE_LINE = re.compile(r"^[ \t\ufeff]*([#;].*)$", re.MULTILINE)


class Comments:
    """The comments of one text."""

    def __init__(self, source: Source, word: str) -> None:
        """`word`: what the comments of interest hold."""
        self._spans = sorted(set(_spans(source, word)))
        self._starts = [start for start, _ in self._spans]

    def holds(self, offset: int) -> bool:
        """Whether the character at `offset` belongs to a comment."""
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._spans[index][1]


def _spans(source: Source, word: str) -> Iterator[tuple[int, int]]:
    text, kind = source.text, kind_of(source)
    if kind == "yaml":
        try:
            yield from _in_yaml(source, word)
            return
        except InputError:
            pass
    if kind == "systemd":
        yield from (found.span(1) for found in _WHOLE_LINE.finditer(text))
    elif kind == "script" and len(text) <= MAX_SCRIPT:
        yield from _in_script(text, 0, word, 0)
    else:
        yield from _by_line(text, word)


def _in_yaml(source: Source, word: str) -> Iterator[tuple[int, int]]:
    """What stands in no value; of a value that is a script, its comments."""
    text = source.text
    values: dict[int, int] = {}
    for document in documents(source)[0]:
        for node in walk(document):
            if not isinstance(node, Scalar) or word not in text[node.start : node.end]:
                continue
            start = node.start
            if node.style in ("literal", "folded"):
                start = text.find("\n", node.start) + 1  # behind | there may be a comment
                if _STARTS_SERVER.search(node.text):
                    yield from _in_script(text[start : node.end], start, word, 1)
            values[start] = max(values.get(start, 0), node.end)
    at = 0
    for start, end in sorted(values.items()):
        if start > at:
            yield at, start
        at = max(at, end)
    yield at, len(text) + 1


def _in_script(text: str, first: int, word: str, depth: int) -> Iterator[tuple[int, int]]:
    """The comments of a script that begins at `first`."""
    lexer = Lexer(text)
    items = lexer.read()
    for start in lexer.comments:
        end = text.find("\n", start)
        yield first + start, first + (len(text) if end < 0 else end)
    for item in items if depth < MAX_DEPTH else ():
        for document in item.documents:
            inner = text[document.start : document.end]
            if word in inner and _STARTS_SERVER.search(inner):
                yield from _in_script(inner, first + document.start, word, depth + 1)


def _by_line(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Of each line what stands behind a # outside of quotes that begin and end in it."""
    at = 0
    for line in text.split("\n"):
        if word in line:
            for found in _OUTSIDE_QUOTES.finditer(line):
                if found["comment"] is not None:
                    yield at + found.start(), at + len(line)
        at += len(line) + 1
