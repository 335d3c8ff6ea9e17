"""Examples and ways out of rules with arithmetic in them, as explain prints them, tried."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import B200, EMBEDDER, H100, JAMBA, V1, V2, compiling, drafting, finding_codes, given, outcome

from cgplan import CUDAGraphMode, StartupError
from cgplan.resolve import Resolution
from cgplan.resolve.other_backend import full_for_decode
from cgplan.rules import all_rules

FULL = CUDAGraphMode.FULL


def said(code: str, *parts: str) -> None:
    """The page of the rule has these words; a test that tries others would hold nothing."""
    rule = all_rules()[code]
    for part in parts:
        assert part in f"{rule.title} {rule.example} {rule.instead}", (code, part)


def cliff(found: Resolution) -> int | None:
    return found.uniform_decode_coverage().first_cliff


def test_the_end_of_the_grid() -> None:
    said("CG108", "max_num_seqs 64 ends the grid at 128", "1024 ends it at 512", "1024 on compute capability 10.x")
    for seqs, card, largest in ((64, H100, 128), (1024, H100, 512), (1024, B200, 1024)):
        assert outcome(max_num_seqs=seqs, gpu=card).max_capture_size == largest


def test_max_num_seqs_off_the_grid() -> None:
    said("CG111", "264 joins the 51 sizes", "a multiple of 16 from 256 on, of 8 below")
    assert len(outcome(max_num_seqs=264, gpu=H100).capture_sizes) == 52
    for seqs in (8, 104, 248, 256, 272, 512):
        found = outcome(max_num_seqs=seqs, gpu=H100)
        assert "CG111" not in {decision.code for decision in found.decisions}, seqs
        assert seqs in found.capture_sizes


def test_the_token_budget_on_the_grid() -> None:
    said("CG112", "--max-num-batched-tokens 100 ends the grid at 100")
    said("CG113", "--max-num-batched-tokens 500 with 256 sequences: the last size is 500", "choose a multiple of 16")
    assert outcome(max_num_batched_tokens=100).max_capture_size == 100
    assert outcome(max_num_batched_tokens=500, max_num_seqs=256).max_capture_size == 500
    found = outcome(max_num_batched_tokens=496, max_num_seqs=256)
    assert "CG113" not in {decision.code for decision in found.decisions}


def test_interactivity() -> None:
    said("CG114", "76 sizes instead of 51")
    for mode, number in (("interactivity", 76), (None, 51)):
        assert len(outcome(max_num_seqs=256, performance_mode=mode).capture_sizes) == number


def test_rounding_on_runner_v1() -> None:
    said("CG401", "1 draft token and sizes 1, 2, 4, 8: 2, 4, 8")
    found = outcome(speculative_config=drafting(tokens=1), cudagraph_capture_sizes=[1, 2, 4, 8], env=V1)
    assert found.capture_sizes == (2, 4, 8)


def test_lora_with_drafts() -> None:
    said("CG412", "--max-num-seqs 1024 --max-num-batched-tokens 2048", "max_num_seqs x (1 + num_speculative_tokens)")
    asked: dict[str, Any] = {"enable_lora": True, "max_num_seqs": 1024, "speculative_config": drafting(tokens=3)}
    for tokens in (2048, 1024 * 4 - 1):
        with pytest.raises(StartupError) as caught:
            outcome(max_num_batched_tokens=tokens, env=V1, **asked)
        assert caught.value.code == "CG412"
    outcome(max_num_batched_tokens=1024 * 4, env=V1, **asked)


@pytest.mark.parametrize("env", [V1, V2])
def test_tokens_are_not_requests(env: dict[str, str]) -> None:
    said("CG440", "--max-num-seqs 6 --max-cudagraph-capture-size 6 with 3 draft tokens", "as a size", "multiple of 8")
    said("CG440", "on runner V1 one size further")
    said("CG704", "on runner V1 one size further")
    asked: dict[str, Any] = {"max_num_seqs": 6, "speculative_config": drafting(tokens=3), "env": env}
    assert cliff(outcome(max_cudagraph_capture_size=6, **asked)) is not None
    assert cliff(outcome(cudagraph_capture_sizes=[8, 16, 6 * 4], **asked)) is None
    for seqs, drafts in ((6, 3), (6, 6), (5, 2), (70, 3), (90, 4), (7, 5), (33, 7)):
        needed = seqs * (1 + drafts)
        step = 16 if needed > 256 else 8
        largest = -(-needed // step) * step
        if env is V1 and largest % (1 + drafts):
            largest += step
        asked = {"max_num_seqs": seqs, "speculative_config": drafting(tokens=drafts), "env": env}
        assert cliff(outcome(max_cudagraph_capture_size=largest, **asked)) is None, (seqs, drafts)


@pytest.mark.parametrize("release", ["0.19.1", "0.28.0", "0.29.0", "0.33.0"])
def test_a_maximum_beside_drafts(release: str) -> None:
    said("CG441", "6 draft tokens", "the sizes end at 40", "which is enough from 0.29 on", "multiples of 1 +")
    asked: dict[str, Any] = {"max_num_seqs": 6, "speculative_config": drafting(tokens=6), "vllm": release}
    asked["env"] = V2 if release == "0.33.0" else V1
    found = outcome(max_cudagraph_capture_size=42, **asked)
    assert found.config["cudagraph_capture_sizes"][-1] == 40
    assert cliff(found) == 6
    assert cliff(outcome(cudagraph_capture_sizes=[7, 14, 21, 28, 35, 42], **asked)) is None
    if release >= "0.29":
        ranges = outcome(**asked).uniform_decode_coverage().ranges
        assert all(part.mode is FULL for part in ranges)


def test_sequence_parallelism() -> None:
    said("CG643", "with --tensor-parallel-size 8: 1, 2 and 4 leave the grid", "multiples of the tensor parallel size")
    said("CG645", "2 draft tokens and --tensor-parallel-size 4 do not start on runner V1", "that divides the tensor")
    options = compiling(pass_config={"enable_sp": True, "sp_min_token_num": 1}, use_inductor_graph_partition=True)
    asked: dict[str, Any] = {"compilation_config": options, "vllm": "0.30.0", "env": V1}
    assert outcome(tensor_parallel_size=8, **asked).capture_sizes[0] == 8
    assert outcome(tensor_parallel_size=8, cudagraph_capture_sizes=[8, 24], **asked).capture_sizes == (8, 24)
    with pytest.raises(StartupError) as caught:
        outcome(tensor_parallel_size=4, speculative_config=drafting(tokens=2), **asked)
    assert caught.value.code == "CG645"
    for drafts, ranks in ((1, 4), (3, 4), (3, 2), (7, 4)):
        outcome(tensor_parallel_size=ranks, speculative_config=drafting(tokens=drafts), **asked)


def test_full_graphs_up_to_max_num_seqs() -> None:
    said("CG705", "--max-num-seqs 100 on 0.30.0", "a --max-num-seqs that is a capture size, or name the size")
    asked: dict[str, Any] = {"vllm": "0.30.0", "env": V2}
    assert "CG705" in finding_codes(outcome(max_num_seqs=100, **asked))
    assert "CG705" not in finding_codes(outcome(max_num_seqs=104, **asked))
    named = outcome(max_num_seqs=100, cudagraph_capture_sizes=[*range(8, 97, 8), 100], **asked)
    assert "CG705" not in finding_codes(named)


PIECEWISE = compiling(cudagraph_mode=CUDAGraphMode.PIECEWISE)


def test_piecewise_by_name() -> None:
    said("CG243", "-cc.cudagraph_mode=FULL_AND_PIECEWISE")
    asked = given(compilation_config=PIECEWISE)
    found = full_for_decode(asked, outcome(compilation_config=PIECEWISE))
    assert found is not None
    assert (found.code, found.severity, found.fix) == ("CG243", "info", "-cc.cudagraph_mode=FULL_AND_PIECEWISE")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"compilation_config": PIECEWISE, "attention_support": "NEVER"},
        {"compilation_config": PIECEWISE, "model": EMBEDDER},
        {"compilation_config": PIECEWISE, "model": JAMBA, "max_num_seqs": 64, "num_gpu_blocks": 60},
    ],
)
def test_piecewise_where_there_is_no_more(fields: dict[str, Any]) -> None:
    """By default; an attention backend without FULL graphs; a pooling model; too few Mamba blocks for FULL graphs."""
    assert full_for_decode(given(**fields), outcome(**fields)) is None
    if "num_gpu_blocks" in fields:
        more = {**fields, "num_gpu_blocks": 640}
        assert full_for_decode(given(**more), outcome(**more)) is not None


def test_pages_that_logs_quotes_stand_by_themselves() -> None:
    """A line of vLLM's log has no finding beside it: the page names no number of one, and weighs what was set."""
    for code, parts, absent in (
        ("CG116", ("counts tokens, not requests", "multiples of 8 up to 256"), "the finding names"),
        ("CG205", ("cannot be compiled as a whole", "VLLM_USE_BREAKABLE_CUDAGRAPH=0"), "Set VLLM"),
        ("CG703", ("--specialize-active-lora", "--cudagraph-capture-sizes"), "the option, that made it"),
    ):
        rule = all_rules()[code]
        page = f"{rule.why} {rule.instead}"
        assert [part for part in parts if part not in page] == []
        assert absent not in page


def test_weights_of_an_unknown_method_can_be_given() -> None:
    for code in ("CG139", "CG143", "CG597"):
        assert "--weights-bytes" in all_rules()[code].instead
    with pytest.raises(StartupError) as refused:
        outcome(quantization="online_int4")
    assert "leave it out" in str(refused.value.fix)
    assert "--weights-bytes" in str(refused.value.fix)
