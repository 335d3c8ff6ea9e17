"""What a grid's file may say, and that anything else is one line with the place and a fix."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sweep_helpers import BASE, SMALL

from cgplan.errors import InputError
from cgplan.sweep.grid_file import grid_of, read_grid


def with_(grid: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"base": BASE, "grid": grid, **more}


def shown(document: dict[str, Any], name: str) -> list[Any]:
    return next([value.shown for value in axis.values] for axis in grid_of(document).axes if axis.name == name)


def test_the_axes_that_change_least_come_last() -> None:
    names = [axis.name for axis in grid_of(SMALL).axes]
    assert names[-3:] == ["max_num_seqs", "max_model_len", "gpu_memory_utilization"]


def test_names_are_those_of_the_flags_in_any_spelling() -> None:
    grid = grid_of(with_({"--max-num-seqs": [8, 16], "tp": [1, 2], "spec_tokens": [1], "spec_method": ["ngram"]}))
    assert {axis.name for axis in grid.axes} == {
        "model", "gpu", "max_num_seqs", "tensor_parallel_size", "speculative_config.num_speculative_tokens",
        "speculative_config.method",
    }  # fmt: skip


def test_numbers_with_a_unit_are_read_as_vllm_reads_them() -> None:
    assert shown(with_({"max_model_len": ["8k", "8K", 100, "auto"]}), "max_model_len") == [8000, 8192, 100, -1]


def test_a_column_has_one_type() -> None:
    assert shown(with_({"cudagraph_capture_sizes": [[1, 2], "1 2 4"]}), "cudagraph_capture_sizes") == [
        "[1,2]",
        "[1,2,4]",
    ]
    assert shown(with_({"kv_cache_dtype": ["default", "fp8"]}), "kv_cache_dtype") == [None, "fp8"]


def test_keys_of_tables_are_options() -> None:
    document = with_(
        {"compilation_config": {"cudagraph_mode": ["FULL", "NONE"]}, "env": {"VLLM_USE_V2_MODEL_RUNNER": [0, 1]}}
    )
    assert grid_of(document).count == 4
    assert shown(document, "env.VLLM_USE_V2_MODEL_RUNNER") == ["0", "1"]


def test_a_list_in_exclude_means_each_of_its_values() -> None:
    document = with_({"max_num_seqs": [8, 16, 32], "tp": [1, 2]}, exclude=[{"max_num_seqs": [8, 16], "tp": 2}])
    assert grid_of(document).count == 4


def test_an_exclude_may_mean_the_option_not_given() -> None:
    document = with_({"dtype": ["default", "float16"], "tp": [1, 2]}, exclude=[{"dtype": "default", "tp": 2}])
    assert grid_of(document).count == 3


def test_a_model_is_looked_for_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048,
        "torch_dtype": "bfloat16", "model_type": "llama",
    }  # fmt: skip
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps(config))
    text = '[base]\nmodel = "./small"\ngpu = "l4"\n[grid]\nmax_num_seqs = [1, 2]\n'
    (tmp_path / "grid.toml").write_text(text)
    monkeypatch.chdir("/")
    first = read_grid(str(tmp_path / "grid.toml"))
    (tmp_path / "small" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    other = read_grid(str(tmp_path / "grid.toml"))
    assert first.key((0, 0, 0)) != other.key((0, 0, 0)), "another model, other records"


BAD = [
    ({"bas": {}}, "CG735", "did you mean base?"),
    ({"base": BASE}, "CG735", "write [grid]"),
    ({"base": [], "grid": {"tp": [1]}}, "CG735", "write [base]"),
    ({"grid": {"tp": [1]}}, "CG735", 'write model = "Qwen/Qwen3-8B" in [base]'),
    ({"base": {"model": "Qwen/Qwen3-8B"}, "grid": {"tp": [1]}}, "CG735", 'write gpu = "h100" in [base]'),
    (with_({"max_num_seq": [1]}), "CG901", "did you mean"),
    (with_({"dtype.x": [1]}), "CG901", "give dtype a value"),
    (with_({"max_num_seqs": 64}), "CG735", "write max_num_seqs = [64]"),
    (with_({"max_num_seqs": []}), "CG735", "write max_num_seqs"),
    (with_({"max_num_seqs": ["many"]}), "CG903", "8k"),
    (with_({"max_num_seqs": [0]}), "CG903", "8k"),
    (with_({"max_num_seqs": [True]}), "CG903", "8k"),
    (with_({"max_num_seqs": [8, "8"]}), "CG907", "drop one"),
    (with_({"tp": [1], "tensor_parallel_size": [2]}), "CG907", "drop one"),
    (with_({"gpu": ["h1000"]}), "CG904", None),
    (with_({"vllm": ["0.99"]}), "CG801", None),
    (with_({"vllm": [0.33]}), "CG903", "quotes"),
    (with_({"model": ["Qwen/Qwen3-8C"]}), "CG915", None),
    (with_({"cpu_offload_gb": [float("nan")]}), "CG903", "give text"),
    (with_({"limit_mm_per_prompt": [{"image": date(2026, 1, 1)}]}), "CG903", "give text"),
    (with_({"gpu_memory_utilization": [1.5]}), "CG903", "above 0 to 1"),
    (with_({"cudagraph_mode": ["FUL"]}), "CG902", "FULL"),
    (with_({"compilation_config": {"cudagraph_mod": ["FULL"]}}), "CG901", "did you mean"),
    (with_({"env": {"VLLM_USE_V3_MODEL_RUNNER": [1]}}), "CG901", "VLLM_USE_V2_MODEL_RUNNER"),
    (with_({"software": {"flashinf": [True]}}), "CG901", "did you mean flashinfer?"),
    (with_({"enable_lora": ["yes"]}), "CG903", "true or false"),
    (with_({"runner": ["pooling"]}), "CG735", "give it in [base]"),
    (with_({"tp": [1, 2]}, exclude=[{"dtype": "auto"}]), "CG735", "name one of"),
    (with_({"tp": [1, 2]}, exclude=[{"tp": 4}]), "CG735", "give one of 1, 2"),
    (with_({"tp": [1, 2]}, exclude=[{}]), "CG735", "name an option"),
    (with_({"tp": [1, 2]}, exclude={"tp": 1}), "CG735", "write [[exclude]]"),
    (with_({"tp": [1, 2]}, exclude=[{"tp": [1, 2]}]), "CG735", "exclude less"),
    (with_({"max_num_seqs": list(range(1, 2001)), "max_num_batched_tokens": list(range(1, 2001))}), "CG914", "split"),
]


@pytest.mark.parametrize(("document", "code", "fix"), BAD)
def test_anything_else_is_refused_with_its_place(document: dict[str, Any], code: str, fix: str | None) -> None:
    with pytest.raises(InputError) as caught:
        grid_of(document, "grid.toml")
    error = caught.value
    assert error.code == code, error.message
    assert error.where is not None
    assert error.where.startswith("grid"), error.where
    assert "\n" not in error.message
    if fix is not None:
        assert fix in (error.fix or ""), error.fix


@pytest.mark.parametrize(
    ("raw", "code"),
    [(b"[base", "CG735"), (b"\xff\xfe", "CG735"), (b"a = 1\na = 2\n", "CG735"), (b"#" * (2**20 + 1), "CG914")],
)
def test_a_file_that_is_no_toml(tmp_path: Path, raw: bytes, code: str) -> None:
    path = tmp_path / "grid.toml"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_grid(str(path))
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["nowhere.toml", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        read_grid(str(tmp_path / name))
    assert caught.value.code == "CG910"


def test_another_patch_of_a_release_is_read_by_the_known_one_and_said() -> None:
    grid = grid_of({"base": BASE, "grid": {"vllm": ["0.22.0", "0.33.0"]}})
    values = next(axis.values for axis in grid.axes if axis.name == "vllm")
    assert [value.shown for value in values] == ["0.22.1", "0.33.0"]
    assert len(grid.notes) == 1
    assert "0.22.0 goes by the rules of 0.22.1" in grid.notes[0]
    assert grid_of({"base": BASE, "grid": {"vllm": ["0.22.1", "0.33.0"]}}).notes == ()


def test_a_release_that_is_not_known_is_answered_with_what_a_grid_takes() -> None:
    with pytest.raises(InputError) as caught:
        grid_of({"base": BASE, "grid": {"vllm": ["0.99.0"]}})
    assert caught.value.code == "CG801"
    assert "--" not in (caught.value.fix or "--")
    assert "0.33.0" in (caught.value.fix or "")
    assert (caught.value.where or "").endswith("grid.vllm[0]")
