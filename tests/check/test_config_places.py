"""Findings of a file of --config that is on disk: they stand in it, and --fix mends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cgplan.check import Context, Diagnostic, check_launch
from cgplan.inputs.launches import Source, launch_of, read
from cgplan.inputs.launches.asked import ask

pytest.importorskip("yaml")

BAD_VALUE = "model: Qwen/Qwen3-8B\ngpu-memory-utilization: 90%\n"
LOST = "model: Qwen/Qwen3-8B\ncompilation-config:\n  mode: 3\nenable-prefix-caching: false\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_line(*words: str) -> list[Diagnostic]:
    found = check_launch(ask(launch_of(["vllm", "serve", *words]), Context(release="0.33.0"))).diagnostics
    return [one for one in found if one.severity == "error"]


def of_file(path: Path) -> list[Diagnostic]:
    launch = read(Source(str(path), path.read_text(encoding="utf-8"))).launches[0]
    found = check_launch(ask(launch, Context(release="0.33.0"))).diagnostics
    return [one for one in found if one.severity == "error"]


def places(found: list[Diagnostic]) -> list[tuple[str, str, int, int]]:
    return [(one.code, one.at.source.name, one.at.span.line, one.at.span.column) for one in found if one.at is not None]


def test_a_bad_value(folder: Path) -> None:
    (folder / "y4.yaml").write_text(BAD_VALUE, encoding="utf-8")
    found = of_line("--config", "y4.yaml")
    assert places(found) == [("CG906", "y4.yaml", 2, 1)]
    assert found[0].fix == "write --gpu-memory-utilization 0.9"


def test_what_is_lost(folder: Path) -> None:
    (folder / "lost.yaml").write_text(LOST, encoding="utf-8")
    found = of_line("--config", "lost.yaml", "-cc.cudagraph_mode=FULL")
    assert places(found) == [("CG922", "lost.yaml", 2, 1), ("CG930", "lost.yaml", 4, 1)]


def test_beside_a_script(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "y4.yaml").write_text(BAD_VALUE, encoding="utf-8")
    script = folder / "bin" / "run.sh"
    script.write_text("exec vllm serve --config y4.yaml\n", encoding="utf-8")
    assert places(of_file(script)) == [("CG906", str(folder / "bin" / "y4.yaml"), 2, 1)]


def test_in_the_working_folder(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "y4.yaml").write_text(BAD_VALUE, encoding="utf-8")
    script = folder / "bin" / "run.sh"
    script.write_text("exec vllm serve --config y4.yaml\n", encoding="utf-8")
    assert places(of_file(script)) == [("CG906", "y4.yaml", 2, 1)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "docker run --gpus all vllm/vllm-openai:v0.33.0 --config y4.yaml\n"),
        ("Dockerfile", 'FROM vllm/vllm-openai:v0.33.0\nCMD ["--config", "y4.yaml"]\n'),
    ],
)
def test_a_container_has_other_files(folder: Path, name: str, text: str) -> None:
    (folder / "y4.yaml").write_text(BAD_VALUE, encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    assert of_file(folder / name) == []


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"x" * 300_000])
def test_a_file_that_cannot_be_read_is_told_at_the_option(folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / "c.yaml").write_bytes(content)
    found = check_launch(ask(launch_of(["vllm", "serve", "--config", "c.yaml"]))).diagnostics
    assert next(one.code for one in found if one.severity == "error") in ("CG910", "CG911", "CG914")
    (folder / "d.yaml").mkdir()
    assert of_line("--config", "d.yaml")[0].code == "CG910"


def run(*words: str) -> str:
    code = "from cgplan.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", *words], capture_output=True, text=True, check=False
    )  # fmt: skip
    return done.stdout


def test_fix_writes_the_file_that_is_wrong(folder: Path) -> None:
    (folder / "y4.yaml").write_text(BAD_VALUE, encoding="utf-8")
    (folder / "run.sh").write_text("exec vllm serve --config y4.yaml\n", encoding="utf-8")
    assert "+gpu-memory-utilization: 0.9" in run("--fix", "--", "vllm", "serve", "--config", "y4.yaml")
    run("--fix", "--write", "run.sh")
    assert (folder / "y4.yaml").read_text(encoding="utf-8") == BAD_VALUE.replace("90%", "0.9")
    assert (folder / "run.sh").read_text(encoding="utf-8") == "exec vllm serve --config y4.yaml\n"


def test_keys_in_the_file_are_not_shown(folder: Path) -> None:
    (folder / "k.yaml").write_text("api-key: a-long-key-of-mine\nmodel: 1\nmax-num-seqs: x\n", encoding="utf-8")
    (folder / "run.sh").write_text("vllm serve --config k.yaml\n", encoding="utf-8")
    for output in ("text", "json", "sarif", "github", "markdown", "concise"):
        said = run("run.sh", "--output", output)
        assert "k.yaml" in said
        assert "a-long-key" not in said
