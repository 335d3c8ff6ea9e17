"""From changes of a launch's tokens to replacements in its text; each token in the way in which it is written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher

from ..launch import Launch, LaunchToken
from . import quoting
from .flow import with_flow, without_flow
from .items import item_end, with_items, without_items
from .kinds import CannotEdit, Splice, TokenEdit
from .words import before_word, with_words, without_words

WORDS = ("word", "unit")


def texts_after(launch: Launch, edits: Sequence[TokenEdit]) -> list[str]:
    """The tokens of `launch` after these edits.

    Raises:
        CannotEdit: an edit is outside of the tokens, or two change the same ones.
    """
    texts = launch.texts
    for edit in reversed(_merged(launch, edits)):
        texts[edit.start : edit.end] = edit.texts
    return texts


def token_splices(launch: Launch, edits: Sequence[TokenEdit], ways: Sequence[int] = ()) -> list[Splice]:
    """The replacements in the source of `launch` that make these edits.

    Args:
        launch: whose tokens are meant.
        edits: in any order.
        ways: of each edit: 0 writes new tokens in the nicest way, 1 and on in other ways. (): 0 for all.

    Raises:
        CannotEdit: a token is not written in the text as it is, or stands in an unusual way.
    """
    way_of = dict(zip(edits, ways, strict=True)) if ways else {}
    writer = _Writer(launch)
    deleted: list[int] = []
    splices: list[Splice] = []
    for edit, parts in _merged(launch, edits).items():
        way = max(way_of.get(part, 0) for part in parts)
        old, new = launch.texts[edit.start : edit.end], list(edit.texts)
        for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            paired = min(b - a, d - c)
            for step in range(paired):
                splices += writer.replace(edit.start + a + step, new[c + step], way)
            deleted += range(edit.start + a + paired, edit.start + b)
            if d - c > paired:
                splices += writer.insert(edit.start + a + paired, new[c + paired : d], way)
    return [*splices, *writer.delete(deleted)]


def _merged(launch: Launch, edits: Sequence[TokenEdit]) -> dict[TokenEdit, list[TokenEdit]]:
    """The edits from the front to the back, those that touch made one, each with those that it is made of.

    What is put in at one place keeps its order.
    """
    merged: list[tuple[TokenEdit, list[TokenEdit]]] = []
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end)):
        if not 0 <= edit.start <= edit.end <= len(launch.tokens):
            raise CannotEdit("the command has no such tokens")
        last, parts = merged[-1] if merged else (None, [])
        if last is not None and edit.start < last.end:
            raise CannotEdit("another fix changes the same text")
        if last is not None and edit.start == last.end:
            merged[-1] = TokenEdit(last.start, edit.end, (*last.texts, *edit.texts)), [*parts, edit]
        else:
            merged.append((edit, [edit]))
    return dict(merged)


class _Writer:
    """Writes changes of single tokens."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.text = launch.source.text

    def replace(self, index: int, text: str, way: int) -> list[Splice]:
        token = self._token(index)
        if not token.literal and not (self._stands(index) and _one_word(self._as_written(token)) == token.text):
            raise CannotEdit(f"a variable is put in at {self._as_written(token)}")
        end = item_end(self.text, token.span) if token.style == "item" else token.span.end
        return [Splice(token.span.start, end, self._written(text, token, way))]

    def delete(self, indices: Sequence[int]) -> list[Splice]:
        tokens = [self._token(index) for index in indices]
        for index, token in zip(indices, tokens, strict=True):
            if not token.literal and "$" not in self._as_written(token) and not self._stands(index):
                raise CannotEdit("it is made out of another setting of the file")
        spans = {
            style: [token.span for token in tokens if token.style in style] for style in (WORDS, ("item",), ("flow",))
        }
        return [
            *without_words(self.text, spans[WORDS]),
            *without_items(self.text, spans[("item",)]),
            *without_flow(self.text, spans[("flow",)]),
        ]  # fmt: skip

    def insert(self, at: int, texts: Sequence[str], way: int) -> list[Splice]:
        """Put texts in between the tokens `at - 1` and `at`: behind the first, if that is in the list of the second."""
        tokens = self.launch.tokens
        prior = tokens[at - 1] if at > 0 else None
        following = tokens[at] if at < len(tokens) else None
        if prior is not None and prior.style == "made":
            prior = None
        if following is not None and following.style == "made":
            following = None
        if prior is not None and following is not None and not self._same_list(at - 1):
            prior = None
        if prior is not None:
            return self._after(prior, texts, way)
        if following is not None:
            return self._before(following, texts, way)
        raise CannotEdit("the text has no place for it; the command is made out of other settings")

    def _same_list(self, index: int) -> bool:
        """Whether a token and the one behind it stand in one list; one of a variable may stand anywhere."""
        one, other = self.launch.tokens[index : index + 2]
        return one.style == other.style and (one.literal or not other.literal or self._stands(index))

    def _after(self, token: LaunchToken, texts: Sequence[str], way: int) -> list[Splice]:
        written = [self._written(text, token, way) for text in texts]
        if token.style == "item":
            return [with_items(self.text, token.span, written, before=False)]
        if token.style == "flow":
            return with_flow(self.text, token.span, written, before=False)
        command = [one.span for one in self.launch.tokens if one.style in WORDS]
        return [with_words(self.text, token.span, command, written)]

    def _before(self, token: LaunchToken, texts: Sequence[str], way: int) -> list[Splice]:
        written = [self._written(text, token, way) for text in texts]
        if token.style == "item":
            return [with_items(self.text, token.span, written, before=True)]
        if token.style == "flow":
            return with_flow(self.text, token.span, written, before=True)
        return [before_word(self.text, token.span, written)]

    def _written(self, text: str, token: LaunchToken, way: int) -> str:
        return quoting.at(quoting.written(text, token, self._as_written(token), self.launch.kind), way)

    def _stands(self, index: int) -> bool:
        """Whether the command stands word by word from its start to this token; then it is in no variable."""
        at = self.launch.tokens[0].span.start
        for token in self.launch.tokens[: index + 1]:
            if token.style not in WORDS or token.span.start < at or self.text[at : token.span.start].strip("\\ \t\r\n"):
                return False
            at = token.span.end
        return True

    def _token(self, index: int) -> LaunchToken:
        token = self.launch.tokens[index]
        if token.style == "made" or token.span.start == token.span.end:
            raise CannotEdit("it is not written in the file, but made by what the file names")
        return token

    def _as_written(self, token: LaunchToken) -> str:
        return self.text[token.span.start : token.span.end]


def _one_word(written: str) -> str | None:
    try:
        words = shlex.split(written)
    except ValueError:
        return None
    return words[0] if len(words) == 1 and not set("$`") & set(written) else None
