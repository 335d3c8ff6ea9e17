"""`cgplan check --fix`: the patch it prints, and what it writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from check_runs import BAD, GOOD, WARNING, Check, checker, write


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    return checker(capsys, monkeypatch, tmp_path)


class TestFixes:
    SCRIPT = f"#!/bin/sh\n# kept\n{WARNING.replace('-seqs 8', '-seqs  8')}  # kept too\n"

    def test_a_diff(self, check: Check) -> None:
        path = write("run.sh", self.SCRIPT)
        done = check("run.sh --fix")
        assert done.out.startswith("--- a/run.sh\n+++ b/run.sh\n@@")
        assert "+vllm serve Qwen/Qwen3-8B --max-num-seqs 256  # kept too\n" in done.out
        assert "1 finding mended by these changes, which --write makes" in done.err
        assert path.read_text() == self.SCRIPT

    def test_written(self, check: Check) -> None:
        path = write("run.sh", self.SCRIPT)
        done = check("run.sh --fix --write --fail-on warning")
        assert done.status == 0
        assert done.out.startswith("all good: ")
        assert done.err == "1 finding mended in 1 file\n"
        assert path.read_text() == "#!/bin/sh\n# kept\nvllm serve Qwen/Qwen3-8B --max-num-seqs 256  # kept too\n"

    def test_a_line_is_printed_as_it_should_be(self, check: Check) -> None:
        done = check("--fix", WARNING)
        assert done.out == "vllm serve Qwen/Qwen3-8B --max-num-seqs 256\n"
        assert done.err == "1 finding mended by this change\n"

    def test_standard_input_is_a_diff(self, check: Check) -> None:
        assert "+vllm serve Qwen/Qwen3-8B --max-num-seqs 256" in check("--fix", stdin=self.SCRIPT).out

    def test_a_file_that_cannot_be_written_does_not_stop_the_others(
        self, check: Check, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = write("a.sh", self.SCRIPT), write("b.sh", self.SCRIPT)
        replace = os.replace

        def refuse(source: str, target: str) -> None:
            if Path(target).name == "a.sh":
                raise PermissionError(13, "Permission denied")
            replace(source, target)

        monkeypatch.setattr("os.replace", refuse)
        done = check("a.sh b.sh --fix --write")
        assert done.status == 2
        assert "a.sh" in done.err
        assert "1 finding mended in 1 file\n" in done.err
        assert first.read_text() == self.SCRIPT
        assert second.read_text() != self.SCRIPT

    def test_nothing_to_mend(self, check: Check) -> None:
        path = write("run.sh", f"#!/bin/sh\n{GOOD}\n")
        assert check("run.sh --fix") == (0, "", "")
        assert check("run.sh --fix --write").status == 0
        assert path.read_text() == f"#!/bin/sh\n{GOOD}\n"

    def test_nothing_that_can_be_mended(self, check: Check) -> None:
        done = check("--fix", BAD)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith("left: line:1:26: error CG905 ")
        assert done.err.endswith("\nnothing can be mended so\n")

    def test_what_is_ignored_is_not_mended(self, check: Check) -> None:
        path = write("run.sh", self.SCRIPT)
        check("run.sh --fix --write --ignore CG9")
        assert path.read_text() == self.SCRIPT

    def test_unsafe_fixes_are_asked_for(self, check: Check) -> None:
        write("run.sh", "#!/bin/sh\nvllm serve Qwen/Qwen3-8B --max-num-seq-s 8\n")
        assert "--max-num-seqs 8" not in check("run.sh --fix").out
        assert "+vllm serve Qwen/Qwen3-8B --max-num-seqs 8" in check("run.sh --fix --unsafe-fixes").out

    def test_secrets_are_masked_in_the_diff_and_kept_in_the_file(self, check: Check) -> None:
        path = write("run.sh", f"#!/bin/sh\n{WARNING} --api-key my-own-key-77\n")
        done = check("run.sh --fix")
        assert "my-own-key-77" not in done.out
        assert "masked" in done.err
        assert check("run.sh --fix --write").status == 0
        assert path.read_text() == "#!/bin/sh\nvllm serve Qwen/Qwen3-8B --max-num-seqs 256 --api-key my-own-key-77\n"
