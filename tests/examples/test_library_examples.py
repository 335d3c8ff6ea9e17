"""Every program of examples/ runs as its page says, and its figures are right."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cgplan import Deployment, gpu, load_model, plan, resolve
from cgplan.inputs.vllm_logs import read_log

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown() -> list[tuple[str, str]]:
    """Each line of the page that starts a program, and what the page shows below it."""
    found: list[tuple[str, str]] = re.findall(r"^    \$ (.+)\n((?:    .*\n)*)", PAGE + "\n", re.M)
    return [(line, re.sub(r"^    ", "", text, flags=re.M)) for line, text in found]


@pytest.mark.parametrize(("line", "text"), shown(), ids=lambda value: str(value)[:40])
def test_the_page_shows_what_a_program_prints(line: str, text: str) -> None:
    program, *words = line.split()
    assert program == "python"
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert len(text.splitlines()) >= 3
    assert done.stdout.startswith(text)


def test_the_page_has_every_program() -> None:
    assert sorted(re.findall(r"\$ python examples/(\w+)\.py", PAGE)) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_what_it_is_for_and_how_to_run_it(name: str) -> None:
    said = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    assert f"    python examples/{name}.py" in said


class TestCheckInCi:
    def test_an_error_is_status_1(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("check_in_ci").main([str(FOLDER / "deploy.yaml")]) == 1
        out = capsys.readouterr().out
        assert "deploy.yaml:17: error CG811 VLLM_ATTENTION_BACKEND=FLASHINFER is ignored" in out
        assert "deploy.yaml:14: info CG926 --cudagraph-capture-size is taken for --cudagraph-capture-sizes" in out

    def test_without_an_error_it_is_0(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        text = (FOLDER / "deploy.yaml").read_text(encoding="utf-8")
        (tmp_path / "good.yaml").write_text(text.partition("          env:")[0], encoding="utf-8")
        assert loaded("check_in_ci").main([str(tmp_path)]) == 0
        assert "CG926" in capsys.readouterr().out

    def test_a_file_that_is_not_there_is_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("check_in_ci").main(["nowhere.yaml"]) == 2
        assert "nowhere.yaml" in capsys.readouterr().err


class TestSizes:
    def test_the_list_keeps_the_limit_and_saves_tokens(self) -> None:
        module = loaded("sizes_from_histogram")
        found = module.choose(module.SEEN, most_graphs=30)
        assert found.chosen.graphs <= 30
        assert {seen: found.tuned.dispatch(seen).num_tokens for seen in (1, 41)} == {1: 3, 41: 41}
        for size in (3, 5, 9, 11, 17, 21, 27):
            assert found.tuned.dispatch(size).num_tokens == size
        today, chosen = (
            sum(count * one.dispatch(seen).num_tokens for seen, count in module.SEEN.items())
            for one in (found.resolution, found.tuned)
        )
        assert found.gain == pytest.approx(1 - chosen / today)
        assert found.gain > 0.2

    def test_vllm_would_keep_the_list(self) -> None:
        module = loaded("sizes_from_histogram")
        found = module.choose(module.SEEN, most_graphs=30)
        again = resolve(module.SERVER.model_copy(update={"cudagraph_capture_sizes": found.chosen.sizes}))
        assert again.capture_sizes == found.chosen.sizes


class TestFleet:
    def test_a_cell_is_the_concurrency_of_the_plan(self) -> None:
        module = loaded("plan_a_fleet")
        server = Deployment(
            model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), gpus_per_node=8, max_model_len=8192, max_num_seqs=256
        )
        found = plan(server)
        assert found.best.plan is not None
        assert module.cell("Qwen/Qwen3-8B", 1, "h100") == f"{found.best.plan.max_concurrency:.0f}"

    def test_what_does_not_fit_is_no(self) -> None:
        module = loaded("plan_a_fleet")
        assert module.cell("Qwen/Qwen3-32B", 1, "l40s") == "no"
        assert module.cell("meta-llama/Llama-3.3-70B-Instruct", 4, "h200").isdigit()


class TestLog:
    def test_the_graphs_are_taken_off_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("read_a_log").main(str(FOLDER / "server.log")) == 0
        out = capsys.readouterr().out
        (start,) = read_log(FOLDER / "server.log").starts
        rank = start.ranks[0]
        assert rank.suggested_kv_bytes is not None
        assert rank.graph_estimate_bytes is not None
        assert f"--kv-cache-memory-bytes {rank.suggested_kv_bytes + rank.graph_estimate_bytes}" in out
        assert "the graphs taken off twice" in out

    def test_an_older_suggestion_is_right(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("read_a_log").main(str(ROOT / "fixtures" / "logs" / "A01.txt")) == 0
        out = capsys.readouterr().out
        assert "--kv-cache-memory-bytes 61258029056" in out
        assert "twice" not in out

    def test_a_crash_is_status_1(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("read_a_log").main(str(ROOT / "fixtures" / "logs" / "B01.txt")) == 1
        assert "--gpu-memory-utilization 0.92" in capsys.readouterr().out


class TestReleases:
    def test_an_upgrade_that_gives_graphs_passes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert loaded("compare_releases").main("0.28", "0.33") == 0
        assert "decode batches in a FULL graph: 96 -> 100 of 100" in capsys.readouterr().out

    def test_one_that_takes_them_does_not(self) -> None:
        assert loaded("compare_releases").main("0.33", "0.28") == 1


@pytest.mark.parametrize("name", ["compare_releases", "read_a_log"])
def test_a_program_without_its_words_says_how_it_is_used(name: str) -> None:
    done = subprocess.run([sys.executable, f"examples/{name}.py"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"python examples/{name}.py" in done.stderr
    assert "Traceback" not in done.stderr
