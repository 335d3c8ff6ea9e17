"""`cgplan plan`: what it prints, its exit status, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest
from plan_cases import QWEN, Run, document

GIB = 1 << 30


class TestScreen:
    def test_a_model_that_fits(self, cgplan: Run) -> None:
        status, out, err = cgplan(*QWEN)
        assert (status, err) == (0, "")
        for word in (
            "It starts.", "weights", "KV cache", "stays free", "Concurrency", "--max-model-len", "--max-num-seqs",
            "vLLM will estimate", "Capture really takes", "PIECEWISE", "ESTIMATE_CUDAGRAPHS=0", "Assumed",
        ):  # fmt: skip
            assert word in out, word

    @pytest.mark.parametrize("columns", ["40", "60", "80", "200"])
    def test_no_line_is_wider_than_the_terminal(
        self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        for more in ([], ["--what-if", "max-num-seqs=1,1024"], ["--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2"]):
            lines = cgplan(*QWEN, *more)[1].splitlines()
            assert max(map(len, lines)) <= min(int(columns), 120), more

    def test_no_colour_in_a_pipe(self, cgplan: Run) -> None:
        assert "\x1b" not in cgplan(*QWEN)[1]

    def test_one_that_does_not(self, cgplan: Run) -> None:
        status, out, _ = cgplan("plan", "--model", "deepseek-ai/DeepSeek-V3", "--gpu", "h100")
        assert status == 1
        for word in ("It does not start.", "error CG597", "GPUs are the fewest that start"):
            assert word in out

    def test_a_default_model_is_said(self, cgplan: Run) -> None:
        status, out, _ = cgplan("plan", "--gpu", "h100")
        assert status == 0
        assert "a dense 8B decoder" in out

    def test_markdown(self, cgplan: Run) -> None:
        status, out, _ = cgplan(*QWEN, "--markdown")
        assert status == 0
        assert out.startswith("# Memory: vLLM")
        assert "| = | KV cache |" in out

    def test_compared(self, cgplan: Run) -> None:
        status, out, _ = cgplan(*QWEN, "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64")
        assert status == 0
        assert "tp 2" in out
        assert "B - A" in out
        assert "max_num_seqs" in out


class TestDocument:
    def test_contract(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN)
        assert found["gpu"] == "NVIDIA H100 80GB HBM3"
        assert isinstance(found["weights_bytes"], int)
        for name in ("activation_bytes", "non_torch_bytes", "graph_bytes", "graph_estimate_bytes", "kv_bytes"):
            assert found[name]["low"] <= found[name]["best"] <= found[name]["high"]
        for name in ("requested_bytes", "block_size", "num_gpu_blocks", "kv_tokens"):
            assert isinstance(found[name], int), name
        assert found["fits"] is True
        assert found["max_model_len_that_fits"] == 40960
        assert {"weights_bytes", "graph_bytes", "kv_bytes"} <= found["sources"].keys()

    def test_kv_bytes(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--kv-bytes", str(9 * GIB))
        assert found["kv_bytes"] == {"low": 9 * GIB, "best": 9 * GIB, "high": 9 * GIB}
        assert found["requested_bytes"] is None
        # 36 layers of 8 heads of 128, keys and values of 2 bytes: 2,304 KiB a block of 16 tokens.
        assert (found["num_gpu_blocks"], found["kv_tokens"]) == (4096, 65536)

    def test_given_values(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--weights-bytes", "20G", "--graph-bytes", "1G", "--free-bytes", "79G")
        assert found["weights_bytes"] == 20 * GIB
        assert found["graph_bytes"]["best"] == GIB
        assert found["free_bytes"]["best"] == 79 * GIB
        assert found["sources"]["weights_bytes"] == "as given"

    def test_flags_of_a_line_and_options_over_them(self, cgplan: Run) -> None:
        line = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.5", "--max-model-len", "auto"]
        status, out, _ = cgplan("plan", "--gpu", "h100", "--json", *line)
        assert status == 0
        found = json.loads(out)
        assert found["gpu_memory_utilization"] == 0.5
        assert not any("what fits is not looked at" in text for text in found["assumptions"])
        out = cgplan("plan", "--gpu", "h100", "--json", "--gpu-memory-utilization", "0.6", *line)[1]
        assert json.loads(out)["gpu_memory_utilization"] == 0.6

    def test_auto_length(self, cgplan: Run) -> None:
        found = document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--max-model-len", "auto")
        assert 0 < found["max_model_len"] < 40960

    def test_manual_cache(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--kv-cache-memory-bytes", "9G")
        assert found["kv_bytes"]["best"] == 9 * GIB
        assert found["deducted_bytes"] == 0

    def test_does_not_start(self, cgplan: Run) -> None:
        found = document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", status=1)
        assert found["fits"] is False
        assert found["findings"][0]["code"] == "CG561"
        assert (
            document(cgplan, "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--fail-on", "never")["starts"] == "no"
        )

    def test_compared_and_what_if(self, cgplan: Run) -> None:
        found = document(cgplan, *QWEN, "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2")
        assert found["compared_with"]["kv_tokens"] > found["kv_tokens"]
        one, two = document(cgplan, *QWEN, "--what-if", "tp=1,2")["what_if"]["rows"]
        assert (one["kv_tokens"], two["kv_tokens"]) == (found["kv_tokens"], found["compared_with"]["kv_tokens"])

    def test_schema(self, cgplan: Run) -> None:
        assert "PlanDocument" in json.loads(cgplan("schema", "plan")[1])["$defs"]
        assert json.loads(cgplan("schema", "profile")[1])["title"] == "Profile"


class TestWhatIf:
    @pytest.mark.parametrize(
        ("asked", "rows"),
        [
            ("max-num-seqs=1..5", 5),
            ("max-num-seqs=64..512:64", 8),
            ("--max-num-seqs=64, 128", 2),
            ("max-model-len=1k,8k,auto", 3),
            ("gpu-memory-utilization=0.5,0.9", 2),
            ("gpu-memory-utilization=0.90..0.98:0.02", 5),
            ("kv-cache-memory-bytes=1g,9G", 2),
            ("gpu=h100,l4", 2),
            ("vllm=0.28,0.33", 2),
            ("model=Qwen/Qwen3-8B,Qwen/Qwen3-30B-A3B", 2),
            ("cudagraph-capture-sizes=1 2 4;1 2 4 8", 2),
            ("cudagraph-mode=NONE,PIECEWISE,FULL", 3),
            ("enforce-eager=true,false", 2),
            ("kv-cache-dtype=auto,fp8", 2),
        ],
    )
    def test_values(self, cgplan: Run, asked: str, rows: int) -> None:
        found = document(cgplan, *QWEN, "--what-if", asked)["what_if"]["rows"]
        assert len(found) == rows
        assert any(row["fits"] for row in found)

    def test_a_value_whose_estimate_is_out_of_line_is_told(self, cgplan: Run) -> None:
        words = ("plan", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h200", "--vllm", "0.25.1")
        words = (*words, "--env", "VLLM_USE_V2_MODEL_RUNNER=0", "--what-if")
        shown = " ".join(cgplan(*words, "max-num-seqs=64,128,256")[1].split())
        assert "128: vLLM takes 0.90 GiB off for graphs that take 0.33 GiB" in shown
        assert "256: vLLM" not in shown
        assert "GiB off" not in cgplan(*words, "max-num-seqs=64,256")[1]
        assert "128: vLLM takes 0.90 GiB off" in cgplan(*words, "max-num-seqs=64,128", "--markdown")[1]
        alone = " ".join(cgplan(*words[:-1], "--max-num-seqs", "128")[1].split())
        assert "It may be an outlier" in alone
        assert "takes 20 MiB of the pool that no other does" in alone
        assert "outlier" not in cgplan(*words[:-1], "--max-num-seqs", "256")[1]

    def test_a_value_that_vllm_refuses_is_a_row(self, cgplan: Run) -> None:
        rows = document(cgplan, *QWEN, "--what-if", "tensor-parallel-size=1,3")["what_if"]["rows"]
        assert [row["fits"] for row in rows] == [True, False]
        assert rows[1]["code"]

    def test_requests_at_once_are_of_the_length_that_was_asked_for(self, cgplan: Run) -> None:
        words = ("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4")
        found = document(cgplan, *words, "--what-if", "max-model-len=8k,32k", status=1)
        short, long = found["what_if"]["rows"]
        assert short["fits"]
        assert short["max_concurrency"] == pytest.approx(short["kv_tokens"] / 8000, rel=0.01)
        assert (long["fits"], long["max_concurrency"]) == (False, None)
        assert long["kv_tokens"] < 32000
        alone = document(cgplan, *words, "--max-model-len", "32000", status=1)
        assert alone["max_concurrency"] is None

    @pytest.mark.parametrize(
        ("gpu", "asked", "status", "starts"),
        [
            ("l4", "max-model-len=8k", 1, "no CG561"),
            ("h100", "max-num-seqs=64,99999999", 0, "yes"),
            ("h100", "max-num-seqs=64", 0, "yes"),
        ],
    )
    def test_the_status_is_of_the_deployment_as_given_which_is_shown(
        self, cgplan: Run, gpu: str, asked: str, status: int, starts: str
    ) -> None:
        words = ("plan", "--model", "Qwen/Qwen3-8B", "--gpu", gpu)
        shown_as, out, _ = cgplan(*words, "--what-if", asked)
        assert shown_as == status == cgplan(*words)[0]
        row = next(line for line in out.splitlines() if line.strip().startswith("as given"))
        assert row.split("as given")[1].strip().startswith(starts)
        assert (
            len(document(cgplan, *words, "--what-if", asked, status=status)["what_if"]["rows"]) == asked.count(",") + 1
        )

    @pytest.mark.parametrize(
        "asked",
        ["", "max-num-seqs", "max-num-seqs=", "=1", "max-num-seqs=1,,2", "max-num-seqs=9..1",
         "gpu-memory-utilization=0.9..0.98",
         "max-num-seqs=1..99999999",
         "max-num-seqs=1..5:0", "nonsense=1", "env=A=1", "enforce-eager=maybe", "gpu-memory-utilization=2", "gpu=nope",
         "max-num-seqs=x", "model=nope/nope"],
    )  # fmt: skip
    def test_refused(self, cgplan: Run, asked: str) -> None:
        status, out, err = cgplan(*QWEN, "--what-if", asked)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "fix: " in err


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu-memory-utilization", "0"], ["--gpu-memory-utilization", "1.5"], ["--gpu-memory-utilization", "nan"],
        ["--kv-bytes", "-1"], ["--kv-bytes", "x"], ["--kv-bytes", "1G", "--kv-cache-memory-bytes", "1G"],
        ["--weights", "/nonexistent"], ["--weights", "/tmp", "--weights-bytes", "1"],
        ["--profile", "/nonexistent.json"],
        ["--compare-with", "'"], ["--compare-with", ""], ["--compare-with", "nonexistent.yaml"], ["--fail-on", "x"],
        ["--tensor-parallel-size", "x"],
    ],
)  # fmt: skip
def test_refused(cgplan: Run, words: list[str]) -> None:
    status, out, err = cgplan(*QWEN, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["--total-bytes", "0"], "--total-bytes"), (["--total-bytes", "1"], "--total-bytes"),
        (["--total-bytes", "900T"], "--total-bytes"), (["--gpu-memory-bytes", "1"], "--gpu-memory-bytes"),
        (["--gpu-memory-bytes", "900T"], "--gpu-memory-bytes"), (["--free-bytes", "0"], "--free-bytes"),
        (["--free-bytes", "200G"], "--free-bytes"), (["--free-bytes", "41G", "--total-bytes", "40G"], "--free-bytes"),
        (["--kv-bytes", "900T"], "--kv-bytes"), (["--weights-bytes", "0"], "--weights-bytes"),
        (["--activation-bytes", "900T"], "--activation-bytes"), (["--non-torch-bytes", "900T"], "--non-torch-bytes"),
        (["--graph-bytes", "900T"], "--graph-bytes"), (["--graph-estimate-bytes=-900T"], "--graph-estimate-bytes"),
        (["--graph-estimate-bytes", "900T"], "--graph-estimate-bytes"),
    ],
)  # fmt: skip
def test_sizes_of_no_such_gpu_are_refused(cgplan: Run, words: list[str], flag: str) -> None:
    status, out, err = cgplan(*QWEN, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert flag in err
    assert "fix: " in err
    status, out, _ = cgplan(*QWEN, *words, "--json")
    assert status == 2
    assert json.loads(out)["error"]["where"] == flag


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--json", "--markdown"], "exclude each other"),
        (["--what-if", "tp=1,2", "--compare-with", "vllm serve Qwen/Qwen3-8B"], "exclude each other"),
        (["--num-gpu-blocks", "100"], "--num-gpu-blocks-override"),
        (["--profile", "/nonexistent.json"], "cgplan schema profile"),
        (["--weights-bytes", "2X"], "2G for 2 GiB"), (["--kv-bytes", "10P"], "2G for 2 GiB"),
        (["-pp", "100"], "[-pp]"),
    ],
)  # fmt: skip
def test_the_error_names_what_to_do(cgplan: Run, words: list[str], fix: str) -> None:
    status, _, err = cgplan(*QWEN, *words)
    assert status == 2
    assert fix in err


@pytest.mark.parametrize(("length", "status"), [("20096", 1), ("20192", 1), ("14000", 0)])
def test_the_exit_status_is_the_best_estimate(cgplan: Run, length: str, status: int) -> None:
    """20,192 tokens do not fit by the best estimate, and may within its bounds; 20,096 fit by it, and are no error."""
    words = ["plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4", "--max-model-len", length]
    found = json.loads(cgplan(*words, "--json")[1])
    assert cgplan(*words)[0] == (0 if found["fits"] else 1)
    assert found["fits"] is (length != "20192")
    assert cgplan(*words, "--fail-on", "never")[0] == 0
    assert cgplan(*words, "--fail-on", "warning")[0] == status


@pytest.mark.parametrize(
    "asked",
    [
        "gpu-memory-utilization=0.5,1.2", "max-num-seqs=64,0,128", "model=Qwen/Qwen3-0.6B,no/such", "kv-bytes=9G,900T",
        "gpu=h100,nope", "enforce-eager=true,maybe", "vllm=0.33,9.9", "kv-bytes=9G,x",
    ],
)  # fmt: skip
def test_one_bad_value_is_a_row(cgplan: Run, asked: str) -> None:
    rows = document(cgplan, *QWEN, "--what-if", asked)["what_if"]["rows"]
    bad = [row for row in rows if not row["fits"]]
    assert len(rows) == asked.count(",") + 1
    assert len(bad) == 1
    assert bad[0]["code"]
    assert bad[0]["message"]


class TestNarrow:
    @pytest.mark.parametrize("columns", ["40", "60", "80"])
    @pytest.mark.parametrize("gpu", ["h100", "l4", "t4"])
    def test_no_number_is_cut(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str, gpu: str) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        out = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", gpu)[1]
        table = out.partition("GiB of one GPU")[2].partition("\n\n")[0]
        assert "…" not in out
        assert table.count("\n=") == 1
        # The best column is always there: a number in every row.
        for line in table.splitlines()[1:]:
            assert line.rstrip()[-3] == ".", line

    @pytest.mark.parametrize("columns", ["40", "60", "80"])
    def test_rows_of_variants_are_whole(self, cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        out = cgplan(*QWEN, "--what-if", "tensor-parallel-size=1,2,3,4")[1]
        found = document(cgplan, *QWEN, "--what-if", "tensor-parallel-size=1,2,3,4")["what_if"]["rows"]
        for row in found:
            assert row["kv_tokens"] is None or f"{row['kv_tokens']:,}" in out

    def test_the_answer_and_its_fix_come_first(self, cgplan: Run) -> None:
        lines = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4")[1].splitlines()
        assert lines[1] == "It does not start."
        assert any(line.strip().startswith("fix: --max-model-len") for line in lines[:8])


def test_the_bar_has_the_names_of_the_table(cgplan: Run) -> None:
    """The glyphs stand for rows of the table, which has the sizes: they are said once."""
    out = cgplan(*QWEN)[1]
    for glyph, name in (("¤", "in use at the start"), ("•", "outside torch"), ("–", "free at a step's peak")):
        assert f"{glyph} {name}" in out
        assert not re.search(rf"{glyph} {name} [0-9]", out)
        assert any(re.search(rf"{name} +[0-9.]+", line) for line in out.splitlines())


def test_graphs_are_not_to_blame_for_a_model_that_does_not_fit(cgplan: Run) -> None:
    out = cgplan("plan", "--model", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "h100")[1]
    for text in ("idle", "What other CUDA graphs", "no --max-num-seqs", "--gpu-memory-utilization", "suggest"):
        assert text not in out, text
    out = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "l4")[1]
    assert "What other CUDA graphs" not in out
    assert "no --max-num-seqs" not in out


def test_graphs_that_give_nothing_are_not_listed(cgplan: Run) -> None:
    out = cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", "0.28")[1]
    assert "+0 MiB" not in out
    assert "its graphs: the estimate" in out or "will estimate" in out


def test_requests_of_a_length(cgplan: Run) -> None:
    found = document(cgplan, *QWEN)["requests_by_length"]
    out = cgplan(*QWEN)[1]
    for held in found:
        assert f"{int(held['requests']):,} of {held['length']:,}" in out


def test_groups_of_layers_share_blocks(cgplan: Run) -> None:
    out = cgplan("plan", "--model", "google/gemma-3-27b-it", "--gpu", "h200")[1]
    assert re.search(r"blocks of 16 tokens that [0-9]+ groups of layers share", out)
    assert "counted in requests of the full length" in out
    out = cgplan(*QWEN)[1]
    assert "blocks of 16 tokens" in out
    assert "counted in requests" not in out


def test_a_difference_is_that_of_the_numbers_beside_it(cgplan: Run) -> None:
    out = cgplan(*QWEN, "--compare-with", "vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64")[1]
    rows = re.findall(r"GiB  +(-?[0-9.]+)  +(-?[0-9.]+)  +([+-][0-9.]+) GiB", out)
    assert rows
    for first, second, more in rows:
        assert float(more) == pytest.approx(float(second) - float(first), abs=1e-9)


@pytest.mark.parametrize(("sizes", "short"), [("1", True), ("1 2 4", True), (None, False)])
def test_a_capture_of_no_time_is_no_share_of_the_start(cgplan: Run, sizes: str | None, short: bool) -> None:
    more = ("--cudagraph-capture-sizes", sizes) if sizes is not None else ()
    out = " ".join(cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100", *more)[1].split())
    assert ("Capture takes less than 1 s, going by" in out) is short
    assert ("of the engine's start" in out.partition("Capture takes")[2][:70]) is not short
    assert "about 0 s" not in out


@pytest.mark.parametrize(
    ("line", "said"), [("Qwen/Qwen3-14B", True), ("Qwen/Qwen3-8B", False), ("/models/Qwen3-8B", False)]
)
def test_a_model_of_the_command_in_the_place_of_the_lines_is_told(cgplan: Run, line: str, said: bool) -> None:
    status, out, _ = cgplan(*QWEN, "--", "vllm", "serve", line)
    assert status == 0
    words = "Model: Qwen/Qwen3-8B of the command stands in the place of the line's Qwen/Qwen3-14B."
    assert (words in " ".join(out.split())) is said
    assert "Qwen/Qwen3-8B" in out.splitlines()[0]
