"""The documents of a YAML text, composed of the events of a parser.

PyYAML's parser reads the text; no object is ever constructed, and tags mean nothing. YAML 1.1, as in Kubernetes,
compose and vLLM.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from ....errors import InputError, shorten
from ..launch import Remark, Source
from ..places import Places
from .tree import Mapping, Node, Scalar, Sequence
from .values import CORE

MAX_CHARS = 16 * 1024 * 1024
"""Longest text that is read."""
MAX_CHARS_PURE = 1024 * 1024
"""The same without PyYAML's C part, which is some fifty times faster."""
MAX_NODES = 300_000
"""Most nodes of a text once its aliases are written out; a megabyte of manifests has some 50,000."""
MAX_DEPTH = 100
MAX_REMARKS = 20

_STYLES = {None: "plain", "": "plain", "'": "single", '"': "double", "|": "literal", ">": "folded"}
_MERGE = "<<"
_NO_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BEFORE = re.compile(r"[&!]\S*|#[^\n]*|\s+")
"""What may stand between the start of an event and that of its node."""
_MAX_BEFORE = 1000


def documents(source: Source) -> tuple[list[Node], list[Remark]]:
    """The documents of a text, and what is odd in them.

    Aliases give the node of their anchor itself. Written out, the nodes are MAX_NODES at most, so that walking over a
    document is bounded.

    Raises:
        InputError: CG911 it is no YAML, with the line; CG914 it is too long, too deep, or its aliases blow it up.
    """
    yaml: Any = import_module("yaml")
    text = source.text
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    limit = MAX_CHARS_PURE if loader is yaml.SafeLoader else MAX_CHARS
    if len(text) > limit:
        raise _too_large(source, f"it is longer than {limit // 1024 // 1024} MiB")
    shift = 1 if text.startswith("\ufeff") else 0
    composer = _Composer(source, shift)
    parser = None
    try:
        parser = loader(text[shift:])
        while (event := parser.get_event()) is not None and composer.take(event):
            pass
    except yaml.YAMLError as error:
        raise _not_yaml(source, error, shift) from None
    except UnicodeError:
        raise _broken(source, "it holds half a character", 0) from None
    finally:
        if parser is not None:
            parser.dispose()
    return composer.documents, composer.remarks


class _Open:
    """A collection that is being read: its node, keys and values, size and height so far, and the anchor."""

    __slots__ = ("anchor", "children", "height", "node", "size")

    def __init__(self, node: Sequence | Mapping, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.children: list[Node] = []
        self.size = 1
        self.height = 1


class _Composer:
    """Makes nodes of parser events."""

    def __init__(self, source: Source, shift: int) -> None:
        self.source = source
        self.shift = shift
        self.places = Places(source)
        self.documents: list[Node] = []
        self.remarks: list[Remark] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int, int] | None] = {}
        self.count = 0

    def take(self, event: Any) -> bool:
        """Take one event; False at the end of the stream."""
        name = type(event).__name__
        if name == "ScalarEvent":
            self._scalar(event)
        elif name == "AliasEvent":
            self._alias(event)
        elif name in ("SequenceStartEvent", "MappingStartEvent"):
            self._begin(event, Sequence if name == "SequenceStartEvent" else Mapping)
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            self._finish(event)
        elif name == "DocumentStartEvent":
            self.anchors = {}
        return name != "StreamEndEvent"

    def _scalar(self, event: Any) -> None:
        start = self._start(event)
        end = max(start, event.end_mark.index + self.shift)
        tag = event.tag or ""
        node = Scalar(self.places, start, end, event.value, _STYLES.get(event.style, "plain"), tag)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, 1, 1)
        self._add(node, 1, 1)

    def _alias(self, event: Any) -> None:
        at = event.start_mark.index + self.shift
        if event.anchor not in self.anchors:
            raise _broken(self.source, f"*{shorten(event.anchor, 40)} has no anchor before it", at)
        found = self.anchors[event.anchor]
        if found is None:
            raise _broken(self.source, f"*{shorten(event.anchor, 40)} holds itself", at)
        self._add(*found)

    def _begin(self, event: Any, kind: type[Sequence] | type[Mapping]) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise _too_large(self.source, f"it is nested deeper than {MAX_DEPTH} levels")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.open.append(_Open(kind(self.places, self._start(event), bool(event.flow_style)), event.anchor))

    def _finish(self, event: Any) -> None:
        done = self.open.pop()
        node = done.node
        node._end = event.end_mark.index + self.shift
        if isinstance(node, Sequence):
            node.items = done.children
        else:
            self._pairs(node, done.children)
        if done.anchor is not None:
            self.anchors[done.anchor] = (node, done.size, done.height)
        self.count -= done.size - 1
        self._add(node, done.size, done.height)

    def _add(self, node: Node, size: int, height: int) -> None:
        self.count += size
        if self.count > MAX_NODES:
            raise _too_large(self.source, f"it has more than {MAX_NODES:,} values, its aliases written out")
        if len(self.open) + height > MAX_DEPTH + 1:
            raise _too_large(self.source, f"it is nested deeper than {MAX_DEPTH} levels")
        if not self.open:
            self.documents.append(node)
            return
        above = self.open[-1]
        above.children.append(node)
        above.size += size
        above.height = max(above.height, height + 1)

    def _pairs(self, node: Mapping, children: list[Node]) -> None:
        merged: list[tuple[Scalar, Node]] = []
        own: list[tuple[Scalar, Node]] = []
        seen: set[str] = set()
        for at in range(0, len(children) - 1, 2):
            key, value = self._key(children[at]), children[at + 1]
            if key.text == _MERGE and key.style == "plain" and (found := _merged(value)) is not None:
                merged = [*found, *merged]
            else:
                if key.text in seen:
                    self._twice(key)
                seen.add(key.text)
                own.append((key, value))
        node.items = [*merged, *own]
        node._last = children[-1] if children and children[-1].start >= node.start else None

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        text = self.source.text[node.start : node.end]
        return Scalar(self.places, node.start, node.end, text, "plain", f"{CORE}str")

    def _twice(self, key: Scalar) -> None:
        if len(self.remarks) < MAX_REMARKS:
            message = f"`{shorten(key.text, 40)}` is given twice; the last one counts"
            self.remarks.append(Remark("duplicate_key", message, key.span, "drop one of the two"))

    def _start(self, event: Any) -> int:
        """Where the node itself starts: events begin with its anchor and its tag."""
        start: int = event.start_mark.index + self.shift
        if event.anchor is None and event.tag is None:
            return start
        for _ in range(_MAX_BEFORE):
            found = _BEFORE.match(self.source.text, start)
            if found is None:
                break
            start = found.end()
        return start


def _merged(value: Node) -> list[tuple[Scalar, Node]] | None:
    """What `<<: value` puts in; of several mappings the first counts. None: it is no mapping."""
    if isinstance(value, Mapping):
        return value.items
    if isinstance(value, Sequence) and all(isinstance(item, Mapping) for item in value.items):
        return [pair for item in reversed(value.items) if isinstance(item, Mapping) for pair in item.items]
    return None


def _not_yaml(source: Source, error: Any, shift: int) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    odd = _NO_YAML.search(source.text, shift)
    if mark is None and odd is not None:
        return _broken(source, f"it holds the control character {odd[0]!r}", odd.start())
    return _broken(source, str(problem), mark.index + shift if mark is not None else 0)


def _broken(source: Source, problem: str, at: int) -> InputError:
    line = source.text.count("\n", 0, at) + 1
    name = source.name or "the text"
    return InputError(
        f"not YAML: {shorten(problem, 120)}",
        code="CG911",
        where=f"{name}:{line}",
        fix=_template_fix(source.text) or "mend the YAML at that line",
    )


def _template_fix(text: str) -> str | None:
    return "render the template first: helm template CHART | cgplan check -" if "{{" in text else None


def _too_large(source: Source, problem: str) -> InputError:
    return InputError(
        f"the YAML is not read: {problem}",
        code="CG914",
        where=source.name or None,
        fix="pass the manifest of the server alone",
    )
