"""A pasted shell line, split as the shell splits it."""

from __future__ import annotations

import random
import shlex
import time

import pytest

from cgplan.errors import CgplanError, InputError
from cgplan.inputs.serve_args import parse_serve
from cgplan.inputs.serve_args_deployment import to_deployment
from cgplan.inputs.serve_args_line import split_line

LINE = """\
# start it
export VLLM_LOGGING_LEVEL=DEBUG HF_HOME=/data
VLLM_USE_X=1 CUDA_VISIBLE_DEVICES="0,1" nohup vllm serve Qwen/Qwen3-8B \\
  --max-num-seqs 64 \\
  --compilation-config '{"cudagraph_mode": "FULL"}' \\
  --served-model-name "my model" --api-key $KEY "$(cat key)" > server.log 2>&1 &
echo done
"""


def test_a_script() -> None:
    found = split_line(LINE)
    assert found.texts == [
        "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64", "--compilation-config", '{"cudagraph_mode": "FULL"}',
        "--served-model-name", "my model", "--api-key", "$KEY", "$(cat key)",
    ]  # fmt: skip
    assert found.env == {
        "VLLM_LOGGING_LEVEL": "DEBUG", "HF_HOME": "/data", "VLLM_USE_X": "1", "CUDA_VISIBLE_DEVICES": "0,1",
    }  # fmt: skip
    assert [word.text for word in found.before] == ["nohup"]
    assert found.tokens[-1].expands == ("$(cat key)",)
    config = found.tokens[6]
    assert (config.line, config.column) == (5, 24)
    assert LINE[config.start : config.end] == '\'{"cudagraph_mode": "FULL"}\''


def test_a_comment_ends_a_continued_line() -> None:
    found = split_line("vllm serve m \\\n  # more\n  --max-num-seqs 8\n")
    assert found.texts == ["vllm", "serve", "m"]
    assert [word.text for word in found.lost] == ["--max-num-seqs", "8"]


@pytest.mark.parametrize("wrapper", ["", "exec ", "sudo -E ", "uv run ", "time ", "cd /x && ", "$ ", "env A=1 "])
def test_what_stands_in_front(wrapper: str) -> None:
    found = split_line(f"{wrapper}vllm serve m")
    assert found.texts == ["vllm", "serve", "m"]
    assert found.env == ({"A": "1"} if "A=1" in wrapper else {})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("vllm serve 'm", "column 12"),
        ('vllm serve m\n "x', "line 2, column 2"),
        ("vllm serve `x", "`"),
        ("vllm $(x", "$("),
    ],
)
def test_open_quotes(text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        split_line(text)
    assert caught.value.code == "CG906"
    assert where in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "\n\n", "ls", "vllm", "docker run x", "\x7fELF\0", "vllm serve " + "x" * 10_000_000]
)
def test_what_is_no_line(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InputError):
        split_line(text)
    assert time.perf_counter() - started < 1


def test_as_shlex_where_that_knows() -> None:
    draw = random.Random(4)
    for _ in range(2000):
        words = "".join(draw.choice(" ab='\"\\ \t-.{}:,[]") for _ in range(draw.randrange(30)))
        text = f"vllm serve {words}"
        try:
            expected = shlex.split(text)
        except ValueError:
            continue
        assert split_line(text).texts == expected


def test_ansi_quotes() -> None:
    assert split_line(r"vllm serve $'a\nb\'c'").texts[2] == "a\nb'c"


def test_nothing_escapes_but_our_errors() -> None:
    draw = random.Random(5)
    pieces = [
        *" \t\n'\"\\$`(){}[]<>|;&#=-.+:,~*é\0k1",
        "--model ",
        "-cc.",
        "-O",
        "--config ",
        "vllm ",
        "--max",
        '{"a":',
    ]
    for _ in range(1500):
        text = "vllm serve " + "".join(draw.choice(pieces) for _ in range(draw.randrange(50)))
        try:
            line = split_line(text)
            to_deployment(parse_serve(line.texts, "0.33.0", env=line.env))
        except CgplanError as error:
            assert len(error.message) < 2000  # noqa: PT017


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100_000,
        '{"a":' * 20_000,
        "9" * 100_000,
        "9" * 400 + "k",
        '"' * 131_000,
        '"\\' * 65_000,
        "\ud800",
        "{} " * 43_000,
    ],
    ids=range(8),
)
@pytest.mark.parametrize("option", ["-cc", "-sc", "--hf-overrides", "--lora-modules", "--max-model-len", "-cc.mode"])
def test_values_that_mean_harm(option: str, value: str) -> None:
    started = time.perf_counter()
    try:
        parse_serve(["vllm", "serve", "m", option, value], "0.33.0")
    except CgplanError as error:
        assert len(error.message) < 400  # noqa: PT017
    assert time.perf_counter() - started < 2


def test_more_than_a_system_passes_on() -> None:
    for tokens in (["x" * 200_000], ["--port"] * 6_000, ["-cc" + ".a" * 60_000 + "=1"] * 30):
        with pytest.raises(InputError):
            parse_serve(["vllm", "serve", *tokens], "0.33.0")
    with pytest.raises(CgplanError, match="too deeply"):
        parse_serve(["vllm", "serve", "m", "-cc" + "." * 100_000 + "=1"], "0.33.0")
