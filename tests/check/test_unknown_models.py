"""What is said of a model whose shape is not known, and of what rests on that shape alone."""

from __future__ import annotations

import re

import pytest
from asked_lines import codes, pointed_at, report, told

from cgplan.report.check_results import launch_result

NAME = "an-org/a-model"
REFUSED = [
    ("-tp 6", "CG606"),
    ("-tp 5", "CG606"),
    ("--attention-backend TRITON_MLA", "CG302"),
    ("--kv-cache-dtype fp8_ds_mla", "CG303"),
    ("-tp 8 -dcp 2", "CG607"),
    ("-pcp 2", "CG611"),
    ('--speculative-config \'{"method":"mtp","num_speculative_tokens":1}\'', "CG429"),
    ("--max-model-len 2000000", "CG129"),
]


@pytest.mark.parametrize(("words", "code"), REFUSED)
def test_what_is_refused_of_the_stand_in_is_no_error(words: str, code: str) -> None:
    found = report(f"{NAME} {words}", on="b200")
    one = next(one for one in found.diagnostics if one.code == code)
    assert one.severity == "info"
    assert one.message.startswith("of a dense 8B decoder, assumed: ")
    assert one.message.endswith(f"{NAME} is not known here")
    assert "--model" in str(one.fix)
    assert not one.edits
    assert found.is_open
    assert launch_result(found, found.diagnostics).outcome.starts is None
    # Of a model that is known it is one.
    assert f"{code} error" in codes(f"Qwen/Qwen3-8B {words}", on="b200")
    known = report(f"Qwen/Qwen3-8B {words}", on="b200")
    assert launch_result(known, known.diagnostics).outcome.starts is False


@pytest.mark.parametrize("backend", ["FLASHMLA", "FLASH_ATTN_MLA"])
def test_what_no_model_takes_is_an_error(backend: str) -> None:
    """Kernels for Hopper, on Blackwell; heads and kinds of attention are no matter."""
    one = told(f"{NAME} --attention-backend {backend}", "CG302", on="b200")
    assert one is not None
    assert one.severity == "error"
    assert "9.x" in one.message
    assert "head size" not in one.message
    on_hopper = told(f"{NAME} --attention-backend {backend}", "CG302", on="h100")
    assert on_hopper is not None
    assert on_hopper.severity == "info"


def test_an_error_of_the_line_stays_one() -> None:
    found = report(f"{NAME} --attention-backend NOPE")
    assert not found.is_open
    assert launch_result(found, found.diagnostics).outcome.starts is False
    found = report(f"{NAME} -tp 6 --max-num-seq 3 --nope")
    assert not found.is_open


def test_a_good_line_is_told_of_the_model_only() -> None:
    line = f"{NAME} --max-num-seqs 64"
    assert codes(line) == ["CG953 info"]
    one = told(line, "CG953")
    assert pointed_at(one) == NAME
    assert one is not None
    assert "a dense 8B decoder stands in" in one.message
    assert codes("Qwen/Qwen3-8B --max-num-seqs 64") == []


@pytest.mark.parametrize("line", [f"vllm serve --model {NAME}", f"vllm serve --model={NAME}", f"vllm serve {NAME}"])
def test_the_place_of_the_model(line: str) -> None:
    assert NAME in pointed_at(told(line, "CG953"))


def test_near_names_are_told() -> None:
    one = told("Qwen/Qwen3.6-72B", "CG953")
    assert one is not None
    assert "nearest: Qwen/Qwen3.6-27B" in one.message


def test_a_quantised_form_has_the_shape_of_the_model() -> None:
    line = (
        "Qwen/Qwen3.6-27B-FP8 --gpu-memory-utilization 0.95 --tool-call-parser qwen3_coder --reasoning-parser qwen3 "
        "--enable-auto-tool-choice"
    )
    found = report(line, "0.20.2", on="h100")
    one = next(one for one in found.diagnostics if one.code == "CG501")
    assert one.severity == "error"
    assert re.search(r"the 8[67]\d Mamba cache blocks", one.message)
    assert one.flag == "--max-num-seqs 512"
    named = next(one for one in found.diagnostics if one.code == "CG953")
    assert "the shape of Qwen/Qwen3.6-27B stands in" in named.message
    outcome = launch_result(found, found.diagnostics).outcome
    assert (outcome.model.value, outcome.model.said_by) == ("Qwen/Qwen3.6-27B-FP8", "assumed")
    assert outcome.stand_in == "Qwen/Qwen3.6-27B"


def test_what_is_not_modelled_is_no_error() -> None:
    found = report("MiniMaxAI/MiniMax-M3")
    assert [(one.code, one.severity, pointed_at(one)) for one in found.diagnostics] == [
        ("CG913", "info", "MiniMaxAI/MiniMax-M3")
    ]
    assert launch_result(found, found.diagnostics).outcome.starts is None


def test_who_names_the_gpu() -> None:
    assert report("Qwen/Qwen3-8B").asked.gpu_assumed
    assert not report("Qwen/Qwen3-8B", on="h200").asked.gpu_assumed
    assert report("Qwen/Qwen3-8B", gpu_memory=2**36).asked.gpu_assumed


class TestStorageOfAStandIn:
    """How a stand-in is stored says nothing of the user's checkpoint."""

    LINE = "--quantization compressed-tensors --max-model-len 8192 --kv-cache-dtype fp8_e4m3 --max-num-seqs 32"

    def test_no_quantisation_is_judged(self) -> None:
        own = told(f"nvidia/Qwen3.6-35B-A3B-NVFP4 {self.LINE}", "CG142", "0.19.1", "rtx5090")
        assert own is not None
        assert own.edits
        found = report(f"RedHatAI/Qwen3.6-35B-A3B-NVFP4 {self.LINE}", "0.19.1", "rtx5090")
        named = {one.code for one in found.diagnostics}
        assert "CG953" in named
        assert named.isdisjoint({"CG141", "CG142", "CG143"})
        assert not any(one.edits and one.safe for one in found.diagnostics)

    def test_a_plain_stand_in_refuses_no_method(self) -> None:
        assert told("Qwen/Qwen3-8B --quantization awq", "CG143") is not None
        assert told("an-org/Qwen3-8B --quantization awq", "CG143") is None
        assert told(f"{NAME} --quantization awq", "CG143") is None

    def test_the_share_that_is_named_is_enough_for_the_public_weights(self) -> None:
        """23,493,321,000 bytes of weights were loaded, 21.88 GiB; 0.80 left 0.18 GiB less than nothing."""
        line = f"RedHatAI/Qwen3.6-35B-A3B-NVFP4 {self.LINE} --max-num-batched-tokens 8192 --gpu-memory-utilization 0.8"
        found = report(line, "0.19.1", "rtx5090")
        one = next(one for one in found.diagnostics if one.code in ("CG560", "CG561"))
        assert one.flag is not None
        assert float(one.flag.split()[-1]) >= 0.84

    def test_an_edit_that_rests_on_the_stand_in_is_not_safe(self) -> None:
        """FULL becomes FULL_AND_PIECEWISE by the backend of the stand-in; a cut maximum is so of any model."""
        line = "-tp 8 -cc.cudagraph_mode=FULL --max-cudagraph-capture-size 42"
        for name, safe in (("Qwen/Qwen3.5-27B", {"CG330", "CG116"}), ("an-org/Qwen3.5-27B", {"CG116"})):
            found = report(f"{name} {line}", on="h100")
            assert {one.code for one in found.diagnostics if one.edits and one.safe} == safe
            assert "CG330" in {one.code for one in found.diagnostics if one.edits}
