"""Nodes of a YAML text that know where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..launch import Span
from ..places import Places
from .scalars import Pieces, pieces
from .values import TYPED, resolved


class Node:
    """What scalars, sequences and mappings share."""

    __slots__ = ("_end", "_places", "_start")

    def __init__(self, places: Places, start: int, end: int) -> None:
        self._places = places
        self._start = start
        self._end = end

    @property
    def start(self) -> int:
        """Offset of its first character in the source; an anchor or a tag before it does not belong to it."""
        return self._start

    @property
    def end(self) -> int:
        """Offset behind its last character."""
        return self._end

    @property
    def span(self) -> Span:
        """Where it stands in the source."""
        return self._places.span(self.start, self.end)


class Scalar(Node):
    """A single value.

    Attributes:
        text: as YAML gives it.
        style: "plain", "single", "double", "literal" or "folded".
        tag: as written, resolved: "tag:yaml.org,2002:str"; "" where there is none.
    """

    __slots__ = ("_pieces", "style", "tag", "text")

    def __init__(self, places: Places, start: int, end: int, text: str, style: str, tag: str = "") -> None:
        super().__init__(places, start, end)
        self.text = text
        self.style = style
        self.tag = tag
        self._pieces: Pieces | None = None

    @property
    def value(self) -> Any:
        """A str, int, float, bool or None by YAML 1.1; dates and tags unknown stay text."""
        if self.tag:
            return resolved(self.text) if self.tag in TYPED else self.text
        return resolved(self.text) if self.style == "plain" else self.text

    @property
    def end(self) -> int:
        """Offset behind its last character; a block scalar ends with its last line, without the line break."""
        if self.style in ("literal", "folded"):
            written = self._written()
            if written:
                return max(written.end, self._start + 1)
            return self._start + len(self._places.source.text[self._start : self._end].rstrip())
        return self._end

    @property
    def inner(self) -> str:
        """How a word within it is quoted, as of LaunchToken."""
        return self.style if self.style in ("single", "double") else ""

    @property
    def exact(self) -> bool:
        """Whether the place of each character of `text` is known."""
        return bool(self._written())

    def span_of(self, start: int, end: int) -> Span:
        """Where text[start:end] is written; the whole scalar where that is not known."""
        written = self._written()
        if not written:
            return self.span
        return self._places.span(*written.stretch(start, end))

    def _written(self) -> Pieces:
        if self._pieces is None:
            self._pieces = pieces(self._places.source.text, self._start, self._end, self.style, self.text)
        return self._pieces

    def __repr__(self) -> str:
        return f"Scalar({self.text!r}, {self.style})"


class _Collection(Node):
    __slots__ = ("flow",)

    def __init__(self, places: Places, start: int, flow: bool) -> None:
        super().__init__(places, start, start)
        self.flow = flow

    def last(self) -> Node | None:
        raise NotImplementedError

    @property
    def end(self) -> int:
        """Offset behind its last character: the bracket, or the last value of a block."""
        if self.flow:
            return self._end
        last = self.last()
        return max(last.end, self._start) if last is not None else self._start


class Sequence(_Collection):
    """A list of nodes; `flow`: written in brackets."""

    __slots__ = ("items",)

    def __init__(self, places: Places, start: int, flow: bool) -> None:
        super().__init__(places, start, flow)
        self.items: list[Node] = []

    def last(self) -> Node | None:
        return self.items[-1] if self.items else None

    def __repr__(self) -> str:
        return f"Sequence({self.items!r})"


class Mapping(_Collection):
    """Keys and values.

    Attributes:
        items: as written, keys that are given twice as well; what `<<` merges in comes first. A key that is no scalar
            stands for itself as the text it is written in.
        flow: written in braces.
    """

    __slots__ = ("_last", "items")

    def __init__(self, places: Places, start: int, flow: bool) -> None:
        super().__init__(places, start, flow)
        self.items: list[tuple[Scalar, Node]] = []
        self._last: Node | None = None

    def last(self) -> Node | None:
        return self._last

    def get(self, key: str) -> Node | None:
        """The value of `key`, the last where it is given twice; None where there is none."""
        return next((value for name, value in reversed(self.items) if name.text == key), None)

    def key(self, key: str) -> Scalar | None:
        """The key itself, for its place."""
        return next((name for name, _ in reversed(self.items) if name.text == key), None)

    def at(self, *path: str) -> Node | None:
        """The value at the end of a path of keys; None where it leads nowhere."""
        node: Node | None = self
        for key in path:
            if not isinstance(node, Mapping):
                return None
            node = node.get(key)
        return node

    def __repr__(self) -> str:
        return f"Mapping({self.items!r})"


def mappings_in(node: Node | None) -> list[Mapping]:
    """The mappings in a sequence; none where it is no sequence."""
    return [one for one in node.items if isinstance(one, Mapping)] if isinstance(node, Sequence) else []


def walk(node: Node) -> Iterator[Node]:
    """The node and every node in it, in the order of the text."""
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Sequence):
            waiting += reversed(one.items)
        elif isinstance(one, Mapping):
            waiting += [value for _, value in reversed(one.items)]
