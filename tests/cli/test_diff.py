"""`cgplan diff`: what it prints, and its exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.releases import SUPPORTED

Run = Callable[[str], tuple[int, str, str]]
B200 = "diff --from 0.25.1 --to 0.33.0 --gpu b200 --max-num-seqs 1000"
FORMATS = ("", " --markdown", " --json")
HALF = "diff --from 0.19 --to 0.20 --gpu h100 -- vllm serve nvidia/NVIDIA-Nemotron-Nano-9B-v2 --gpu-memory-utilization"


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")

    def call(line: str) -> tuple[int, str, str]:
        status = run(line.split())
        out, err = capsys.readouterr()
        return status, out, err

    return call


def squeezed(text: str) -> str:
    """`text` without the line breaks of the screen."""
    return " ".join(text.replace("\\", "").split())


@pytest.mark.parametrize("form", ["", " --markdown"])
def test_the_upgrade_of_a_b200(cgplan: Run, form: str) -> None:
    status, out, err = cgplan(B200 + form)
    assert (status, err) == (0, "")
    text = squeezed(out)
    for words in (
        "grid.platform_cap.sm10: 512 → 1024",
        "largest size: 512 → 1024",
        "51 sizes",
        "84 sizes",
        "added 528–992 by 16, 1000 1008 1024",
        "graph memory estimate: 0 → real, off the KV cache",
        "runner.v2_default: listed → all",
        "grid.append_off_grid: no → yes",
        "--max-cudagraph-capture-size 512",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0",
    ):
        assert words in text, words
    for code in ("CG108", "CG111", "CG503", "CG609"):
        assert code in text
    for release in ("0.28.0", "0.29.0", "0.31.0"):
        assert f"In {release}" in out


@pytest.mark.parametrize("columns", ["40", "80", "120", "200"])
def test_the_screen_keeps_its_width(cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for line in (B200, "diff --from 0.19 --to 0.33", f"{HALF} 0.5", f"{HALF} 0.4".replace("0.19 --to 0.20", "0.23")):
        out = cgplan(line)[1]
        assert max(len(row) for row in out.splitlines()) <= min(int(columns), 120)


def test_the_document(cgplan: Run) -> None:
    document = json.loads(cgplan(B200 + " --json")[1])
    assert list(document) == [
        "schema_version", "from", "to", "changed", "deployment", "releases", "changes", "without_effect", "notes",
        "memory", "assumptions", "not_modelled",
    ]  # fmt: skip
    assert (document["schema_version"], document["from"], document["to"]) == (1, "0.25.1", "0.33.0")
    assert document["deployment"]["gpu"] == "NVIDIA B200"
    assert [r["release"] for r in document["releases"]] == list(
        SUPPORTED[SUPPORTED.index("0.25.1") : SUPPORTED.index("0.33.0") + 1]
    )
    changes = {change["field"]: change for change in document["changes"]}
    sizes = changes["capture_sizes"]
    assert (len(sizes["before"]), len(sizes["after"]), len(sizes["added"]), sizes["removed"]) == (51, 84, 33, [])
    assert sizes["restore"] == {"setting": "--max-cudagraph-capture-size 512", "note": ""}
    step = changes["max_cudagraph_capture_size"]["steps"][0]
    assert (step["release"], step["causes"][0]["code"]) == ("0.28.0", "CG108")
    assert step["causes"][0]["facts"] == [{"path": "pipeline.grid.platform_cap.sm10", "before": 512, "after": 1024}]
    assert document["notes"] is None


def test_without_a_deployment_it_is_the_release_notes(cgplan: Run) -> None:
    status, out, _ = cgplan("diff --from 0.30 --to 0.31")
    assert status == 0
    assert "CG111" in out
    assert "FLASHINFER" in out
    document = json.loads(cgplan("diff --from 0.30 --to 0.31 --json")[1])
    assert (document["deployment"], document["changes"], document["changed"]) == (None, [], True)
    note = next(note for note in document["notes"] if note["code"] == "CG111")
    assert (note["release"], note["kind"]) == ("0.31.0", "new")
    page = cgplan("diff --from 0.30 --to 0.31 --markdown")[1]
    assert page.startswith("# Rules that changed: vLLM 0.30.0 → 0.31.0")
    assert "- **CG111** (new)" in page


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("deployment", ["", " --gpu h100"])
def test_one_release_and_itself(cgplan: Run, form: str, deployment: str) -> None:
    status, out, err = cgplan(f"diff --from 0.33 --to v0.33.0{deployment}{form} --fail-on-change")
    assert (status, err) == (0, "")
    if form == " --json":
        assert json.loads(out)["changed"] is False
    else:
        assert "Nothing" in out


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("deployment", ["", " --gpu h100"])
@pytest.mark.parametrize(("flag", "status"), [("", 0), (" --fail-on-change", 1)])
def test_fail_on_change(cgplan: Run, form: str, deployment: str, flag: str, status: int) -> None:
    assert cgplan(f"diff --from 0.28 --to 0.29{deployment}{form}{flag}")[0] == status


def test_down_again(cgplan: Run) -> None:
    text = squeezed(cgplan("diff --from 0.33 --to 0.25 --gpu b200 --max-num-seqs 1000")[1])
    assert "largest size: 1024 → 512" in text
    assert "graph memory estimate: real, off the KV cache → 0" in text


def test_the_other_release_is_the_newest(cgplan: Run) -> None:
    assert json.loads(cgplan("diff --from 0.32 --json")[1])["to"] == SUPPORTED[-1]


@pytest.mark.parametrize("flag", ["--from", "--to"])
@pytest.mark.parametrize("release", ["0.12", "0.99.0", "newest", "0.34.0"])
def test_an_unknown_release(cgplan: Run, flag: str, release: str) -> None:
    other = "--to" if flag == "--from" else "--from"
    status, out, err = cgplan(f"diff {flag} {release} {other} 0.33")
    lines = err.splitlines()
    assert (status, out) == (2, "")
    assert lines[0].startswith("error[CG801]")
    assert f" [{flag}]" in lines[0]
    assert SUPPORTED[-1] in lines[0]
    assert "--assume-release" not in err


@pytest.mark.parametrize("line", ["diff", "diff --to 0.33"])
def test_a_release_is_needed(cgplan: Run, line: str) -> None:
    status, _, err = cgplan(line)
    assert status == 2
    assert "--from" in err


@pytest.mark.parametrize("flag", ["--vllm 0.28", "--assume-release 0.28"])
def test_the_release_is_not_given_twice(cgplan: Run, flag: str) -> None:
    status, _, err = cgplan(f"diff --from 0.28 --to 0.33 {flag}")
    assert (status, err.splitlines()[0][:12]) == (2, "error[CG907]")


def test_a_refusal_is_told(cgplan: Run) -> None:
    line = "diff --from 0.31 --to 0.32 --gpu h100 -cc.pass_config.enable_sp=true -tp 2"
    document: dict[str, Any] = json.loads(cgplan(line + " --json")[1])
    assert [release["starts"] for release in document["releases"]] == [True, False]
    (change,) = document["changes"]
    assert (change["field"], change["before"], change["after"]["code"]) == ("startup", None, "CG641")
    assert change["restore"]["note"]
    assert "refuses to start" in squeezed(cgplan(line)[1])


def test_ascii(cgplan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from cgplan.report.console import AsciiFile

    lines: list[str] = []

    class Sink:
        def write(self, text: str) -> int:
            lines.append(text)
            return len(text)

    AsciiFile(Sink()).write("528–992 by 16 → • …")  # type: ignore[arg-type]
    assert lines == ["528-992 by 16 > * ."]


@pytest.mark.parametrize("form", ["", "--markdown"])
def test_the_memory_plan_of_both_ends(cgplan: Run, form: str) -> None:
    line = f"{HALF} 0.5".replace(" -- ", f" {form} -- ")
    status, out, err = cgplan(line)
    text = squeezed(out)
    assert (status, err) == (0, "")
    for words in (
        "0.19.1 starts, 0.20.2 does not: CG501.",
        "start, by its memory",
        "does not start",
        "Memory, planned at 0.19.1 and 0.20.2",
        "exceeds the 957 Mamba cache blocks; fix: --max-num-seqs 512",
    ):
        assert words in text, words
    more = squeezed(cgplan(line.replace("0.5", "0.9"))[1])
    assert "start, by its memory" not in more
    assert "graph estimate taken off" in more


def test_the_memory_in_the_document(cgplan: Run) -> None:
    document = json.loads(cgplan(f"{HALF} 0.5".replace(" -- ", " --json -- "))[1])
    memory = document["memory"]
    assert (memory["from"]["fits"], memory["to"]["fits"]) == (True, False)
    assert [one["code"] for one in memory["new"]] == ["CG501"]
    assert document["changed"] is True


@pytest.mark.parametrize(
    "line",
    [
        "diff --from 0.28 --to 0.29 --gpu h100",  # a dense 8B decoder: its weights are not said
        "diff --from 0.28 --to 0.29",
        "diff --from 0.31 --to 0.32 --gpu h100 --model Qwen/Qwen3-8B -cc.pass_config.enable_sp=true -tp 2",
    ],
)
def test_no_memory_where_too_little_is_known(cgplan: Run, line: str) -> None:
    assert json.loads(cgplan(f"{line} --json")[1])["memory"] is None
    assert "Memory, planned" not in cgplan(line)[1]


def test_a_release_that_knows_the_model_is_planned_beside_one_that_refuses_it(cgplan: Run) -> None:
    """It no longer refuses, which is not to say that the weights fit."""
    line = "diff --from 0.26 --to {} --gpu h100 -- vllm serve moonshotai/Kimi-K3 --tensor-parallel-size 8"
    out = squeezed(cgplan(line.format("0.27"))[1])
    assert "By its memory 0.27.1 does not start: CG597." in out
    assert "the weights alone take" in out
    assert "not traced" not in out
    assert "start: Nothing to do: it is no longer refused." in out
    assert "it starts" not in out
    small = line.replace("moonshotai/Kimi-K3", "moonshotai/Kimi-K3 --pipeline-parallel-size 4 --nnodes 4")
    assert re.search(
        r"By its memory 0.27.1 starts.*, with [0-9.]+ GiB of KV cache\.", squeezed(cgplan(small.format("0.27"))[1])
    )


def test_a_diff_that_plans_no_memory_for_want_of_weights_says_so(cgplan: Run) -> None:
    line = "diff --from 0.28 --to 0.29 --gpu h100"
    assert "Memory is not compared: the weights of the model are not known" in squeezed(cgplan(line)[1])
    assert any("Memory is not compared" in one for one in json.loads(cgplan(f"{line} --json")[1])["assumptions"])
    assert "Memory is not compared" not in squeezed(cgplan(f"{line} --model Qwen/Qwen3-8B")[1])


def test_a_gpu_that_is_assumed_is_planned_for_as_plan_does(cgplan: Run) -> None:
    ends = "diff --from 0.19 --to 0.20"
    own = "vllm serve nvidia/NVIDIA-Nemotron-Nano-9B-v2 --gpu-memory-utilization 0.5"
    assumed = json.loads(cgplan(f"{ends} --json -- {own}")[1])
    named = json.loads(cgplan(f"{ends} --gpu h100 --json -- {own}")[1])
    assert assumed["memory"] == named["memory"]
    assert assumed["deployment"]["gpu"] == named["deployment"]["gpu"]
    assert "Memory, planned at 0.19.1 and 0.20.2" in squeezed(cgplan(f"{ends} -- {own}")[1])


@pytest.mark.parametrize(
    ("name", "ends", "ignores"),
    [
        ("VLLM_ATTENTION_BACKEND", ("0.28", "0.33"), ["0.28.0"]),
        ("VLLM_MM_HASHER_ALGORITHM", ("0.28", "0.33"), ["0.33.0"]),
        ("VLLM_LOGGING_LEVEL", ("0.28", "0.33"), []),
    ],
)
def test_variables_that_a_release_ignores(cgplan: Run, name: str, ends: tuple[str, str], ignores: list[str]) -> None:
    first, last = ends
    line = f"diff --from {first} --to {last} --gpu h100 --model Qwen/Qwen3-8B --env {name}=x --json"
    said = json.loads(cgplan(line)[1])["assumptions"]
    assert [one for one in said if "CG811" in one] == [
        f"Environment: {name} is set; vLLM {release} ignores it (CG811)." for release in ignores
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_deployment_that_both_releases_refuse_is_no_lack_of_changes(cgplan: Run, form: str) -> None:
    line = "diff --from 0.23 --to 0.26 --model Qwen/Qwen3-8B --gpu h100 -q nonsense"
    status, out, err = cgplan(line + form)
    assert status == 2
    assert err.startswith(
        "error[CG139]: starts in neither 0.23.0 nor 0.26.0, so memory is not compared either: unknown"
    )
    assert "Nothing" not in out
    assert cgplan(line.replace("-q nonsense", "-q fp8") + form)[0] == 0


def test_each_end_refuses_for_a_reason_of_its_own(cgplan: Run) -> None:
    more = "--model Qwen/Qwen3-8B --gpu h100 -cc.pass_config.enable_sp=true -tp 2 -q nvfp4_per_token"
    status, out, _ = cgplan(f"diff --from 0.19 --to 0.33 {more}")
    assert status == 0
    text = squeezed(out)
    assert "Starts in neither: 0.19.1 refuses by CG139, 0.33.0 by CG641. Nothing else is compared" in text


@pytest.mark.parametrize("form", ["", "--markdown"])
def test_a_memory_that_both_releases_refuse_is_told(cgplan: Run, form: str) -> None:
    line = f"{HALF} 0.4".replace("--from 0.19 --to 0.20", f"--from 0.23 --to 0.26 {form}")
    text = squeezed(cgplan(line)[1])
    assert "By its memory it starts in neither: CG501." in text
    assert re.search(r"exceeds the 5\d\d Mamba cache blocks", text)
    assert "starts in neither" not in squeezed(cgplan(line.replace(" 0.4", " 0.9"))[1])


@pytest.mark.parametrize("form", ["", " --markdown"])
def test_the_default_share_of_memory(cgplan: Run, form: str) -> None:
    line = f"diff --from 0.19.1 --to 0.20.2 --model Qwen/Qwen3-14B --gpu h100{form}"
    text = squeezed(cgplan(line)[1]).replace("`", "")
    for words in (
        "memory asked for: --gpu-memory-utilization is 0.92 by default, 0.9 in 0.19.1",
        "To keep what 0.19.1 did",
        "The default is 0.92 in 0.20.2.",
        "Its KV cache grows from",
        "What moves the KV cache",
    ):
        assert words in text, words
    given = squeezed(cgplan(f"{line} --gpu-memory-utilization 0.9")[1])
    assert "by default, 0.9" not in given
    assert "The default is" not in given
    assert "Its KV cache shrinks from" in given


def test_options_of_memory_stand_over_those_of_the_line(cgplan: Run) -> None:
    document = json.loads(cgplan(f"{HALF} 0.5".replace(" -- ", " --gpu-memory-utilization 0.9 --json -- "))[1])
    assert document["memory"]["to"]["gpu_memory_utilization"] == 0.9
    own = json.loads(cgplan(f"{HALF} 0.5".replace(" -- ", " --json -- "))[1])
    assert own["memory"]["to"]["gpu_memory_utilization"] == 0.5
    fixed = "diff --from 0.28 --to 0.29 --model Qwen/Qwen3-8B --gpu h100 --kv-cache-memory-bytes 20G --json"
    memory = json.loads(cgplan(fixed)[1])["memory"]
    assert (memory["from"]["kv_bytes"], memory["to"]["kv_bytes"]) == (20 << 30,) * 2
    assert cgplan("diff --from 0.28 --to 0.29 --gpu h100 --gpu-memory-utilization 1.9")[0] == 2


def test_the_log_of_a_hybrid_in_0_19_counts_otherwise(cgplan: Run) -> None:
    out = cgplan(f"{HALF} 0.9")[1]
    rows = {row.split("  ")[1].strip(): row for row in out.splitlines() if row.startswith("  KV ")}
    assert "of one group" in rows["KV tokens of the log"]
    assert "CG581" in rows["KV tokens of the log"]
    before, after = (int(word.replace(",", "")) for word in rows["KV tokens"].split()[2:4])
    assert before > after
    assert "of the log" not in cgplan(f"{HALF} 0.9".replace("--from 0.19 --to 0.20", "--from 0.20 --to 0.21"))[1]


def test_blocks_that_the_old_release_did_not_look_at(cgplan: Run) -> None:
    assert re.search(r"0\.19\.1 has 1,0\d\d blocks and does not refuse: it caps", squeezed(cgplan(f"{HALF} 0.5")[1]))
    assert "does not refuse" not in squeezed(cgplan(f"{HALF} 0.9")[1])


@pytest.mark.parametrize("form", ["", " --markdown"])
def test_the_graphs_of_both_ends_are_told_though_nothing_changes(cgplan: Run, form: str) -> None:
    line = f"diff --from 0.32 --to 0.33 --model Qwen/Qwen3-8B --gpu h100{form}"
    assert "CUDA graphs: FULL_AND_PIECEWISE, 102 graphs on runner V2 in both." in squeezed(cgplan(line)[1])
    none = squeezed(cgplan(f"{line} --enforce-eager")[1])
    assert "CUDA graphs: none (CG" in none
