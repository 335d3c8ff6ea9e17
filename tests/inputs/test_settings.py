"""Settings of a project: which file counts, what it may hold, and which paths its patterns mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.settings import EXAMPLES, READERS, Settings, as_options, load, matches, settings_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


EVERYTHING = """\
vllm = "0.29.0"
gpu = "h200"
gpus-per-node = 8
model = "Qwen/Qwen3-8B"
software = { flashinfer = false, torch = "2.9" }
env = ["VLLM_USE_V2_MODEL_RUNNER=1"]
select = ["CG2", "CG9"]
ignore = ["CG975"]
exclude = ["charts/"]
fail-on = "warning"
output = "concise"
per-file-ignores = { "examples/*" = ["CG905"] }
"""


def test_everything_is_read(folder: Path) -> None:
    path = write(folder / "cgplan.toml", EVERYTHING)
    assert load(str(path)) == Settings(
        file=str(path),
        vllm="0.29.0",
        gpu="h200",
        gpus_per_node=8,
        software=("flashinfer=false", "torch=2.9"),
        env=("VLLM_USE_V2_MODEL_RUNNER=1",),
        model="Qwen/Qwen3-8B",
        select=("CG2", "CG9"),
        ignore=("CG975",),
        per_file_ignores=(("examples/*", ("CG905",)),),
        exclude=("charts/",),
        fail_on="warning",
        output="concise",
    )
    assert dict(as_options(load(str(path))))["gpus_per_node"] == "8"


def test_the_nearest_file_counts(folder: Path) -> None:
    write(folder / "pyproject.toml", '[tool.cgplan]\nvllm = "0.25.1"\n')
    write(folder / "a" / "cgplan.toml", 'vllm = "0.26.0"\n')
    (folder / "a" / "b").mkdir()
    write(folder / "c" / "pyproject.toml", '[tool.other]\nx = "cgplan"\n')
    assert settings_of(folder).vllm == "0.25.1"
    assert settings_of(folder / "a" / "b").vllm == "0.26.0"
    assert settings_of(folder / "c").vllm == "0.25.1"


def test_of_two_in_one_folder_the_own_file_counts(folder: Path) -> None:
    write(folder / "pyproject.toml", '[tool.cgplan]\nvllm = "0.25.1"\n')
    write(folder / "cgplan.toml", 'vllm = "0.26.0"\n')
    assert settings_of(folder).vllm == "0.26.0"


def test_a_broken_pyproject_of_others_is_not_looked_at(folder: Path) -> None:
    write(folder / "pyproject.toml", "[tool.other\n")
    assert settings_of(folder).file is None or "pyproject" not in Path(settings_of(folder).file or "").name


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ('fail_on = "error"', "unknown setting 'fail_on'", "did you mean fail-on?"),
        ('zzz = "error"', "unknown setting 'zzz'", "give one of vllm, gpu"),
        ("vllm = 0.33", "vllm is not a text", 'write vllm = "0.33.0"'),
        ("gpus-per-node = true", "gpus-per-node is not a whole number", "write gpus-per-node = 8"),
        ("gpus-per-node = 0", "gpus-per-node is not a whole number", "write gpus-per-node = 8"),
        ('select = "CG9"', "select is not a list of texts", "write select"),
        ("env = 3", "env is not a table of names and values", "write env"),
        ('env = ["X"]', "env is not a table of names and values", "write env"),
        ("env = { A = [1] }", "env is not a table", "write env"),
        ('per-file-ignores = ["a"]', "per-file-ignores is not a table of patterns", "write per-file-ignores"),
        ('fail-on = "all"', "fail-on is not one of error, warning, info, never", "write fail-on"),
        ('output = "xml"', "output is not one of text", "write output"),
        ('gpu = " "', "gpu is not a text", "write gpu"),
        ("vllm = ", "is not TOML", "mend it"),
    ],
)
def test_what_cannot_be_used_is_said(folder: Path, text: str, message: str, fix: str) -> None:
    path = write(folder / "cgplan.toml", text)
    with pytest.raises(InputError) as caught:
        load(str(path))
    assert caught.value.code == "CG970"
    assert message in caught.value.message
    assert str(path) in (caught.value.where or "")
    assert (caught.value.fix or "").startswith(fix)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = 1\n" * 200_000, b"a = " + b"[" * 100_000], ids=len)
def test_no_content_is_too_odd(folder: Path, content: bytes) -> None:
    path = folder / "cgplan.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="settings"):
        load(str(path))


def test_a_file_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        load(str(folder / "none.toml"))
    with pytest.raises(InputError, match="cannot read"):
        load(str(folder))


def test_every_setting_has_an_example_that_is_right(folder: Path) -> None:
    assert EXAMPLES.keys() == READERS.keys()
    for number, example in enumerate(EXAMPLES.values()):
        load(str(write(folder / f"{number}.toml", example.removeprefix("write "))))


def test_a_model_beside_the_file_is_found(folder: Path) -> None:
    write(folder / "shape" / "config.json", "{}")
    assert load(str(write(folder / "cgplan.toml", 'model = "shape"'))).model == str(folder / "shape")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.yaml", "a/b.yaml", True),
        ("*.yaml", "a/b.yml", False),
        ("charts", "charts/a/b.yaml", True),
        ("charts/", "x/charts/b.yaml", True),
        ("charts", "my-charts/b.yaml", False),
        ("x/charts", "x/charts/b.yaml", True),
        ("x/charts", "y/x/charts/b.yaml", False),
        ("./x/*", "x/b.yaml", True),
        ("x/*.yaml", "x/y/b.yaml", False),
        ("x/**/b.yaml", "x/b.yaml", True),
        ("x/**/b.yaml", "x/y/z/b.yaml", True),
        ("**/b.yaml", "x/y/b.yaml", True),
        ("v[0-9].yaml", "v1.yaml", True),
        ("v[!0-9].yaml", "v1.yaml", False),
        ("v[z-a]", "v[z-a]", True),
        ("a?", "a\n", True),
        ("a.yaml", "aXyaml", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool, folder: Path) -> None:
    assert matches(pattern, str(folder / path), folder) is fits


def test_patterns_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "cgplan.toml", 'exclude = ["x/*"]\nignore = ["CG1"]\nper-file-ignores = { "*.sh" = ["CG2"] }')
    settings = settings_of(folder / "y")
    monkeypatch.chdir(folder)
    assert settings.excludes("x/a.yaml")
    assert settings.excludes(str(folder / "x" / "a.yaml"))
    assert not settings.excludes("y/x/a.yaml")
    assert settings.ignored_in("y/a.sh") == ("CG1", "CG2")
    assert settings.ignored_in("y/a.yaml") == ("CG1",)


@given(st.text(max_size=30), st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=30))
def test_any_pattern_is_taken(pattern: str, path: str) -> None:
    assert matches(pattern, path, Path("/")) in (True, False)
