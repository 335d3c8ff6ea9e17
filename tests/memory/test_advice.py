"""Every change that a plan advises, applied: the server then starts, as it was promised."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from cgplan import Deployment, Measured, MemoryFlags, load_model
from cgplan.memory.advice import CODES
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.releases.gpus import gpu
from cgplan.report.plan_words import budget_rows

GIB = 1 << 30
QWEN = "Qwen/Qwen3-8B"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
HYBRID = "Qwen/Qwen3.5-9B"
QWEN35 = "Qwen/Qwen3.5-27B"
KIMI = "moonshotai/Kimi-K2-Instruct"
VISION = "Qwen/Qwen2.5-VL-7B-Instruct"

_FIELDS = {
    "--max-model-len": "max_model_len",
    "--max-num-seqs": "max_num_seqs",
    "--tensor-parallel-size": "tensor_parallel_size",
    "--pipeline-parallel-size": "pipeline_parallel_size",
    "--nnodes": "nnodes",
    "--num-gpu-blocks-override": "num_gpu_blocks_override",
    "--max-loras": "max_loras",
    "--max-lora-rank": "max_lora_rank",
    "--limit-mm-per-prompt": "limit_mm_per_prompt",
    "--mm-processor-kwargs": "mm_processor_kwargs",
    "--language-model-only": "language_model_only",
}
_OF_MEMORY = {"--gpu-memory-utilization": "utilization", "--kv-cache-memory-bytes": "kv_cache_bytes"}


def made(model: str, card: str, request: MemoryRequest | None = None, **fields: Any) -> CapacityPlan:
    return plan_of(Deployment(**{"model": load_model(model), "gpu": gpu(card), **fields}), request or MemoryRequest())


def flags(**values: Any) -> MemoryRequest:
    return MemoryRequest(MemoryFlags(**values))


def known(utilization: float | None = None, **values: Any) -> MemoryRequest:
    return MemoryRequest(MemoryFlags(utilization=utilization), known=Measured(**values))


def applied(before: CapacityPlan, text: str) -> CapacityPlan:
    """The plan with the flags of one alternative: options of vLLM, and "no" before one that is left out."""
    deployment, request = before.deployment, before.request.as_typed
    if "CG143" in {finding.code for finding in before.findings}:
        deployment = deployment.model_copy(update={"quantization": None})
    for change in text.partition(" (")[0].split(" with "):
        flag, *given = shlex.split(change.replace("=", " ") if change.startswith("-cc") else change)
        value: Any = None if flag == "no" else json.loads(given[0]) if given and flag != "-cc.cudagraph_mode" else True
        flag = given[0] if flag == "no" else flag
        if flag == "-cc.cudagraph_mode":
            options = deployment.compilation_config
            fields = {**options.model_dump(exclude_unset=True), "cudagraph_mode": given[0]}
            deployment = deployment.model_copy(update={"compilation_config": options.model_validate(fields)})
        elif flag.startswith("VLLM_"):
            name, _, value = flag.partition("=")
            deployment = deployment.model_copy(update={"env": {**deployment.env, name: value}})
        elif flag in _OF_MEMORY:
            request = replace(request, flags=replace(request.flags, **{_OF_MEMORY[flag]: value}))
        else:
            deployment = deployment.model_copy(update={_FIELDS[flag]: value})
    return plan_of(deployment, request)


def changes(text: str) -> list[str]:
    return re.sub(r" \([0-9]+ at most\)", "", text).partition(" (")[0].split(" with ")


def alternatives(fix: str) -> list[str]:
    """Changes, each of which is said to do alone; what may do by the best estimate alone is not among them."""
    sure = re.sub(r" surely starts, up to [0-9]+ may", "", fix).split("; else ")[-1]
    return [
        text
        for text in re.sub(r" \([0-9]+ at most\)", "", sure).split(", or ")
        if text.startswith(("-", "no ", "VLLM_"))
    ]


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
    "given blocks, far too few": (QWEN, "l4", None, {"num_gpu_blocks_override": 10}),
    "manual, far too little": (QWEN, "l4", flags(kv_cache_bytes=GIB // 64), {}),
    "share and length": (KIMI, "h200", None, {"tensor_parallel_size": 8}),
    "replicas": (LLAMA, "h100", None, {"data_parallel_size": 2}),
    "adapters": (QWEN, "h100", None, {"enable_lora": True, "max_loras": 32, "max_lora_rank": 512}),
    "adapters, too many": (QWEN, "h100", None, {"enable_lora": True, "max_loras": 512, "max_lora_rank": 256}),
    "videos": (VISION, "l4", None, {}),
    "images": (VISION, "l4", None, {"max_model_len": 32768}),
    "hybrid, rows and bounds": (QWEN35, "h100", None, {"max_num_seqs": 392, "vllm": "0.25.1"}),
    "hybrid, given blocks": (QWEN35, "h100", None, {"num_gpu_blocks_override": 280}),
    "other quantisation": (LLAMA, "h100", None, {"quantization": "awq"}),
    "an estimate that is none": (QWEN, "h100", known(graph_estimate=60 * GIB), {}),
    "an estimate that is none, length": (QWEN, "h100", known(graph_estimate=51 * GIB), {}),
    "an estimate that is none, small share": (QWEN, "h100", known(graph_estimate=30 * GIB, utilization=0.5), {}),
    "measured activations, rows": (QWEN, "h100", known(activation=54 * GIB), {"max_num_seqs": 2048}),
    "measured activations, length": (QWEN, "h100", known(activation=51 * GIB), {}),
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
def test_with_is_said_of_what_is_needed(name: str) -> None:
    model, card, request, fields = SAMPLE[name]
    before = made(model, card, request, **fields)
    fixes = {found.fix for found in before.findings if found.code in CODES and found.severity != "info" and found.fix}
    for text in [text for fix in fixes for text in alternatives(fix)]:
        parts = changes(text)
        if "--tensor-parallel-size" in text or "--pipeline-parallel-size" in text:
            continue
        for number in range(len(parts) if len(parts) > 1 else 0):
            fewer = " with ".join(part for at, part in enumerate(parts) if at != number)
            assert applied(before, fewer).starts != "yes", f"{fewer} is enough of {text}"


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


class TestGivenValues:
    """What was given by hand stays beside a fix: the next plan has it, too."""

    def test_an_estimate_that_is_none_comes_first(self) -> None:
        before = made(QWEN, "h100", known(graph_estimate=60 * GIB), max_num_seqs=256)
        first, *others = before.findings
        assert (first.code, before.starts) == ("CG590", "no")
        assert "CG560" in {finding.code for finding in others}
        for code in ("CG590", "CG560"):
            fix = fix_of(before, code)
            assert fix.startswith("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0"), fix
            assert "--max-num-seqs" not in fix
            assert all(applied(before, text).starts == "yes" for text in alternatives(fix))
        # No number of requests starts with it.
        assert (before.max_num_seqs_that_surely_starts, before.max_num_seqs_that_fits) == (0, 0)

    def test_a_plausible_one_is_left_alone(self) -> None:
        before = made(QWEN, "l4", known(graph_estimate=GIB))
        assert before.starts == "no"
        assert "CG590" not in {finding.code for finding in before.findings}
        assert all("VLLM_" not in str(finding.fix) for finding in before.findings)

    def test_what_changes_a_measured_value_says_so(self) -> None:
        before = made(QWEN, "h100", known(activation=64 * GIB, weights=16 * GIB), max_num_seqs=8192)
        fix = fix_of(before, "CG560")
        assert fix.endswith("measure them anew"), fix
        assert "take GPUs" not in fix


class TestOnTheSameGpus:
    """More GPUs are named where nothing on the same ones does."""

    def test_a_share_and_a_length_together(self) -> None:
        found = made(KIMI, "h200", tensor_parallel_size=8)
        assert fix_of(found, "CG560") == "--gpu-memory-utilization 0.97 with --max-model-len 65440"

    def test_a_share_is_offered_beside_a_length(self) -> None:
        fix = fix_of(made("openai/gpt-oss-120b", "h100"), "CG561")
        assert re.fullmatch(
            r"--max-model-len \d+ surely starts, up to \d+ may, or --gpu-memory-utilization 0\.9\d"
            r" with --max-model-len \d+",
            fix,
        )

    def test_a_length_that_is_too_short_names_them_as_well(self) -> None:
        fix = fix_of(made("Qwen/Qwen3-14B", "rtx5090", max_num_seqs=32), "CG560")
        same, more = fix.split(", or ")
        assert int(same.rpartition(" ")[2]) < 4096
        assert more == "--tensor-parallel-size 2 (2 GPUs are the fewest for 4096 tokens)"
        # Weights that were measured are those of the GPUs that there are.
        measured = made("Qwen/Qwen3-14B", "rtx5090", MemoryRequest(known=Measured(weights=28 * GIB)), max_num_seqs=32)
        assert "tensor-parallel" not in fix_of(measured, "CG560")

    def test_they_are_named_as_well_where_the_bounds_alone_are_in_the_way(self) -> None:
        fix = fix_of(made(LLAMA, "h200"), "CG560")
        sure = " starts by the best estimate, not surely; else "
        first, _, more = fix.partition(sure)
        assert applied(made(LLAMA, "h200"), first).starts == "unsure"
        assert more == "--tensor-parallel-size 2 (2 GPUs are the fewest that start)"

    def test_the_most_requests_named_start(self) -> None:
        found = made(QWEN35, "h100", max_num_seqs=1024, vllm="0.25.1")
        most = re.search(r"--max-num-seqs 256 \((\d+) at most\)", fix_of(found, "CG501"))
        assert most is not None
        assert int(most[1]) == found.max_num_seqs_that_surely_starts
        assert applied(found, f"--max-num-seqs {most[1]}").starts == "yes"
        assert applied(found, f"--max-num-seqs {int(most[1]) + 1}").starts != "yes"

    def test_one_change_does_for_two_findings(self) -> None:
        found = made(QWEN35, "h100", flags(utilization=0.88), max_num_seqs=350, vllm="0.25.1")
        assert {"CG561", "CG501"} <= {finding.code for finding in found.findings}
        for code in ("CG561", "CG501"):
            assert "--gpu-memory-utilization 0.91" in fix_of(found, code).split(", or ")


class TestOtherRefusals:
    """What is not memory's is out of the way while fixes are looked for, or no fix is named."""

    def test_a_method_that_the_checkpoint_has_not(self) -> None:
        found = made(LLAMA, "h100", quantization="awq")
        assert fix_of(found, "CG143").startswith("leave --quantization out, or name the quantised checkpoint")
        assert fix_of(found, "CG597") == fix_of(made(LLAMA, "h100"), "CG597")

    def test_ranks_that_do_not_divide(self) -> None:
        fields = {"tensor_parallel_size": 5, "vllm": "0.19.1", "max_model_len": 8192}
        found = made("Qwen/Qwen3-14B", "h100", flags(utilization=0.95), **fields)
        assert fix_of(found, "CG509") == "mend CG540 and CG615 first, then plan again"
        assert "GPUs" not in " ".join(str(finding.fix) for finding in found.findings)


class TestReplicas:
    def test_gpus_of_all_replicas_are_counted(self) -> None:
        fix = fix_of(made(LLAMA, "h100", data_parallel_size=2), "CG597")
        assert fix == "--tensor-parallel-size 4 (8 GPUs with data parallel size 2 are the fewest that start)"

    def test_with_experts_among_them(self) -> None:
        fields = {"tensor_parallel_size": 2, "data_parallel_size": 4, "enable_expert_parallel": True, "vllm": "0.28.0"}
        fix = fix_of(made("Qwen/Qwen3.8-2.4T-A95B-FP8", "gb300", **fields), "CG597")
        assert fix == "--tensor-parallel-size 4 (16 GPUs with data parallel size 4 are the fewest that start)"


class TestAdapters:
    FIELDS: ClassVar[dict[str, Any]] = {"enable_lora": True, "max_loras": 8, "max_lora_rank": 64}

    def test_their_buffers_are_named_beside_the_weights(self) -> None:
        found = made("nvidia/Qwen3-235B-A22B-NVFP4", "b200", **self.FIELDS)
        message = next(finding.message for finding in found.findings if finding.code == "CG597")
        assert message.startswith("the weights take 125.06 GiB and the buffers of LoRA's adapters 197.20 GiB of the")
        assert fix_of(found, "CG597").startswith("--max-loras 1 with --max-lora-rank 16 with --max-model-len ")
        assert ", or --tensor-parallel-size 8" in fix_of(found, "CG597")
        assert fix_of(found, "CG597").endswith("(16 GPUs for the adapters as they are)")

    def test_they_are_a_row_of_the_budget(self) -> None:
        names = [row.name.strip() for row in budget_rows(made(QWEN, "h100", **self.FIELDS))]
        assert names.index("of them LoRA's buffers") == names.index("weights") + 1
        assert "of them LoRA's buffers" not in [row.name.strip() for row in budget_rows(made(QWEN, "h100"))]

    def test_fewer_of_them_at_once_come_first(self) -> None:
        found = made(QWEN, "h100", enable_lora=True, max_loras=32, max_lora_rank=512)
        code = next(finding.code for finding in found.findings if finding.severity == "error")
        assert re.match(r"--max-loras \d+(,|$)", fix_of(found, code))


class TestMedia:
    def test_the_encoders_peak_is_mended_at_its_cause(self) -> None:
        fix = fix_of(made(VISION, "l4", max_model_len=40960), "CG560")
        media = """--limit-mm-per-prompt '{"video":0}' with --mm-processor-kwargs '{"max_pixels":1003520}'"""
        assert fix.startswith(f"{media}, or --max-model-len ")

    def test_a_shorter_length_beside_it(self) -> None:
        fix = fix_of(made(VISION, "l4"), "CG560")
        assert re.match(
            r"--limit-mm-per-prompt '[^']+' with --mm-processor-kwargs '[^']+' with --max-model-len 4\d", fix
        )

    def test_nothing_of_it_where_the_encoder_is_small(self) -> None:
        fixes = " ".join(str(finding.fix) for finding in made(SCOUT, "h100", tensor_parallel_size=8).findings)
        assert "mm-" not in fixes
        assert "language-model-only" not in fixes

    def test_nothing_of_it_where_the_peak_was_measured(self) -> None:
        found = made(VISION, "l4", MemoryRequest(known=Measured(activation=13 * GIB)))
        fixes = " ".join(str(finding.fix) for finding in found.findings)
        assert "mm-" not in fixes
        assert "language-model-only" not in fixes


class TestGivenBlocks:
    def test_a_plan_is_made_and_a_round_value_named(self) -> None:
        found = made(QWEN35, "h100", num_gpu_blocks_override=280, num_gpu_blocks=280, max_model_len=65536)
        fix = fix_of(found, "CG501")
        assert fix.startswith("--max-num-seqs 256 (280 at most)")
        assert "utilization" not in fix

    def test_the_blocks_are_left_open_where_more_do_not_fit(self) -> None:
        fix = fix_of(made(QWEN, "l4", num_gpu_blocks_override=10), "CG561")
        assert re.match(r"no --num-gpu-blocks-override with --max-model-len \d+", fix)


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
        assert fix_of(found, "CG561").startswith(f"--max-model-len {sure} surely starts, up to {best} may, or --gpu-")

    def test_bytes_that_were_measured_are_no_option_to_change(self) -> None:
        found = made(QWEN, "l4", MemoryRequest(kv_bytes=3 * GIB))
        assert fix_of(found, "CG561") == "--max-model-len 21824"
        none = fix_of(made(QWEN, "h100", MemoryRequest(kv_bytes=0)), "CG560")
        assert none == "leave --kv-bytes out: the plan then says what gives the KV cache more"

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
