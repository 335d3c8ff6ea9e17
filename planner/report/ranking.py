"""Ranks texts by the words that they share with a question: rare words count more, numbers and plurals do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import NamedTuple

MOST_WORDS = 200
"""Different words of a question that are looked at; the rest of a pasted log adds nothing."""
MOST_CHARACTERS = 20_000
LIKE = 0.84
"""Likeness from which on a word that no text has is taken for one that some text has."""
SHORTEST_MISSPELT = 6
SHORTEST_STEM = 4
LEAST_KNOWN = 0.5
"""Share of a short question's words that some text must have; else it is about something else."""
SHORT = 8
LEAST_SHARED = 0.25
"""Share of the question's weight that a text must have."""
PHRASE = 3.0
"""Weight of the likeness of a whole phrase, beside that of words alone."""

_WORD = re.compile(r"[a-z0-9]+(?:[_-]+[a-z0-9]+)*")
_PARTS = re.compile(r"[_-]+")
_STOP = frozenset(
    [
        *("a", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does"),
        *("for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no"),
        *("not", "of", "on", "or", "our", "per", "so", "than", "that", "the", "their", "them", "then", "there"),
        *("these", "they", "this", "those", "to", "up", "was", "we", "were", "what", "when", "where", "which"),
        *("while", "who", "why", "will", "with", "would", "you", "your", "vllm"),
    ]
)
_SAME = {
    "oom": ("out", "memory"),
    "outofmemoryerror": ("out", "memory"),
    "vram": ("gpu", "memory"),
    "cudagraph": ("cuda", "graph"),
    "cudagraphs": ("cuda", "graph"),
    "spec": ("speculative",),
    "speculation": ("speculative",),
    "speculating": ("speculative",),
    "mem": ("memory",),
    "startup": ("start",),
    "dbo": ("dbo", "dual", "overlap"),
    "vit": ("vit", "encoder"),
}
_ENDINGS = ("ing", "ed", "er")


class Text(NamedTuple):
    """A text to be found.

    Attributes:
        key: its name.
        phrases: each a line of its own that says it: a title, a symptom.
        body: the rest; its words count a third.
    """

    key: str
    phrases: Sequence[str]
    body: str = ""


class Hit(NamedTuple):
    """A text and how well it fits; only the order of scores means something."""

    key: str
    score: float


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared, in order and each once."""
    found: dict[str, None] = {}
    for whole in _WORD.findall(text[:MOST_CHARACTERS].casefold()):
        for part in _PARTS.split(whole):
            for word in _SAME.get(part, (part,)):
                if word not in _STOP and not word.isdecimal():
                    found[_stem(word)] = None
        if len(found) >= MOST_WORDS:
            break
    return list(found)


def _stem(word: str) -> str:
    """The word without the ending of a plural, a verb or a comparison."""
    if len(word) <= SHORTEST_STEM - 1 or any(c.isdigit() for c in word):
        return word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith(("ches", "shes", "xes", "sses")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            word = word[: -len(ending)]
            break
    return word[:-1] if word.endswith("e") and len(word) > SHORTEST_STEM else word


class Ranking:
    """Texts that are asked again and again."""

    def __init__(self, texts: Iterable[Text]) -> None:
        self._texts = tuple(texts)
        self._phrases = {text.key: [frozenset(words_of(one)) for one in text.phrases] for text in self._texts}
        self._strong = {key: frozenset().union(*found) for key, found in self._phrases.items()}
        self._all = {text.key: self._strong[text.key] | set(words_of(text.body)) for text in self._texts}
        counts: dict[str, int] = {}
        for words in self._all.values():
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        self._weights: Mapping[str, float] = {word: log(1 + len(self._texts) / count) for word, count in counts.items()}

    def search(self, question: str) -> list[Hit]:
        """The texts that fit, best first; of two alike the one that was given first. [] where none does."""
        asked = words_of(question)
        known = [word for word in map(self._known, asked) if word is not None]
        if not known or (len(asked) <= SHORT and len(known) < LEAST_KNOWN * len(asked)):
            return []
        wanted = frozenset(known)
        total = self._weight(wanted)
        hits = [Hit(text.key, self._score(text.key, wanted, total)) for text in self._texts]
        return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)

    def _known(self, word: str) -> str | None:
        if word in self._weights:
            return word
        if len(word) < SHORTEST_MISSPELT:
            return None
        from difflib import get_close_matches

        return next(iter(get_close_matches(word, sorted(self._weights), 1, LIKE)), None)

    def _weight(self, words: Iterable[str]) -> float:
        return sum(self._weights[word] for word in sorted(words))

    def _score(self, key: str, wanted: frozenset[str], total: float) -> float:
        shared = self._weight(wanted & self._all[key])
        if shared < LEAST_SHARED * total:
            return 0.0
        strong = self._weight(wanted & self._strong[key])
        like = max((self._likeness(wanted, phrase) for phrase in self._phrases[key]), default=0.0)
        return (strong + (shared - strong) / 3) / total + PHRASE * like

    def _likeness(self, wanted: frozenset[str], phrase: frozenset[str]) -> float:
        """Of the words of both, the share that both have: 1 where they are the same."""
        common = wanted & phrase
        return self._weight(common) / self._weight(wanted | phrase) if common else 0.0
