"""Dockerfiles: what a container of the last stage starts."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches import dockerfile
from cgplan.inputs.launches.launch import Launch, Reading, Source


def reading(text: str) -> Reading:
    return dockerfile.launches(Source("Dockerfile", text))


def only(text: str) -> Launch:
    (launch,) = reading(text).launches
    return launch


def test_stages_arguments_and_places() -> None:
    text = (
        "# syntax=docker/dockerfile:1\nARG TAG=v0.25.1\nFROM alpine AS tools\nENV VLLM_NO=1\n"
        'FROM vllm/vllm-openai:${TAG} AS base\nENV VLLM_A=1 \\\n  # why\n  B="a b"\n'
        'RUN <<END\nCMD ["no"]\nEND\nFROM base\n'
        'CMD ["--model", "m", \\\n  # eight\n  "--max-num-seqs", "8"]\n'
    )
    launch = only(text)
    assert launch.texts == ["vllm", "serve", "--model", "m", "--max-num-seqs", "8"]
    assert [(token.style, token.literal) for token in launch.tokens[1:3]] == [("made", False), ("flow", True)]
    places = [text[token.span.start : token.span.end] for token in launch.tokens[2:]]
    assert places == ['"--model"', '"m"', '"--max-num-seqs"', '"8"']
    assert launch.tokens[-1].span.line == 15
    assert launch.environment == {"VLLM_A": "1", "B": "a b"}
    assert launch.hints.release == "0.25.1"
    assert launch.hints.release_span is not None
    assert launch.hints.release_span.line == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nCMD vllm serve m \\\n  --x 'a b'", ["vllm", "serve", "m", "--x", "a b"]),
        ("FROM a\nENV M=q\nCMD vllm serve $M", ["vllm", "serve", "q"]),
        ('FROM a\nENTRYPOINT ["vllm", "serve"]\nCMD ["m"]', ["vllm", "serve", "m"]),
        ('FROM a\nCMD ["m"]\nENTRYPOINT ["vllm", "serve", "n"]', ["vllm", "serve", "n"]),
        ('FROM a\nENTRYPOINT ["bash", "-c"]\nCMD ["vllm serve m"]', ["vllm", "serve", "m"]),
        ('FROM a\nCMD ["no"]\nCMD ["vllm", "serve", "m"]', ["vllm", "serve", "m"]),
        ("# escape=`\nFROM a\nCMD vllm serve m `\n --x", ["vllm", "serve", "m", "--x"]),
        ("from a\r\ncmd vllm serve m\r\n", ["vllm", "serve", "m"]),
        ('FROM registry.example/my-vllm\nCMD ["vllm", "serve", "m"]', ["vllm", "serve", "m"]),
    ],
)
def test_forms(text: str, expected: list[str]) -> None:
    assert only(text).texts == expected


def test_an_entrypoint_in_shell_form_ignores_the_command() -> None:
    assert only('FROM a\nENTRYPOINT vllm serve m\nCMD ["--x"]').texts == ["vllm", "serve", "m"]


@pytest.mark.parametrize(
    "text", ["FROM vllm/vllm-openai", "FROM a\nRUN vllm serve m", "FROM a\n# CMD vllm serve m", "", "CMD vllm serve m"]
)
def test_what_starts_nothing(text: str) -> None:
    assert reading(text).launches == ()


def test_traps_of_the_exec_form() -> None:
    launch = only('FROM a\nENV M=q\nCMD ["vllm", "serve", "$M"]')
    assert launch.texts[2] == "$M"
    assert [remark.kind for remark in launch.remarks] == ["not_expanded"]
    assert [remark.kind for remark in reading("FROM a\nCMD ['vllm', 'serve', 'm']").remarks] == ["not_json"]
    assert only('FROM a\nCMD ["vllm", "serve", "m"]').remarks == ()
