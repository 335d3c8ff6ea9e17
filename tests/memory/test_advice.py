"""Every change that a plan advises, applied: the server then starts, as it was promised."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model
from cgplan.memory.advice import CODES
from cgplan.memory.plan import CapacityPlan, plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.releases.gpus import gpu

GIB = 1 << 30
QWEN = "Qwen/Qwen3-8B"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
HYBRID = "Qwen/Qwen3.5-9B"

_FLAG = re.compile(r"(--[a-z-]+) ([0-9.]+)|(-cc\.cudagraph_mode)=([A-Z]+)|(no) (--num-gpu-blocks-override)")
_FIELDS = {
    "--max-model-len": "max_model_len",
    "--max-num-seqs": "max_num_seqs",
    "--tensor-parallel-size": "tensor_parallel_size",
    "--pipeline-parallel-size": "pipeline_parallel_size",
    "--nnodes": "nnodes",
    "--num-gpu-blocks-override": "num_gpu_blocks_override",
}


def made(model: str, card: str, request: MemoryRequest | None = None, **fields: Any) -> CapacityPlan:
    return plan_of(Deployment(**{"model": load_model(model), "gpu": gpu(card), **fields}), request or MemoryRequest())


def flags(**values: Any) -> MemoryRequest:
    return MemoryRequest(MemoryFlags(**values))


def applied(before: CapacityPlan, text: str) -> CapacityPlan:
    """The plan with the flags of one alternative."""
    fields: dict[str, Any] = {}
    request = before.request
    found = _FLAG.findall(text)
    assert found, text
    for flag, value, mode, name, left_out, _ in found:
        if left_out:
            fields["num_gpu_blocks_override"] = None
        elif mode:
            options = before.deployment.compilation_config.model_copy(update={"cudagraph_mode": name})
            fields["compilation_config"] = options.model_validate(options.model_dump(exclude_unset=True))
        elif flag in _FIELDS:
            fields[_FIELDS[flag]] = int(value)
        elif flag == "--kv-bytes":
            request = replace(request, kv_bytes=int(value))
        else:
            key = {"--gpu-memory-utilization": "utilization", "--kv-cache-memory-bytes": "kv_cache_bytes"}[flag]
            number = float(value) if key == "utilization" else int(value)
            request = replace(request, flags=replace(request.flags, **{key: number}))
    return plan_of(before.deployment.model_copy(update=fields), request)


def alternatives(fix: str) -> list[str]:
    """Changes, each of which is said to do alone; what may do by the best estimate alone is not among them."""
    return re.sub(r", up to [0-9]+ may", "", fix).split("; else ")[-1].split(", or ")


SAMPLE: dict[str, tuple[Any, ...]] = {
    "length on l4": (QWEN, "l4", None, {}),
    "length on l4, nearly": (QWEN, "l4", None, {"max_model_len": 20096}),
    "share too large on l4": (QWEN, "l4", flags(utilization=0.99), {}),
    "whole gpu": (QWEN, "h100", flags(utilization=1.0), {}),
    "share too small": (QWEN, "h100", flags(utilization=0.2), {}),
    "other processes": (QWEN, "h100", MemoryRequest(known=Measured(free=40 * GIB)), {}),
    "little free": (QWEN, "h100", MemoryRequest(known=Measured(free=18 * GIB)), {}),
    "rows": (QWEN, "h100", None, {"max_num_seqs": 8192}),
    "rows on 0.25": (QWEN, "h100", flags(utilization=0.97), {"max_num_seqs": 4096, "vllm": "0.25.1"}),
    "manual, too much": (QWEN, "h100", flags(kv_cache_bytes=62 * GIB), {}),
    "manual, far too much": (QWEN, "h100", flags(kv_cache_bytes=900 * GIB), {}),
    "manual, too little": (QWEN, "h100", flags(kv_cache_bytes=GIB), {}),
    "override, too few": (QWEN, "h100", None, {"num_gpu_blocks_override": 10}),
    "override, too many": (QWEN, "h100", None, {"num_gpu_blocks_override": 1_000_000}),
    "override beside given bytes": (QWEN, "h100", MemoryRequest(kv_bytes=9 * GIB), {"num_gpu_blocks_override": 9000}),
    "given bytes": (QWEN, "h100", MemoryRequest(kv_bytes=2 * GIB), {}),
    "given bytes, none": (QWEN, "h100", MemoryRequest(kv_bytes=0), {}),
    "weights of 70b": (LLAMA, "h100", None, {}),
    "weights of 70b, two ranks": (LLAMA, "h100", None, {"tensor_parallel_size": 2}),
    "weights on t4": (QWEN, "t4", None, {"dtype": "float16"}),
    "weights of deepseek": ("deepseek-ai/DeepSeek-V3", "h100", None, {}),
    "weights of deepseek on b200": ("deepseek-ai/DeepSeek-V3", "b200", None, {}),
    "scout": (SCOUT, "h100", None, {"tensor_parallel_size": 8}),
    "scout alone": (SCOUT, "h100", None, {}),
    "gpt-oss": ("openai/gpt-oss-120b", "h100", None, {}),
    "gemma": ("google/gemma-3-27b-it", "h100", None, {}),
    "hybrid, rows and length": (HYBRID, "h100", MemoryRequest(kv_bytes=4 * GIB), {"max_num_seqs": 256}),
    "hybrid on l4": (HYBRID, "l4", None, {"max_num_seqs": 1024}),
    "auto on a small share": (QWEN, "h100", MemoryRequest(MemoryFlags(utilization=0.2), auto_fit=True), {}),
}


@pytest.mark.parametrize("name", SAMPLE)
def test_what_is_advised_starts(name: str) -> None:
    model, card, request, fields = SAMPLE[name]
    before = made(model, card, request, **fields)
    assert before.starts != "yes"
    fixes = [found.fix for found in before.findings if found.code in CODES and found.severity != "info" and found.fix]
    assert fixes
    for fix in fixes:
        for text in alternatives(fix):
            after = applied(before, text)
            assert after.starts == "yes", f"{text}: {[(f.code, f.message) for f in after.findings]}"
            again = [f for f in after.findings if f.code in CODES and f.severity == "error"]
            assert not again, text


@pytest.mark.parametrize("name", SAMPLE)
def test_the_limits_that_are_named_start(name: str) -> None:
    model, card, request, fields = SAMPLE[name]
    before = made(model, card, request, **fields)
    for flag, number in (
        ("--max-model-len", before.max_model_len_that_surely_starts),
        ("--max-num-seqs", before.max_num_seqs_that_surely_starts),
    ):
        if number and not before.request.auto_fit:
            assert applied(before, f"{flag} {number}").starts == "yes", flag
    if before.least_utilization is not None:
        assert applied(before, f"--gpu-memory-utilization {before.least_utilization:.2f}").starts == "yes"


def fix_of(found: CapacityPlan, code: str) -> str:
    return next(finding.fix or "" for finding in found.findings if finding.code == code)


class TestWording:
    def test_weights_alone(self) -> None:
        found = made(LLAMA, "h100")
        assert [f.code for f in found.findings] == ["CG597"]
        assert found.findings[0].message.startswith("the weights alone take 131.45 GiB of the 78.68 GiB")
        assert fix_of(found, "CG597") == "--tensor-parallel-size 4 (4 GPUs are the fewest that start)"

    def test_more_than_one_node(self) -> None:
        fix = fix_of(made("deepseek-ai/DeepSeek-V3", "h100"), "CG597")
        assert fix.startswith("--tensor-parallel-size 8 with --pipeline-parallel-size 2 with --nnodes 2")

    def test_no_number_of_these_gpus(self) -> None:
        assert fix_of(made("deepseek-ai/DeepSeek-V3", "t4"), "CG597").startswith("take GPUs with more memory")

    def test_measured_weights_are_not_spread(self) -> None:
        found = made(QWEN, "h100", MemoryRequest(known=Measured(weights=100 * GIB)))
        assert fix_of(found, "CG597") == "spread the model over more GPUs, or take GPUs with more memory"

    def test_the_sure_length_comes_first(self) -> None:
        found = made(QWEN, "l4")
        sure, best = found.max_model_len_that_surely_starts, found.max_model_len_that_fits
        assert sure < best
        assert fix_of(found, "CG561") == f"--max-model-len {sure} surely starts, up to {best} may"

    @pytest.mark.parametrize(
        ("request_", "fields"),
        [
            (MemoryRequest(kv_bytes=2 * GIB), {}), (MemoryRequest(kv_bytes=0), {}), (flags(kv_cache_bytes=GIB), {}),
            (None, {"num_gpu_blocks_override": 10}), (flags(kv_cache_bytes=62 * GIB), {}),
        ],
    )  # fmt: skip
    def test_no_share_where_it_does_not_size_the_cache(
        self, request_: MemoryRequest | None, fields: dict[str, Any]
    ) -> None:
        found = made(QWEN, "h100", request_, **fields)
        assert found.starts != "yes"
        assert "utilization" not in " ".join(finding.fix or "" for finding in found.findings)

    def test_one_share_where_others_hold_the_memory(self) -> None:
        found = made(QWEN, "h100", MemoryRequest(known=Measured(free=40 * GIB)))
        assert [f.code for f in found.findings if f.severity != "info"] == ["CG504"]
        assert re.fullmatch(r"--gpu-memory-utilization 0\.[0-9]{2}", fix_of(found, "CG504"))

    def test_a_share_that_works_is_named(self) -> None:
        fix = fix_of(made(QWEN, "h100", flags(utilization=0.2)), "CG560")
        assert re.fullmatch(r"--gpu-memory-utilization 0\.[0-9]{2}", fix)
