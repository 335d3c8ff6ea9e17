"""`cgplan report`: what it writes, its exit status, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
QWEN = ["report", "--model", "Qwen/Qwen3-8B", "--gpu", "h100"]
METRICS = Path(__file__).parents[2] / "fixtures/metrics"
SECRET = "s3cr3t-in-the-line"


@pytest.fixture
def needs_charts() -> None:
    pytest.importorskip("pygal", reason="the charts need the extra `report`")


class TestMarkdown:
    def test_on_stdout(self, cgplan: Run) -> None:
        status, out, err = cgplan(*QWEN, "--markdown")
        assert (status, err) == (0, "")
        assert out.startswith("# CUDA graphs and memory: vLLM ")
        for title in ("CUDA graphs", "Memory of one GPU", "KV cache", "Decisions", "Deployment"):
            assert f"## {title}\n" in out

    def test_it_needs_no_library(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setitem(sys.modules, "pygal", None)
        assert cgplan(*QWEN, "--markdown")[0] == 0
        assert cgplan(*QWEN, "--output", str(tmp_path / "r.md"))[0] == 0

    def test_a_workload(self, cgplan: Run) -> None:
        for name in ("traffic.csv", "traffic.json", "tables-two-engines.log", "moment-1.txt"):
            status, out, err = cgplan(*QWEN, "--workload", str(METRICS / name), "--markdown")
            assert (status, err) == (0, ""), name
            assert "## Workload\n" in out, name
            assert "### Steps by mode\n" in out, name
            assert "## Capture sizes for the workload\n" in out, name

    def test_several_are_the_mixture_that_tune_makes(self, cgplan: Run) -> None:
        files = ("traffic.csv", "tables-two-engines.log", "moment-1.txt")
        for names in (files, files[:2], files[1::-1], ("traffic.csv@0.2", "tables-two-engines.log@0.8"), files[:1]):
            words = [word for name in names for word in ("--workload", str(METRICS / name))]
            page = cgplan(*QWEN, *words, "--markdown")[1].partition("## Capture sizes")[2]
            alone = cgplan("tune", *QWEN[1:], *words, "--markdown")[1]
            rows = [line for line in alone.splitlines() if line.startswith(("| Sizes", "| Padding", "| Tokens"))]
            assert rows, names
            for row in rows:
                assert row in page, (names, row)

    def test_two_moments_mean_the_same_to_tune(self, cgplan: Run) -> None:
        words = [word for number in (1, 2) for word in ("--workload", str(METRICS / f"moment-{number}.txt"))]
        page = cgplan(*QWEN, *words, "--markdown")[1].partition("## Capture sizes")[2]
        alone = cgplan("tune", *QWEN[1:], *words, "--markdown")[1]
        for row in [line for line in alone.splitlines() if line.startswith(("| Sizes", "| Padding", "| Tokens"))]:
            assert row in page, row

    def test_the_parts_and_their_weights_are_named(self, cgplan: Run, tmp_path: Path) -> None:
        half = tmp_path / "half.csv"
        half.write_text("tokens,kind,count\n8,decode,2.5\n200,decode,1\n")
        words = ("--workload", f"{half}@2", "--workload", str(METRICS / "traffic.csv"))
        out = cgplan(*QWEN, *words, "--markdown")[1].partition("## Capture sizes")[2]
        assert "half.csv (3.5 steps, weight 2) + " in out.replace("\\", "")

    def test_two_moments_are_what_came_in_between(self, cgplan: Run) -> None:
        both = [word for number in (1, 2) for word in ("--workload", str(METRICS / f"moment-{number}.txt"))]
        assert "## Workload" in cgplan(*QWEN, *both, "--markdown")[1]

    def test_a_record_without_times_says_so(self, cgplan: Run, tmp_path: Path) -> None:
        file = tmp_path / "record.json"
        document = {"schema_version": 1, "source": "mine", "fingerprint": fingerprint(), "measured": {}}
        file.write_text(json.dumps(document), encoding="utf-8")
        status, out, _ = cgplan(*QWEN, "--profile", str(file), "--markdown")
        assert status == 0
        assert "the record has no times" in out
        assert "## Profile" not in out


def fingerprint() -> dict[str, Any]:
    from cgplan import Deployment, gpu, load_model, resolve
    from cgplan.memory.budget.measured_record import fingerprint_of

    deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"))
    return dict(fingerprint_of(deployment, resolve(deployment)))


@pytest.mark.usefixtures("needs_charts")
class TestFiles:
    def test_both_twins(self, cgplan: Run, tmp_path: Path) -> None:
        page, twin = tmp_path / "r.html", tmp_path / "r.MD"
        status, out, err = cgplan(*QWEN, "--output", str(page), "--output", str(twin))
        assert (status, err) == (0, "")
        assert out.count("Wrote ") == 2
        assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert twin.read_text(encoding="utf-8") == cgplan(*QWEN, "--markdown")[1]

    def test_stdout_is_the_markdown_alone(self, cgplan: Run, tmp_path: Path) -> None:
        out = cgplan(*QWEN, "--markdown", "--output", str(tmp_path / "r.html"))[1]
        assert "Wrote" not in out
        assert (tmp_path / "r.html").exists()

    def test_a_launch_file(self, cgplan: Run, tmp_path: Path) -> None:
        script = tmp_path / "start.sh"
        script.write_text("vllm serve Qwen/Qwen3-8B --max-num-seqs 64\n", encoding="utf-8")
        page = tmp_path / "r.html"
        assert cgplan("report", str(script), "--gpu", "h100", "--output", str(page))[0] == 0
        assert "start.sh:1" in page.read_text(encoding="utf-8")

    def test_secrets_are_in_neither(self, cgplan: Run, tmp_path: Path) -> None:
        page, twin = tmp_path / "r.html", tmp_path / "r.md"
        script = tmp_path / "start.sh"
        script.write_text(
            f"export HF_TOKEN={SECRET}\nvllm serve Qwen/Qwen3-8B --api-key {SECRET} "
            f"""--hf-overrides '{{"auth_token": "{SECRET}"}}' --served-model-name {SECRET}\n""",
            encoding="utf-8",
        )
        files = ("--gpu", "h100", "--output", str(page), "--output", str(twin))
        line = ("--", "vllm", "serve", "Qwen/Qwen3-8B", "--api-key", SECRET, "--served-model-name", SECRET)
        for words in ((str(script),), ("--model", "Qwen/Qwen3-8B", "--env", f"VLLM_API_KEY={SECRET}")):
            status, out, _ = cgplan("report", *words, *files, "--markdown")
            assert status == 0
            for text in (out, page.read_text(encoding="utf-8"), twin.read_text(encoding="utf-8")):
                assert SECRET not in text
        assert cgplan("report", *files, *line)[0] == 0
        assert SECRET not in page.read_text(encoding="utf-8")

    def test_without_the_library_one_clear_line(
        self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "pygal", None)
        page = tmp_path / "r.html"
        status, out, err = cgplan(*QWEN, "--output", str(page))
        assert (status, out) == (2, "")
        assert "pip install 'cgplan[report]'" in err
        assert not page.exists()

    def test_nothing_is_left_of_a_file_that_cannot_be_written(self, cgplan: Run, tmp_path: Path) -> None:
        status, _, err = cgplan(*QWEN, "--output", str(tmp_path / "nowhere" / "r.html"))
        assert status == 2
        assert "cannot be written" in err


def test_the_example_of_the_docs_is_fresh(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[2] / "docs/examples"
    said = re.search(r"^    cgplan (report .*\\\n.*)$", (folder / "README.md").read_text(encoding="utf-8"), re.M)
    assert said is not None
    words = shlex.split(said[1].replace("\\\n", " "))
    monkeypatch.chdir(folder)
    while "--output" in words:
        at = words.index("--output")
        del words[at : at + 2]
    status, out, err = cgplan(*words, "--markdown")
    assert (status, err) == (0, "")
    assert out == (folder / "report.md").read_text(encoding="utf-8"), "run the command of its README.md again"


class TestStatus:
    def test_findings_count_only_where_asked(self, cgplan: Run) -> None:
        deep = ["report", "--model", "deepseek-ai/DeepSeek-V3", "--gpu", "h100", "--markdown"]
        assert cgplan(*deep)[0] == 0
        assert cgplan(*deep, "--fail-on", "error")[0] == 1
        assert cgplan(*QWEN, "--max-num-seqs", "64", "--markdown", "--fail-on", "error")[0] == 0

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "no place to go"),
            (("--output", "r.pdf"), "neither .html nor .md"),
            (("--markdown", "--num-gpu-blocks", "9"), "--num-gpu-blocks"),
            (("--output", "report"), "neither .html nor .md"),
            (("--markdown", "--workload", "nowhere.csv"), "nowhere.csv"),
            (("--markdown", "--profile", "nowhere.json"), "nowhere.json"),
            (("--markdown", "--fail-on", "sometimes"), "--fail-on"),
        ],
    )
    def test_what_cannot_be_is_refused(self, cgplan: Run, words: tuple[str, ...], said: str) -> None:
        status, out, err = cgplan(*QWEN, *words)
        assert (status, out) == (2, "")
        assert said in err
