"""Goes through the items of a script in their order and gives each command with the words it gets.

Nothing is run: both branches of an `if` are gone through, a loop once. What only a branch sets is taken where
nothing else sets it; where the branches differ it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .expansion import fields_of, value_of
from .grammar import Item, ShellWord
from .values import UNKNOWN, Field, Scope, Value, joined

MAX_STEPS = 60_000
"""Items gone through in all; functions are gone through at each call."""
MAX_VARIABLES = 500
"""Variables that are told apart; the rest is unknown."""
MAX_CALLS = 8
"""Functions within functions."""

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]=]*\])?(\+?)=")
_DECLARES = ("export", "declare", "local", "typeset", "readonly")
_TESTS = ("[", "[[", "test", "((")
_BRANCHES = ("if", "loop", "case", "arm")


class Assigned(NamedTuple):
    """NAME=VALUE in front of a command, or exported."""

    name: str
    value: Value
    start: int
    end: int


class Simple(NamedTuple):
    """A command as the script would run it.

    Attributes:
        fields: its words, assignments in front left out.
        front: those assignments.
        maybe: words that the script adds only under a condition.
        item: as written.
        position: index of the item.
    """

    fields: list[Field]
    front: tuple[Assigned, ...]
    maybe: tuple[Field, ...]
    item: Item
    position: int


@dataclass
class _Frame:
    what: str
    before: dict[str, Value | None] = field(default_factory=dict)
    results: dict[str, list[Value]] = field(default_factory=dict)


class Walk:
    """One way through a script. `exported` and `unexported` are those of the command given last."""

    def __init__(self, items: Sequence[Item], env: Mapping[str, str | None], arguments: Sequence[Field] | None) -> None:
        self.items = items
        self.scope = Scope()
        self.scope.arguments = arguments
        for name, text in env.items():
            self.scope.variables[name] = UNKNOWN if text is None else Value((Field(text),))
        self.exported: dict[str, Assigned] = {}
        self.assigned: dict[str, Assigned] = {}
        self.all_exported = False
        self.frames: list[_Frame] = []
        self.functions: dict[str, tuple[int, int]] = {}
        self.called: set[str] = set()
        self.steps = 0
        self.closes = _closes(items)

    def commands(self) -> Iterator[Simple]:
        """Every command, those of functions where they are called, or at the end where they are not."""
        yield from self._range(0, len(self.items), 0)
        for name, (start, end) in list(self.functions.items()):
            if name not in self.called:
                self.scope.arguments = None
                yield from self._range(start, end, 1)

    def _range(self, start: int, end: int, depth: int) -> Iterator[Simple]:
        index = start
        frames = len(self.frames)
        while index < end and self.steps < MAX_STEPS:
            self.steps += 1
            item = self.items[index]
            if item.kind == "command":
                yield from self._command(item, index, depth)
            elif item.what.startswith("function "):
                closed = self.closes.get(index, end)
                self.functions[item.what[9:]] = (index + 1, closed)
                index = closed
            else:
                self._edge(item)
            index += 1
        while len(self.frames) > frames:
            self._leave()

    def _edge(self, item: Item) -> None:
        if item.kind == "open":
            self.frames.append(_Frame("loop" if item.what == "for" else item.what))
            if item.what == "for":
                self._loop_variable(item.words)
        elif item.kind == "arm" and self.frames:
            self._end_branch(self.frames[-1])
        elif item.kind == "close" and self.frames and self.frames[-1].what == item.what:
            self._leave()

    def _loop_variable(self, words: Sequence[ShellWord]) -> None:
        name = words[0].plain if words else None
        if name is None or not name.isidentifier():
            return
        values = fields_of(words[2:], self.scope) if len(words) > 2 else []
        if not values or values[0].unknown:
            self._set(name, UNKNOWN)
            return
        first = values[0]
        if len({value.text for value in values}) > 1:
            first = first._replace(several=(*first.several, name))
        self._set(name, Value((first,)))

    def _command(self, item: Item, index: int, depth: int) -> Iterator[Simple]:
        count = 0
        while count < len(item.words) and item.words[count].assigns:
            count += 1
        front = [one for word in item.words[:count] for one in self._assigned(word)]
        if count == len(item.words):
            for one in front:
                self._assign(one, index)
            return
        self.scope.maybe.clear()
        fields = fields_of(item.words[count:], self.scope)
        maybe = tuple(dict.fromkeys(self.scope.maybe))
        head = fields[0].text if fields else ""
        if head in _DECLARES:
            self._declare(item.words[count + 1 :], head, index)
        elif head == "set" and any(one.text == "-a" or one.text == "allexport" for one in fields[1:3]):
            self.all_exported = True
        elif head == "set" and len(fields) > 1 and fields[1].text == "--":
            self.scope.arguments = fields[2:]
        elif head == "unset":
            for name in fields[1:]:
                self.scope.variables.pop(name.text, None)
                self.exported.pop(name.text, None)
        elif head in ("read", "mapfile", "getopts"):
            self._forget(fields[1:])
        elif head in self.functions and depth < MAX_CALLS:
            yield from self._call(head, fields[1:], depth)
        else:
            yield Simple(fields, tuple(front), maybe, item, index)

    def _call(self, name: str, arguments: list[Field], depth: int) -> Iterator[Simple]:
        self.called.add(name)
        outer, self.scope.arguments = self.scope.arguments, arguments
        yield from self._range(*self.functions[name], depth + 1)
        self.scope.arguments = outer

    def _forget(self, words: Sequence[Field]) -> None:
        for one in words:
            if one.text.isidentifier():
                known = self.scope.variables.get(one.text)
                self._set(one.text, known if known is not None else UNKNOWN)

    def _assigned(self, word: ShellWord) -> Iterator[Assigned]:
        found = _NAME.match(word.pieces[0].text)
        if found is None:
            return
        name, index, plus = found[1], found[2], found[3]
        value = value_of(word, self.scope, found.end())
        old = self.scope.variables.get(name)
        if index:
            value = UNKNOWN
        elif plus and old is not None:
            self.scope.work -= sum(10 + len(one.text) + 10 * len(one.runs) for one in old.fields)
            value = joined(old, value) if self.scope.work >= 0 else UNKNOWN
        yield Assigned(name, value, word.start, word.end)

    def _declare(self, words: Sequence[ShellWord], head: str, index: int) -> None:
        exports = head == "export"
        for word in words:
            if word.assigns:
                for one in self._assigned(word):
                    self._assign(one, index)
                    if exports and len(self.exported) < MAX_VARIABLES:
                        self.exported[one.name] = one
            elif (plain := word.plain) is not None and plain.startswith("-"):
                exports = exports or (head in ("declare", "typeset") and "x" in plain)
                if head == "export" and "n" in plain:
                    exports = False
            elif plain is not None and exports and plain.isidentifier():
                value = self.scope.variables.get(plain, UNKNOWN)
                known = self.assigned.get(plain)
                place = known if known is not None else Assigned(plain, value, word.start, word.end)
                self.exported[plain] = place._replace(value=value)

    def _assign(self, one: Assigned, index: int) -> None:
        if len(self.assigned) >= MAX_VARIABLES and one.name not in self.assigned:
            return
        self.assigned[one.name] = one
        if self.all_exported or one.name in self.exported:
            self.exported[one.name] = one
        if self._depends(index):
            old = self.scope.variables.get(one.name)
            self._set(one.name, self._merged(old, [one.value]))
        else:
            self._set(one.name, one.value)

    def _depends(self, index: int) -> bool:
        """Whether the command before decides if this one runs: `[ -n "$X" ] && ...`."""
        before = self.items[index - 1] if index else None
        if before is None or before.kind != "command" or before.ends not in ("&&", "||"):
            return False
        return before.ends == "||" or (bool(before.words) and before.words[0].plain in _TESTS)

    def _set(self, name: str, value: Value) -> None:
        if self.frames:
            self.frames[-1].before.setdefault(name, self.scope.variables.get(name))
        self.scope.variables[name] = value

    def _end_branch(self, frame: _Frame) -> None:
        """Take back what the branch set; the end of the block says what of it stays."""
        for name, old in frame.before.items():
            now = self.scope.variables.get(name)
            if now is not None:
                frame.results.setdefault(name, []).append(now)
            if old is None:
                self.scope.variables.pop(name, None)
            else:
                self.scope.variables[name] = old
        frame.before = {}

    def _leave(self) -> None:
        frame = self.frames.pop()
        if frame.what not in (*_BRANCHES, "subshell"):
            for name, old in frame.before.items():
                if self.frames:
                    self.frames[-1].before.setdefault(name, old)
            return
        self._end_branch(frame)
        if frame.what == "subshell":
            return
        if frame.what == "arm" and self.frames and self.frames[-1].what == "case":
            outer = self.frames[-1].results
            for name, values in frame.results.items():
                outer.setdefault(name, []).extend(values)
            return
        for name, values in frame.results.items():
            self._set(name, self._merged(self.scope.variables.get(name), values))

    def _merged(self, old: Value | None, values: Sequence[Value]) -> Value:
        """A variable behind branches that may have set it."""
        known = [value for value in values if value.known]
        if old is not None and not known:
            return old
        different = {value.texts for value in known}
        if old is None or (old.known and not any(old.texts)):
            if len(different) == 1 and old is None:
                return known[0]
            if old is None or not different:
                return UNKNOWN
        if not old.known:
            return old
        if different <= {old.texts}:
            return old
        if all(_extends(value, old) for value in known):
            added = tuple(dict.fromkeys(one for value in known for one in _added(value, old)))
            return old._replace(maybe=old.maybe + added)
        return UNKNOWN


def _extends(value: Value, old: Value) -> bool:
    """Whether a branch only put something behind what was there."""
    if value.array or old.array:
        return value.texts[: len(old.fields)] == old.texts
    text = value.text or ""
    before = old.text or ""
    return text.startswith(before) and (not before or text[len(before) :][:1].isspace() or before[-1:].isspace())


def _added(value: Value, old: Value) -> Iterator[Field]:
    if value.array or old.array:
        yield from value.fields[len(old.fields) :]
    elif value.fields:
        field = value.fields[0]
        yield field._replace(text=field.text[len(old.text or "") :].strip())


def _closes(items: Sequence[Item]) -> dict[int, int]:
    """Index of the item that closes each block."""
    found: dict[int, int] = {}
    stack: list[int] = []
    for index, item in enumerate(items):
        if item.kind == "open":
            stack.append(index)
        elif item.kind == "close" and stack:
            found[stack.pop()] = index
    return found
