"""action.yml and the pre-commit hook: their scripts are run, with a stub only where something would be installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"

pytestmark = pytest.mark.skipif(not ACTION.exists() or shutil.which("bash") is None, reason="no checkout, or no bash")

GOOD = "#!/bin/sh\nvllm serve Qwen/Qwen3-8B --max-num-seqs 256\n"
BAD = "#!/bin/sh\nvllm serve Qwen/Qwen3-8B --max-num-sequences 256\n"


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return document


def hook() -> dict[str, Any]:
    (one,) = yaml.safe_load(HOOKS.read_text())
    assert isinstance(one, dict)
    return one


class Workspace:
    """A checkout under test: the steps of the action run in it as the runner runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.tools = folder / "bin"
        self.summary, self.output, self.installed = folder / "summary.md", folder / "output", folder / "installed"
        self.folder.mkdir()
        self.tools.mkdir()
        self.summary.touch()
        self.output.touch()
        self.program("cgplan", f'exec "{sys.executable}" -m cgplan "$@"')
        self.program("pip", f'printf "%s\\n" "$@" > "{self.installed}"')

    def program(self, name: str, body: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """All steps of the action that are scripts; the last one's result."""
        known = action()["inputs"]
        values = {name: str(one.get("default", "")) for name, one in known.items()}
        values.update({name.replace("_", "-"): value for name, value in inputs.items()})
        assert values.keys() == known.keys()
        done = None
        for step in action()["runs"]["steps"]:
            if "run" in step:
                done = self._step(step, values)
        assert done is not None
        return done

    def _step(self, step: dict[str, Any], values: dict[str, str]) -> subprocess.CompletedProcess[str]:
        assert step["shell"] == "bash"
        given = {name: _filled(text, values) for name, text in step.get("env", {}).items()}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, capture_output=True, text=True, timeout=120,
            env={
                **os.environ, **given, "PATH": f"{self.tools}:{os.environ['PATH']}",
                "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_OUTPUT": str(self.output), "GITHUB_WORKSPACE": str(self.folder),
            },
        )  # fmt: skip

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_the_action_is_well_formed() -> None:
    document = action()
    assert document["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} <= document.keys()
    for one in document["inputs"].values():
        assert one["description"]
        assert "default" in one
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text()))
    assert used == set(document["inputs"])


def test_no_input_is_pasted_into_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_cgplan_is_installed_from_the_checkout(workspace: Workspace) -> None:
    (workspace.folder / "serve.sh").write_text(GOOD)
    workspace.run()
    assert workspace.installed.read_text().splitlines()[-1] == str(ROOT)


def test_a_finding_fails_the_step(workspace: Workspace) -> None:
    (workspace.folder / "serve.sh").write_text(BAD)
    done = workspace.run(sarif_file="out.sarif")
    assert done.returncode == 1, done.stderr
    assert "::error " in done.stdout
    assert "serve.sh" in done.stdout
    assert "line=2" in done.stdout
    assert "|" in workspace.summary.read_text()
    assert "serve.sh" in workspace.summary.read_text()
    document = json.loads((workspace.folder / "out.sarif").read_text())
    assert document["version"] == "2.1.0"
    assert document["runs"][0]["results"]
    assert workspace.outputs() == {"status": "1", "sarif-file": "out.sarif"}


def test_without_a_finding_it_passes(workspace: Workspace) -> None:
    (workspace.folder / "serve.sh").write_text(GOOD)
    done = workspace.run(vllm="0.33.0", gpu="h100")
    assert (done.returncode, workspace.outputs()) == (0, {"status": "0"}), done.stdout + done.stderr
    assert "::error" not in done.stdout


def test_never_fails_but_still_says_so(workspace: Workspace) -> None:
    (workspace.folder / "serve.sh").write_text(BAD)
    done = workspace.run(fail_on="never")
    assert done.returncode == 0
    assert "::error " in done.stdout


def test_codes_are_passed_on(workspace: Workspace) -> None:
    (workspace.folder / "serve.sh").write_text(BAD)
    assert workspace.run(ignore="CG905").returncode == 0
    assert workspace.run(select="CG905").returncode == 1
    assert workspace.run(select="CG701").returncode == 0


def test_paths_one_a_line(workspace: Workspace) -> None:
    """Patterns are expanded, blanks belong to names, and nothing is run."""
    (workspace.folder / "a b").mkdir()
    (workspace.folder / "a b" / "serve one.sh").write_text(BAD)
    (workspace.folder / "good.sh").write_text(GOOD)
    assert workspace.run(paths="good.sh").returncode == 0
    assert workspace.run(paths="good.sh\n  a b/*.sh  \n\n").returncode == 1
    assert workspace.run(paths="a b").returncode == 1
    done = workspace.run(paths="$(touch ran); `touch ran`")
    assert done.returncode == 2
    assert not (workspace.folder / "ran").exists()
    assert workspace.run(paths="nowhere-*.yaml").returncode == 2


def test_the_hook(tmp_path: Path) -> None:
    """Its entry is the installed program; it gets the names of the files."""
    one = hook()
    assert (one["id"], one["language"], one["entry"]) == ("cgplan-check", "python", "cgplan check")
    program, *words = one["entry"].split()
    entry = ROOT / "pyproject.toml"
    assert f'{program} = "cgplan.cli.main:main"' in entry.read_text()
    (tmp_path / "good.sh").write_text(GOOD)
    (tmp_path / "bad.sh").write_text(BAD)
    (tmp_path / "other.yaml").write_text("a: b\n")
    for names, status in ((["good.sh", "other.yaml"], 0), (["good.sh", "bad.sh"], 1), (["other.yaml"], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "cgplan", *words, *names],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == status, (names, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("deploy/qwen.yaml", True),
        ("values.yml", True),
        ("Dockerfile", True),
        ("images/Dockerfile.cuda", True),
        ("serve.sh", True),
        ("run.sbatch", True),
        ("vllm.service", True),
        ("README.md", False),
        ("main.py", False),
        ("myDockerfile", False),
    ],
)
def test_files_of_the_hook(name: str, fits: bool) -> None:
    assert bool(re.search(hook()["files"], name)) is fits
