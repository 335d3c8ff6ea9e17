"""`cgplan plan --profile`: what is taken from a measured record, and what is said of it."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from plan_cases import QWEN, Run, document

GIB = 1 << 30
RECORDS = Path(__file__).parents[2] / "docs" / "measurements" / "2026-11-30-h200" / "records.jsonl.gz"


class TestProfile:
    def record(self, tmp_path: Path, **changes: Any) -> str:
        found: dict[str, Any] = {
            "schema_version": 1,
            "source": "start of today",
            "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3", "model": "Qwen/Qwen3-8B"},
            "measured": {"weights_bytes": 16 * GIB, "graph_bytes": GIB},
        }
        for name, value in changes.items():
            found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
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

    def test_what_its_fingerprint_does_not_say_is_assumed(self, cgplan: Run, tmp_path: Path) -> None:
        found = document(cgplan, *QWEN, "--profile", self.record(tmp_path), "--max-num-seqs", "8")
        assert any("does not say" in text and "max_num_seqs" in text for text in found["assumptions"])
        record = self.record(tmp_path, fingerprint={"max_num_seqs": 8})
        found = document(cgplan, *QWEN, "--profile", record, "--max-num-seqs", "8")
        assert not any("max_num_seqs" in text for text in found["assumptions"])

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

    def of_vllm(self, tmp_path: Path, **changes: Any) -> str:
        """A record of the engine `vllm`: Qwen3-8B, 102 graphs in 4 seconds."""
        captures = [{"seconds": 4 / 102}] * 102
        profile = {"machine": {"engine": "vllm"}, "complete": True, "graphs": {"FULL": 51, "PIECEWISE": 51},
                   "vllm": None, "ranks": [{"captures": captures}]}  # fmt: skip
        return self.record(tmp_path, **{"profile": profile, **changes})

    def test_measured_values_have_no_bounds(self, cgplan: Run, tmp_path: Path) -> None:
        shown = cgplan(*QWEN, "--profile", self.of_vllm(tmp_path, measured={"graph_estimate_bytes": GIB // 2}))[1]
        assert "vLLM will estimate 0.50 GiB, as measured." in shown
        assert "Capture really takes 1.00 GiB, as measured." in shown
        assert "(1.00 to 1.00)" not in shown
        assert "Capture takes 4.0 s, as measured." in shown

    @pytest.mark.parametrize(
        "changes", [{"complete": False}, {"machine": {"engine": "synthetic"}}, {"graphs": {"FULL": 200}}, {"ranks": 3}]
    )
    def test_seconds_of_fewer_graphs_or_of_another_engine_are_not_taken(
        self, cgplan: Run, tmp_path: Path, changes: dict[str, Any]
    ) -> None:
        whole = json.loads(Path(self.of_vllm(tmp_path)).read_text())["profile"]
        assert "going by" in cgplan(*QWEN, "--profile", self.of_vllm(tmp_path, profile={**whole, **changes}))[1]

    def test_an_option_over_it_says_where_the_value_is_from(self, cgplan: Run, tmp_path: Path) -> None:
        found = document(cgplan, *QWEN, "--profile", self.record(tmp_path), "--graph-bytes", "2G")
        assert found["graph_bytes"]["best"] == 2 * GIB
        assert (found["sources"]["graph_bytes"], found["sources"]["weights_bytes"]) == ("as given", "start of today")

    def test_the_memory_that_is_given_is_the_gpus(self, cgplan: Run, tmp_path: Path) -> None:
        record = self.record(tmp_path, measured={"total_bytes": 79 * GIB, "free_bytes": 78 * GIB})
        found = document(cgplan, *QWEN, "--profile", record, "--gpu-memory-bytes", "70G")
        assert found["total_bytes"] == 70 * GIB
        assert any("--gpu-memory-bytes says another" in text for text in found["assumptions"])
        assert document(cgplan, *QWEN, "--profile", record)["total_bytes"] == 79 * GIB

    def test_memory_may_be_given_as_logs_print_it(self, cgplan: Run) -> None:
        assert document(cgplan, *QWEN, "--gpu-memory-bytes", "70.5GiB")["total_bytes"] == 70.5 * GIB

    def test_other_gpus_are_not_refused_for_its_bytes(self, cgplan: Run, tmp_path: Path) -> None:
        record = self.record(tmp_path, measured={"total_bytes": 79 * GIB, "free_bytes": 78 * GIB})
        rows = document(cgplan, *QWEN, "--profile", record, "--what-if", "gpu=h100,l40s")["what_if"]["rows"]
        assert [row["fits"] for row in rows] == [True, True]

    def test_another_deployment_beside_it_is_scaled(self, cgplan: Run, tmp_path: Path) -> None:
        words = (*QWEN, "--profile", self.record(tmp_path), "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2")
        found = document(cgplan, *words)
        assert found["compared_with"]["weights_bytes"] == pytest.approx(8 * GIB, rel=0.02)
        shown = " ".join(cgplan(*words)[1].split())
        assert "The record, for B • The record is of the other deployment" in shown
        assert "The record, for B" in cgplan(*words, "--markdown")[1]

    def test_the_same_deployment_beside_it_has_its_values(self, cgplan: Run, tmp_path: Path) -> None:
        words = (*QWEN, "--profile", self.record(tmp_path), "--compare-with", "vllm serve Qwen/Qwen3-8B --port 1")
        found = document(cgplan, *words)
        assert found["compared_with"]["weights_bytes"] == found["weights_bytes"] == 16 * GIB
        assert "of the other deployment" not in cgplan(*words)[1]

    def test_the_first_deployment_has_to_be_the_records(self, cgplan: Run, tmp_path: Path) -> None:
        words = (*QWEN, "-tp", "2", "--profile", self.record(tmp_path), "--compare-with", "vllm serve Qwen/Qwen3-8B")
        assert cgplan(*words)[0] == 2

    @pytest.mark.parametrize(
        ("cache", "said"), [(50.0, True), (None, False)], ids=["far from the plan", "the plan's own"]
    )
    def test_a_record_whose_kv_cache_is_not_the_plans_is_doubted(
        self, cgplan: Run, tmp_path: Path, cache: float | None, said: bool
    ) -> None:
        """As records whose fingerprint names other batches than ran had."""
        known = {"graph_estimate_bytes": GIB // 2}
        plain = document(cgplan, *QWEN, "--profile", self.record(tmp_path, measured=known))
        had = int(cache * GIB) if cache is not None else plain["stages"][0]["kv_bytes"]["best"]
        record = self.record(tmp_path, measured=known, profile={"vllm": {"available_kv_bytes": had}})
        words = (*QWEN, "--profile", record)
        assert any("when the record was made" in one for one in document(cgplan, *words)["assumptions"]) is said
        other = document(cgplan, *words, "--gpu-memory-utilization", "0.8")["assumptions"]
        assert not any("when the record was made" in one for one in other), "it may have had another share"

    def test_the_published_records_are_of_the_batches_that_ran(self, cgplan: Run, tmp_path: Path) -> None:
        lines = gzip.decompress(RECORDS.read_bytes()).decode().splitlines()
        found = next(one for one in map(json.loads, lines) if one["name"] == "vllm-Llama-3.1-8B-Instruct-256-v1-all")
        model = "meta-llama/Llama-3.1-8B-Instruct"
        line = ["plan", "--model", model, "--gpu", "h200", "--vllm", "0.25.1", "--max-model-len", "8192",
                "--max-num-seqs", "256", "--env", "VLLM_USE_V2_MODEL_RUNNER=0"]  # fmt: skip
        path = tmp_path / "published.json"
        path.write_text(json.dumps(found))
        status, _, err = cgplan(*line, "--max-num-batched-tokens", "16384", "--profile", str(path))
        assert status == 2
        assert "give --model as the record has it" in err, "and its name, which is no part of a record, is no fault"
        found["fingerprint"]["model"] = model
        path.write_text(json.dumps(found))
        made = document(cgplan, *line, "--max-num-batched-tokens", "16384", "--profile", str(path))
        assert not any("when the record was made" in text for text in made["assumptions"])
        assert cgplan(*line, "--max-num-batched-tokens", "8192", "--profile", str(path))[0] == 2

    def test_a_byte_order_mark_is_no_fault(self, cgplan: Run, tmp_path: Path) -> None:
        path = Path(self.record(tmp_path))
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert document(cgplan, *QWEN, "--profile", str(path))["weights_bytes"] == 16 * GIB

    def test_it_may_come_by_stdin(self, cgplan: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written = Path(self.record(tmp_path)).read_text()
        other = ("--compare-with", "vllm serve Qwen/Qwen3-8B --port 1")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
        found = document(cgplan, *QWEN, "--profile", "-", *other)
        assert (found["weights_bytes"], found["compared_with"]["weights_bytes"]) == (16 * GIB, 16 * GIB)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        status, _, err = cgplan(*QWEN, "--profile", "-")
        assert status == 2
        assert "stdin:1: not JSON: Expecting value" in err

    def test_what_is_wrong_names_the_file(self, cgplan: Run, tmp_path: Path) -> None:
        err = cgplan(*QWEN, "--profile", self.record(tmp_path, measured={"nonsense": 1}))[2]
        assert "record.json is no measured record: measured.nonsense" in err

    def test_its_words_move_no_cursor(self, cgplan: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "120")
        record = self.record(tmp_path, source="a\x1b[31m b\nc", profile={"crash": {"what": "x\x1b[2Jy"}})
        for form in ((), ("--markdown",)):
            shown = cgplan(*QWEN, "--profile", record, *form)[1]
            assert "\x1b" not in shown
            assert "a?[31m b?c" in shown.replace("\\", "")
