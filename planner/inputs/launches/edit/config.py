"""A setting in a file of --config renamed, given another value, or taken out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..launch import ConfigText, Span
from ..lines import line_end, line_start, newline_at, next_line
from . import quoting
from .flow import without_flow
from .kinds import CannotEdit, ConfigEdit, Splice, spliced

MAX_NODES = 50_000
"""Most values in a file, aliases written out."""
MAX_DEPTH = 100

_UNREADABLE = "the file of --config cannot be read as YAML"


class Setting(NamedTuple):
    """A key of a mapping and its value, as PyYAML's nodes."""

    key: Any
    value: Any
    mapping: Any


def config_splices(config: ConfigText, source_text: str, edits: Sequence[ConfigEdit]) -> list[Splice]:
    """The replacements, in the source that holds the text of the file, that make these edits.

    Raises:
        CannotEdit: the setting is not there, or the new text would not read back as it should.
    """
    text = config.text
    splices = [splice for edit in edits for splice in _splices(text, edit)]
    if _shape(_compose(spliced(text, splices))) != _expected(text, edits):
        raise CannotEdit("it would not read back as meant")
    return _moved(config, source_text, splices)


def same_settings(text: str, other: str) -> bool:
    """Whether two texts of YAML say the same, key by key."""
    return bool(_shape(_compose(text)) == _shape(_compose(other)))


def edited_config(text: str, edits: Sequence[ConfigEdit]) -> str:
    """The text of the file after these edits."""
    return spliced(text, [splice for edit in edits for splice in _splices(text, edit)])


def _splices(text: str, edit: ConfigEdit) -> list[Splice]:
    setting = _find(_compose(text), edit)
    key = setting.key
    start, end = key.start_mark.index, _end_of(text, setting)
    if edit.new_key is None:
        return _without(text, setting, end)
    splices = []
    if key.value != edit.new_key:
        splices.append(Splice(start, key.end_mark.index, quoting.key_text(edit.new_key)))
    return [*splices, *_value_splices(text, setting, edit.new_value)]


def _value_splices(text: str, setting: Setting, value: object) -> list[Splice]:
    """Give the setting a value. Of a block of settings only those that differ are touched."""
    old = setting.value
    if _is_value(old, value):
        return []
    end = _end_of(text, setting)
    if isinstance(value, dict) and old.id == "mapping" and not old.flow_style:
        settings = [Setting(key, node, old) for key, node in old.value]
        names = [one.key.value for one in settings]
        kept = [one for one in settings if one.key.value in value]
        if kept and len(set(names)) == len(names) and all(isinstance(name, str) for name in value):
            return _block_splices(text, settings, kept, value)
    behind_colon = text.index(":", setting.key.end_mark.index) + 1
    return [Splice(behind_colon, max(end, behind_colon), _written(text, setting, value))]


def _block_splices(
    text: str, settings: Sequence[Setting], kept: Sequence[Setting], value: dict[str, object]
) -> list[Splice]:
    splices: list[Splice] = []
    for one in settings:
        if one in kept:
            splices += _value_splices(text, one, value[one.key.value])
        else:
            splices += _without(text, one, _end_of(text, one))
    added = {name: item for name, item in value.items() if name not in {one.key.value for one in kept}}
    last = kept[-1]
    start, end = last.key.start_mark.index, line_end(text, _end_of(text, last))
    indent = text[line_start(text, start) : start]
    if added and indent.strip(" \t"):
        raise CannotEdit("the settings do not stand on lines of their own")
    newline = newline_at(text, start)
    lines = [f"{newline}{indent}{quoting.key_text(name)}: {_dump(item, flow=True)}" for name, item in added.items()]
    return [*splices, Splice(end, end, "".join(lines))] if lines else splices


def _find(root: Any, edit: ConfigEdit) -> Setting:
    """The setting of that name at that line; of a dotted name, its last part may be the key."""
    names = {edit.key, edit.key.rpartition(".")[2]}
    found = [one for one in _settings(root) if one.key.start_mark.line + 1 == edit.line and one.key.value in names]
    if not found:
        raise CannotEdit(f"line {edit.line} of the file of --config has no key {edit.key}")
    return next((one for one in found if one.key.value == edit.key), found[0])


def _settings(node: Any) -> list[Setting]:
    """Every key of every mapping, from the outside in."""
    found: list[Setting] = []
    nodes = [node]
    seen: set[int] = set()
    while nodes:
        node = nodes.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            found += [Setting(key, value, node) for key, value in node.value]
            nodes += [value for _, value in node.value]
        elif node.id == "sequence":
            nodes += node.value
    return found


def _end_of(text: str, setting: Setting) -> int:
    """Where what the value says ends; without the comments and blank lines behind it."""
    node = setting.value
    if node.start_mark.index < setting.key.end_mark.index:
        raise CannotEdit("the value is an alias of another one")
    while node.id != "scalar" and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if node.id == "mapping" else last
        if node.start_mark.index < setting.key.end_mark.index:
            raise CannotEdit("the value holds an alias of another one")
    end = int(node.end_mark.index)
    if node.id == "scalar" and node.style in ("|", ">"):
        end = len(text[:end].rstrip())
    return max(end, int(setting.key.end_mark.index))


def _without(text: str, setting: Setting, end: int) -> list[Splice]:
    start = setting.key.start_mark.index
    if setting.mapping.flow_style:
        return without_flow(text, [Span(start, end, 0, 0)])
    line = line_start(text, start)
    rest = text[end : line_end(text, end)].strip(" \t:")
    if text[line:start].strip(" \t") or (rest and not rest.startswith("#")):
        raise CannotEdit("the setting does not stand on lines of its own")
    return [Splice(line, next_line(text, end))]


def _is_value(node: Any, value: object) -> bool:
    found = _plain(node)
    return type(found) is type(value) and found == value


def _plain(node: Any) -> Any:
    """The value of a node as `vllm serve` gets it."""
    yaml = import_module("yaml")
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return node


def _written(text: str, setting: Setting, value: object) -> str:
    """The value as it stands behind the colon: a block of lines where the old one is such, else on the line."""
    old = setting.value
    if isinstance(value, dict | list) and value and old.id != "scalar" and not old.flow_style:
        key = setting.key.start_mark.index
        indent = text[line_start(text, key) : key]
        if not indent.strip(" \t"):
            newline = newline_at(text, key)
            lines = _dump(value, flow=False).splitlines()
            return "".join(f"{newline}{indent}  {line}" for line in lines)
    if isinstance(value, str):
        as_written = text[old.start_mark.index : old.end_mark.index]
        ways = quoting.yaml_scalars(value, as_written, flow=bool(setting.mapping.flow_style))
        return f" {ways[0]}"
    return f" {_dump(value, flow=True)}"


def _dump(value: object, *, flow: bool) -> str:
    yaml = import_module("yaml")
    dumped: str = yaml.safe_dump(value, default_flow_style=flow, width=10**6, sort_keys=False, allow_unicode=True)
    return dumped.removesuffix("\n").removesuffix("\n...").removesuffix("\n")


def _compose(text: str) -> Any:
    yaml = import_module("yaml")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise CannotEdit(_UNREADABLE) from None
    if node is None or node.id != "mapping":
        raise CannotEdit(_UNREADABLE)
    return node


def _shape(node: Any) -> Any:
    """A node as nested tuples; the order of repeated keys is part of it, that of others and the writing are not."""
    return _Shaper({}).shape(node)


class _Shaper:
    """Makes the shape of a node whose settings, by the identity of their key's node, are changed."""

    def __init__(self, changes: dict[int, ConfigEdit]) -> None:
        self.changes = changes
        self.left = MAX_NODES

    def shape(self, node: Any, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise CannotEdit("the file of --config is too large or too deep to be changed")
        if node.id == "scalar":
            return node.tag, node.value
        if node.id == "sequence":
            return tuple(self.shape(item, depth + 1) for item in node.value)
        pairs = [pair for key, value in node.value for pair in self.pair(key, value, depth + 1)]
        return "mapping", tuple(sorted(pairs, key=lambda pair: repr(pair[0])))

    def pair(self, key: Any, value: Any, depth: int) -> list[Any]:
        edit = self.changes.get(id(key))
        if edit is None:
            return [(self.shape(key, depth), self.shape(value, depth))]
        if edit.new_key is None:
            return []
        same = _is_value(value, edit.new_value)
        return [(_value_shape(edit.new_key), self.shape(value, depth) if same else _value_shape(edit.new_value))]


def _value_shape(value: object) -> Any:
    yaml = import_module("yaml")
    return _shape(yaml.compose(_dump(value, flow=True), Loader=yaml.SafeLoader))


def _expected(text: str, edits: Sequence[ConfigEdit]) -> Any:
    root = _compose(text)
    return _Shaper({id(_find(root, edit).key): edit for edit in edits}).shape(root)


def _moved(config: ConfigText, source_text: str, splices: Sequence[Splice]) -> list[Splice]:
    """Replacements in the text of the file as replacements in the source, whose lines may be indented."""
    if config.source is not None and source_text == config.text:
        return list(splices)
    starts = [0]
    for line in source_text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    source_lines, lines = source_text.split("\n"), config.text.split("\n")

    def moved(at: int, *, whole: bool) -> tuple[int, str]:
        index = config.text.count("\n", 0, at)
        column = at - line_start(config.text, at)
        if index >= len(config.lines):  # behind the last line end
            last, indent = moved(at - 1, whole=whole)
            return last + 1, indent
        number = config.lines[index] - 1
        there, here = source_lines[number].rstrip("\r"), lines[index].rstrip("\r")
        indent = there[: len(there) - len(here)]
        if not there.endswith(here) or indent.strip(" \t"):
            raise CannotEdit("the file of --config is not written out line by line here")
        return starts[number] + (0 if whole and not column else len(indent)) + column, indent

    found = []
    for splice in splices:
        whole = not splice.text and line_start(config.text, splice.start) == splice.start
        start, indent = moved(splice.start, whole=whole)
        end, _ = moved(splice.end, whole=whole)
        found.append(Splice(start, end, splice.text.replace("\n", f"\n{indent}")))
    return found
