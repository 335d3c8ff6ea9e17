"""Options of tool calling that do nothing alone."""

from __future__ import annotations

import pytest

from cgplan.check import TokenEdit, check

PARSER = "--tool-call-parser hermes"


def test_a_parser_alone_is_told() -> None:
    (one,) = [one for one in check(f"vllm serve Qwen/Qwen3-8B {PARSER}").diagnostics if one.code == "CG958"]
    assert (one.severity, one.safe) == ("warning", False)
    assert one.edits == (TokenEdit(5, 5, ("--enable-auto-tool-choice",)),)


@pytest.mark.parametrize(
    "line",
    [
        f"vllm serve Qwen/Qwen3-8B {PARSER} --enable-auto-tool-choice",
        "vllm serve Qwen/Qwen3-8B",
        "vllm serve openai/gpt-oss-20b --tool-call-parser openai",
    ],
)
def test_not_told(line: str) -> None:
    assert "CG958" not in [one.code for one in check(line).diagnostics]
