"""`cgplan plan`: what it prints, its exit status, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.memory.document_schema import PlanDocument

Run = Callable[..., tuple[int, str, str]]
QWEN = ["plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100"]
GIB = 1 << 30


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def document(cgplan: Run, *words: str, status: int = 0) -> dict[str, Any]:
    found, out, _ = cgplan(*words, "--json")
    assert found == status
    read: dict[str, Any] = json.loads(out)
    PlanDocument.model_validate(read)
    return read


class TestScreen:
    def test_a_model_that_fits(self, cgplan: Run) -> None:
        status, out, err = cgplan(*QWEN)
        assert (status, err) == (0, "")
        for word in (
            "It starts.", "weights", "KV cache", "stays free", "Concurrency", "--max-model-len", "--max-num-seqs",
            "vLLM will estimate", "Capture really takes", "PIECEWISE", "ESTIMATE_CUDAGRAPHS=0", "Assumed",
        ):  # fmt: skip
            assert word in out, word

    @pytest.mark.parametrize("columns", ["40", "60", "80", "200"])
    def test_no_line_is_wider_than_the_terminal(
        self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        for more in ([], ["--what-if", "max-num-seqs=1,1024"], ["--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2"]):
            lines = cgplan(*QWEN, *more)[1].splitlines()
            assert max(map(len, lines)) <= min(int(columns), 120), more

    def test_no_colour_in_a_pipe(self, cgplan: Run) -> None:
        assert "\x1b" not in cgplan(*QWEN)[1]

    def test_one_that_does_not(self, cgplan: Run) -> None:
        status, out, _ = cgplan("plan", "--model", "deepseek-ai/DeepSeek-V3", "--gpu", "h100")
        assert status == 1
        for word in ("It does not start.", "error CG560", "no --max-model-len starts"):
            assert word in out

    def test_a_default_model_is_said(self, cgplan: Run) -> None:
        status, out, _ = cgplan("plan", "--gpu", "h100")
        assert status == 0
        assert "a dense 8B decoder" in out

    def test_markdown(self, cgplan: Run) -> None:
        status, out, _ = cgplan(*QWEN, "--markdown")
        assert status == 0
        assert out.startswith("# Memory: vLLM")
        assert "| = | KV cache |" in out

    def test_compared(self, cgplan: Run) -> None:
        status, out, _ = cgplan(*QWEN, "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64")
        assert status == 0
        assert "tp 2" in out
        assert "B - A" in out
        assert "max_num_seqs" in out


class TestDocument:
    def test_contract(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN)
        assert found["gpu"] == "NVIDIA H100 80GB HBM3"
        assert isinstance(found["weights_bytes"], int)
        for name in ("activation_bytes", "non_torch_bytes", "graph_bytes", "kv_bytes"):
            assert found[name]["low"] <= found[name]["best"] <= found[name]["high"]
        for name in ("vllm_graph_estimate_bytes", "requested_bytes", "block_size", "num_blocks", "kv_tokens"):
            assert isinstance(found[name], int), name
        assert found["fits"] is True
        assert found["max_model_len_that_fits"] == 40960
        assert {"weights_bytes", "graph_bytes", "kv_bytes"} <= found["sources"].keys()

    def test_kv_bytes(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--kv-bytes", str(9 * GIB))
        assert found["kv_bytes"] == {"low": 9 * GIB, "best": 9 * GIB, "high": 9 * GIB}
        assert found["requested_bytes"] is None
        # 36 layers of 8 heads of 128, keys and values of 2 bytes: 2,304 KiB a block of 16 tokens.
        assert (found["num_blocks"], found["kv_tokens"]) == (4096, 65536)

    def test_given_values(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--weights-bytes", "20G", "--graph-bytes", "1G", "--free-bytes", "79G")
        assert found["weights_bytes"] == 20 * GIB
        assert found["graph_bytes"]["best"] == GIB
        assert found["free_bytes"]["best"] == 79 * GIB
        assert found["sources"]["weights_bytes"] == "as given"

    def test_flags_of_a_line_and_options_over_them(self, cgplan: Run) -> None:
        line = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.5", "--max-model-len", "auto"]
        status, out, _ = cgplan("plan", "--gpu", "h100", "--json", *line)
        assert status == 0
        found = json.loads(out)
        assert found["gpu_memory_utilization"] == 0.5
        assert not any("what fits is not looked at" in text for text in found["assumptions"])
        out = cgplan("plan", "--gpu", "h100", "--json", "--gpu-memory-utilization", "0.6", *line)[1]
        assert json.loads(out)["gpu_memory_utilization"] == 0.6

    def test_auto_length(self, cgplan: Run) -> None:
        found = document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--max-model-len", "auto")
        assert 0 < found["max_model_len"] < 40960

    def test_manual_cache(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--kv-cache-memory-bytes", "9G")
        assert found["kv_bytes"]["best"] == 9 * GIB
        assert found["graph_bytes_deducted"] == 0

    def test_does_not_start(self, cgplan: Run) -> None:
        found = document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", status=1)
        assert found["fits"] is False
        assert found["findings"][0]["code"] == "CG561"
        assert (
            document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--fail-on", "never")["starts"] == "no"
        )

    def test_compared_and_what_if(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2", "--what-if", "tp=1,2")
        assert found["compared_with"]["kv_tokens"] > found["kv_tokens"]
        one, two = found["what_if"]["rows"]
        assert (one["tokens"], two["tokens"]) == (found["kv_tokens"], found["compared_with"]["kv_tokens"])

    def test_schema(self, cgplan: Run) -> None:
        assert "PlanDocument" in json.loads(cgplan("schema", "plan")[1])["$defs"]
        assert json.loads(cgplan("schema", "profile")[1])["title"] == "Profile"


class TestWhatIf:
    @pytest.mark.parametrize(
        ("asked", "rows"),
        [
            ("max-num-seqs=1..5", 5),
            ("max-num-seqs=64..512:64", 8),
            ("--max-num-seqs=64, 128", 2),
            ("max-model-len=1k,8k,auto", 3),
            ("gpu-memory-utilization=0.5,0.9", 2),
            ("kv-cache-memory-bytes=1g,9G", 2),
            ("gpu=h100,l4", 2),
            ("vllm=0.28,0.33", 2),
            ("model=Qwen/Qwen3-8B,Qwen/Qwen3-30B-A3B", 2),
            ("cudagraph-capture-sizes=1 2 4;1 2 4 8", 2),
            ("cudagraph-mode=NONE,PIECEWISE,FULL", 3),
            ("enforce-eager=true,false", 2),
            ("kv-cache-dtype=auto,fp8", 2),
        ],
    )
    def test_values(self, cgplan: Run, asked: str, rows: int) -> None:
        found = document(cgplan, *QWEN, "--what-if", asked)["what_if"]["rows"]
        assert len(found) == rows
        assert any(row["fits"] for row in found)

    def test_a_value_that_vllm_refuses_is_a_row(self, cgplan: Run) -> None:
        rows = document(cgplan, *QWEN, "--what-if", "tensor-parallel-size=1,3")["what_if"]["rows"]
        assert [row["fits"] for row in rows] == [True, False]
        assert rows[1]["code"]

    @pytest.mark.parametrize(
        "asked",
        ["", "max-num-seqs", "max-num-seqs=", "=1", "max-num-seqs=1,,2", "max-num-seqs=9..1",
         "max-num-seqs=1..99999999",
         "max-num-seqs=1..5:0", "nonsense=1", "env=A=1", "enforce-eager=maybe", "gpu-memory-utilization=2", "gpu=nope",
         "max-num-seqs=x", "model=nope/nope"],
    )  # fmt: skip
    def test_refused(self, cgplan: Run, asked: str) -> None:
        status, out, err = cgplan(*QWEN, "--what-if", asked)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "fix: " in err


class TestProfile:
    def record(self, tmp_path: Path, **changes: Any) -> str:
        found: dict[str, Any] = {
            "schema_version": 1,
            "source": "start of today",
            "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3", "model": "Qwen/Qwen3-8B"},
            "measured": {"weights_bytes": 16 * GIB, "graph_bytes": GIB},
        }
        for name, value in changes.items():
            found[name] = {**found[name], **value} if isinstance(value, dict) else value
        path = tmp_path / "record.json"
        path.write_text(json.dumps(found), encoding="utf-8")
        return str(path)

    def test_its_values_are_taken(self, cgplan: Run, tmp_path: Path) -> None:
        found = document(cgplan, *QWEN, "--profile", self.record(tmp_path))
        assert (found["weights_bytes"], found["graph_bytes"]["best"]) == (16 * GIB, GIB)
        assert found["sources"]["weights_bytes"] == "start of today"

    def test_options_stand_over_it(self, cgplan: Run, tmp_path: Path) -> None:
        found = document(cgplan, *QWEN, "--profile", self.record(tmp_path), "--weights-bytes", "17G")
        assert found["weights_bytes"] == 17 * GIB

    @pytest.mark.parametrize(
        "changes",
        [
            {"fingerprint": {"gpu": "NVIDIA L4"}},
            {"fingerprint": {"vllm_version": "0.25.1"}},
            {"fingerprint": {"vllm_version": "9.9"}},
            {"fingerprint": {"max_num_seqs": 3}},
            {"fingerprint": {"nonsense": 3}},
            {"measured": {"weights_bytes": -1}},
            {"measured": {"weights_bytes": "16"}},
            {"schema_version": 2},
        ],
    )
    def test_what_does_not_fit_is_refused(self, cgplan: Run, tmp_path: Path, changes: dict[str, Any]) -> None:
        status, out, err = cgplan(*QWEN, "--profile", self.record(tmp_path, **changes))
        assert (status, out) == (2, "")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu-memory-utilization", "0"], ["--gpu-memory-utilization", "1.5"], ["--gpu-memory-utilization", "nan"],
        ["--kv-bytes", "-1"], ["--kv-bytes", "x"], ["--kv-bytes", "1G", "--kv-cache-memory-bytes", "1G"],
        ["--weights", "/nonexistent"], ["--weights", "/tmp", "--weights-bytes", "1"],
        ["--profile", "/nonexistent.json"],
        ["--compare-with", "'"], ["--compare-with", ""], ["--compare-with", "nonexistent.yaml"], ["--fail-on", "x"],
        ["--tensor-parallel-size", "x"],
    ],
)  # fmt: skip
def test_refused(cgplan: Run, words: list[str]) -> None:
    status, out, err = cgplan(*QWEN, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


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


def test_another_shape_does_not_stand_in_for_an_unknown_model(cgplan: Run) -> None:
    status, out, err = cgplan("plan", "--gpu", "h100", "--", "vllm", "serve", "acme/unknown-9b")
    assert (status, out) == (2, "")
    assert "acme/unknown-9b is not in the catalogue" in err
