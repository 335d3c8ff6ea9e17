"""Ways to write a token: each is read back by the reader of its place."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cgplan.inputs.launches.edit.quoting import at, key_text, reads_as_text, shell_words, written, yaml_scalars
from cgplan.inputs.launches.launch import LaunchToken, Source, Span
from cgplan.inputs.launches.shell.commands import in_script

TEXTS = st.text("ab1-_ '\"$`\\#:{}[],&*!%@|>~?=é\t", max_size=12)
NOWHERE = Span(0, 0, 1, 1)


@given(TEXTS, st.sampled_from(["", "x", "'x'", '"x"', "'{}'"]), st.sampled_from(["", "single", "double"]))
def test_every_shell_word_is_the_text(text: str, like: str, inner: str) -> None:
    for word in shell_words(text, like, inner):
        line = f"vllm serve {word}"
        (found,) = in_script(line, Source("", line).span, {})
        assert [token.text for token in found.tokens] == ["vllm", "serve", text]


def test_a_shell_agrees() -> None:
    texts = ["it's", 'a "b"', "$HOME", "`id`", "a\\b", "a\nb", "", "~", "*", "{a,b}", "!x", "é", "a;b"]
    words = [word for text in texts for word in shell_words(text)]
    done = subprocess.run(
        ["sh", "-c", "printf '%s\\0' " + " ".join(words)], capture_output=True, check=True, cwd="/", env={"HOME": "/h"}
    )
    assert done.stdout.decode().split("\0")[:-1] == [text for text in texts for _ in shell_words(text)]


@given(TEXTS, st.sampled_from(["", "x", "'x'", '"x"', '"\\"x"']), st.booleans())
def test_every_yaml_scalar_is_the_text(text: str, like: str, flow: bool) -> None:
    for scalar in yaml_scalars(text, like, flow=flow):
        assert yaml.safe_load(f"[{scalar}, x]" if flow else f"- {scalar}\n- x\n") == [text, "x"]
        assert yaml.safe_load(f"- {scalar}  # c\n") == [text] or flow


@given(TEXTS)
def test_an_array_in_json_stays_one(text: str) -> None:
    assert json.loads(yaml_scalars(text, '"x"', flow=True)[0]) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("--max-num-seqs", True), ("m", True), ("a b", True), ("a:b", True), ("1k", True), ("0.33.0", True),
        ("1", False), ("1.5", False), ("-8", False), ("1e3", False), ("0x1f", False), ("0o17", False), ("1_000", False),
        ("12:30", False), ("2026-01-01", False), ("true", False), ("Yes", False), ("n", False), ("off", False),
        ("null", False), ("~", False), ("", False), ("a: b", False), ("a #b", False), ("{a}", False), ("[a", False),
        ("*a", False), ("&a", False), ("!a", False), ("- a", False), (" a", False), ("a ", False), ("|", False),
        ("@a", False), ("%a", False), (".inf", False), ("a\nb", False), ("'a'", False), ("?", False), ("? a", False),
    ],
)  # fmt: skip
def test_without_quotes_only_what_no_reader_takes_for_something_else(text: str, plain: bool) -> None:
    assert reads_as_text(text, flow=False) is plain


def test_in_a_flow_sequence_commas_and_brackets_need_quotes() -> None:
    assert reads_as_text("a, b", flow=False)
    assert not reads_as_text("a, b", flow=True)
    assert not reads_as_text("a]", flow=True)


@pytest.mark.parametrize(
    ("text", "like", "as_written", "kind", "expected"),
    [
        ("8", LaunchToken("4", NOWHERE, "word"), "4", "shell", "8"),
        ("8", LaunchToken("4", NOWHERE, "word"), '"4"', "shell", '"8"'),
        ("8", LaunchToken("4", NOWHERE, "word"), "'4'", "shell", "'8'"),
        ("8", LaunchToken("{}", NOWHERE, "word"), "'{}'", "shell", "8"),
        ("a b", LaunchToken("4", NOWHERE, "word", inner="single"), "4", "kubernetes", '"a b"'),
        ('{"a": 1}', LaunchToken("4", NOWHERE, "word", inner="double"), "4", "kubernetes", "'{\\\"a\\\": 1}'"),
        ("it's", LaunchToken("4", NOWHERE, "word"), "4", "shell", '"it\'s"'),
        ("$X", LaunchToken("4", NOWHERE, "item"), "a", "compose", "$$X"),
        ("$X", LaunchToken("4", NOWHERE, "item"), "a", "kubernetes", "$X"),
        ("$(X)", LaunchToken("4", NOWHERE, "item"), "a", "kubernetes", "$$(X)"),
        ("$$", LaunchToken("4", NOWHERE, "item"), "a", "kubernetes", "$$$"),
        ("100%", LaunchToken("4", NOWHERE, "unit"), "4", "systemd", "'100%%'"),
        ("a$b'c\\", LaunchToken("4", NOWHERE, "unit"), "4", "systemd", "'a$$b\\'c\\\\'"),
        ("8", LaunchToken("4", NOWHERE, "item"), "a", "kubernetes", '"8"'),
        ("8", LaunchToken("4", NOWHERE, "item"), "'a'", "kubernetes", "'8'"),
        ('{"a": 1}', LaunchToken("4", NOWHERE, "item"), '"a"', "kubernetes", "'{\"a\": 1}'"),
        ('{"a": 1}', LaunchToken("4", NOWHERE, "item"), '"{\\"b\\": 1}"', "kubernetes", '"{\\"a\\": 1}"'),
        ('{"a": 1}', LaunchToken("4", NOWHERE, "flow"), '"a"', "dockerfile", '"{\\"a\\": 1}"'),
    ],
)
def test_the_nicest_way(text: str, like: LaunchToken, as_written: str, kind: str, expected: str) -> None:
    assert written(text, like, as_written, kind)[0] == expected


def test_keys_and_ways() -> None:
    assert key_text("max-num-seqs") == "max-num-seqs"
    assert key_text("on") == '"on"'
    assert [at(["a", "b"], way) for way in range(4)] == ["a", "b", "b", "b"]
