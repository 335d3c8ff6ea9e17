"""`cgplan profile` without a GPU: what it would do, and why it does not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from profile_runs import MODEL, applied, dry_run, shown_by

from cgplan import InputError
from cgplan.cli.app import run
from cgplan.cli.output_file import check_writable
from cgplan.cli.profile import _Run
from cgplan.memory.profile import device
from cgplan.memory.profile.descriptors import Descriptor
from cgplan.memory.profile.device import Device
from cgplan.memory.profile.extrapolate import Captured
from cgplan.memory.profile.measure import Measured
from cgplan.vocabulary import CUDAGraphMode


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
        (("--device", "-1"), "GPUs count from 0"),
        (("--engine", "callable", "--target", "make_step"), "no MODULE:FACTORY"),
        (("--engine", "callable", "--target", "steps:", "--dry-run"), "no MODULE:FACTORY"),
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
    assert json.loads(capsys.readouterr().out)["most_bytes"] > 15.94 * (1 << 30)


class TestDryRun:
    def test_its_document_says_what_was_asked(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = dry_run((*MODEL, "--sample", "two", "-tp", "2"), capsys)
        asked = {name: found[name] for name in ("model", "gpu", "layout", "vllm_version", "engine", "sample")}
        assert asked == {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "gpu": "NVIDIA H200",
            "layout": "tp 2",
            "vllm_version": "0.25.1",
            "engine": "synthetic",
            "sample": "two",
        }
        assert found["assumptions"]
        assert (found["fits"], found["problem"]) == ("yes", None)

    def test_a_model_that_is_not_named_has_a_name_in_the_title(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown_by(("--gpu", "h100", "--dry-run"), capsys).startswith("a dense 8B decoder on NVIDIA H100")
        assert dry_run(("--gpu", "h100"), capsys)["model"] is None

    def test_sizes_with_adapters_stand_by_themselves(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = (*MODEL, "--enable-lora", "--max-loras", "1", "--cudagraph-capture-sizes", "8", "4", "--sample", "all")
        shown = shown_by((*words, "--dry-run"), capsys)
        assert "FULL 4 of 4 graphs: without adapters 8, 4; with 2 adapters 8, 4" in shown
        found = dry_run(words, capsys)
        assert found["sizes"]["FULL"] == [8, 4]
        full = [(one["num_tokens"], one["num_active_loras"]) for one in found["captures"] if one["mode"] == "FULL"]
        assert sorted(full) == [(4, 0), (4, 2), (8, 0), (8, 2)]

    def test_without_adapters_nothing_is_said_of_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "adapter" not in shown_by((*MODEL, "--dry-run"), capsys)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--model", "Qwen/Qwen3-8B", "-q", "fp8"), "weights are bfloat16, not fp8"),
            (("--model", "nvidia/Llama-3.1-8B-Instruct-NVFP4"), "weights are bfloat16, not nvfp4"),
            (("--model", "Qwen/Qwen3-8B", "-q", "fp8", "--dtype", "float16"), "weights are float16, not fp8"),
        ],
    )
    def test_quantised_weights_are_said_to_be_others(
        self, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert any(said in note for note in dry_run((*words, "--gpu", "h200"), capsys)["notes"])

    def test_plain_weights_are_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert not any("weights are" in note for note in dry_run(MODEL, capsys)["notes"])

    def test_what_does_not_fit_is_an_error_with_a_way_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ("--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "l4")
        shown = shown_by((*words, "--dry-run"), capsys, 2)
        assert "error CG992" in shown
        assert "NVIDIA L4 has 22.0 GiB: it does not fit" in shown
        assert "-tp 8" in shown
        found = dry_run(words, capsys, 2)
        assert found["fits"] == "no"
        assert found["problem"]["fix"].startswith("-tp 8")
        assert dry_run((*words, "-tp", "8"), capsys)["fits"] == "yes", "the way out is one"

    def test_what_may_not_fit_is_a_warning(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Between what is needed at least and at most."""
        words = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "l4", "--gpu-memory-bytes")
        auto, two = (dry_run((*words, "24G", *more), capsys) for more in ((), ("--sample", "two")))
        least, enough = auto["least_bytes"], str(two["most_bytes"] + (1 << 20))
        found = dry_run((*words, str(least + (100 << 20))), capsys)
        assert found["fits"] == "unsure"
        assert "--sample two" not in found["problem"]["fix"], "it would not do"
        assert dry_run((*words, enough), capsys)["problem"]["fix"].startswith("--sample two with --times none")
        assert dry_run((*words, enough, "--sample", "two", "--times", "none"), capsys)["fits"] == "yes"
        assert "warning CG992" in shown_by((*words, str(least + (100 << 20)), "--dry-run"), capsys)

    @pytest.mark.parametrize("engine", ["synthetic", "vllm"])
    def test_the_parts_add_up(self, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
        found = dry_run((*MODEL, "--engine", engine), capsys)
        parts = sum(found[f"{name}_bytes"] for name in ("weights", "kv", "activation", "non_torch"))
        graphs = found["captured_graph_bytes"]
        more = graphs["best"] if engine == "vllm" else 2 * graphs["high"]
        assert found["most_bytes"] == parts + more

    def test_a_size_that_is_timed_makes_the_largest_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        plain, timed = (dry_run((*MODEL, *more), capsys) for more in ((), ("--times", "1,8192")))
        assert plain["activation_bytes"] * 15 < timed["activation_bytes"], "16 times the tokens of the largest graph"
        assert dry_run((*MODEL, "--times", "512"), capsys)["activation_bytes"] == plain["activation_bytes"]

    def test_a_step_that_vllm_never_runs_is_not_timed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["profile", *MODEL, "--dry-run", "--times", "8193"]) == 2
        said = capsys.readouterr().err
        assert "max_num_batched_tokens is 8,192" in said
        assert "--max-num-batched-tokens 8193" in said
        dry_run((*MODEL, "--times", "8193", "--max-num-batched-tokens", "8193"), capsys)

    def test_a_target_of_its_own_is_not_bound_by_vllm(self, capsys: pytest.CaptureFixture[str]) -> None:
        dry_run(("--engine", "callable", "--target", "a:b", "--gpu", "h200", "--times", "60000"), capsys)

    @pytest.mark.parametrize(
        "words",
        [
            ("--model", "MiniMaxAI/MiniMax-M2", "--gpu", "b300"),
            ("--model", "Qwen/Qwen3-235B-A22B", "--gpu", "l40s"),
            ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "a10", "--gpu-memory-bytes", "8G"),
            ("--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "l4"),
            ("--engine", "vllm", "--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "h200"),
            ("--engine", "vllm", "--model", "ibm-granite/granite-4.0-h-small", "--gpu", "h100"),
            ("--engine", "vllm", "--model", "deepseek-ai/DeepSeek-V2-Lite", "--gpu", "a10"),
            ("--engine", "vllm", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen3-8B",
             "--gpu-memory-utilization", "0.8"),
        ],
    )  # fmt: skip
    def test_every_way_out_is_one(self, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
        """Each is put on the line, and the dry run says that it fits."""
        found = applied(words, "", capsys)
        assert found["problem"] is not None
        for way in found["problem"]["fix"].split(", or "):
            assert applied(words, way.split(" (")[0], capsys)["fits"] == "yes", way

    def test_no_engine_sends_to_the_other_in_vain(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Latent attention, which the decoder has not, of a model that no single GPU holds."""
        words = ("--model", "deepseek-ai/DeepSeek-V3", "--gpu", "h100")
        assert "--engine synthetic" not in dry_run(("--engine", "vllm", *words), capsys, 2)["problem"]["fix"]
        assert run(["profile", *words, "--dry-run"]) == 2
        assert "fix: none here" in capsys.readouterr().err
        assert run(["profile", "--model", "deepseek-ai/DeepSeek-V2-Lite", "--gpu", "h100", "--dry-run"]) == 2
        assert "fix: use --engine vllm, which" in capsys.readouterr().err

    def test_fewer_captures_need_less(self, capsys: pytest.CaptureFixture[str]) -> None:
        need = [dry_run((*MODEL, "--sample", sample), capsys)["most_bytes"] for sample in ("two", "auto", "all")]
        assert need == sorted(set(need))

    def test_nothing_of_a_callable_is_known_but_what_the_driver_takes(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ("--engine", "callable", "--target", "mymodule:make_step", "--gpu", "h200")
        found = dry_run(words, capsys)
        assert found["target"] == "mymodule:make_step"
        assert [found[name] for name in ("weights_bytes", "graph_bytes", "most_bytes", "fits")] == [None] * 4
        assert found["driver_bytes"]["graphs"] == 106_000 * found["captured"]["FULL"]
        shown = shown_by((*words, "--dry-run"), capsys)
        assert shown.startswith("mymodule:make_step on NVIDIA H200")
        assert "not known before it is built" in shown

    @pytest.mark.parametrize(
        "words",
        [
            ("--model", "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "--enable-lora"),
            ("--model", "google/gemma-3-27b-it", "--kv-cache-dtype", "fp8", "-q", "compressed-tensors"),
            ("--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "l4"),
            ("--engine", "vllm", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "l4"),
            ("--engine", "callable", "--target", "mymodule:make_step"),
        ],
    )
    def test_a_narrow_screen_holds_every_line(
        self, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        run(["profile", *words, "--dry-run"])
        lines = capsys.readouterr().out.splitlines()
        assert lines
        assert max(map(len, lines)) <= 40, max(lines, key=len)

    def test_its_schema_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["schema", "profile-dry-run"]) == 0
        assert json.loads(capsys.readouterr().out)["title"] == "DryRun"


class TestRecordFile:
    @pytest.fixture(autouse=True)
    def _no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device, "look", lambda index: pytest.fail("the GPU was looked at"))

    @pytest.mark.parametrize("place", ["no/such/x.json", "", "file/x.json"])
    def test_a_place_that_takes_no_file_is_named_before_the_gpu_is_touched(
        self, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch()
        assert run(["profile", *MODEL, "--json", str(tmp_path / place)]) == 2
        said = capsys.readouterr().err
        assert "CG910" in said
        assert "cannot be written" in said
        assert said.count("\n") == 1

    @pytest.mark.skipif(not Path("/proc/version").exists(), reason="no /proc")
    def test_a_file_that_is_there_is_not_called_missing(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["profile", *MODEL, "--json", "/proc/version"]) == 2
        said = capsys.readouterr().err
        assert "cannot be written" in said
        assert "no such file" not in said

    def test_an_error_beside_a_file_prints_no_document(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["profile", *MODEL, "--sample", "x", "--json", str(tmp_path / "x.json")]) == 2
        assert capsys.readouterr().out == ""
        assert run(["profile", *MODEL, "--sample", "x", "--json", "-"]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "CG905"

    def test_asking_leaves_the_folder_as_it_was(self, tmp_path: Path) -> None:
        old = tmp_path / "old.json"
        old.write_text("{}")
        check_writable(old, "--json")
        check_writable(tmp_path / "new.json", "--json")
        check_writable(Path("/dev/null"), "--json")
        assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
        assert old.read_text() == "{}"


class TestMeasured:
    """A measurement whose GPU and engine are stand-ins."""

    @pytest.fixture(autouse=True)
    def _measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        here = Device(0, "NVIDIA H200", 150 << 30, 149 << 30, (9, 0), "1", "2", "13")
        monkeypatch.setattr(device, "look", lambda index: here)
        found = Measured(captured=[Captured(Descriptor(CUDAGraphMode.FULL, 8, 8), 4 << 20, 0, 0.1)])
        monkeypatch.setattr(_Run, "_measure", lambda *words: ([found], None, (), {"engine": "synthetic"}))

    def test_a_record_whose_file_fails_is_kept_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def full(path: Path, text: str) -> None:
            raise InputError(f"{path} cannot be written: no space left on device", code="CG910", where=str(path))

        monkeypatch.setattr("cgplan.cli.output_file.write_whole", full)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        assert run(["profile", *MODEL, "--json", str(tmp_path / "x.json")]) == 2
        said = capsys.readouterr()
        assert "no space left" in said.err
        assert "CUDA graphs" in said.out, "the screen is shown all the same"
        (kept,) = tmp_path.glob("cgplan-profile-*.json")
        assert str(kept) in said.err
        assert json.loads(kept.read_text())["profile"]["captured"] == {"FULL": 1}

    def test_with_no_other_file_either_it_goes_to_stdout(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def full(*words: Any, **more: Any) -> None:
            raise OSError("no space")

        monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
        monkeypatch.setattr("os.replace", full)
        assert run(["profile", *MODEL, "--json", str(tmp_path / "x.json")]) == 2
        said = capsys.readouterr()
        assert "the record is on stdout" in said.err
        assert json.loads(said.out)["profile"]["captured"] == {"FULL": 1}

    def test_a_file_that_takes_it_has_it(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["profile", *MODEL, "--json", str(tmp_path / "x.json")]) == 0
        assert json.loads((tmp_path / "x.json").read_text())["profile"]["captured"] == {"FULL": 1}
