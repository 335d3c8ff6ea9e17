"""Words of errors of usage: what was meant is named, and what has nothing to do with it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cgplan.cli.app import run

Run = Callable[..., tuple[int, str, str]]
BEHIND = "put the line behind --"


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "vllm serve Qwen/Qwen3-8B"],
        ["plan", "vllm serve Qwen/Qwen3-8B --max-num-seqs 300"],
        ["resolve", "--model", "FOO=1 vllm serve Qwen/Qwen3-8B"],
        ["resolve", "vllm", "serve", "Qwen/Qwen3-8B"],
        ["vllm", "serve", "Qwen/Qwen3-8B"],
    ],
    ids=" ".join,
)
def test_a_line_in_the_place_of_a_model(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert BEHIND in err


@pytest.mark.parametrize("command", ["resolve", "plan", "backends", "diff --from 0.28"])
def test_a_sentence_is_no_model(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "hello Qwen/Qwen3-8B"]) == 2
    err = capsys.readouterr().err
    assert "'hello Qwen/Qwen3-8B' has blanks and is no path [MODEL" in err or "[--model]" in err
    assert BEHIND not in err


def test_a_path_may_have_blanks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my vllm serve models"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "hidden_size": 64}')
    run(["resolve", "--gpu", "h100", str(folder)])
    assert "has blanks" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--nope", "--foo", "--size"])
def test_an_option_that_is_like_none_is_not_guessed(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", option]) == 2
    assert capsys.readouterr().err.endswith(
        f"unknown option {option} [cgplan resolve]; fix: no command has it; "
        "cgplan resolve --help lists what this one takes\n"
    )


@pytest.mark.parametrize(
    ("option", "meant"), [("--max-seqs", "--max-num-seqs"), ("--model-len", "--max-model-len"), ("--gpus", "--gpu")]
)
def test_a_slip_is_guessed(option: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", option, "3"]) == 2
    assert meant in capsys.readouterr().err.partition("did you mean")[2]


@pytest.mark.parametrize("word", ["help", "version"])
def test_help_and_version_are_options(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word]) == 2
    assert capsys.readouterr().err == f"error[CG905]: unknown command {word} [cgplan]; fix: write cgplan --{word}\n"


def test_a_word_that_is_no_command_is_told_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["frobnicate"]) == 2
    assert "cgplan --help says what they do" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "has", "lacks"),
    [
        ("logs", "the one that the log names", "H100 80GB"),
        ("logs", "Default: the log's.", "newest known"),
        ("check", "In the place of the file's", "dense 8B decoder"),
        ("resolve", "Default: the file's or the one here, else H100 80GB.", "the log's"),
        ("profile", "with --dry-run any of `cgplan gpus`", "the file's or the one here"),
    ],
)
def test_defaults_are_those_of_the_command(command: str, has: str, lacks: str, cgplan: Run) -> None:
    text = " ".join(cgplan(command, "--help")[1].split())
    assert has in text
    assert lacks not in text


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("diff --from 0.28", "--vllm 0.29"),
        ("diff --from 0.28", "--assume-release 0.29"),
        ("plan", "--num-gpu-blocks 9"),
        ("report --markdown", "--num-gpu-blocks 9"),
    ],
)
def test_an_option_that_is_refused_is_in_no_help(command: str, option: str, cgplan: Run) -> None:
    name = option.split()[0]
    status, _, err = cgplan(*command.split(), *option.split())
    assert status == 2
    assert name in err
    assert "unknown option" not in err
    assert f"  {name} " not in cgplan(command.split()[0], "--help")[1]
    assert f"  {name} " in cgplan("resolve", "--help")[1]
