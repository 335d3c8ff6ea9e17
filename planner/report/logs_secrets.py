"""Keys and passwords that a log may hold: nothing of them is shown or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..inputs.launches.secret_names import is_secret_name
from ..inputs.secret_shapes import HIDDEN
from ..startup.record import Start
from .check_secrets import Secrets

LEAST = 4
"""A shorter value may be any word."""
MOST_DEPTH = 12


class LogSecrets:
    """The secrets of a log's starts: by the names of arguments and variables, and by shape."""

    def __init__(self, starts: Iterable[Start]) -> None:
        values: dict[str, None] = {}
        for start in starts:
            for settings in (start.arguments, start.engine, start.environment):
                values.update(dict.fromkeys(_named(settings, MOST_DEPTH)))
        known = sorted((value for value in values if len(value) >= LEAST), key=len, reverse=True)
        self._secrets = Secrets(tuple(known))

    def text(self, text: str) -> str:
        """`text` without them, on one line and printable."""
        shown = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
        return self._secrets.mask(shown, in_file=True)

    def settings(self, value: Any, name: str = "", depth: int = MOST_DEPTH) -> Any:
        """A value of the arguments without them; values under a secret's name are hidden whole."""
        if value not in (None, "", True, False) and name and is_secret_name(name):
            return HIDDEN
        if isinstance(value, Mapping):
            if depth <= 0:
                return HIDDEN
            return {self.text(str(key)): self.settings(own, str(key), depth - 1) for key, own in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.settings(own, name, depth - 1) for own in value] if depth > 0 else HIDDEN
        return self.text(value) if isinstance(value, str) else value

    def document(self, value: Any) -> Any:
        """A JSON document with every text of it masked."""
        if isinstance(value, dict):
            return {key: self.document(own) for key, own in value.items()}
        if isinstance(value, list):
            return [self.document(own) for own in value]
        return self.text(value) if isinstance(value, str) else value


def _named(settings: Mapping[str, Any], depth: int) -> Iterator[str]:
    """The texts under the name of a secret."""
    for key, value in settings.items():
        if is_secret_name(str(key)):
            yield from _texts(value, depth)
        elif isinstance(value, Mapping) and depth > 0:
            yield from _named(value, depth - 1)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and depth > 0:
        for own in value.values():
            yield from _texts(own, depth - 1)
    elif isinstance(value, (list, tuple)) and depth > 0:
        for own in value:
            yield from _texts(own, depth - 1)
