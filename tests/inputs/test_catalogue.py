"""The catalogue: its list, its names, and what a user may call a model."""

from __future__ import annotations

import gzip
import importlib.util
import json
import time
from pathlib import Path

import pytest

from cgplan.errors import InputError
from cgplan.inputs.catalogue import catalogue_ids, load, resolve_model

TOOL = Path(__file__).parents[2] / "tools" / "build_catalogue.py"


def test_list_is_complete_and_quick() -> None:
    started = time.perf_counter()
    entries = catalogue_ids()
    assert time.perf_counter() - started < 0.5
    assert len(entries) == 179
    assert len({entry.model_id for entry in entries}) == 179
    assert all(entry.confidence and entry.architecture and entry.dtype for entry in entries)
    known = {entry.model_id: entry for entry in entries}
    assert known["Qwen/Qwen3-8B"].params == "8,190,735,360"


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen__Qwen3-8B", "qwen/qwen3-8b", "QWEN__QWEN3-8B"])
def test_spellings(name: str) -> None:
    shape = load(name)
    assert shape.name == "Qwen/Qwen3-8B"
    assert shape.head_size == 128
    assert shape.confidence == "two sources agree (llmfit, litgpt, maxtext, exact param count)"


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8C", "Qwen3-8B", "", "x" * 10_000, "\0", "a/b"])
def test_unknown_id(name: str) -> None:
    for ask in (load, resolve_model):
        with pytest.raises(InputError) as caught:
            ask(name)
        assert caught.value.code == "CG915"
        assert caught.value.fix
        assert len(caught.value.message) < 200


def test_nearest_names() -> None:
    with pytest.raises(InputError) as caught:
        resolve_model("Qwen3-8B")
    assert "Qwen/Qwen3-8B" in (caught.value.fix or "")


def test_existing_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Qwen" / "Qwen3-8B"
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(config))
    assert resolve_model("Qwen/Qwen3-8B").architectures == ("LlamaForCausalLM",)
    assert resolve_model(str(folder / "config.json")).architectures == ("LlamaForCausalLM",)
    assert resolve_model("qwen__qwen3-8b").architectures == ("Qwen3ForCausalLM",)


@pytest.mark.parametrize("path", ["./none", "/no/such/folder", "config.json", "~/no-such-folder", "models/none/"])
def test_missing_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        resolve_model(path)
    assert caught.value.code == "CG910"


def test_runner_is_passed_on() -> None:
    assert load("Qwen/Qwen3-8B", runner="pooling").runner_type == "pooling"


def test_tool_builds_the_same_bytes_twice(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("build_catalogue", TOOL)
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = tmp_path / "a__b"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    row = "| a/b | X | 1 | 2 GiB | bf16 | GQA | 9 | here | one source |"
    (tmp_path / "INDEX.md").write_text(f"| id | b |\n{row}\n")
    packed = tool.build(tmp_path)
    assert packed == tool.build(tmp_path)
    assert json.loads(gzip.decompress(packed))["models"] == {
        "a/b": {
            "params": "1",
            "weights": "2 GiB",
            "dtype": "bf16",
            "attention": "GQA",
            "confidence": "one source",
            "source": "here",
            "config": {"model_type": "llama"},
        }
    }
