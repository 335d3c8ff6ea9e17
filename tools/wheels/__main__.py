"""Builds the wheel and the sdist, looks at what they hold, and uses cgplan where only its dependencies are.

    python tools/wheels

The wheel is installed into two bare virtual environments, one with the lowest versions of the dependencies that
pyproject.toml allows and one with the newest, and commands are run there. Needs the package `build`; what is built
stays out of the project. Exit status 1 where something is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from wheels import contents

ROOT = contents.ROOT
LOG = ROOT / "fixtures" / "logs" / "A01.txt"
MANIFEST = ROOT / "fixtures" / "launches" / "public" / "deployment-command-first.yaml"
MODEL = ["--model", "Qwen/Qwen3-8B", "--gpu", "h100"]
COMMANDS = (
    (["--version"], 0, f"cgplan {contents.version()}"),
    (["--help"], 0, "check"),
    (["check", "--help"], 0, "--fail-on"),
    (["resolve", *MODEL, "--max-num-seqs", "300"], 0, "FULL_AND_PIECEWISE"),
    (["resolve", "--json"], 0, '"schema_version"'),
    (["check", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--bogus", "1"], 1, "--bogus"),
    (["check", str(MANIFEST), "--fail-on", "never"], 0, "CG"),
    (["plan", *MODEL], 0, "It starts."),
    (["logs", str(LOG), "--gpu", "h100"], 0, "Came up"),
    (["diff", "--from", "0.25.1", "--to", "0.33.0", "--gpu", "b200"], 0, "CG"),
    (["explain", "CG704"], 0, "CG704"),
    (["sweep"], 2, "error[CG905]"),
)
"""Words behind `cgplan`, the exit status, and a part of the output."""


def built(folder: Path) -> list[Path]:
    """The wheel and the sdist, built from a copy of the project's files."""
    copy = folder / "source"
    copy.mkdir()
    for name in contents.sources() | contents.PAGES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder / "dist", copy], check=True, capture_output=True)
    return sorted((folder / "dist").iterdir())


def environment(folder: Path, wheel: Path, pins: list[str]) -> Path:
    """A bare virtual environment with the wheel; its bin folder."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", "--disable-pip-version-check", str(wheel), *pins], check=True)
    subprocess.run([*pip, "check", "--quiet", "--disable-pip-version-check"], check=True)
    listed = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, text=True)
    packages = [f"{one['name']} {one['version']}" for one in json.loads(listed.stdout)]
    print(f"  {', '.join(packages)}")
    return folder / "bin"


def faults(bin_folder: Path, at: Path) -> list[str]:
    """The commands that do not do what they should, run in the folder `at`."""
    found = []
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for start in ([str(bin_folder / "cgplan")], [str(bin_folder / "python"), "-m", "cgplan"]):
        for words, status, part in COMMANDS:
            done = subprocess.run([*start, *words], capture_output=True, text=True, cwd=at, env=clean)
            if done.returncode != status or part not in done.stdout + done.stderr or "Warning" in done.stderr:
                told = (done.stderr or done.stdout).strip()[-400:]
                found.append(f"{' '.join([*start, *words])}: status {done.returncode}, not {status}: {told}")
    return found


def main() -> int:
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for archive in built(folder):
            wrong = contents.faults(archive)
            found += wrong
            print(f"{archive.name}: {len(contents.names(archive))} files, {archive.stat().st_size / 2**20:.1f} MiB")
        wheel = next((folder / "dist").glob("*.whl"))
        for what, pins in (("lowest", contents.lowest()), ("newest", [])):
            print(f"the {what} versions of the dependencies:")
            wrong = faults(environment(folder / what, wheel, pins), folder)
            print(f"  {2 * len(COMMANDS) - len(wrong)} of {2 * len(COMMANDS)} commands do what they should")
            found += [f"{what}: {fault}" for fault in wrong]
    for fault in found:
        print(fault, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
