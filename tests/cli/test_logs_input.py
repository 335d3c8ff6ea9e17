"""What `cgplan logs` takes and refuses, and the secrets that it keeps."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from log_lines import BANNER, LOGS, Run, arguments, document, line, written

SECRETS = ("sk-live-0123456789abcdef", "hf_ABCDEFGHIJKLMNOP", "hunter2-word", "tok-9876543210")


class TestSecrets:
    @pytest.fixture
    def log(self, tmp_path: Path) -> str:
        key, hub, password, token = SECRETS
        return written(
            tmp_path / "secret.log",
            BANNER,
            arguments(
                model_tag="org/Model", api_key=[key], hf_token=hub, max_model_len=4096,
                kv_transfer_config={"kv_connector": "X", "kv_connector_extra_config": {"auth_token": token}},
                otlp_traces_endpoint=f"https://user:{password}@collector:4317",
            ),
            line(f"HF_TOKEN={hub} is set", level="WARNING"),
            line(f"Truncating max_cudagraph_capture_size to 40 for {key}", level="WARNING"),
            line(f"ValueError: cannot reach https://user:{password}@host/x with {key} and {token}", level="ERROR"),
            line("EngineCore failed to start.", level="ERROR"),
        )  # fmt: skip

    @pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"], ["--no-plan"]])
    def test_are_never_printed(self, cgplan: Run, log: str, form: list[str]) -> None:
        status, out, err = cgplan("logs", log, "--gpu", "h100", *form)
        assert status == 1
        for secret in SECRETS:
            assert secret not in out + err
            assert secret.replace("_", "\\_") not in out

    def test_what_is_no_secret_is_shown(self, cgplan: Run, log: str) -> None:
        (start,) = document(cgplan, log, status=1)["starts"]
        assert start["arguments"]["max_model_len"] == 4096
        assert start["model"] == "org/Model"

    def test_are_never_written(self, cgplan: Run, tmp_path: Path) -> None:
        text = (LOGS / "A01.txt").read_text(encoding="utf-8")
        log = written(
            tmp_path / "log", text.replace("'max_model_len': 8192", f"'max_model_len': 8192, 'api_key': '{SECRETS[0]}'")
        )
        path = tmp_path / "m.json"
        assert cgplan("logs", log, "--gpu", "h100", "--save", str(path))[0] == 0
        assert SECRETS[0] not in path.read_text(encoding="utf-8")


class TestInput:
    def test_standard_input(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        data = (LOGS / "A01.txt").read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert "Came up" in cgplan("logs", "-", "--gpu", "h100")[1]

    @pytest.mark.parametrize("text", ["", "hello\n", "GET /health 200\n" * 50])
    def test_no_start_is_said_in_one_line(self, cgplan: Run, tmp_path: Path, text: str) -> None:
        status, out, err = cgplan("logs", written(tmp_path / "x.log", text))
        assert (status, out) == (2, "")
        assert "CG985" in err

    def test_the_words_of_an_error_alone_are_read(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        words = b"max_num_seqs (1024) exceeds available Mamba cache blocks (512).\n"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words)))
        status, out, err = cgplan("logs", "-")
        assert (status, err) == (1, "")
        assert "error CG501" in out
        assert "--max-num-seqs 512" in out

    def test_no_start_in_json(self, cgplan: Run, tmp_path: Path) -> None:
        status, out, err = cgplan("logs", written(tmp_path / "x.log", "hello\n"), "--json")
        assert status == 2
        assert json.loads(out or err)["error"]["code"] == "CG985"

    def test_forms_that_are_not_known_are_counted(self, cgplan: Run, tmp_path: Path) -> None:
        log = written(
            tmp_path / "new.log", BANNER, arguments(model_tag="org/M"),
            line("Available KV cache memory: 58,11 GiB"), line("GPU KV cache size: 12 tokens of 16, Maximum"),
        )  # fmt: skip
        found = document(cgplan, log)
        assert found["not_recognised"] == 2
        assert found["starts"][0]["not_recognised"] == 2
        assert found["starts"][0]["kv_tokens"] is None
        assert "2 lines of vLLM with values that are not read" in cgplan("logs", log)[1]

    def test_a_file_that_is_not_there(self, cgplan: Run) -> None:
        status, _, err = cgplan("logs", "/no/such.log")
        assert status == 2
        assert "CG986" in err

    def test_a_line_behind_dashes(self, cgplan: Run) -> None:
        assert cgplan("logs", str(LOGS / "A01.txt"), "--", "vllm", "serve")[0] == 2

    def test_no_plan(self, cgplan: Run) -> None:
        found = document(cgplan, str(LOGS / "A01.txt"), "--no-plan")
        assert found["starts"][0]["plan"] is None
        out = cgplan("logs", str(LOGS / "A01.txt"), "--no-plan")[1]
        assert "Plan and log" not in out

    def test_why_there_is_no_plan(self, cgplan: Run) -> None:
        status, out, _ = cgplan("logs", str(LOGS / "A01.txt"))
        assert status == 0
        assert "No plan: the log does not name the GPU" in out
        assert "Came up" in out

    def test_an_unknown_gpu(self, cgplan: Run) -> None:
        assert cgplan("logs", str(LOGS / "A01.txt"), "--gpu", "h1000")[0] == 2
