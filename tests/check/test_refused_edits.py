"""Refusals: their places, what became of old names, and that no change is offered which vLLM refuses as well."""

from __future__ import annotations

import pytest
from asked_lines import codes, mended, pointed_at, report, told

from cgplan.report.check_results import launch_result

M = "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("""-O '{"full_cuda_graph": true}'""", """-cc '{"cudagraph_mode":"FULL"}'"""),
        ("""-O '{"use_cudagraph": false}'""", """-cc '{"cudagraph_mode":"NONE"}'"""),
        ("""-O '{"level": 3, "max_capture_size": 64}'""", """-cc '{"mode":3,"max_cudagraph_capture_size":64}'"""),
        ("""-O '{"mode": 3}'""", """-cc '{"mode": 3}'"""),
    ],
)
def test_an_old_level_of_json(words: str, after: str) -> None:
    assert mended(f"{M} {words}", "CG905") == f"{M} {after}"
    assert told(f"{M} {after}", "CG903") is None


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("-cc.full_cuda_graph=true", "-cc.cudagraph_mode=FULL"),
        ("-cc.full_cuda_graph true", "-cc.cudagraph_mode=FULL"),
        ("-cc.level=0", "-cc.mode=0"),
        (
            "--compilation-config.pass_config.enable_attn_fusion=true",
            "--compilation-config.pass_config.fuse_attn_quant=true",
        ),
        (
            """-cc '{"pass_config":{"enable_fusion":false}}'""",
            """-cc '{"pass_config":{"fuse_norm_quant":false,"fuse_act_quant":false}}'""",
        ),
    ],
)
def test_old_keys_of_the_compilation_config(words: str, after: str) -> None:
    assert mended(f"{M} {words}", "CG903") == f"{M} {after}"
    one = told(f"{M} {words}", "CG903")
    assert one is not None
    assert " became " in str(one.fix)


def test_a_key_that_nothing_became_has_no_change() -> None:
    for words in ("-cc.full_cuda_graph=maybe", "-cc.nope=1", """-cc '{"level":3,"mode":0}'"""):
        one = told(f"{M} {words}", "CG903")
        assert one is not None
        assert not one.edits


def test_old_sizes() -> None:
    assert mended(f"{M} --cuda-graph-sizes 16 32", "CG905") == f"{M} --cudagraph-capture-sizes 16 32"
    several = told(f"{M} --cuda-graph-sizes 16 32", "CG905")
    one = told(f"{M} --cuda-graph-sizes 64", "CG905")
    assert several is not None
    assert one is not None
    assert (several.safe, one.safe) == (True, False)
    assert mended(f"{M} --cuda-graph-sizes 64", "CG905") == f"{M} --max-cudagraph-capture-size 64"


def test_both_of_a_published_line_are_mended() -> None:
    line = """vllm serve --model deepseek-ai/DeepSeek-R1 -O '{"full_cuda_graph": true}' --cuda-graph-sizes 16 32"""
    found = [one for one in report(line, on="h200").diagnostics if one.code == "CG905"]
    assert [(one.flag, one.safe, bool(one.edits)) for one in found] == [
        ("""-cc '{"cudagraph_mode":"FULL"}'""", True, True),
        ("--cudagraph-capture-sizes 16 32", True, True),
    ]


def test_no_change_that_is_refused_itself() -> None:
    line = "meta-llama/Llama-4-Scout-17B-16E-Instruct -tp 8"
    full = """-O '{"cudagraph_mode":"FULL"}'"""
    one = told(f"{line} {full}", "CG905", on="h100")
    assert one is not None
    assert not one.edits
    assert one.flag is None
    assert "refused too: cudagraph_mode FULL" in str(one.fix)
    there = told(f"{M} {full}", "CG905", on="h100")
    assert there is not None
    assert there.edits


@pytest.mark.parametrize(
    ("words", "code", "place"),
    [
        ("--spec-tokens=0", "CG903", "--spec-tokens=0"),
        ("--optimization-level 4", "CG903", "--optimization-level"),
        ("--spec-tokens=3", "CG416", "--spec-tokens=3"),
        ("--spec-model ./draft", "CG416", "--spec-model"),
        ("--enable-dbo", "CG603", "--enable-dbo"),
        ("--grpc-port 4", "CG903", "--grpc-port"),
        ("--reasoning-effort-map '{\"a\":1}'", "CG903", "--reasoning-effort-map"),
        ("--enable-log-outputs", "CG903", "--enable-log-outputs"),
        ("--enable-auto-tool-choice", "CG903", "--enable-auto-tool-choice"),
        ("--kv-cache-dtype fp8_ds_mla", "CG303", "--kv-cache-dtype"),
        ("-cc.inductor_compile_config.max_autotune=true -cc.nope=1", "CG903", "-cc.nope=1"),
        ("-cc.nope=1 -cc.mode=3", "CG903", "-cc.nope=1"),
        ("-cc.pass_config.nope=1 -cc.mode=3", "CG903", "-cc.pass_config.nope=1"),
    ],
)
def test_places(words: str, code: str, place: str) -> None:
    """`told` also sees that it is said once."""
    assert pointed_at(told(f"{M} {words}", code)) == place


def test_a_mode_lowered_by_the_backend_points_at_it() -> None:
    line = "Qwen/Qwen3.8-27B --attention-backend FLASHINFER -sc.method=mtp -sc.num_speculative_tokens=2"
    assert pointed_at(told(line, "CG333", "0.27.1", on="a100")) == "--attention-backend"


def test_a_mode_lowered_by_the_backend_of_the_draft_points_at_the_draft() -> None:
    line = (
        "Qwen/Qwen3.6-27B -tp 4 --kv-cache-dtype fp8 --max-num-seqs 4 --attention-backend TRITON_ATTN "
        '--speculative-config \'{"method":"mtp","num_speculative_tokens":3}\''
    )
    one = told(line, "CG333", "0.20.2", on="rtx3090")
    assert pointed_at(one) == "--speculative-config"
    assert one is not None
    assert "FlashInferBackend is the backend of the draft's layers" in one.message
    assert not any("lowers" in related.message for related in one.related)


def test_two_that_exclude_each_other() -> None:
    one = told(f"{M} --spec-tokens 5 -sc.num_speculative_tokens=3", "CG903")
    assert one is not None
    assert one.message == "--spec-tokens and --speculative-config.num_speculative_tokens exclude each other"
    assert one.fix == "drop one of the two"


def test_a_percentage() -> None:
    assert mended(f"{M} --gpu-memory-utilization 90%", "CG906") == f"{M} --gpu-memory-utilization 0.9"
    assert mended(f"{M} --gpu-memory-utilization=87.5%", "CG906") == f"{M} --gpu-memory-utilization=0.875"
    one = told(f"{M} --gpu-memory-utilization most", "CG906")
    assert one is not None
    assert one.fix == "give --gpu-memory-utilization a number, such as 0.92"
    assert not one.edits


def test_a_model_that_cannot_be_loaded_does_not_start() -> None:
    found = report("Qwen/Qwen3-14B -tp 5 --gpu-memory-utilization 0.95", "0.19.1", on="h100")
    assert [(one.code, one.severity, one.flag) for one in found.diagnostics] == [
        ("CG615", "error", "--tensor-parallel-size 4")
    ]
    assert launch_result(found, found.diagnostics).outcome.starts is False
    assert found.resolution is None
    assert "CG615 error" not in codes("Qwen/Qwen3-14B -tp 4", "0.19.1", on="h100")


def test_a_method_that_is_not_the_checkpoints() -> None:
    line = "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic --quantization"
    one = told(f"{line} fp8", "CG141")
    assert pointed_at(one) == "--quantization"
    assert mended(f"{line} fp8", "CG141") == "RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic"
    assert told(f"{line} compressed-tensors", "CG141") is None
    passed = told("nvidia/Qwen3.6-35B-A3B-NVFP4 --quantization compressed-tensors", "CG142")
    assert passed is not None
    assert (passed.severity, "modelopt_mixed, counts" in passed.message) == ("warning", True)
    assert told("nvidia/Qwen3.6-35B-A3B-NVFP4 --quantization modelopt", "CG142") is None
