"""Advice names the fix of the cause first, and no fix of another finding as its own."""

from __future__ import annotations

import re
from typing import Any

from cgplan import Deployment, MemoryFlags, gpu, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan


def made(model: str, card: str, share: float | None = None, vllm: str = "0.33.0", **fields: Any) -> CapacityPlan:
    return plan(Deployment(model=load_model(model), gpu=gpu(card), vllm=vllm, **fields), MemoryFlags(share))


def fix_of(found: CapacityPlan, code: str) -> str:
    return next(one.fix or "" for one in found.findings if one.code == code)


class TestCausesFirst:
    def test_a_length_is_no_mend_of_the_free_memory(self) -> None:
        found = made("Qwen/Qwen3-8B", "l4", 0.99)
        assert fix_of(found, "CG504").endswith("(the length is for CG561)")
        assert "(the length" not in fix_of(found, "CG561")
        alone = made("Qwen/Qwen3-8B", "l4", 0.99, max_model_len=8192)
        assert re.fullmatch(r"--gpu-memory-utilization 0\.9\d", fix_of(alone, "CG504"))

    def test_fewer_batched_tokens_where_they_are_taken_for_graphs(self) -> None:
        """CG529: on 0.26 the transient memory of 29,818 tokens is what the KV cache lacks."""
        fields = {"tensor_parallel_size": 2, "max_num_batched_tokens": 29818}
        found = made("Qwen/Qwen3.5-122B-A10B", "h200", vllm="0.26.0", **fields)
        first = fix_of(found, "CG501").split(", or ")[0]
        assert first.startswith("--max-num-batched-tokens 8192 with --max-num-seqs 256")
        later = made("Qwen/Qwen3.5-122B-A10B", "h200", vllm="0.33.0", **fields)
        assert "--max-num-batched-tokens" not in " ".join(str(one.fix) for one in later.findings if one.code == "CG501")

    def test_a_start_that_holds_names_them_too(self) -> None:
        fields = {"tensor_parallel_size": 2, "max_num_batched_tokens": 29818, "max_num_seqs": 64}
        found = made("Qwen/Qwen3.5-122B-A10B", "h200", vllm="0.26.0", max_model_len=65536, **fields)
        assert fix_of(found, "CG529") == "--max-num-batched-tokens 8192"

    def test_a_shorter_length_or_fewer_requests_of_the_whole(self) -> None:
        """CG501 and CG561 together: both ways are named, and the number of requests starts with the length kept."""
        fields = {"vllm": "0.25.1", "max_num_seqs": 512}
        fix = fix_of(made("Qwen/Qwen3.5-4B", "l4", 0.9, **fields), "CG501")
        both, kept = fix.split(", or ")
        assert re.fullmatch(r"--max-num-seqs 256 \(\d+ at most\) with --max-model-len \d+", both)
        number = int(kept.removeprefix("--max-num-seqs "))
        assert made("Qwen/Qwen3.5-4B", "l4", 0.9, vllm="0.25.1", max_num_seqs=number).starts == "yes"
        assert made("Qwen/Qwen3.5-4B", "l4", 0.9, vllm="0.25.1", max_num_seqs=number + 1).starts != "yes"
        # With less memory no number of use starts with the whole length.
        assert ", or --max-num-seqs" not in fix_of(made("Qwen/Qwen3.5-4B", "l4", 0.86, **fields), "CG501")

    def test_transient_memory_is_told_where_it_is_no_warning(self) -> None:
        """C04: at fewer than a GiB too much it is an information; the rule holds for 0.26 to 0.28."""
        fields = {"tensor_parallel_size": 4, "max_num_batched_tokens": 29818, "max_num_seqs": 64}
        found = {one.code: one for one in made("Qwen/Qwen3.5-122B-A10B", "h200", vllm="0.26.0", **fields).findings}
        assert found["CG529"].severity == "info"
        assert "29818 batched tokens" in found["CG529"].message
        later = made("Qwen/Qwen3.5-122B-A10B", "h200", vllm="0.33.0", **fields)
        assert "CG529" not in {one.code for one in later.findings}
