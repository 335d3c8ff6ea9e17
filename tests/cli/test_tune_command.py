"""`cgplan tune`: what it prints, and that its flag does what it promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.workload.tune.concurrency_schema import ConcurrencyDocument
from cgplan.workload.tune.tune_schema import TuneDocument

METRICS = Path(__file__).parents[2] / "fixtures" / "metrics"
LOG = str(METRICS / "tables-two-engines.log")
ASKED = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--max-num-seqs", "64")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str) -> tuple[int, str, str]:
        status = run(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def document(cgplan: Run, *words: str) -> dict[str, Any]:
    status, out, err = cgplan("tune", *words, "--json")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    TuneDocument.model_validate(found)
    return found


def test_the_screen(cgplan: Run) -> None:
    status, out, err = cgplan("tune", *ASKED, "--workload", LOG)
    assert (status, err) == (0, "")
    for text in ("fewer tokens than with vLLM's default, 19 sizes", "Padding by number of sizes", "today", "chosen"):
        assert text in out
    assert "By chance in the counts the saving lies between" in " ".join(out.split())
    assert "0.5 times" in out


def test_the_flag_resolves_to_what_was_promised(cgplan: Run) -> None:
    found = document(cgplan, *ASKED, "--workload", LOG)
    resolved = json.loads(cgplan("resolve", *ASKED, *found["flags"].split(), "--json")[1])
    assert resolved["capture_sizes"] == found["chosen"]["capture_sizes"]
    planned = json.loads(cgplan("plan", *ASKED, *found["flags"].split(), "--json")[1])
    assert planned["kv_tokens"] == found["chosen"]["kv_tokens"]


def test_the_flag_is_one_line_that_can_be_copied(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    words = (*ASKED, "--workload", LOG)
    assert document(cgplan, *words)["flags"] in cgplan("tune", *words)[1].splitlines()


def test_a_mixture(cgplan: Run) -> None:
    words = (*ASKED, "--workload", f"{LOG}@1", "--workload", f"{METRICS / 'moment-1.txt'}@3")
    found = document(cgplan, *words)
    assert [part["share"] for part in found["parts"]] == pytest.approx([0.25, 0.75])
    assert found["gain_by_buckets"]["low"] < found["gain"] < found["gain_by_buckets"]["high"]
    assert "alone: what as many sizes save" in cgplan("tune", *words)[1]


def test_a_pasted_line(cgplan: Run) -> None:
    line = ("--gpu", "h100", "--shape", "steady", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64")
    status, out, _ = cgplan("tune", "--json", *line)
    assert status == 0
    assert json.loads(out)["fixed"] == [64, 128]


def test_a_model_that_is_not_known_is_tuned_without_memory(cgplan: Run) -> None:
    found = json.loads(cgplan("tune", "--json", "--gpu", "h100", "--shape", "low", "--", "vllm", "serve", "no/one")[1])
    TuneDocument.model_validate(found)
    assert found["chosen"]["graph_bytes"] is None
    assert any("memory is not planned" in note for note in found["notes"])


def test_markdown(cgplan: Run) -> None:
    out = cgplan("tune", *ASKED, "--workload", LOG, "--markdown")[1]
    assert out.startswith("# Capture sizes: vLLM")
    assert "| Graphs | 30 |" in out
    assert "--cudagraph-capture-sizes " in out


def test_a_profile(cgplan: Run, tmp_path: Path) -> None:
    times = {
        "full": {"1": 0.004, "8": 0.004, "256": 0.006}, "piecewise": {"1": 0.005, "8": 0.005, "256": 0.009},
        "eager": {"1": 0.02},
    }  # fmt: skip
    record = {
        "schema_version": 1, "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3"},
        "measured": {}, "profile": {"cost_seconds": times},
    }  # fmt: skip
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(record))
    words = (*ASKED, "--workload", LOG, "--profile", str(path))
    assert document(cgplan, *words)["cost_unit"] == "seconds"
    assert "Time of a step" in cgplan("tune", *words)[1]


def test_the_bytes_of_a_profile_are_those_of_plan(cgplan: Run, tmp_path: Path) -> None:
    times = {mode: {"1": 0.004, "8": 0.004, "256": 0.006} for mode in ("full", "piecewise", "eager")}
    record: dict[str, Any] = {
        "schema_version": 1, "fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3"},
        "measured": {"graph_bytes": 700 << 20}, "profile": {"cost_seconds": times},
    }  # fmt: skip
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(record))
    words = (*ASKED, "--workload", LOG, "--profile", str(path))
    found = document(cgplan, *words)
    planned = json.loads(cgplan("plan", *ASKED, "--profile", str(path), "--json")[1])
    assert found["today"]["graph_bytes"] == planned["graph_bytes"]["best"] == 700 << 20
    assert found["today"]["kv_tokens"] == planned["kv_tokens"]
    plain = document(cgplan, *ASKED, "--workload", LOG)
    fewest, before = (one["curve"][0]["graph_bytes"] for one in (found, plain))
    assert fewest == pytest.approx(before * (700 << 20) / plain["today"]["graph_bytes"], rel=1e-6)
    assert any("its fingerprint does not say" in text for text in found["assumptions"])

    record["fingerprint"]["max_num_seqs"] = 3
    path.write_text(json.dumps(record))
    other = document(cgplan, *words)
    assert other["today"]["graph_bytes"] == plain["today"]["graph_bytes"]
    assert any("its bytes are not taken" in text and "max_num_seqs 3" in text for text in other["assumptions"])


def test_a_profile_that_is_no_record_names_its_file(cgplan: Run, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"schema_version": 1}')
    status, _, err = cgplan("tune", *ASKED, "--workload", LOG, "--profile", str(path))
    assert status == 2
    assert "odd.json is no measured record: fingerprint" in err


def test_the_best_list_is_said_to_be_so(cgplan: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("kind,tokens,count\ndecode,8,5\ndecode,64,5\n")
    words = (*ASKED, "--cudagraph-capture-sizes", "8", "64", "--workload", str(path), "--spread", "0")
    out = cgplan("tune", *words)[1]
    assert "Today's list is the best" in out
    assert "--cudagraph-capture-sizes" not in out


def busy(tmp_path: Path, *rows: str) -> str:
    path = tmp_path / "busy.csv"
    path.write_text("\n".join(("kind,tokens,requests,count", *rows)) + "\n")
    return str(path)


def test_other_choices_on_the_screen_and_in_markdown(cgplan: Run, tmp_path: Path) -> None:
    traffic = ("--workload", busy(tmp_path, "decode,30,30,4000", "mixed,3000,9,50"))
    lean = cgplan("tune", *ASKED, *traffic)[1]
    words = (*ASKED[:4], "--max-num-seqs", "1024", *traffic)
    out = " ".join((lean + cgplan("tune", *words)[1]).split())
    for text in (
        "Other choices",
        "With FULL_DECODE_ONLY every step that was seen runs in the same kind of graph",
        "-cc.cudagraph_mode=FULL_DECODE_ONLY",
        "No step had more than 30 requests; 40 is a quarter more",
        "--max-num-seqs 40 in the place of --max-num-seqs 1024",
        "FULL_DECODE_ONLY has fewer graphs and serves the steps that were seen as well, but less is left",
        "1.2% with a prefill",
    ):
        assert text in out
    page = cgplan("tune", *words, "--markdown")[1]
    assert "## Other choices" in page
    assert "### cudagraph_mode" in page
    assert " --max-num-seqs 40\n```" in page


def test_flags_of_other_choices_resolve_to_what_was_promised(cgplan: Run, tmp_path: Path) -> None:
    traffic = ("--workload", busy(tmp_path, "decode,30,30,4000", "decode,9,9,2000", "mixed,3000,9,50"))
    given = (*ASKED[:4], "--max-cudagraph-capture-size", "100")
    others = document(cgplan, *given, *traffic)["other_choices"]
    for name in ("cudagraph_mode", "max_num_seqs"):
        one = others[name]
        (found,) = (row["found"] for row in one["values"] if one["recommended"] in (row.get("asked"), row.get(name)))
        # The largest size is between two of the default's, so that no list has it.
        assert one["replaces"] == ["--max-cudagraph-capture-size 100"]
        words = (*ASKED[:4], *one["flags"].split())
        resolved = json.loads(cgplan("resolve", *words, "--json")[1])
        assert resolved["capture_sizes"] == found["capture_sizes"]
        assert one["recommended"] in (resolved["cudagraph_mode"], resolved["max_num_seqs"])
        assert json.loads(cgplan("plan", *words, "--json")[1])["kv_tokens"] == found["kv_tokens"]
    assert json.loads(cgplan("resolve", *given, *one["flags"].split(), "--json")[1])["error"]["code"] == "CG117"


def test_what_the_flag_replaces_is_said(cgplan: Run) -> None:
    words = (*ASKED, "--max-cudagraph-capture-size", "100", "--workload", LOG)
    assert document(cgplan, *words)["replaces"] == ["--max-cudagraph-capture-size 100"]
    assert "in the place of --max-cudagraph-capture-size 100" in cgplan("tune", *words)[1]
    assert "in the place of" not in cgplan("tune", *ASKED, "--workload", LOG)[1]


def test_the_schema_is_printed(cgplan: Run) -> None:
    assert "curve" in json.loads(cgplan("schema", "tune")[1])["properties"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no traffic is given"),
        (("--shape", "stedy"), "did you mean steady"),
        (("--shape", "low", "--workload", LOG), "exclude each other"),
        (("--shape", "low", "--json", "--markdown"), "exclude each other"),
        (("--shape", "low", "--max-graphs", "0"), "--max-graphs"),
        (("--shape", "low", "--max-graphs", "1"), "no list keeps to the limits"),
        (("--shape", "low", "--max-graph-memory", "lots"), "--max-graph-memory"),
        (("--shape", "low", "--max-startup", "soon"), "--max-startup"),
        (("--shape", "low", "--spread", "1"), "--spread"),
        (("--shape", "low", "--spread", "nan"), "give 0 to 0.9"),
        (("--workload", "http://127.0.0.1:9"), "http://127.0.0.1:9"),
        (("--workload", f"{LOG}@1e308"), "from 0.000001 to 1000000"),
        (("--shape", "low", "--must", "700"), "give 1 to"),
        (("--shape", "low", "--must", "8,x"), "--must"),
        (("--shape", "low", "--must", "0"), "--must"),
        (("--shape", "low", "--profile", "/no/file"), "cgplan profile"),
        (("--shape", "low", "--enforce-eager"), "captures no CUDA graphs"),
        (("--workload", "/no/file"), "/no/file"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(cgplan: Run, words: tuple[str, ...], said: str) -> None:
    status, _, err = cgplan("tune", *ASKED, *words)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


def test_two_forms_are_refused_as_in_the_other_commands(cgplan: Run) -> None:
    assert json.loads(cgplan("tune", *ASKED, "--shape", "low", "--json", "--markdown")[1])["error"]["code"] == "CG907"


@pytest.mark.parametrize("columns", ["40", "60", "100"])
def test_a_narrow_window_cuts_no_word(cgplan: Run, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = cgplan("tune", *ASKED, "--workload", LOG)[1]
    assert "…" not in out
    lines = [line.rstrip() for line in out.splitlines()]
    assert any(line.endswith("today") for line in lines)
    assert any(line.endswith("chosen") for line in lines)
    assert "difference" in out
    assert "max_num_seqs" in out


class TestConcurrency:
    ASKED = (*ASKED, "--max-concurrency", "8")

    def test_the_screen(self, cgplan: Run) -> None:
        status, out, err = cgplan("tune", *self.ASKED)
        assert (status, err) == (0, "")
        said = " ".join(out.split())
        assert "decode steps run in 4 FULL sizes: 1, 2, 4, 8." in said
        assert "FULL sizes are never used" in said
        assert "--max-num-seqs 8 --cudagraph-capture-sizes 1 2 3 4 5 6 7 8" in out
        assert "s less of capture" in said

    def test_a_narrow_screen(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "50")
        out = cgplan("tune", *self.ASKED)[1]
        assert "…" not in out
        assert max(map(len, (line for line in out.splitlines() if not line.startswith("--")))) <= 50

    def test_the_document(self, cgplan: Run) -> None:
        status, out, err = cgplan("tune", *self.ASKED, "--json")
        assert (status, err) == (0, "")
        found = json.loads(out)
        ConcurrencyDocument.model_validate(found)
        (full,) = (one for one in found["graphs"] if one["mode"] == "FULL")
        assert full["by_decode"] == [1, 2, 4, 8]
        assert found["launches"][0]["flags"] is None
        assert found["assumptions"]
        assert (found["starts"], found["stops"]) == (True, [])

    @pytest.mark.parametrize("form", [(), ("--markdown",), ("--json",)])
    def test_a_server_that_does_not_start(self, cgplan: Run, form: tuple[str, ...]) -> None:
        status, out, err = cgplan("tune", "Qwen/Qwen3-8B", "--gpu", "t4", "--max-concurrency", "8", *form)
        assert (status, err) == (1, "")
        if form == ("--json",):
            found = json.loads(out)
            ConcurrencyDocument.model_validate(found)
            assert (found["starts"], [one["code"] for one in found["stops"]]) == (False, ["CG597"])
            assert found["stops"][0]["fix"]
        else:
            said = " ".join(out.split())
            assert "It does not start as it is, by the best estimate" in said
            assert "CG597" in said

    def test_the_page(self, cgplan: Run) -> None:
        status, out, err = cgplan("tune", *self.ASKED, "--markdown")
        assert (status, err) == (0, "")
        assert out.startswith("# Graphs of at most 8 requests at once: ")
        assert "| a size for each number |" in out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--shape", "low"), "exclude each other"),
            (("--workload", LOG), "exclude each other"),
            (("--max-graphs", "8"), "--max-graphs is of a choice"),
            (("--spread", "0.1"), "--spread is of a choice"),
        ],
    )
    def test_what_does_not_go_together(self, words: tuple[str, ...], said: str, cgplan: Run) -> None:
        status, _, err = cgplan("tune", *self.ASKED, *words)
        assert status == 2
        assert said in err

    def test_other_commands_name_it(self, cgplan: Run) -> None:
        status, _, err = cgplan("resolve", "--max-concurrency", "8")
        assert status == 2
        assert "cgplan tune --max-concurrency N" in err


def test_a_log_in_the_place_of_a_model_is_told_its_option(cgplan: Run) -> None:
    status, _, err = cgplan("tune", LOG, "--gpu", "h100")
    assert status == 2
    assert f"give it as --workload {LOG}" in err
    assert "--max-concurrency N" in cgplan("tune", "--model", "Qwen/Qwen3-8B")[2]


@pytest.mark.parametrize(
    ("option", "said"), [("--metrics", "--workload FILE"), ("--cudagraph-metrics", "tune --workload FILE")]
)
def test_the_names_of_others_lead_to_the_workload(option: str, said: str, cgplan: Run) -> None:
    status, _, err = cgplan("tune", *ASKED, option, "x")
    assert status == 2
    assert said in err


def test_traffic_of_one_size_says_what_it_assumes(cgplan: Run, tmp_path: Path) -> None:
    path = tmp_path / "nine.csv"
    path.write_text("kind,tokens,requests,query_len,lora,count\ndecode,9,9,1,,1000\n", encoding="utf-8")
    found = document(cgplan, *ASKED, "--workload", str(path))
    assert set(range(1, 17)) <= set(found["near"])
    assert found["near_reason"] == "batches of 1 size alone were seen"
    out = " ".join(cgplan("tune", *ASKED, "--workload", str(path))[1].split())
    assert "How far the traffic spreads is not known" in out
    alone = document(cgplan, *ASKED, "--workload", str(path), "--spread", "0")
    assert (alone["near"], alone["near_reason"]) == ([], None)


def test_the_lists_by_density_are_shown_without_a_workload(cgplan: Run) -> None:
    out = cgplan("tune", *ASKED, "--shape", "bursty")[1]
    assert "Lists by how dense they are" in out
    assert "powers of two" in out
    found = document(cgplan, *ASKED, "--shape", "bursty")
    assert [one["graphs"] for one in found["densities"]] == sorted(one["graphs"] for one in found["densities"])
