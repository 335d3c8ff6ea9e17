"""`cgplan profile` without a GPU: what it would do, and why it does not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from cgplan.cli.app import run

MODEL = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h200", "--vllm", "0.25.1")


def test_a_dry_run_says_what_would_be_captured_and_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *MODEL, "--max-num-seqs", "256", "--dry-run"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "FULL 8 of 35 graphs: 256, 248" in shown
    assert "Weights 13.98 GiB, random" in shown
    assert "Together at most" in shown


def test_a_dry_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *MODEL, "--dry-run", "--sample", "two", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["captured"] == {"PIECEWISE": 2, "FULL": 2}
    assert document["sizes"]["FULL"] == [512, 496]


def test_the_document_can_be_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    assert run(["profile", *MODEL, "--dry-run", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["graphs"] == {"PIECEWISE": 51, "FULL": 51}
    assert "Together" in capsys.readouterr().out
    assert run(["profile", *MODEL, "--dry-run", "--json", str(tmp_path / "no" / "x.json")]) == 2
    assert "CG910" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_it_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", *MODEL]) == 2
    said = capsys.readouterr().err
    assert "CG990" in said
    assert "pip install 'cgplan[profile]'" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "syntetic"), "did you mean synthetic"),
        (("--sample", "some"), "choose two, auto, all"),
        (("--engine", "callable"), "--target"),
        (("--target", "a:b"), "--engine callable"),
        (("--enforce-eager",), "capture no CUDA graphs"),
        (("--times", "1,x"), "--times"),
        (("--model", "deepseek-ai/DeepSeek-V3", "--dry-run"), "latent attention"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = () if "--model" in words else MODEL
    assert run(["profile", *model, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--times", "0"), "a step has 1 to 65,536 tokens"),
        (("--times", "99999"), "a step has 1 to 65,536 tokens"),
        (("--real-weights",), "--real-weights goes with --engine vllm"),
        (("--model", "deepseek-ai/DeepSeek-V3"), "latent attention"),
        (("-pp", "2"), "pipeline parallelism"),
    ],
)
def test_what_no_gpu_would_help_is_said_before_one_is_asked_for(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = MODEL[2:] if "--model" in words else MODEL
    assert run(["profile", *model, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "CG990" not in error


def test_the_need_is_not_below_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """An H200 had a peak of 15.94 GiB at 1,024 requests, and torch does not see all of it."""
    assert run(["profile", *MODEL, "--max-num-seqs", "1024", "--dry-run", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["total_bytes"] > 15.94 * (1 << 30)


class TestEngineVllm:
    WORDS = ("profile", "--engine", "vllm", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h200")

    def test_it_needs_vllm_before_it_needs_a_gpu(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*self.WORDS, "--dry-run"]) == 2
        assert "CG995" in capsys.readouterr().err

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
        assert run([*self.WORDS, *words, "--dry-run"]) == 2
        assert said in capsys.readouterr().err

    @pytest.mark.parametrize("installed", ["0.25.1", "0.25.1rc2.dev3+g0123abc"])
    def test_the_installed_release_decides_the_graphs(
        self, installed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
        assert run([*self.WORDS, "--dry-run"]) == 0
        assert "vLLM 0.25.1" in capsys.readouterr().out
