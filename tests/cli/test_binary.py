"""The real program: start-up, pipes, terminals, and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CGPLAN = [sys.executable, "-m", "cgplan"]


def call(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CGPLAN, *argv], capture_output=True, text=True, encoding="utf-8", timeout=60, env={**os.environ, **env}
    )


def test_version_imports_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['cgplan', '--version']; from cgplan.cli.main import main; main(); "
        "print([m for m in ('typer', 'pydantic', 'rich', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert first.startswith("cgplan ")
    assert second == "[]"


def test_json_does_not_import_the_screen() -> None:
    """Nor rich, unless an old typer does."""
    script = (
        "import sys; from cgplan.cli.app import run; status = run(['resolve', '--json', '--gpu', 'h100']); "
        "print(status, 'cgplan.report.console' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.split() == ["0", "False"]
    assert json.loads(done.stdout)["runner"] == "V2"


def test_a_closed_pipe_is_quiet() -> None:
    for options in ([], ["--json"], ["--json", "--gpu", "nothing"]):
        process = subprocess.Popen(
            [*CGPLAN, "resolve", "--table", "--explain", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(60) == 141
        assert "Traceback" not in errors
        assert "BrokenPipe" not in errors


def test_ascii_where_nothing_else_can_be_shown() -> None:
    done = call("resolve", "--table", "--explain", "--gpu", "h100", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "#### FULL ####" in done.stdout


@pytest.mark.parametrize("env", [{"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_no_colour_where_it_is_not_wanted(env: dict[str, str]) -> None:
    codes = call("resolve", "--gpu", "h100", **env).stdout.split("\x1b[")[1:]
    assert not [code for code in codes if code.startswith("3")]


BAD = [
    "--backend flashinfr",
    "--gpu h1000",
    "--cudagraph-mode FUL",
    "--vllm 0.99.0",
    "--vllm nonsense",
    "--max-num-seqs 0",
    "--max-num-seqs -5",
    "--max-num-seqs 99999999999999999999",
    "--max-num-seqs 3000000000",
    "--max-num-seqs many",
    "--max-num-batched-tokens 0",
    "-tp 0",
    "-tp x",
    "-tp -1",
    "--block-size 0",
    "--cudagraph-capture-sizes 1 two",
    "--cudagraph-capture-sizes 4 8 --max-cudagraph-capture-size 16",
    "--cudagraph-capture-sizes 4 -cc.cudagraph_capture_sizes=[8]",
    "--attention-backend FLASHINFER -ac.backend=FLASH_ATTN",
    "-cc {broken",
    "-cc [1]",
    "-cc.nothing=1",
    "-cc.mode=9",
    "-cc.cudagraph_mode=7",
    "-O7",
    "--spec-method nothing --spec-tokens 3",
    "--spec-method ngram --spec-tokens 0",
    "--spec-method ngram --spec-tokens -1",
    "--max-loras 0 --enable-lora",
    "--model nobody/nothing",
    "--model /nowhere/config.json",
    "--kv-cache-dtype fp7",
    "--dtype float9",
    "--usage-context me",
    "--env NOTHING",
    "--batch 0",
    "--batch x",
    "--max-num-batched-tokens 25.6K",
    "--cudagraph-mode FULL --attention-support NEVER",
    "--bogus",
]


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_message(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    from cgplan.cli.app import run

    start = time.perf_counter()
    status = run(["resolve", *line.split()])
    seconds = time.perf_counter() - start
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert lines[0].startswith("error[CG")
    assert len(lines) <= 3
    assert "fix:" in err
    assert "Traceback" not in err
    assert seconds < 1


def test_bad_input_in_a_process_of_its_own() -> None:
    done = call("resolve", "--backend", "flashinfr")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean" in done.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"architectures": 3}', b'{"a":' * 20000, b'{"model_type": "nothing"}'],
)
def test_a_broken_config_is_one_clear_message(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cgplan.cli.app import run

    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert run(["resolve", "--model", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[CG9")
    assert len(err.splitlines()) <= 3
