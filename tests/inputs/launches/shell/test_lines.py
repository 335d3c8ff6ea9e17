"""A pasted shell line: quotes, variables in front, continued lines."""

from __future__ import annotations

import random
import shlex
import time

import pytest

from cgplan.errors import CgplanError, InputError
from cgplan.inputs.launches.launch import Source
from cgplan.inputs.launches.shell.commands import Found, in_script
from cgplan.inputs.serve_args import parse_serve
from cgplan.inputs.serve_args_deployment import to_deployment

LINE = """\
# start it
export VLLM_LOGGING_LEVEL=DEBUG HF_HOME=/data
VLLM_USE_X=1 CUDA_VISIBLE_DEVICES="0,1" nohup vllm serve Qwen/Qwen3-8B \\
  --max-num-seqs 64 \\
  --compilation-config '{"cudagraph_mode": "FULL"}' \\
  --served-model-name "my model" --api-key $KEY > server.log 2>&1 &
echo done
"""


def found_in(text: str) -> list[Found]:
    return in_script(text, Source("", text).span, {})


def one_in(text: str) -> Found:
    (one,) = found_in(text)
    return one


def texts(text: str) -> list[str]:
    return [token.text for token in one_in(text).tokens]


def env(found: Found) -> dict[str, str | None]:
    return {variable.name: variable.value for variable in found.env}


def test_a_script() -> None:
    found = one_in(LINE)
    assert [token.text for token in found.tokens] == [
        "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64", "--compilation-config", '{"cudagraph_mode": "FULL"}',
        "--served-model-name", "my model",
    ]  # fmt: skip
    assert env(found) == {
        "VLLM_LOGGING_LEVEL": "DEBUG", "HF_HOME": "/data", "VLLM_USE_X": "1", "CUDA_VISIBLE_DEVICES": "0,1",
    }  # fmt: skip
    config = found.tokens[6].span
    assert (config.line, config.column) == (5, 24)
    assert LINE[config.start : config.end] == '\'{"cudagraph_mode": "FULL"}\''


def test_a_comment_ends_a_continued_line() -> None:
    text = "vllm serve m \\\n  # more\n  --max-num-seqs 8\n"
    assert texts(text) == ["vllm", "serve", "m"]
    (remark,) = one_in(text).remarks
    assert remark.kind == "cut_off"
    assert remark.span is not None
    assert text[remark.span.start : remark.span.end] == "--max-num-seqs 8"


@pytest.mark.parametrize("wrapper", ["", "exec ", "sudo -E ", "uv run ", "time ", "cd /x && ", "$ ", "env A=1 "])
def test_what_stands_in_front(wrapper: str) -> None:
    found = one_in(f"{wrapper}vllm serve m")
    assert [token.text for token in found.tokens] == ["vllm", "serve", "m"]
    assert env(found) == ({"A": "1"} if "A=1" in wrapper else {})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("vllm serve 'm", "column 12"),
        ('vllm serve m\\\n "x', "line 2, column 2"),
        ("vllm serve `x", "`"),
        ("vllm $(x", "$("),
    ],
)
def test_open_quotes(text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        found_in(text)
    assert caught.value.code == "CG906"
    assert where in caught.value.message


@pytest.mark.parametrize("text", ["", "\n\n", "ls", "vllm", "docker run x", "\x7fELF\0"])
def test_what_is_no_line(text: str) -> None:
    assert found_in(text) == []


def test_a_line_that_is_too_long() -> None:
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        found_in("vllm serve " + "x" * 10_000_000)
    assert caught.value.code == "CG914"
    assert time.process_time() - started < 1


def test_as_shlex_where_that_knows() -> None:
    draw = random.Random(4)
    for _ in range(2000):
        words = "".join(draw.choice(" ab='\"\\ \t-.{}:,[]") for _ in range(draw.randrange(30)))
        text = f"vllm serve {words}"
        try:
            expected = shlex.split(text)
        except ValueError:
            continue
        assert texts(text) == expected


def test_ansi_quotes() -> None:
    assert texts(r"vllm serve $'a\nb\'c'")[2] == "a\nb'c"


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
            for one in found_in(text):
                known = {name: value for name, value in env(one).items() if value is not None}
                to_deployment(parse_serve([token.text for token in one.tokens], "0.33.0", env=known))
        except CgplanError as error:
            assert len(error.message) < 2000  # noqa: PT017
