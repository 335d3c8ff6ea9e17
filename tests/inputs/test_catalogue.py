"""The catalogue: its list, its names, and what a user may call a model."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from cgplan import Deployment, resolve
from cgplan.errors import InputError
from cgplan.inputs.catalogue import catalogue_ids, load, load_model
from cgplan.releases.gpus import gpu

TOOL = Path(__file__).parents[2] / "tools" / "build_catalogue.py"


def test_list_is_complete_and_quick() -> None:
    started = time.perf_counter()
    entries = catalogue_ids()
    assert time.perf_counter() - started < 0.5
    assert len(entries) == 180
    assert len({entry.model_id for entry in entries}) == 180
    assert all(entry.confidence and entry.architecture and entry.dtype for entry in entries)
    known = {entry.model_id: entry for entry in entries}
    assert known["Qwen/Qwen3-8B"].params == 8_190_735_360


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen__Qwen3-8B", "qwen/qwen3-8b", "QWEN__QWEN3-8B"])
def test_spellings(name: str) -> None:
    shape = load(name)
    assert shape.name == "Qwen/Qwen3-8B"
    assert shape.head_size == 128
    assert shape.confidence == "two sources agree (llmfit, litgpt, maxtext, exact param count)"


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8C", "Qwen3-8B", "", "x" * 10_000, "\0", "a/b"])
def test_unknown_id(name: str) -> None:
    for ask in (load, load_model):
        with pytest.raises(InputError) as caught:
            ask(name)
        assert caught.value.code == "CG915"
        assert caught.value.fix
        assert len(caught.value.message) < 200


def test_nearest_names() -> None:
    with pytest.raises(InputError) as caught:
        load_model("Qwen3-8B")
    assert "Qwen/Qwen3-8B" in (caught.value.fix or "")


def test_existing_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "Qwen" / "Qwen3-8B"
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model("Qwen/Qwen3-8B").architectures == ("LlamaForCausalLM",)
    assert load_model(str(folder / "config.json")).architectures == ("LlamaForCausalLM",)
    assert load_model("qwen__qwen3-8b").architectures == ("Qwen3ForCausalLM",)


@pytest.mark.parametrize(
    "path",
    ["./none", "/no/such/folder", "config.json", "~/no-such-folder", "~no-such-user", "~\0", "models/none/"],
)
def test_missing_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert caught.value.code == "CG910"


def test_runner_is_passed_on() -> None:
    assert load("Qwen/Qwen3-8B", runner="pooling").runner_type == "pooling"


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("build_catalogue", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_params_are_numbers_or_none() -> None:
    known = {entry.model_id: entry.params for entry in catalogue_ids()}
    assert all(params is None or params > 10**6 for params in known.values())
    assert known["meta-llama/Llama-2-70b-hf"] == 68_976_653_312
    assert known["zai-org/GLM-5.3-FP8"] is None


def test_no_note_says_what_only_its_writer_can_follow(tool: Any) -> None:
    for entry in catalogue_ids():
        for text in (entry.source, entry.confidence, entry.weights, entry.attention):
            assert not tool.LEAKS.search(text), entry.model_id
            assert not re.search(r"_string|\bcsv\b|\bids? \d{4,}", text), entry.model_id


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            "an_index id 12345 (a test) + id 67890 (b)",
            "a public source file (a test) + another public source file (b)",
        ),
        ("an_index ids 1234 (args), 5678 and 9012 (same)", "public source files (args; same)"),
        ("torch_dtype from the csv", "torch_dtype from a log of the model running"),
        ("github a/b c.json", "github a/b c.json"),
    ],
)
def test_notes_are_put_into_words(tool: Any, text: str, note: str) -> None:
    assert tool.note(text) == note


def test_a_note_without_wording_stops_the_build(tool: Any) -> None:
    with pytest.raises(ValueError, match="no wording"):
        tool.note("see csv row 3")


@pytest.mark.parametrize(
    ("text", "number"),
    [("8,190,735,360", 8_190_735_360), ("68,976 (a mirror)", 68_976), ("", None), ("about 8", None), ("1.5", None)],
)
def test_params_are_read(tool: Any, text: str, number: int | None) -> None:
    assert tool.number_of(text) == number


UNKNOWN_TO_VLLM = {"MiniMaxAI/MiniMax-M3", "stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8"}
"""Their config.json names an architecture that no registry of vLLM has."""


def test_the_whole_catalogue_resolves_but_what_is_marked() -> None:
    assert {entry.model_id for entry in catalogue_ids() if not entry.served} == UNKNOWN_TO_VLLM
    for entry in catalogue_ids():
        if entry.served:
            shape = load(entry.model_id)
            assert resolve(Deployment(model=shape, gpu=gpu("b200"))).graph_count() > 0, entry.model_id


@pytest.mark.parametrize("name", sorted(UNKNOWN_TO_VLLM))
def test_a_marked_model_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name)
    assert caught.value.code == "CG913"
    assert "the registry of 0.33.0 was looked at" in caught.value.message
    assert caught.value.where == f"{name}: architectures"


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("XXXX", "give a model of an architecture that vLLM knows"),
        ("LlamaaForCausalLM", "nearest known: LlamaForCausalLM"),
        ("Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration"),
    ],
)
def test_an_unknown_architecture_names_the_file_and_what_is_near(name: str, fix: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"architectures": [name], "model_type": "llama"}))
    with pytest.raises(InputError) as caught:
        load_model(str(path))
    assert caught.value.code == "CG913"
    assert caught.value.where == f"{path}: architectures"
    assert fix in (caught.value.fix or "")


def test_an_unknown_model_points_to_the_list() -> None:
    with pytest.raises(InputError) as caught:
        load_model("bogus")
    assert "cgplan models" in (caught.value.fix or "")


def test_tool_builds_the_same_bytes_twice(tool: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a__b"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    row = "| a/b | X | 1 | 2 GiB | bf16 | GQA | 9 | here | one source |"
    (tmp_path / "INDEX.md").write_text(f"| id | b |\n{row}\n")
    packed = tool.build(tmp_path)
    assert packed == tool.build(tmp_path)
    assert json.loads(gzip.decompress(packed))["models"] == {
        "a/b": {
            "params": 1,
            "weights": "2 GiB",
            "dtype": "bf16",
            "attention": "GQA",
            "confidence": "one source",
            "source": "here",
            "config": '{"model_type":"llama"}',
        }
    }


def test_a_model_that_is_named_again_is_not_worked_out_again() -> None:
    first = load_model("Qwen/Qwen3-8B")
    assert load_model("qwen__qwen3-8b") is first
    assert load_model("Qwen/Qwen3-8B", runner="pooling") is not first


def test_a_coder_has_the_parameters_of_its_checkpoint() -> None:
    shape, sibling = load("Qwen/Qwen3-Coder-30B-A3B-Instruct"), load("Qwen/Qwen3-30B-A3B")
    assert (shape.max_model_len, sibling.max_model_len) == (262_144, 40_960)
    known = {entry.model_id: entry.params for entry in catalogue_ids()}
    assert known[str(shape.name)] == known[str(sibling.name)] == 61_064_245_248 // 2


def test_new_models_are_added_to_those_there_are(tmp_path: Path, tool: Any) -> None:
    def packed(names: list[str], kept: dict[str, object] | None = None) -> bytes:
        folder = tmp_path / "-".join(names)
        for name in names:
            (folder / f"a__{name}").mkdir(parents=True)
            (folder / f"a__{name}" / "config.json").write_text(json.dumps({"hidden_size": len(names)}))
        (folder / "INDEX.md").write_text("")
        found: bytes = tool.build(folder, kept)
        return found

    both = packed(["b", "c"])
    old = json.loads(gzip.decompress(packed(["b"])))["models"]
    added = json.loads(gzip.decompress(packed(["c"], old)))["models"]
    assert list(added) == list(json.loads(gzip.decompress(both))["models"]) == ["a/b", "a/c"]
    assert added["a/b"] == old["a/b"]
