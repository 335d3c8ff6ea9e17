"""Comments that silence findings, and what is said of those that do not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.check.diagnostic import Diagnostic
from cgplan.check.suppress import MOST, comments, silence
from cgplan.inputs.launches import Source
from cgplan.inputs.launches.asked import Located


def found(text: str, words: str = "--bogus", code: str = "CG905") -> tuple[Source, Diagnostic]:
    source = Source("f", text)
    first = text.index(words)
    return source, Diagnostic(code, "error", "no", "", at=Located(source, source.span(first, first + len(words))))


def is_silent(text: str, words: str = "--bogus", code: str = "CG905") -> bool:
    source, one = found(text, words, code)
    return silence(source, [one]).kept == (False,)


@pytest.mark.parametrize(
    "text",
    [
        "- --bogus  # cgplan: ignore",
        "- --bogus  # cgplan: ignore CG905",
        "- --bogus  # cgplan: ignore CG212, CG9",
        "- --bogus  # cgplan: ignore cg905",
        "- --bogus  #cgplan:ignore CG905 -- it is patched in",
        "- --bogus  # cgplan: ignore[CG905]",
        "# cgplan: ignore CG905\n- --bogus",
        "  # cgplan: ignore CG905\n  # another word\n  - --bogus",
        "# cgplan: ignore CG905\n# cgplan: ignore CG212\n- --bogus",
        "# cgplan: ignore CG905\nvllm serve m \\\n  --port 1 \\\n  --bogus",
        "# cgplan: ignore CG905\r\nvllm serve m \\\r\n  --bogus\r\n",
        "# cgplan: ignore CG905\nargs: |\n  vllm serve m \\\n    --bogus",
        "args: >-  # cgplan: ignore CG905\n  vllm serve m\n  --bogus",
        "#!/bin/sh\n# cgplan: ignore-file\nvllm serve --bogus",
        "# cgplan: ignore-file CG905\n---\nx: --bogus",
        "\ufeff# cgplan: ignore-file CG9\n\nx: --bogus",
    ],
)
def test_silent(text: str) -> None:
    assert is_silent(text)


@pytest.mark.parametrize(
    "text",
    [
        "- --bogus",
        "- --bogus  # cgplan: ignore CG212",
        "- --bogus  # cgplan ignore",
        "- --bogus#cgplan: ignore",
        "- --bogus  // cgplan: ignore",
        "- --bogus  # cgplan: ignore CG999",
        "- --port  # cgplan: ignore CG905\n- --bogus",
        "# cgplan: ignore CG905\n\n- --bogus",
        "# cgplan: ignore CG905\n- --port\n- --bogus",
        "- --bogus\n# cgplan: ignore CG905",
        "x: 1\n# cgplan: ignore-file\ny: 1\nz: --bogus",
        "# cgplan: ignore-file CG2\nx: --bogus",
        "args: >-  # cgplan: ignore CG905\n  vllm serve m\nmore: --bogus",
    ],
)
def test_not_silent(text: str) -> None:
    assert not is_silent(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", 'vllm serve m --bogus --served-model-name "x # cgplan: ignore"'),
        ("x.sh", "vllm serve m --bogus --served-model-name 'x # cgplan: ignore'"),
        ("x.sh", "vllm serve m --bogus --chat-template 'a\n# cgplan: ignore\nb'"),
        ("x.yaml", 'a: --bogus\nchat-template: "x # cgplan: ignore-file"'),
        ("x.yaml", "a: |\n  # cgplan: ignore\n  --bogus is a text"),
        ("x.yaml", 'a: ["--bogus", "# cgplan: ignore"]'),
        ("x.service", "[Service]\nExecStart=vllm serve m --bogus # cgplan: ignore"),
        ("Dockerfile", 'FROM x\nCMD ["vllm", "serve", "m", "--bogus", "# cgplan: ignore"]'),
    ],
)
def test_what_stands_in_quotes_or_in_a_text_is_no_comment(name: str, text: str) -> None:
    source, one = found(text)
    source = source._replace(name=name)
    one = Diagnostic("CG905", "error", "no", "", at=Located(source, one.at.span if one.at is not None else None))  # type: ignore[arg-type]
    silenced = silence(source, [one])
    assert (silenced.kept, silenced.further) == ((True,), ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "vllm serve m --bogus --name \"it's\"  # cgplan: ignore, don't"),
        ("x.sh", "cat <<E\nit's\nE\nvllm serve m --bogus  # cgplan: ignore"),
        ("x.yaml", "command: |\n  # cgplan: ignore\n  vllm serve m --bogus\n"),
        ("x.yaml", "a: it's  # one\nb: --bogus  # why  # cgplan: ignore\n"),
        ("x.service", "[Service]\n# cgplan: ignore\nExecStart=vllm serve m --bogus"),
        ("Dockerfile", "FROM x\n# cgplan: ignore\nCMD vllm serve m --bogus"),
        ("x.md", "```\nvllm serve m --bogus  # cgplan: ignore\n```"),
    ],
)
def test_real_comments_of_each_kind_of_file(name: str, text: str) -> None:
    source, one = found(text)
    source = source._replace(name=name)
    assert one.at is not None
    one = Diagnostic("CG905", "error", "no", "", at=Located(source, one.at.span))
    assert silence(source, [one]).kept == (False,)


def test_many_of_them_in_quotes_take_no_long() -> None:
    text = "vllm serve m --bogus '" + "# cgplan: ignore " * 100_000 + "'"
    start = time.process_time()
    assert comments(Source("x.md", text)) == ()
    assert time.process_time() - start < 3


def said(text: str, **more: str) -> list[tuple[str, str, int]]:
    source, one = found(text, **more)
    return [(d.code, d.severity, d.at.span.line) for d in silence(source, [one]).further if d.at is not None]


@pytest.mark.parametrize(
    ("text", "further"),
    [
        ("- --bogus  # cgplan: ignore", []),
        ("- --bogus  # cgplan: ignore CG9", []),
        ("- --bogus\n- x  # cgplan: ignore", [("CG975", "info", 2)]),
        ("- --bogus  # cgplan: ignore CG905, CG212", [("CG975", "info", 1)]),
        ("# cgplan: ignore-file CG212\n- --bogus", [("CG975", "info", 1)]),
        ("- --bogus  # cgplan: ignore CG905, CG9999", [("CG976", "warning", 1)]),
        ("- --bogus  # cgplan: ingore CG905", [("CG976", "warning", 1)]),
        ("- --bogus\n# cgplan: ignore-file", [("CG976", "warning", 2)]),
        ("- --bogus  # cgplan: see the wiki", []),
        ("# cgplan: ignore-file CG975\n- --bogus\n- x  # cgplan: ignore", [("CG975", "info", 1)][1:]),
    ],
)
def test_what_is_said_of_the_comments(text: str, further: list[tuple[str, str, int]]) -> None:
    assert said(text) == further


def test_the_messages_name_what_is_meant() -> None:
    source, one = found("- --bogus  # cgplan: ignore CG905, CG212, CG95O", "--bogus")
    messages = [(d.message, d.fix) for d in silence(source, [one]).further]
    assert messages[0][0] == "there is no code CG95O"
    assert "did you mean CG9" in (messages[0][1] or "")
    assert messages[1][0] == "the comment silences CG212, of which there is nothing here"


def test_a_file_of_config_has_comments_of_its_own() -> None:
    config, one = found("bogus: 1  # cgplan: ignore", "bogus")
    manifest = Source("m", "x: 1\n")
    assert silence(manifest, [one]).kept == (False,)
    assert silence(manifest, [found("bogus: 1", "bogus")[1]]).kept == (True,)
    assert config.name == "f"


def test_a_finding_without_a_place_is_silenced_for_the_file_only() -> None:
    one = Diagnostic("CG905", "error", "no", "")
    assert silence(Source("f", "# cgplan: ignore-file CG905\nx: 1"), [one]).kept == (False,)
    assert silence(Source("f", "# cgplan: ignore CG905\nx: 1"), [one]).kept == (True,)


@given(st.text(st.sampled_from("# cgplan:ignore-fileCG95,\n\\|> "), max_size=120))
def test_any_text_is_taken(text: str) -> None:
    source = Source("f", text)
    for comment in comments(source):
        assert source.text[comment.span.start] == "#"
    for offset in range(0, len(text), 7):
        one = Diagnostic("CG905", "error", "no", "", at=Located(source, source.span(offset, offset)))
        assert len(silence(source, [one]).kept) == 1


def test_many_comments_and_findings_take_no_long() -> None:
    lines = 20_000
    text = "# cgplan: ignore CG901\n" * lines + "vllm serve m \\\n" * lines
    source = Source("f", text)
    step = len("vllm serve m \\\n")
    starts = [text.index("vllm") + number * step for number in range(0, lines, 100)]
    diagnostics = [Diagnostic("CG905", "error", "no", "", at=Located(source, source.span(at, at + 4))) for at in starts]
    start = time.process_time()
    found = silence(source, diagnostics)
    assert time.process_time() - start < 3
    assert all(found.kept)
    assert len(comments(source)) == MOST
    assert "heeded" in found.further[-1].message


def test_a_comment_of_many_codes_is_read_in_one_go() -> None:
    start = time.process_time()
    (comment,) = comments(Source("f", "vllm  # cgplan: ignore " + "CG905 " * 200_000))
    assert time.process_time() - start < 3
    assert comment.codes == ("CG905",)


def test_the_key_of_a_block_is_found_across_blank_and_deeper_lines() -> None:
    text = "# cgplan: ignore CG905\nargs: |\n    set -e\n\n      echo\n    vllm serve m --bogus\n"
    assert is_silent(text)
    assert not is_silent(text.replace("args: |", "args: |\n  a: 1\nmore:"))
