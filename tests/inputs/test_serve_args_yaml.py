"""The YAML file of --config: precedence, what is lost in it, and files that mean harm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cgplan.errors import CgplanError
from cgplan.inputs.serve_args import ServeArgs, parse_serve
from cgplan.inputs.serve_args_errors import ArgumentRefused

pytest.importorskip("yaml")

MODULE = ["python", "-m", "vllm.entrypoints.openai.api_server"]


def read(
    text: str, *tokens: str, start: tuple[str, ...] = ("vllm", "serve", "m"), release: str = "0.33.0"
) -> ServeArgs:
    return parse_serve([*start, "--config", "c.yaml", *tokens], release, files={"c.yaml": text})


def test_settings_and_their_lines() -> None:
    found = read("port: 8001\n# note\nmax_num_seqs: 8\ncompilation-config:\n  mode: 3\nlora-modules: ['a=b', 'c=d']\n")
    assert found.values["max_num_seqs"] == 8
    assert found.values["compilation_config"] == {"mode": "VLLM_COMPILE"}
    assert [(one.dest, one.place.line) for one in found.given] == [
        ("port", 1), ("max_num_seqs", 3), ("compilation_config", 4), ("lora_modules", 6),
    ]  # fmt: skip
    assert all(one.place.token == -1 for one in found.given)


def test_the_command_line_wins() -> None:
    found = read("port: 1\n", "--port", "2")
    assert found.values == {"port": 2}
    assert found.notes[0].kind == "yaml_overridden"
    assert found.notes[0].lost is not None
    assert found.notes[0].lost.line == 1


def test_one_key_of_the_command_line_loses_the_block() -> None:
    found = read("compilation-config:\n  mode: 3\n", "-cc.backend=eager")
    assert found.values["compilation_config"] == {"backend": "eager"}
    assert found.notes[0].kind == "bucket_lost"


@pytest.mark.parametrize("release", ["0.25.1", "0.33.0"])
def test_false_is_passed_over(release: str) -> None:
    found = read("enable-prefix-caching: false\n", release=release)
    assert found.values == {}
    assert found.notes[0].kind == "yaml_false"
    assert "no-enable-prefix-caching: true" in found.notes[0].message


def test_false_counts_in_the_module_form_since_028() -> None:
    start = (*MODULE, "--model", "m")
    assert read("enable-prefix-caching: false\n", start=start).values["enable_prefix_caching"] is False
    assert "enable_prefix_caching" not in read("enable-prefix-caching: false\n", start=start, release="0.27.1").values


def test_the_model_comes_first_or_from_the_file() -> None:
    assert read("model: a\n", start=("vllm", "serve")).model == "a"
    with pytest.raises(ArgumentRefused) as caught:
        read("port: 1\n", "m", start=("vllm", "serve"))
    assert caught.value.kind == "no_model"


@pytest.mark.parametrize(
    ("text", "raised_as"),
    [
        ("", "AttributeError"),
        ("- a\n", "AttributeError"),
        ("a: [1\n", "ParserError"),
        ("\ta: 1\n", "ScannerError"),
        ("a: 1\n---\nb: 1\n", "ComposerError"),
        ("1: 2\n", "TypeError"),
        ("!!python/object:os.system {}\n", "ConstructorError"),
        ("compilation-config: {a: 2024-01-01}\n", "TypeError"),
        ("a: \0\n", "ReaderError"),
        ("a: 2024-13-40\n", "ValueError"),
        ("compilation-config: &a {x: *a}\n", "ValueError"),
    ],
)
def test_broken_files(text: str, raised_as: str) -> None:
    with pytest.raises(ArgumentRefused) as caught:
        read(text)
    assert caught.value.raised_as == raised_as
    assert caught.value.kind == "config_content"


def test_which_file() -> None:
    for tokens, raised_as in (
        (["--config"], "ValueError"),
        (["--config", "c.json"], "ValueError"),
        (["--config", "other.yaml"], "FileNotFoundError"),
        (["--config", "c.yaml", "--config", "c.yaml"], "AssertionError"),
    ):
        with pytest.raises(ArgumentRefused) as caught:
            parse_serve(["vllm", "serve", "m", *tokens], "0.33.0", files={})
        assert caught.value.raised_as == raised_as


def test_from_disk(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("port: 3\n")
    assert parse_serve(["vllm", "serve", "m", "--config", str(file)], "0.33.0").values == {"port": 3}
    file.write_bytes(b"a: \xff")
    with pytest.raises(ArgumentRefused, match="not UTF-8"):
        parse_serve(["vllm", "serve", "m", "--config", str(file)], "0.33.0")
    with pytest.raises(ArgumentRefused, match="no such file"):
        parse_serve(["vllm", "serve", "m", "--config", str(tmp_path / "d.yaml")], "0.33.0")


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "[" * 60_000,
        "a: " + "{a: " * 9_000,
        "a: x" + "x" * 10_000_000,
        "%" * 999,
        "a: " + "9" * 9_999,
        "a: &b [*b]",
    ],
    ids=["bomb", "brackets", "braces", "long", "directives", "number", "self"],
)
def test_files_that_mean_harm(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(CgplanError) as caught:
        read(text)
    assert time.perf_counter() - started < 8
    assert len(caught.value.message) < 400
