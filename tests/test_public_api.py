"""The public names, what importing costs, and what the installed package holds."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import time
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import cgplan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent

PUBLIC = [
    "AttentionCGSupport",
    "AttentionOptions",
    "Batch",
    "CUDAGraphMode",
    "CapacityPlan",
    "CgplanError",
    "CompilationMode",
    "CompilationOptions",
    "Context",
    "Deployment",
    "Diagnostic",
    "Dispatch",
    "Gpu",
    "Graph",
    "InputError",
    "KVTransferOptions",
    "Measured",
    "MemoryFlags",
    "ModelShape",
    "Overrides",
    "PassOptions",
    "Report",
    "Resolution",
    "Runner",
    "Software",
    "SpeculativeOptions",
    "StartupError",
    "Tuning",
    "UsageContext",
    "check",
    "gpu",
    "load_model",
    "plan",
    "__version__",
    "resolve",
    "tune",
]


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def test_the_public_names_change_on_purpose_only() -> None:
    assert sorted(cgplan.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(cgplan, name) is not None
    assert name in dir(cgplan)


def test_every_public_name_but_the_version_is_documented() -> None:
    for name in PUBLIC:
        value = getattr(cgplan, name)
        if name != "__version__":
            assert value.__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cgplan.nothing


def test_resolve_is_a_function_whatever_was_imported_first() -> None:
    importlib.import_module("cgplan.resolve.grid")
    assert cgplan.resolve(cgplan.Deployment(max_num_seqs=64, attention_support="ALWAYS")).max_capture_size == 128


def test_the_readme_example_of_the_package_holds() -> None:
    assert cgplan.resolve(cgplan.Deployment(max_num_seqs=64)).max_capture_size == 128


def loaded(code: str) -> set[str]:
    """Top-level modules in a new interpreter after `code`."""
    script = f"{code}\nimport sys\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_the_package_costs_nothing() -> None:
    assert not loaded("import cgplan; cgplan.__version__") & {"pydantic", "rich", "typer", "torch", "packaging"}


def test_the_core_is_pure() -> None:
    code = (
        "from cgplan import Deployment, resolve\n"
        "found = resolve(Deployment(max_num_seqs=64))\n"
        "found.uniform_decode_coverage(); found.unreachable; found.dispatch(3)"
    )
    modules = loaded(code)
    assert "pydantic" in modules
    assert not modules & {"torch", "rich", "typer", "click", "numpy", "vllm", "transformers", "pynvml"}


def test_the_package_list_is_complete() -> None:
    """Every folder with code is packaged under the name that its place says."""
    listed = set(project()["tool"]["setuptools"]["packages"])
    found = set()
    for top, name in (("planner", "cgplan"), ("cli", "cgplan.cli")):
        for init in (ROOT / top).rglob("*.py"):
            inside = init.parent.relative_to(ROOT / top).parts
            found.add(".".join([name, *inside]))
    assert listed == found


def test_every_packaged_folder_is_a_package() -> None:
    for top in ("planner", "cli"):
        for file in (ROOT / top).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), file


def test_every_data_file_is_packaged() -> None:
    data = project()["tool"]["setuptools"]["package-data"]
    kept = {
        file
        for package, patterns in data.items()
        for pattern in patterns
        for file in (ROOT / "planner").joinpath(*package.split(".")[1:]).glob(pattern)
    }
    there = {
        file
        for file in (ROOT / "planner").rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc") and "__pycache__" not in file.parts
    }
    assert there <= kept


def test_the_package_directories_map_to_one_top_level_name() -> None:
    assert project()["tool"]["setuptools"]["package-dir"] == {"cgplan": "planner", "cgplan.cli": "cli"}
    assert {name.split(".")[0] for name in project()["tool"]["setuptools"]["packages"]} == {"cgplan"}


def can_build() -> bool:
    """The build back end of the declared version is here, so no network is needed."""
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not can_build(), reason="setuptools 77 or later is not installed")
def test_a_wheel_has_exactly_one_top_level_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    source = tmp_path / "source"
    copy_project(source)
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=120, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"cgplan"}
    assert "cgplan/py.typed" in names
    assert any(name.startswith("cgplan/cli/") for name in names)


def copy_project(target: Path) -> None:
    """The files that a build reads, so that it leaves none in the project."""
    target.mkdir()
    for name in ("planner", "cli"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target / name)
    if not (target / "README.md").exists():
        (target / "README.md").write_text("", encoding="utf-8")


@pytest.mark.parametrize("line", ["vllm serve 'x", None, 3, b"vllm serve m", ["vllm", 3], "", "ls", "x" * 1_000_000])
def test_a_line_that_cannot_be_used_is_an_input_error(line: Any) -> None:
    with pytest.raises(cgplan.InputError) as caught:
        cgplan.check(line)
    assert caught.value.code in ("CG905", "CG906")
    assert caught.value.fix


def test_a_line_of_any_length_takes_no_long() -> None:
    start = time.process_time()
    with pytest.raises(cgplan.InputError) as caught:
        cgplan.check("vllm serve m " + "x" * 10_000_000)
    assert caught.value.code == "CG914"
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "words",
    ["nohup vllm serve m --max-num-seqs 8", "exec vllm serve m", "sudo -E vllm serve m", "uv run vllm serve m",
     "numactl -N 0 vllm serve m", "docker run --gpus all vllm/vllm-openai:v0.30.0 m"],
)  # fmt: skip
def test_programs_in_front_are_read_as_in_a_script(words: str) -> None:
    report = cgplan.check(words.split())
    assert report.asked.args is not None
    assert report.asked.args.model == "m"
    assert report.asked.args == cgplan.check(words).asked.args


def test_a_command_in_one_word_is_read() -> None:
    report = cgplan.check(["vllm serve m --max-num-seqs 8"])
    assert report.asked.args is not None
    assert report.asked.args.get("max_num_seqs") == 8


@pytest.mark.parametrize(
    "batch", [{"num_tokens": "a"}, {"num_tokens": -1}, {"num_tokens": True}, {"num_tokens": 1.5},
              {"num_tokens": 2, "num_reqs": 3}, {"num_tokens": 2, "num_active_loras": -1}]
)  # fmt: skip
def test_a_batch_that_is_none_is_an_input_error(batch: Any) -> None:
    with pytest.raises(cgplan.InputError):
        cgplan.resolve(cgplan.Deployment()).dispatch(**batch)
