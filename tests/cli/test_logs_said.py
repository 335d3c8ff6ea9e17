"""What the user says beside a log: flags of the server, and releases that cgplan does not know."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from log_lines import LOGS, Run, arguments, line, written

OOM = (
    b"CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is"
    b" free."
)


@pytest.fixture
def quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OOM)))


class TestFlags:
    @pytest.mark.usefixtures("quoted")
    def test_the_share_gives_the_one_to_set(self, cgplan: Run) -> None:
        status, out, _ = cgplan("logs", "-", "--gpu-memory-utilization", "0.98")
        assert status == 1
        assert "--gpu-memory-utilization 0.97" in out

    @pytest.mark.usefixtures("quoted")
    def test_without_it_by_how_much(self, cgplan: Run) -> None:
        _, out, _ = cgplan("logs", "-")
        assert "below what it was" in out
        assert "--gpu-memory-utilization 0.97" not in out

    @pytest.mark.parametrize("share", ["2", "x"])
    def test_one_that_cannot_be_read_is_refused(self, cgplan: Run, share: str) -> None:
        status, _, err = cgplan("logs", str(LOGS / "A12.txt"), "--gpu-memory-utilization", share)
        assert status == 2
        assert "--gpu-memory-utilization" in err

    def test_they_reach_the_plan(self, cgplan: Run, tmp_path: Path) -> None:
        log = written(
            tmp_path / "a.log",
            arguments(model_tag="Qwen/Qwen3-8B", max_model_len=4096),
            line("Available KV cache memory: 20.00 GiB"),
        )
        planned = [cgplan("logs", log, "--vllm", "0.25.1", "--gpu", "h100", *more)[1] for more in
                   ([], ["--gpu-memory-utilization", "0.5"])]  # fmt: skip
        rows = [next(row for row in out.splitlines() if row.startswith("KV cache  ") and "–" in row) for out in planned]
        assert rows[0] != rows[1]


class TestReleases:
    @pytest.mark.parametrize(
        ("named", "rules"), [("0.10.2", "0.19.1"), ("0.7.x", "0.19.1"), ("0.29.1rc1.dev3", "0.29.0")]
    )
    def test_the_nearest_is_taken_and_said(self, cgplan: Run, tmp_path: Path, named: str, rules: str) -> None:
        log = written(
            tmp_path / "a.log", arguments(model_tag="Qwen/Qwen3-8B"), line("Available KV cache memory: 20.00 GiB")
        )
        status, out, err = cgplan("logs", log, "--vllm", named, "--gpu", "h100")
        assert (status, err) == (0, "")
        assert out.startswith(f"vLLM {named.removesuffix('.x')} · ")
        assert f"rules of {rules} assumed for {named.removesuffix('.x')}" in " ".join(out.split())

    def test_what_is_no_release_is_refused(self, cgplan: Run) -> None:
        status, _, err = cgplan("logs", str(LOGS / "A12.txt"), "--vllm", "newest")
        assert status == 2
        assert "CG801" in err

    def test_one_that_is_assumed_stays(self, cgplan: Run, tmp_path: Path) -> None:
        log = written(tmp_path / "a.log", arguments(model_tag="Qwen/Qwen3-8B"), line("Using max model len 4096"))
        _, out, _ = cgplan("logs", log, "--vllm", "0.10.2", "--assume-release", "0.23.0", "--gpu", "h100")
        assert "rules of 0.23.0 assumed for 0.10.2" in " ".join(out.split())

    def test_the_logs_own_is_in_the_heading(self, cgplan: Run) -> None:
        _, out, _ = cgplan("logs", str(LOGS / "A12.txt"), "--vllm", "0.25.1", "--gpu", "l40s")
        assert out.startswith("vLLM 0.19.0 · ")


class TestWhatIsNotRecognised:
    def test_names_the_next_command(self, cgplan: Run, tmp_path: Path) -> None:
        status, _, err = cgplan("logs", written(tmp_path / "a.log", "why is it slow\n"))
        assert status == 2
        assert "cgplan check" in err
        assert "cgplan explain" in err


class TestTheNoteBelowTheTable:
    @pytest.mark.parametrize(
        ("name", "note"), [("A12", "not taken off the KV cache"), ("A14", "Graphs est.: taken off the KV cache")]
    )
    def test_says_what_the_bracket_means(self, cgplan: Run, name: str, note: str) -> None:
        _, out, _ = cgplan("logs", str(LOGS / f"{name}.txt"))
        assert note in " ".join(out.split())
        _, page, _ = cgplan("logs", str(LOGS / f"{name}.txt"), "--markdown")
        assert note.casefold() in page.casefold()

    def test_not_where_there_is_no_estimate(self, cgplan: Run, tmp_path: Path) -> None:
        log = written(tmp_path / "a.log", arguments(model_tag="m"), line("Available KV cache memory: 20.00 GiB"))
        _, out, _ = cgplan("logs", log)
        assert "graphs est." not in out.casefold()


class TestWordsInThePlaceOfAFile:
    def test_are_read_as_what_is_quoted(self, cgplan: Run) -> None:
        status, out, err = cgplan("logs", "max_num_seqs (1024) exceeds available Mamba cache blocks (512)")
        assert (status, err) == (1, "")
        assert "--max-num-seqs 512" in out

    @pytest.mark.parametrize("words", ["no such server.log", "why is my server so slow"])
    def test_that_say_nothing_are_a_file_that_is_not_there(self, cgplan: Run, words: str) -> None:
        status, _, err = cgplan("logs", words)
        assert status == 2
        assert "CG986" in err
        assert "cgplan explain" in err

    def test_a_file_of_that_name_goes_first(self, cgplan: Run, tmp_path: Path) -> None:
        name = tmp_path / "No available memory for the cache blocks"
        name.write_text("nothing\n", encoding="utf-8")
        status, _, err = cgplan("logs", str(name))
        assert status == 2
        assert "CG985" in err


class TestModels:
    OOM = "torch.OutOfMemoryError: CUDA out of memory."

    def test_a_name_that_has_a_known_shape_is_taken_and_said(self, cgplan: Run) -> None:
        """As `plan` takes it."""
        named = ("--gpu", "rtx5090", "--vllm", "0.19", "--model", "someone/Qwen3.6-27B-AWQ-INT4")
        status, out, _ = cgplan("logs", self.OOM, *named)
        assert status == 1
        assert "the shape of Qwen/Qwen3.6-27B in the place of someone/Qwen3.6-27B-AWQ-INT4" in " ".join(out.split())

    def test_one_that_tells_too_little_is_refused(self, cgplan: Run) -> None:
        status, _, err = cgplan("logs", self.OOM, "--gpu", "rtx5090", "--vllm", "0.19", "--model", "someone/theirs")
        assert status == 2
        assert "CG915" in err


@pytest.mark.parametrize("ready", [[], [line("init engine (profile, create kv cache, warmup model) took 36.07 s")]])
def test_memory_that_ran_out_is_never_a_start_that_came_up(cgplan: Run, tmp_path: Path, ready: list[str]) -> None:
    """An error line of its own, as a filter leaves it."""
    end = "ERROR 10-01 10:05:21 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB."
    log = written(tmp_path / "a.log", arguments(model_tag="Qwen/Qwen3-8B"), *ready, end)
    status, out, _ = cgplan("logs", log, "--no-plan")
    assert status == 1
    assert ("died while serving" in out) == bool(ready)
