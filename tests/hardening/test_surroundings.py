"""Terminals, disks and files as they can be: full, closed, narrow, without letters, in a circle, of another system."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOG, METRICS, CSV = (
    FIXTURES / "logs" / "A01.txt",
    FIXTURES / "metrics" / "moment-1.txt",
    FIXTURES / "metrics" / "traffic.csv",
)
QWEN = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100")
GRID = '[base]\nmodel = "Qwen/Qwen3-8B"\ngpu = "h100"\n[grid]\nmax_num_seqs = [16, 256]\n'
SCRIPT = "#!/bin/sh\nexport VLLM_USE_V1=1\nvllm serve Qwen/Qwen3-8B \\\n  --max-num-seqs 300 --max-num-seqs 64\n"
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "-v", "a.sh"),
    "resolve": ("resolve", "--explain", "--table", *QWEN),
    "plan": ("plan", *QWEN),
    "plan --markdown": ("plan", "--markdown", *QWEN),
    "profile": ("profile", "--dry-run", *QWEN),
    "logs": ("logs", str(LOG)),
    "logs --metrics": ("logs", "--metrics", str(METRICS)),
    "tune": ("tune", "--workload", str(CSV), *QWEN),
    "report": ("report", "--markdown", *QWEN),
    "sweep": ("sweep", "grid.toml", "--jobs", "1"),
    "diff": ("diff", "--from", "0.28", *QWEN),
    "backends": ("backends", *QWEN),
    "explain": ("explain", "CG101"),
    "rules": ("rules",),
    "models": ("models",),
    "gpus": ("gpus",),
    "schema": ("schema", "plan"),
    "completion": ("completion", "bash"),
    "nothing": (),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.sh").write_text(SCRIPT)
    Path("grid.toml").write_text(GRID)
    return tmp_path


def one_line(told: tuple[int, str, str], *codes: str) -> str:
    """The one error of a run: exit status 2, a line with a code and a fix; at most a count on stdout."""
    status, out, err = told
    assert status == 2, err
    assert out in ("", "no vLLM server in 1 file, 1 file could not be read\n")
    assert err.startswith("error[CG")
    assert err.count("\n") == 1
    assert "; fix: " in err
    assert not codes or err[6:11] in codes, err
    return err


SCRIPT_OF_ALL = """\
import sys
from cgplan.cli.app import run
for words in {commands}:
    sys.stdout = open("/dev/full", "w")
    try:
        status = run(words)
    except BaseException as error:
        status = repr(error)
    print(status, file=sys.__stderr__)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_of_every_command(here: Path) -> None:
    commands = [list(words) for words in COMMANDS.values()]
    script = SCRIPT_OF_ALL.format(commands=commands)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=here)
    told = [line for line in done.stderr.splitlines() if line == "74" or line.startswith("cannot write")]
    assert told == ["cannot write output: No space left on device", "74"] * len(commands)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        ("report", "--output", "full.md", *QWEN),
        ("logs", str(LOG), "--gpu", "h200", "--save", "full.md"),
    ],
    ids=["report", "logs"],
)
def test_a_full_disk_behind_a_file(cgplan: Run, here: Path, words: tuple[str, ...]) -> None:
    Path("full.md").symlink_to("/dev/full")
    status, _, err = cgplan(*words)
    assert status in (2, 74)
    assert err.count("\n") == 1
    assert "no space left on device" in err.lower()


@pytest.mark.parametrize("command", ["plan --markdown", "report", "check"])
@pytest.mark.parametrize(
    "locale", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_terminal_without_letters(here: Path, command: str, locale: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cgplan", *COMMANDS[command]], capture_output=True, timeout=60, cwd=here,
        env={**os.environ, **locale},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == b""
    assert done.stdout.decode("ascii")


@pytest.mark.parametrize("columns", ["1", "20", "40", "1000", "0", "wide"])
@pytest.mark.parametrize("command", COMMANDS)
def test_any_width(cgplan: Run, here: Path, monkeypatch: pytest.MonkeyPatch, command: str, columns: str) -> None:
    usual = cgplan(*COMMANDS[command])
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = cgplan(*COMMANDS[command])
    assert (status, err) == (usual[0], usual[2])
    assert out.strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_colour_where_none_is_wanted(cgplan: Run, here: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    _, out, err = cgplan(*COMMANDS[command])
    assert "\x1b" not in out + err


# Files of another system


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: vllm/vllm-openai:v0.33.0
    command: [sh, -c]
    args:
    - |
      vllm serve Qwen/Qwen3-8B \\
        --max-num-seqs 300 --max-num-seqs 64
"""
COMPOSE = """\
services:
  s:
    image: vllm/vllm-openai:v0.33.0
    command: >
      --model Qwen/Qwen3-8B
      --max-num-seqs 300 --max-num-seqs 64
"""
DOCKERFILE = """\
FROM vllm/vllm-openai:v0.33.0
CMD ["--model", "Qwen/Qwen3-8B", \\
  "--max-num-seqs", "300", "--max-num-seqs", "64"]
"""
UNIT = "[Service]\nExecStart=/bin/vllm serve Qwen/Qwen3-8B \\\n  --max-num-seqs 300 --max-num-seqs 64\n"
LAUNCHES = {
    "a.sh": SCRIPT,
    "a.yaml": POD,
    "compose.yaml": COMPOSE,
    "Dockerfile": DOCKERFILE,
    "a.service": UNIT,
    "a.md": f"# Title\n\n```bash\n{SCRIPT}```\n",
    "config.yaml": "model: Qwen/Qwen3-8B\nmax-num-seqs: 300\ntensor-parallel-size: 2\n",
}


def as_windows(text: str) -> bytes:
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("name", LAUNCHES)
def test_files_of_servers_from_windows(cgplan: Run, here: Path, name: str) -> None:
    found = []
    for data in (LAUNCHES[name].encode(), as_windows(LAUNCHES[name])):
        Path(name).write_bytes(data)
        status, out, err = cgplan("check", name, "--json")
        document = json.loads(out)
        launches = document["files"][0]["launches"]
        found.append((status, err, [[one["code"], one["line"]] for one in launches[0]["diagnostics"]]))
        status, out, err = cgplan("resolve", name, "--gpu", "h100", "--json")
        found.append((status, err, json.loads(out)["max_num_seqs"]))
    assert found[:2] == found[2:]


def test_a_script_is_fixed_in_its_own_line_ends(cgplan: Run, here: Path) -> None:
    Path("a.sh").write_bytes(as_windows(SCRIPT))
    status, _, err = cgplan("check", "a.sh", "--fix", "--unsafe-fixes", "--write")
    text = Path("a.sh").read_bytes()
    assert status in (0, 1), err
    assert text.startswith(b"\xef\xbb\xbf#!/bin/sh\r\n")
    assert text.count(b"\n") == text.count(b"\r\n")


OTHERS = {
    "grid.toml": (GRID, ("sweep", "grid.toml", "--jobs", "1", "--json")),
    "server.log": (LOG.read_text(), ("logs", "server.log", "--json")),
    "metrics.txt": (METRICS.read_text(), ("logs", "--metrics", "metrics.txt", "--json")),
    "traffic.csv": (CSV.read_text(), ("tune", "--workload", "traffic.csv", *QWEN, "--json")),
    "traffic.json": (
        (FIXTURES / "metrics" / "traffic.json").read_text(),
        ("tune", "--workload", "traffic.json", *QWEN, "--json"),
    ),
    "cgplan.toml": ('gpu = "l4"\nignore = ["CG975"]\n', ("check", "a.sh", "--json")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_from_windows(cgplan: Run, here: Path, name: str) -> None:
    text, words = OTHERS[name]
    found = []
    for data in (text.encode(), as_windows(text)):
        Path(name).write_bytes(data)
        found.append(cgplan(*words))
    assert found[0] == found[1]
    assert found[0][0] in (0, 1)


# Files that are none


def places(path: str) -> dict[str, tuple[str, ...]]:
    """Every option that names a file, with that one."""
    return {
        "check": ("check", path),
        "check --settings": ("check", "a.sh", "--settings", path),
        "resolve": ("resolve", path),
        "--model": ("resolve", "--model", path),
        "--compare-with": ("plan", *QWEN, "--compare-with", path),
        "--config": ("resolve", "--gpu", "h100", "--", "vllm", "serve", "--config", path),
        "--profile": ("plan", *QWEN, "--profile", path),
        "tune --profile": ("tune", "--shape", "low", *QWEN, "--profile", path),
        "report --profile": ("report", "--markdown", *QWEN, "--profile", path),
        "--weights": ("plan", *QWEN, "--weights", path),
        "logs": ("logs", path),
        "--metrics": ("logs", "--metrics", path),
        "--workload": ("tune", *QWEN, "--workload", path),
        "report --workload": ("report", "--markdown", *QWEN, "--workload", path),
        "sweep": ("sweep", path, "--jobs", "1"),
    }


WAYS = tuple(places("x"))


@pytest.mark.parametrize("way", WAYS)
def test_a_link_to_itself(cgplan: Run, here: Path, way: str) -> None:
    for name in ("x.yaml", "config.json"):
        Path(name).symlink_to(name)
        one_line(cgplan(*places(f"./{name}")[way]))


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("check",)])
def test_a_folder(cgplan: Run, here: Path, way: str) -> None:
    Path("empty.yaml").mkdir()
    one_line(cgplan(*places("./empty.yaml")[way]))


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_may_not_be_read(cgplan: Run, here: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Whoever runs the tests may read everything, so that the system's answer is put on."""
    name = "x.safetensors" if way == "--weights" else "x.yaml"
    Path(name).write_text("vllm serve m\n" * 20)

    def closed(real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *given: Any, **named: Any) -> Any:
            if not isinstance(path, int) and os.fspath(path).endswith(name):
                raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
            return real(path, *given, **named)

        return opened

    monkeypatch.setattr("os.open", closed(os.open))
    monkeypatch.setattr("io.open", closed(io.open))
    monkeypatch.setattr("builtins.open", closed(open))
    assert "permission denied" in one_line(cgplan(*places(f"./{name}")[way])).lower()


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_is_no_path(cgplan: Run, here: Path, way: str) -> None:
    for name in ("./" + "x" * 5000 + ".yaml", "./" + "x/" * 3000, "./a\x1b[2J.yaml", "./\udcff.yaml"):
        error = one_line(cgplan(*places(name)[way]))
        assert error.isprintable() or error[:-1].isprintable()
        assert len(error) < 1500


def test_a_folder_with_a_great_many_files(cgplan: Run, here: Path) -> None:
    many = Path("many")
    many.mkdir()
    for number in range(4000):
        (many / f"{number}.txt").touch()
    for number in range(2001):
        (many / f"w{number}.safetensors").touch()
    start = time.process_time()
    assert cgplan("check", "many")[0] in (0, 2)
    one_line(cgplan("plan", *QWEN, "--weights", "many"), "CG914")
    one_line(cgplan("resolve", "--model", "./many"), "CG910")
    assert time.process_time() - start < 5
