from __future__ import annotations

import pytest
from asked_lines import codes, drafts, mended, pointed_at, told

from cgplan.inputs.catalogue import load
from cgplan.vocabulary import CUDAGraphMode

MTP = "Qwen/Qwen3.5-27B --max-num-seqs 8"


@pytest.mark.parametrize(
    "setting", ["-cc.cudagraph_mode=FULL", "--cudagraph-capture-sizes 1 2", "-cc.max_cudagraph_capture_size=64"]
)
def test_eager_wins_over_graph_settings(setting: str) -> None:
    one = told(f"Qwen/Qwen3-8B --enforce-eager {setting}", "CG240")
    assert one is not None
    assert one.severity == "error"
    assert [other.message for other in one.related] == ["switches every graph off"]
    assert mended(f"Qwen/Qwen3-8B --enforce-eager {setting}", "CG240") == f"Qwen/Qwen3-8B {setting}"


@pytest.mark.parametrize("line", ["--enforce-eager", "--enforce-eager -cc.cudagraph_mode=NONE", "--max-num-seqs 64"])
def test_eager_contradicts_nothing(line: str) -> None:
    assert told(f"Qwen/Qwen3-8B {line}", "CG240") is None


def test_eager_is_said_once() -> None:
    assert codes("Qwen/Qwen3-8B --enforce-eager") == ["CG242 info"]
    assert codes("Qwen/Qwen3-8B --enforce-eager -cc.cudagraph_mode=FULL") == ["CG240 error"]
    assert told("Qwen/Qwen3-8B --max-num-seqs 64", "CG242") is None


def test_eager_frees_memory_only_where_graphs_are_in_the_budget() -> None:
    old = told("Qwen/Qwen3-8B --enforce-eager", "CG242", "0.19.1")
    new = told("Qwen/Qwen3-8B --enforce-eager", "CG242", "0.33.0")
    assert old is not None
    assert new is not None
    assert "no more memory" in old.message
    assert "memory" not in new.message


@pytest.mark.parametrize(
    ("off", "without"),
    [("-cc.cudagraph_mode=NONE", "Qwen/Qwen3-8B -cc.cudagraph_mode=NONE"), ("-O0", "Qwen/Qwen3-8B -O0")],
)
def test_sizes_without_graphs(off: str, without: str) -> None:
    line = f"Qwen/Qwen3-8B {off} --max-cudagraph-capture-size 64"
    one = told(line, "CG241")
    assert one is not None
    assert (one.severity, pointed_at(one)) == ("error", "--max-cudagraph-capture-size")
    assert mended(line, "CG241") == without


def test_sizes_with_graphs() -> None:
    assert told("Qwen/Qwen3-8B --max-cudagraph-capture-size 64 --max-num-seqs 64", "CG241") is None


def test_a_backend_that_keeps_full_is_named() -> None:
    line = f"{MTP} --attention-backend FLASHINFER {drafts(3, 'mtp')}"
    one = told(line, "CG333", "0.23.0", "h100")
    assert one is not None
    assert (one.flag, one.safe) == ("--attention-backend FLASH_ATTN", False)
    assert pointed_at(one) == "--attention-backend"
    assert [other.at.source.text[other.at.span.start : other.at.span.end] for other in one.related] == [
        "--speculative-config"
    ]
    assert told(mended(line, "CG333", "0.23.0", "h100"), "CG333", "0.23.0", "h100") is None


def test_a_backend_in_the_attention_config_is_replaced_there() -> None:
    line = f"{MTP} -ac.backend=FLASHINFER {drafts(3, 'mtp')}"
    one = told(line, "CG333", "0.23.0", "h100")
    assert one is not None
    assert one.flag == "-ac.backend=FLASH_ATTN"
    assert told(mended(line, "CG333", "0.23.0", "h100"), "CG333", "0.23.0", "h100") is None


def test_no_backend_is_named_where_none_keeps_full() -> None:
    one = told(f"{MTP} -tp 4 --kv-cache-dtype fp8 {drafts(3, 'mtp')}", "CG333", "0.20.2", "rtx3090")
    assert one is not None
    assert one.flag is None
    assert one.fix is not None
    assert "FLASH_ATTN then keeps FULL_AND_PIECEWISE" in one.fix


def test_mixed_full_names_what_runs_and_what_keeps_it() -> None:
    line = "Qwen/Qwen3-8B -cc.cudagraph_mode=FULL"
    one = told(line, "CG330", "0.33.0", "a100")
    assert one is not None
    assert one.flag == "--attention-backend TRITON_ATTN"
    assert one.fix is not None
    assert "-cc.cudagraph_mode=FULL_AND_PIECEWISE" in one.fix
    assert told(mended(line, "CG330", "0.33.0", "a100"), "CG330", "0.33.0", "a100") is None
    assert told(line, "CG330", "0.33.0", "h100") is None


def test_pooling_is_no_loss_unless_full_was_named() -> None:
    assert codes("Qwen/Qwen3-8B --runner pooling") == ["CG207 info"]
    line = "Qwen/Qwen3-8B --runner pooling -cc.cudagraph_mode=FULL_AND_PIECEWISE"
    one = told(line, "CG207")
    assert one is not None
    assert (one.severity, one.flag) == ("warning", f"-cc.cudagraph_mode={CUDAGraphMode.PIECEWISE}")
    assert told(mended(line, "CG207"), "CG207") is None


@pytest.mark.parametrize("given", ["--all2all-backend deepep_high_throughput"])
def test_deepep_high_throughput(given: str) -> None:
    moe = load("deepseek-ai/DeepSeek-V3.1")
    line = f"m -dp 8 --enable-expert-parallel {given}"
    one = told(line, "CG601", model=moe)
    assert one is not None
    assert one.flag == "--all2all-backend deepep_low_latency"
    assert len(one.related) == 2
    assert told(line.replace("-dp 8", "-tp 8"), "CG601", model=moe) is None
    assert told(line.replace("high_throughput", "low_latency"), "CG601", model=moe) is None


@pytest.mark.parametrize(
    ("line", "code", "release", "cost"),
    [
        (f"{MTP} --attention-backend FLASHINFER {drafts(3, 'mtp')}", "CG333", "0.23.0", "16% more"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct -tp 8", "CG332", "0.23.0", "47% more"),
    ],
)
def test_what_the_lost_graphs_cost_others_is_quoted(line: str, code: str, release: str, cost: str) -> None:
    one = told(line, code, release, "h100")
    assert one is not None
    assert cost in one.message
    assert "vllm-project/vllm#" in one.message


def test_no_cost_where_decode_keeps_its_full_graphs() -> None:
    one = told("Qwen/Qwen3-8B -cc.cudagraph_mode=FULL", "CG330", "0.33.0", "a100")
    assert one is not None
    assert "measured elsewhere" not in one.message


@pytest.mark.parametrize(
    ("line", "code", "parts"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct -cc.cudagraph_mode=PIECEWISE", "CG243", ("#25444", "ten requests")),
        ("Qwen/Qwen2.5-1.5B-Instruct -cc.cudagraph_mode=PIECEWISE", "CG243", ("#20059",)),
        ("Qwen/Qwen3-32B -tp 4 -cc.cudagraph_mode=PIECEWISE", "CG243", ("#20059", "sglang#2360", "size 4")),
        ("Qwen/Qwen3-8B -cc.cudagraph_mode=NONE", "CG244", ("less than 1%", "full batches", "#20059")),
        ("Qwen/Qwen3-8B -O0", "CG244", ("sgl-project/sglang#2360",)),
        ("Qwen/Qwen3-32B -tp 4 --enforce-eager", "CG242", ("4% more", "less than 1%")),
        ("Qwen/Qwen3-30B-A3B --enforce-eager", "CG242", ("#24123",)),
    ],
)
def test_the_nearest_measurement_is_quoted(line: str, code: str, parts: tuple[str, ...]) -> None:
    one = told(line, code, "0.33.0", "h100")
    assert one is not None
    assert "measured elsewhere, no prediction for this server" in one.message
    assert [part for part in parts if part not in one.message] == []


def test_a_mode_that_another_rule_takes_away() -> None:
    moe = load("deepseek-ai/DeepSeek-V3.1")
    one = told("m -dp 8 --enable-expert-parallel --all2all-backend deepep_high_throughput", "CG601", model=moe)
    assert one is not None
    assert "vllm-project/vllm#24123" in one.message
    layerwise = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both", ' + (
        '"kv_connector_extra_config": {"use_layerwise": true}}'
    )
    two = told(f"Qwen/Qwen3-8B --kv-transfer-config '{layerwise}'", "CG209")
    assert two is not None
    assert "vllm-project/vllm#20059" in two.message


@pytest.mark.parametrize("line", ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B --enforce-eager", "Qwen/Qwen3-8B --runner pooling"])
def test_a_mode_that_nobody_switched_off(line: str) -> None:
    assert told(line, "CG244") is None


class TestBackendOfDrafts:
    """Which backend keeps the FULL graphs of decode steps with several tokens, before it is chosen."""

    def test_the_one_that_would_lose_them_is_named(self) -> None:
        one = told(f"{MTP} {drafts(1, 'mtp')}", "CG246", "0.27.1", "h100")
        assert one is not None
        assert (one.severity, pointed_at(one)) == ("info", "--speculative-config")
        assert "FULL decode graphs with FLASH_ATTN; FLASHINFER would lose them" in one.message
        assert "vllm-project/vllm#35387" in one.message

    @pytest.mark.parametrize(
        "line",
        [
            MTP,
            f"{MTP} {drafts(1, 'mtp')} --attention-backend FLASH_ATTN",
            f"{MTP} {drafts(1, 'mtp')} --attention-backend FLASHINFER",
            f"{MTP} {drafts(1, 'mtp')} --enforce-eager",
        ],
    )
    def test_no_choice_is_left(self, line: str) -> None:
        assert told(line, "CG246", "0.27.1", "h100") is None

    def test_where_every_backend_keeps_them(self) -> None:
        assert told(f"{MTP} {drafts(1, 'mtp')}", "CG246", "0.33.0", "b200") is None


def test_another_error_does_not_hide_the_backend_that_keeps_full() -> None:
    line = f"Qwen/Qwen3.6-27B -q gptq -tp 4 {drafts(3, 'mtp')} --attention-backend FLASHINFER"
    one = told(line, "CG333", "0.23.0", "rtx3090")
    assert one is not None
    assert one.flag == "--attention-backend FLASH_ATTN"


def test_nothing_of_the_default_mode_where_a_mode_was_refused() -> None:
    model = "meta-llama/Llama-4-Scout-17B-16E-Instruct -tp 8"
    assert told(f'{model} -O \'{{"cudagraph_mode": "FULL"}}\'', "CG332") is None
    assert told(model, "CG332") is not None


@pytest.mark.parametrize("flag", ["--decode-context-parallel-size 8", "-dcp 8"])
def test_context_parallelism_with_full_graphs(flag: str) -> None:
    line = f"deepseek-ai/DeepSeek-V3.1 -tp 8 {flag}"
    one = told(line, "CG247", "0.33.0", "h200")
    assert one is not None
    assert pointed_at(one) == flag.split()[0]
    assert "-cc.cudagraph_mode=PIECEWISE" in str(one.fix)
    assert told(f"{line} -cc.cudagraph_mode=PIECEWISE", "CG247", "0.33.0", "h200") is None
    assert told("deepseek-ai/DeepSeek-V3.1 -tp 8", "CG247", "0.33.0", "h200") is None


class TestPiecewiseAskedFor:
    """PIECEWISE by name, where decode batches could have FULL graphs."""

    def test_what_full_graphs_gain(self) -> None:
        line = "Qwen/Qwen2.5-1.5B-Instruct -cc.cudagraph_mode=PIECEWISE"
        one = told(line, "CG243", "0.19.1")
        assert one is not None
        assert (one.severity, pointed_at(one)) == ("info", "-cc.cudagraph_mode=PIECEWISE")
        assert "8 to 15%" in one.message
        assert "vllm-project/vllm#20059" in one.message
        assert one.flag == "-cc.cudagraph_mode=FULL_AND_PIECEWISE"
        after = mended(line, "CG243", "0.19.1")
        assert after == "Qwen/Qwen2.5-1.5B-Instruct -cc.cudagraph_mode=FULL_AND_PIECEWISE"
        assert told(after, "CG243", "0.19.1") is None

    @pytest.mark.parametrize(
        "line",
        [
            "Qwen/Qwen2.5-1.5B-Instruct",
            "Qwen/Qwen2.5-1.5B-Instruct -cc.cudagraph_mode=FULL",
            # The only mode of these: attention without FULL graphs, a pooling model.
            "meta-llama/Llama-4-Scout-17B-16E-Instruct -tp 8 -cc.cudagraph_mode=PIECEWISE",
            "Qwen/Qwen2.5-1.5B-Instruct --runner pooling -cc.cudagraph_mode=PIECEWISE",
            "Qwen/Qwen2.5-1.5B-Instruct --enforce-eager -cc.cudagraph_mode=PIECEWISE",
        ],
    )
    def test_where_piecewise_is_all_there_is(self, line: str) -> None:
        assert told(line, "CG243", "0.19.1") is None
