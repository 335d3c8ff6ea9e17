"""Where the options of a command line stand among its tokens, dotted keys among them, and edits of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError, StartupError
from ..inputs.launches.asked import Located
from ..inputs.launches.secret_names import is_secret_name
from ..inputs.serve_args import Given
from ..inputs.serve_args_config import HUMAN_JSON_SINCE
from ..inputs.serve_args_numbers import expand_in_json
from ..inputs.serve_args_rewrite import Rewriter
from ..inputs.serve_args_tokens import Place, tokens_of
from ..inputs.serve_args_yaml import MAX_CHARS, MAX_NODES, merged_size
from .diagnostic import ConfigEdit, TokenEdit
from .subject import Subject

JSON_KINDS = ("config_json", "json", "json_object_or_str")


class Occurrence(NamedTuple):
    """One option, or one dotted key of an option, with its values.

    Attributes:
        start, end: of its tokens in the launch, `end` behind the last one.
        head: the option as written, before a dot or an equals sign.
        keys: the dotted keys as written, "mode" or "pass_config.enable_sp"; "" for none.
        attached: what stands behind an equals sign, or None.
        values: the tokens behind the option that belong to it.
    """

    start: int
    end: int
    head: str
    keys: str
    attached: str | None
    values: tuple[str, ...]

    @property
    def bucket(self) -> str:
        """What vLLM gathers dotted keys by: the option's spelling."""
        return self.head.replace("_", "-") if self.head.startswith("--") else self.head

    @property
    def value(self) -> str | None:
        """Its one value, or None."""
        if self.attached is not None:
            return self.attached
        return self.values[0] if len(self.values) == 1 else None

    def texts(self, head: str, keys: str | None = None) -> tuple[str, ...]:
        """Its tokens with another option, or other keys, in the place of its own."""
        keys = self.keys if keys is None else keys
        name = f"{head}.{keys}" if keys else head
        return (name if self.attached is None else f"{name}={self.attached}", *self.values)


def occurrences(subject: Subject, one: Given) -> list[Occurrence]:
    """The tokens of an option: one occurrence, or, of dotted keys, each of those that vLLM gathers into it. Of one out
    of a file of --config there are none.
    """
    if one.place.line or one.place.token < 0:
        return []
    kept, texts = subject.asked.kept, subject.launch.texts
    if not one.place.token < len(kept):
        return []
    start = kept[one.place.token]
    if is_dotted(texts[start]):
        bucket = _split(texts[start])[0]
        return [found for found in dotted(subject) if found.bucket == _normal(bucket)]
    last = max((place.token for place in one.values), default=one.place.token)
    end = kept[last] + 1
    head, _, attached = _split(texts[start])
    if head.startswith("-O") and not head.startswith("--"):
        return [Occurrence(start, end, "-O", "", texts[start][2:] or None, tuple(texts[start + 1 : end]))]
    return [Occurrence(start, end, head, "", attached, tuple(texts[start + 1 : end]))]


def dotted(subject: Subject) -> list[Occurrence]:
    """Every dotted key of the line, in order."""
    found = subject.cache.get("dotted")
    if found is None:
        found = subject.cache["dotted"] = list(_dotted(subject))
    dotted_keys: list[Occurrence] = found
    return dotted_keys


def _dotted(subject: Subject) -> Iterator[Occurrence]:
    kept, texts = subject.asked.kept, subject.launch.texts
    at = 0
    while at < len(kept):
        text = texts[kept[at]]
        start = kept[at]
        at += 1
        if not is_dotted(text):
            continue
        head, keys, attached = _split(text)
        end = start + 1
        if attached is None and at < len(kept):
            end = kept[at] + 1
            at += 1
        yield Occurrence(start, end, head, keys, attached, tuple(texts[start + 1 : end]))


def is_dotted(text: str) -> bool:
    """Whether vLLM takes a token for a dotted key."""
    key = text.partition("=")[0]
    if " " in key:
        return False  # an option and its value in one token, which is refused
    return text.startswith("-") and "." in key and not (text.startswith("-O") and text != "-O")


def _split(text: str) -> tuple[str, str, str | None]:
    name, equals, attached = text.partition("=")
    head, _, keys = name.partition(".")
    return head, keys, attached if equals else None


def _normal(head: str) -> str:
    return head.replace("_", "-") if head.startswith("--") else head


def document(subject: Subject, one: Given) -> dict[str, Any] | None:
    """What a JSON option says, as it was written, whatever its form; None where it is no object."""
    if one.place.line:
        setting = config_settings(subject).get(one.place.line)
        return setting[1] if setting is not None and isinstance(setting[1], dict) else None
    found = occurrences(subject, one)
    if not found:
        return None
    if not found[0].keys:
        return object_of(subject, found[0].value)
    tokens = [text for each in found for text in each.texts("--x")]
    try:
        rewritten = Rewriter(subject.release, lambda _: []).rewrite(tokens_of(tokens))
    except (InputError, StartupError):
        return None
    return object_of(subject, rewritten[-1].text)


def object_of(subject: Subject, text: str | None) -> dict[str, Any] | None:
    """A JSON object out of a text; None where it is none."""
    if text is None:
        return None
    try:
        value = json.loads(expand_in_json(text) if subject.holds(HUMAN_JSON_SINCE) else text)
    except (ValueError, OverflowError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def leaves(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of an object by dotted name."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            found.update(leaves(item, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = item
    return found


def config_settings(subject: Subject) -> dict[int, tuple[str, Any]]:
    """The settings of the file of --config, where it is known: by its line, key and value."""
    found = subject.cache.get("config_settings")
    if found is None:
        found = subject.cache["config_settings"] = _config_settings(subject)
    settings: dict[int, tuple[str, Any]] = found
    return settings


def _config_settings(subject: Subject) -> dict[int, tuple[str, Any]]:
    if len(subject.launch.files) != 1:
        return {}
    from importlib import import_module

    yaml = import_module("yaml")  # parse_serve has read the file with it
    text = next(iter(subject.launch.files.values())).text
    if len(text) > MAX_CHARS:
        return {}  # parse_serve refuses it too
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None or merged_size(node) > MAX_NODES:
            return {}
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    keys = [key for key, _ in node.value]
    return {key.start_mark.line + 1: (key.value, values[key.value]) for key in keys if key.value in values}


def config_drop(subject: Subject, line: int) -> tuple[ConfigEdit, ...]:
    """The edit that takes a setting out of the file of --config; none where it is the only one: vLLM fails over an
    empty file.
    """
    settings = config_settings(subject)
    return (ConfigEdit(settings[line][0], line),) if line in settings and len(settings) > 1 else ()


def given_at(subject: Subject, place: Place | None) -> Given | None:
    """The option that stands there."""
    return next((one for one in subject.given() if one.place == place), None)


def edits_of(subject: Subject, edits: Iterable[TokenEdit], *, joined: bool = False) -> tuple[TokenEdit, ...]:
    """The edits in the order of the tokens; none where one of the tokens does not stand in the text as it is, or holds
    an option and its value. `joined`: such a one is what they mend.
    """
    ordered = tuple(sorted(edits))
    tokens = subject.launch.tokens
    apart = set() if joined else subject.asked.joined
    for edit in ordered:
        if any(not token.literal or token.style == "made" for token in tokens[edit.start : edit.end]):
            return ()
        if any(index in apart for index in range(edit.start, edit.end)):
            return ()
    return ordered


def drop(found: Sequence[Occurrence]) -> list[TokenEdit]:
    return [TokenEdit(one.start, one.end) for one in found]


def flag_text(texts: Iterable[str]) -> str | None:
    """Tokens as a shell takes them; None where there is none, or where they hold a secret, which is not repeated."""
    written = list(texts)
    held = any(text.startswith("-") and is_secret(text) for text in written)
    return shlex.join(written) if written and not held else None


def is_secret(option: str) -> bool:
    """Whether an option or a variable, by its name, holds what is not to be shown."""
    return is_secret_name(option)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def at_token(subject: Subject, index: int) -> Located:
    return Located(subject.launch.source, subject.launch.tokens[index].span)
