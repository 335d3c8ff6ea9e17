"""`cgplan plan` where the weights are given, cut, or not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan_cases import QWEN, Run, document


def write_weights(file: Path, header: dict[str, Any], data: int = 0) -> None:
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))


def test_a_part_of_the_weights_is_refused(cgplan: Run, tmp_path: Path) -> None:
    write_weights(tmp_path / "model-00001-of-00004.safetensors", {})
    status, out, err = cgplan(*QWEN, "--weights", str(tmp_path))
    assert (status, out) == (2, "")
    assert "holds 1 of 4 parts" in err


def test_no_tensors_are_refused(cgplan: Run, tmp_path: Path) -> None:
    write_weights(tmp_path / "model.safetensors", {})
    status, out, err = cgplan(*QWEN, "--weights", str(tmp_path))
    assert (status, out) == (2, "")
    assert "holds no tensors" in err


def test_tensors_of_something_else_are_a_warning(cgplan: Run, tmp_path: Path) -> None:
    entry = {"dtype": "BF16", "shape": [10, 10], "data_offsets": [0, 200]}
    write_weights(tmp_path / "model.safetensors", {"lm_head.weight": entry}, 200)
    read = document(cgplan, *QWEN, "--weights", str(tmp_path))
    assert [found["severity"] for found in read["findings"] if found["code"] == "CG917"] == ["warning"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("21.88GiB", 23493471109), ("3.86 GiB", 4144643441), ("21.88G", 23493471109), ("15G", 15 << 30),
        ("15GB", 15 * 10**9), ("15.5g", 15500000000), ("512MiB", 512 << 20),
    ],
)  # fmt: skip
def test_sizes_as_logs_print_them(cgplan: Run, text: str, size: int) -> None:
    assert document(cgplan, *QWEN, "--weights-bytes", text)["weights_bytes"] == size


def test_a_fraction_of_what_vllm_reads_itself_is_refused(cgplan: Run) -> None:
    status, _, err = cgplan(*QWEN, "--kv-cache-memory-bytes", "3.86G")
    assert status == 2
    assert "fraction of a binary unit" in err
    assert cgplan(*QWEN, "--weights-bytes", "-1.5GiB")[0] == 2


def test_bytes_of_0_leave_the_budget(cgplan: Run) -> None:
    assert document(cgplan, *QWEN, "--kv-cache-memory-bytes", "0")["kv_bytes"] == document(cgplan, *QWEN)["kv_bytes"]


@pytest.mark.parametrize("name", ["/nope", "./nope", "~/nope"])
def test_another_deployment_that_is_no_file(cgplan: Run, name: str) -> None:
    status, out, err = cgplan(*QWEN, "--compare-with", name)
    assert (status, out) == (2, "")
    assert f"{name}: no such file" in err


def test_a_shape_stands_in_for_weights_that_the_name_tells_of(cgplan: Run) -> None:
    line = ("--gpu", "h100", "--vllm", "0.20", "--json", "--", "vllm", "serve", "Qwen/Qwen3.6-27B-FP8")
    status, out, _ = cgplan("plan", *line, "--gpu-memory-utilization", "0.95")
    found = json.loads(out)
    assert status == 1
    assert [one["message"] for one in found["findings"] if one["severity"] == "error"] == [
        "max_num_seqs 1024 exceeds the 869 Mamba cache blocks"
    ]
    assert "CG596" in [one["code"] for one in found["findings"]]
    assert any("the shape of Qwen/Qwen3.6-27B in the place of" in text for text in found["assumptions"])
    words = ("--model", "Qwen/Qwen3.6-27B-FP8", "--gpu", "h100", "--vllm", "0.20", "--gpu-memory-utilization", "0.95")
    same = document(cgplan, "plan", *words, status=1)
    assert same["weights_bytes"] == found["weights_bytes"]
    assert any("the shape of Qwen/Qwen3.6-27B in the place of" in text for text in same["assumptions"])
    # A way of storing that is not known gives no weights.
    assert cgplan("plan", "--gpu", "h100", "--", "vllm", "serve", "someone/Qwen3-8B-GGUF")[0] == 2


def test_another_shape_does_not_stand_in_for_an_unknown_model(cgplan: Run) -> None:
    status, out, err = cgplan("plan", "--gpu", "h100", "--", "vllm", "serve", "acme/unknown-9b")
    assert (status, out) == (2, "")
    assert "acme/unknown-9b is not in the catalogue" in err
