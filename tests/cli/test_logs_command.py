"""`cgplan logs`: what it prints, its exit status, what it refuses, and what it never shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import ROOT
from log_lines import BANNER, LOGS, Run, arguments, document, line, written

from cgplan.memory.budget.estimate_rules import SUGGESTED_TWICE

GIB = 1 << 30


CONTRACT = (
    "vllm_version", "model", "cudagraph_mode", "capture_sizes", "graphs", "kv_tokens", "max_concurrency",
    "capture_seconds", "ranks", "crash", "findings", "not_recognised",
)  # fmt: skip


OF_RANK = (
    "rank", "weights_bytes", "activation_bytes", "non_torch_bytes", "graph_estimate_bytes", "graph_bytes",
    "kv_bytes", "requested_bytes", "free_bytes",
)  # fmt: skip


def usage(rank: int, consumed: float, peak: float, graphs: float, fit: float, full: float, kv: float) -> str:
    return line(
        "Free memory on device (175.81/178.35 GiB) on startup. Desired GPU memory utilization is (0.92, 164.08 GiB)."
        f" Actual usage is {consumed} GiB for consumed memory (weights + non-torch), {peak} GiB for"
        " peak activation, and"
        f" {graphs} GiB for CUDAGraph memory. Replace gpu_memory_utilization config with"
        f" `--kv-cache-memory={round(fit * GIB)}` ({fit} GiB) to fit into requested memory, or"
        f" `--kv-cache-memory={round(full * GIB)}` ({full} GiB) to fully utilize gpu memory. Current kv cache memory in"
        f" use is {kv} GiB.",
        f"Worker_TP{rank} pid={20 + rank}",
    )


@pytest.fixture
def b200(tmp_path: Path) -> str:
    """Case C03 on two of its ranks, and a third that differs."""
    lines = [BANNER, arguments(model_tag="org/Large", tensor_parallel_size=3)]
    for rank, consumed in enumerate((58.44, 58.44, 60.44)):
        worker = f"Worker_TP{rank} pid={20 + rank}"
        lines += [
            line(f"Available KV cache memory: {round(164.08 - consumed - 4.88 - 57.45, 2)} GiB", worker),
            line("Graph capturing finished in 61 secs, took 63.99 GiB", worker),
            line(
                "CUDA graph pool memory: 63.99 GiB (actual), 57.45 GiB (estimated), difference: 6.54 GiB (10.2%).",
                worker,
            ),
            usage(
                rank,
                consumed,
                62.33,
                63.99,
                round(-20.83 - (consumed - 58.44), 2),
                round(-9.1 - (consumed - 58.44), 2),
                round(43.31 - (consumed - 58.44), 2),
            ),
        ]
    lines.append(line("init engine (profile, create kv cache, warmup model) took 120.00 s"))
    return written(tmp_path / "b200.log", *lines)


class TestC03:
    def test_the_screen_says_which_is_wrong_and_which_is_right(self, cgplan: Run, b200: str) -> None:
        status, out, _ = cgplan("logs", b200)
        assert status == 0
        plain = " ".join(out.split())
        assert "(-22.83 GiB), which takes the graphs off twice; 34.62 GiB is right" in plain
        assert (
            "requested 164.08 - consumed 60.44 - peak without the estimate 4.88 - graphs 63.99 - reserve 0.15" in plain
        )

    def test_ranks_keep_their_own_values(self, cgplan: Run, b200: str) -> None:
        (start,) = document(cgplan, b200)["starts"]
        assert [rank["consumed_bytes"] for rank in start["ranks"]] == [round(x * GIB) for x in (58.44, 58.44, 60.44)]
        rights = [one["right_bytes"] / GIB for one in start["corrections"]]
        assert rights == pytest.approx([36.62, 36.62, 34.62], abs=0.01)
        assert all(one["counts_twice"] for one in start["corrections"])
        fulls = [one["right_full_bytes"] / GIB for one in start["corrections"]]
        assert fulls == pytest.approx([48.35, 48.35, 46.35], abs=0.01)

    def test_the_screen_has_a_row_for_each_kind_of_rank(self, cgplan: Run, b200: str) -> None:
        out = cgplan("logs", b200)[1]
        assert re.search(r"^TP0, TP1 +175\.81 +164\.08 +58\.44", out, re.M)
        assert re.search(r"^TP2 +175\.81 +164\.08 +60\.44", out, re.M)
        assert "TP2 decides for all" in out

    def test_the_code_has_a_page(self, cgplan: Run, b200: str) -> None:
        (start,) = document(cgplan, b200)["starts"]
        assert SUGGESTED_TWICE.code in {finding["code"] for finding in start["findings"]}
        assert cgplan("explain", SUGGESTED_TWICE.code)[0] == 0


class TestTheContract:
    @pytest.mark.parametrize("name", ["A01", "A12", "A15", "A18"])
    def test_every_key_is_there(self, cgplan: Run, name: str) -> None:
        found = document(cgplan, str(LOGS / f"{name}.txt"))
        (start,) = found["starts"]
        assert set(CONTRACT) <= set(start)
        assert {"FULL", "PIECEWISE"} <= set(start["graphs"])
        for rank in start["ranks"]:
            assert set(OF_RANK) <= set(rank)

    def test_values_are_those_of_the_log(self, cgplan: Run) -> None:
        (start,) = document(cgplan, str(LOGS / "A01.txt"), "--gpu", "h100")["starts"]
        assert start["vllm_version"] == "0.19.0"
        assert start["rules_of"] == "0.19.1"
        assert start["graphs"] == {"FULL": 51, "PIECEWISE": 51}
        assert start["kv_tokens"] == 476016
        assert start["capture_seconds"] == 3
        assert start["crash"] is None
        (rank,) = start["ranks"]
        assert rank["kv_bytes"] == round(58.11 * GIB)
        tokens = next(row for row in start["plan"]["rows"] if row["name"] == "kv_tokens")
        assert (tokens["measured"], tokens["verdict"]) == (476016, "exact")

    def test_what_is_not_in_the_log_is_null(self, cgplan: Run) -> None:
        (start,) = document(cgplan, str(LOGS / "A18.txt"))["starts"]
        assert start["vllm_version"] is None
        assert start["cudagraph_mode"] is None
        assert start["ranks"][1]["kv_bytes"] is None

    def test_schema(self, cgplan: Run) -> None:
        status, out, _ = cgplan("schema", "logs")
        assert status == 0
        assert "StartPart" in json.loads(out)["$defs"]


class TestCrashes:
    def test_b01(self, cgplan: Run) -> None:
        (start,) = document(cgplan, str(LOGS / "B01.txt"), "--gpu", "h100", status=1)["starts"]
        crash = start["crash"]
        assert crash["code"] == "CG509"
        assert "warming up sampler" in crash["message"]
        assert crash["works"] == {"gpu_memory_utilization": 0.92, "max_num_seqs": 512,
            "kv_cache_memory_bytes": crash["works"]["kv_cache_memory_bytes"]
        }  # fmt: skip
        assert "--gpu-memory-utilization 0.92" in crash["fix"]

    def test_b02_says_what_happened_first(self, cgplan: Run) -> None:
        status, out, _ = cgplan("logs", str(LOGS / "B02.txt"))
        assert status == 1
        first = out.splitlines()
        assert first[0].startswith("vLLM 0.19.2rc1.dev8+g4b7f5ea1a")
        assert first[1].startswith("Did not start: no memory is left for the KV cache: -0.12 GiB")

    def test_b10(self, cgplan: Run, tmp_path: Path) -> None:
        text = (
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856). Each decode"
            " sequence requires one"
            " Mamba cache block, so CUDA graph capture cannot proceed."
        )
        log = written(
            tmp_path / "b10.log",
            BANNER,
            arguments(model_tag="Qwen/Qwen3.6-27B-FP8", gpu_memory_utilization=0.95),
            line("Available KV cache memory: 40.1 GiB"),
            line("Traceback (most recent call last):", level="ERROR"),
            line(text, level="ERROR"),
            line("RuntimeError: Engine core initialization failed. See root cause above.", "APIServer pid=1", "ERROR"),
        )
        (start,) = document(cgplan, log, status=1)["starts"]
        assert start["crash"]["code"] == "CG501"
        assert start["crash"]["works"] == {"max_num_seqs": 856}
        assert "--max-num-seqs 512 (856 at most)" in start["crash"]["fix"]

    @pytest.mark.parametrize(("level", "status"), [("never", 0), ("error", 1), ("info", 1)])
    def test_fail_on(self, cgplan: Run, level: str, status: int) -> None:
        assert cgplan("logs", str(LOGS / "B01.txt"), "--fail-on", level)[0] == status

    def test_fail_on_a_note(self, cgplan: Run) -> None:
        assert cgplan("logs", str(LOGS / "A12.txt"))[0] == 0
        assert cgplan("logs", str(LOGS / "A12.txt"), "--fail-on", "info")[0] == 1


class TestSeveralStarts:
    @pytest.fixture
    def two(self, tmp_path: Path) -> str:
        return written(
            tmp_path / "two.log",
            (LOGS / "B02.txt").read_text(encoding="utf-8"),
            (LOGS / "A01.txt").read_text(encoding="utf-8"),
        )

    def test_all_of_them(self, cgplan: Run, two: str) -> None:
        starts = document(cgplan, two, status=1)["starts"]
        assert [start["came_up"] for start in starts] == [False, True]
        out = cgplan("logs", two)[1]
        assert "Start 1 of 2, line 1" in out
        assert "Start 2 of 2" in out

    @pytest.mark.parametrize("number", ["2", "last"])
    def test_one_of_them(self, cgplan: Run, two: str, number: str) -> None:
        (start,) = document(cgplan, two, "--start", number)["starts"]
        assert (start["number"], start["came_up"]) == (2, True)

    @pytest.mark.parametrize("number", ["0", "3", "two", "-1", ""])
    def test_one_that_is_not_there(self, cgplan: Run, two: str, number: str) -> None:
        assert cgplan("logs", two, "--start", number)[0] == 2

    def test_the_one_that_came_up_is_saved(self, cgplan: Run, two: str, tmp_path: Path) -> None:
        path = tmp_path / "m.json"
        out = cgplan("logs", two, "--gpu", "h100", "--save", str(path))[1]
        (saved,) = [text for text in out.splitlines() if text.startswith("Saved ")]
        assert "start 2" in saved
        assert json.loads(path.read_text(encoding="utf-8"))["measured"]["graph_bytes"] == round(0.91 * GIB)


class TestSave:
    def test_plan_reads_it(self, cgplan: Run, tmp_path: Path) -> None:
        path = tmp_path / "measured.json"
        status, out, _ = cgplan("logs", str(LOGS / "A02.txt"), "--gpu", "h100", "--save", str(path), "--json")
        assert status == 0
        json.loads(out)
        serve = [
            "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", "-tp", "2",
            "--gpu-memory-utilization", "0.95", "--no-enable-prefix-caching",
        ]  # fmt: skip
        status, out, err = cgplan(
            "plan", "--gpu", "h100", "--vllm", "0.19.1", "--profile", str(path), "--json", "--", *serve
        )
        assert (status, err) == (0, "")
        made = json.loads(out)
        assert made["kv_bytes"]["best"] / GIB == pytest.approx(63.76, abs=0.02)
        assert made["graph_bytes"]["best"] == round(0.76 * GIB)

    @pytest.mark.parametrize("name", ["A02", "A03", "A12", "B01"])
    def test_the_printed_line_plans_it(self, cgplan: Run, tmp_path: Path, name: str) -> None:
        path = tmp_path / "measured.json"
        out = cgplan("logs", str(LOGS / f"{name}.txt"), "--gpu", "h100", "--save", str(path))[1]
        words = shlex.split(out.splitlines()[-1].removeprefix("Plan it: "))
        assert words[:2] == ["cgplan", "plan"]
        status, _, err = cgplan(*words[1:])
        assert (status, err) == (0, "")
        assert ("that start crashed" in out) == (name == "B01")

    def test_another_deployment_refuses_it(self, cgplan: Run, tmp_path: Path) -> None:
        path = tmp_path / "measured.json"
        cgplan("logs", str(LOGS / "A02.txt"), "--gpu", "h100", "--save", str(path))
        status, _, err = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--profile", str(path))
        assert status == 2
        assert "another deployment" in err

    def test_nothing_is_written_where_it_cannot_be_made(self, cgplan: Run, tmp_path: Path) -> None:
        path = tmp_path / "measured.json"
        path.write_text("before", encoding="utf-8")
        status, _, err = cgplan("logs", str(LOGS / "A02.txt"), "--save", str(path))
        assert status == 2
        assert "does not name the GPU" in err
        assert path.read_text(encoding="utf-8") == "before"

    @pytest.mark.parametrize("words", [["--save", "m.json", "--no-plan"], ["--rank", "TP0"]])
    def test_options_that_do_not_go_together(self, cgplan: Run, words: list[str]) -> None:
        assert cgplan("logs", str(LOGS / "A02.txt"), *words)[0] == 2


def test_markdown_is_a_page(cgplan: Run) -> None:
    out = cgplan("logs", str(LOGS / "A03.txt"), "--gpu", "h100", "--markdown")[1]
    assert out.startswith("# Log: 1 start of vLLM\n")
    assert "| PP1, PP2 | 77.71 | 75.23 | 3.28 |" in out
    assert "### Plan and log" in out
    rows = [row for row in out.splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows if "PP" in row and "77.71" in row}) == 1


def test_the_screen_fits_a_narrow_terminal(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = cgplan("logs", str(LOGS / "B01.txt"), "--gpu", "h100")[1]
    assert max(map(len, out.splitlines())) <= 60


def test_help_names_it(cgplan: Run) -> None:
    assert re.search(r"^ +logs ", cgplan("--help")[1], re.M)


class TestSteps:
    METRICS = ROOT / "fixtures" / "metrics"

    def test_tables_of_the_log(self, cgplan: Run) -> None:
        found = document(cgplan, str(self.METRICS / "tables-two-engines.log"))
        assert found["workload"] is not None
        assert "Steps" in cgplan("logs", str(self.METRICS / "tables-two-engines.log"))[1]

    def test_metrics_alone(self, cgplan: Run) -> None:
        found = document(cgplan, "--metrics", str(self.METRICS / "moment-1.txt"))
        assert found["starts"] == []
        assert found["workload"] is not None

    def test_a_log_without_steps_has_none(self, cgplan: Run) -> None:
        assert document(cgplan, str(LOGS / "A01.txt"))["workload"] is None

    def test_neither(self, cgplan: Run) -> None:
        assert cgplan("logs")[0] == 2


def test_a_plan_of_the_record_of_a_crash_says_so(cgplan: Run, tmp_path: Path) -> None:
    """B01 died in the sampler's warm-up, of which the saved values show nothing."""
    record = tmp_path / "b01.json"
    _, out, err = cgplan("logs", str(LOGS / "B01.txt"), "--gpu", "h100", "--save", str(record))
    line = next(text for text in (out + err).splitlines() if text.startswith("Plan it: ")).removeprefix("Plan it: ")
    _, shown, _ = cgplan(*shlex.split(line)[1:])
    assert "crashed" in shown
    assert "warmed up" in " ".join(shown.split())


class TestAServerThatDied:
    """It came up and served: exit status 1, whatever it died of, and no word of a start that failed."""

    UP = (
        BANNER,
        arguments(model_tag="org/Model", max_num_batched_tokens=8192),
        line("Available KV cache memory: 50.0 GiB"),
        line("init engine (profile, create kv cache, warmup model) took 30.00 s"),
        "(APIServer pid=1) INFO:     Application startup complete.\n",
        '(APIServer pid=1) INFO:     10.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK\n',
    )

    def test_in_a_step(self, cgplan: Run, tmp_path: Path) -> None:
        fatal = line("EngineCore encountered a fatal error.", level="ERROR")
        said = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79"
        )
        path = written(
            tmp_path / "a.log", *self.UP, fatal, line(f"{said} GiB of which 1.00 GiB is free.", level="ERROR")
        )
        (start,) = document(cgplan, path, status=1)["starts"]
        assert start["came_up"] is True
        assert (start["crash"]["code"], start["crash"]["step"]) == ("CG825", "serving")
        status, out, _ = cgplan("logs", path)
        assert status == 1
        assert "Came up, the engine in 30 s, then died while serving" in " ".join(out.split())
        assert "Did not start" not in out

    def test_with_nothing_but_its_engine_gone(self, cgplan: Run, tmp_path: Path) -> None:
        gone = line(
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "APIServer pid=1", "ERROR"
        )
        (start,) = document(cgplan, written(tmp_path / "a.log", *self.UP, gone), status=1)["starts"]
        assert (start["crash"]["code"], start["came_up"]) == ("CG828", True)

    def test_one_that_goes_on_has_not(self, cgplan: Run, tmp_path: Path) -> None:
        (start,) = document(cgplan, written(tmp_path / "a.log", *self.UP))["starts"]
        assert (start["crash"], start["came_up"], start["platform_plugin"]) == (None, True, None)
