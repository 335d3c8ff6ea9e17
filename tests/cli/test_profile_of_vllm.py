"""`cgplan profile --engine vllm` without a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
from profile_runs import dry_run

from cgplan import InputError
from cgplan.cli.app import run
from cgplan.memory.profile import device
from cgplan.memory.profile.device import Device


class TestEngineVllm:
    WORDS = ("profile", "--engine", "vllm", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h200")

    def test_a_measurement_needs_vllm_before_it_needs_a_gpu(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*self.WORDS]) == 2
        assert "CG995" in capsys.readouterr().err

    def test_a_dry_run_needs_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = dry_run((*self.WORDS[1:], "--vllm", "0.25.1"), capsys)
        assert found["vllm_version"] == "0.25.1"
        assert any("as --vllm says; vLLM is not installed here" in text for text in found["remarks"])
        assert found["fits"] == "yes"

    def test_its_memory_is_that_of_the_plan(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = (*self.WORDS[3:], "--vllm", "0.25.1")
        found = dry_run((*self.WORDS[1:], "--vllm", "0.25.1", "--sample", "all"), capsys)
        assert run(["plan", *words, "--json"]) == 0
        stage = json.loads(capsys.readouterr().out)["stages"][0]
        assert found["weights_bytes"] == stage["weights_bytes"]["best"]
        assert found["kv_bytes"] == stage["kv_bytes"]["best"]
        assert found["activation_bytes"] == stage["activation_bytes"]["best"]
        assert found["graph_bytes"] == found["captured_graph_bytes"]
        assert found["graph_bytes"]["best"] == stage["graph_bytes"]["best"]
        idle = found["total_bytes"] - stage["unused_bytes"]["best"]
        assert found["most_bytes"] == idle + found["activation_bytes"], "at the peak of a step"

    def test_the_graphs_that_are_not_captured_are_not_counted(self, capsys: pytest.CaptureFixture[str]) -> None:
        every, few = (dry_run((*self.WORDS[1:], "--sample", sample), capsys) for sample in ("all", "two"))
        less = every["captured_graph_bytes"]["best"] - few["captured_graph_bytes"]["best"]
        assert less > 0
        assert every["most_bytes"] - few["most_bytes"] == less

    def test_a_start_that_fails_is_said_with_a_way_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = (*self.WORDS[1:-1], "l4")
        found = dry_run(words, capsys, 2)
        assert found["problem"]["code"] == "CG992"
        assert "does not start on NVIDIA L4" in found["problem"]["message"]
        length = found["problem"]["fix"].split()[1].rstrip(",")
        assert dry_run((*words, "--max-model-len", length), capsys)["fits"] == "yes"

    def test_the_memory_flags_of_a_line_count(self, capsys: pytest.CaptureFixture[str]) -> None:
        def of(*flags: str) -> dict[str, Any]:
            line = ("--", "vllm", "serve", "Qwen/Qwen3-8B", *flags)
            assert run(["profile", "--engine", "vllm", "--gpu", "h100", "--dry-run", "--json", "-", *line]) in (0, 2)
            found: dict[str, Any] = json.loads(capsys.readouterr().out)
            return found

        half, given = of("--gpu-memory-utilization", "0.5"), of("--kv-cache-memory-bytes", "8G")
        assert of()["kv_bytes"] - half["kv_bytes"] == pytest.approx(0.42 * half["total_bytes"], rel=0.001)
        assert "0.5 of the GPU, as --gpu-memory-utilization says" in half["remarks"][-1]
        assert given["kv_bytes"] == 8 << 30

    def test_the_engine_is_given_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[dict[str, Any]] = []

        def engine(model: str, arguments: dict[str, Any], env: Any, dummy: bool) -> Any:
            asked.append(arguments)
            raise InputError("far enough", code="CG995", where="", fix="")

        here = Device(0, "NVIDIA H200", 150 << 30, 149 << 30, (9, 0), "1", "2", "13")
        monkeypatch.setattr(device, "look", lambda index: here)
        monkeypatch.setattr("importlib.metadata.version", lambda name: "0.25.1")
        monkeypatch.setattr("cgplan.memory.profile.vllm_engine.VllmEngine", engine)
        line = ("--", "vllm", "serve", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.5")
        assert run(["profile", "--engine", "vllm", "--gpu", "h200", *line]) == 2
        assert [one["gpu_memory_utilization"] for one in asked] == [0.5]

    def test_a_line_names_the_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        line = ("--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct")
        assert run(["profile", "--engine", "vllm", "--gpu", "h200", "--dry-run", *line]) == 0
        assert "Llama-3.1-8B-Instruct on NVIDIA H200" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "said"), [(("-tp", "2"), "runs on one GPU"), (("--vllm", "0.22.1"), "of 0.23.0 to 0.33.0 only")]
    )
    def test_what_a_measurement_would_refuse_a_dry_run_refuses(
        self, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*self.WORDS, *words, "--dry-run"]) == 2
        assert said in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("installed", "words", "said"),
        [
            ("0.22.1", (), "its captures can be read of 0.23.0 to 0.33.0 only"),
            ("0.25.1", ("--vllm", "0.33"), "--vllm says 0.33, and vLLM 0.25.1 is installed"),
        ],
    )
    def test_another_release_is_refused(
        self,
        installed: str,
        words: tuple[str, ...],
        said: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
        assert run([*self.WORDS, *words]) == 2
        assert said in capsys.readouterr().err

    def test_a_dry_run_may_be_of_another_release_than_the_installed_one(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("importlib.metadata.version", lambda name: "0.25.1")
        found = dry_run((*self.WORDS[1:], "--vllm", "0.33.0"), capsys)
        assert found["vllm_version"] == "0.33.0"
        assert any("vLLM 0.25.1 is installed here" in text for text in found["remarks"])

    @pytest.mark.parametrize("installed", ["0.25.1", "0.25.1rc2.dev3+g0123abc"])
    def test_the_installed_release_decides_the_graphs(
        self, installed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
        assert run([*self.WORDS, "--dry-run"]) == 0
        assert "vLLM 0.25.1" in capsys.readouterr().out
