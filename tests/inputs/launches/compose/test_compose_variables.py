"""Variables of a compose file, and the words around them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan.inputs.launches.compose.words import put_in, split, variable_end, with_defaults
from cgplan.inputs.launches.launch import Source, Span
from cgplan.inputs.launches.shell.word import Word
from cgplan.inputs.launches.yaml_nodes import Mapping, Scalar, documents

VARIABLES = {
    "a": "a",
    "$$a": "$a",
    "${A:-b}": "b",
    "${A-b}": "b",
    "${A:-}": "",
    "x${A:-b}y${B:-c}": "xbyc",
    "${A:-${B:-c}}": "c",
    "$A": None,
    "${A}": None,
    "${A:?no}": None,
    "${A:+b}": None,
    "${A:-$B}": None,
    "${": None,
    "100$": "100$",
}


@pytest.mark.parametrize("text", VARIABLES)
def test_putting_in_defaults(text: str) -> None:
    assert put_in(text) == VARIABLES[text]


@pytest.mark.parametrize("text", VARIABLES)
def test_a_word_with_its_defaults(text: str) -> None:
    word = with_defaults(Word(text, Span(0, len(text), 1, 1)))
    known = VARIABLES[text]
    assert word.text == (text if known is None else known)
    assert bool(word.unknown) == (known is None)


def test_deep_defaults_end() -> None:
    assert put_in("${A:-" * 5000 + "}" * 5000) is None
    assert variable_end("${" * 5000, 0) == 10000


@given(st.lists(st.text("ab {}:,$'\"\\-=\n\t;é", min_size=1), min_size=1, max_size=6))
@settings(max_examples=200)
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    """A law: words in single quotes, dollars doubled, are split into themselves, each at its own place."""
    words = [word.replace("'", "") for word in words]
    text = " ".join(f"'{word.replace('$', '$$')}'" for word in words)
    source = Source(
        "f",
        "k: " + '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"',
    )
    (document,), _ = documents(source)
    assert isinstance(document, Mapping)
    value = document.get("k")
    assert isinstance(value, Scalar)
    found = split(value)
    assert [word.text.replace("$$", "$") for word in found.words] == words
    assert not found.remarks
    starts = [word.span.start for word in found.words]
    assert starts == sorted(starts)
    assert all(source.text[word.span.start] == "'" == source.text[word.span.end - 1] for word in found.words)
