"""The screen, at the widths that it is made for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from cgplan import CUDAGraphMode, Deployment, Resolution, resolve
from cgplan.report.batches import answers
from cgplan.report.console import THEME
from cgplan.report.text import Screen, show

CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "flashinfer": {"attention_backend": "flashinfer"},
    "full on flashinfer": {"attention_backend": "flashinfer", "compilation_config": {"cudagraph_mode": "FULL"}},
    "speculative": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    "lora": {"enable_lora": True, "max_loras": 4},
    "eager": {"enforce_eager": True},
    "off the grid": {"max_num_seqs": 264},
    "one request": {"max_num_seqs": 1, "max_num_batched_tokens": 16, "max_model_len": 16},
    "own sizes": {"cudagraph_capture_sizes": [3, 7], "max_num_seqs": 9},
}


def screen(resolution: Resolution, width: int, **more: Any) -> str:
    out = Console(file=io.StringIO(), width=width, theme=THEME, highlight=False, emoji=False, markup=False)
    show(resolution, Screen("a model", "a GPU", **more), out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("case", CASES)
def test_no_line_is_too_long(case: str, width: int) -> None:
    text = screen(resolve(Deployment(**CASES[case])), width, batches=(1, 9, 5000), padding_table=True, explain=True)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("Decode batches", "Mixed batches", "Attention", "Runner", "a model", "a GPU"):
        assert word in text


def test_a_downgrade_is_explained() -> None:
    text = screen(resolve(Deployment(**CASES["full on flashinfer"])), 120)
    assert "FULL_AND_PIECEWISE  instead of FULL" in text
    assert "FlashInferBackend supports UNIFORM_BATCH" in text


def test_eager_is_explained() -> None:
    assert "--enforce-eager" in screen(resolve(Deployment(enforce_eager=True)), 120)


def test_first_cliff_worst_and_mean_padding() -> None:
    text = screen(resolve(Deployment(max_num_seqs=1024)), 120)
    assert "FULL 1–512 · eager 513–1024  first cliff at 513" in text
    assert "43.8% at worst (9 requests run as 16)" in text
    assert "no cliff" in screen(resolve(Deployment(max_num_seqs=64)), 120)


def test_findings_carry_code_and_fix() -> None:
    text = screen(resolve(Deployment(max_num_seqs=1024)), 120)
    assert "warning CG701" in text
    assert "fix: set --max-cudagraph-capture-size 1024" in text


def test_the_trace_shows_before_after_why_and_source() -> None:
    text = screen(resolve(Deployment()), 120, explain=True)
    assert "CG101  max_num_seqs  unset → 1024" in text
    assert "vllm/engine/arg_utils.py" in text


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    out = Console(file=io.StringIO(), width=80, theme=THEME)
    show(resolve(Deployment()), Screen("a\x1b[31mb", "g\x07"), out)
    assert isinstance(out.file, io.StringIO)
    assert "\x1b" not in out.file.getvalue()


def test_batches_of_the_document_check() -> None:
    """64 sequences, batch 5: 8, 37.50 %. 256 sequences, batch 500: 512, 2.34 %."""
    decode = next(answers(resolve(Deployment(max_num_seqs=64)), [5]))
    assert (decode.padded, f"{decode.waste:.2%}") == (8, "37.50%")
    _, mixed = answers(resolve(Deployment(max_num_seqs=256)), [500])
    assert (mixed.padded, f"{mixed.waste:.2%}") == (512, "2.34%")


def test_batches_count_drafts() -> None:
    found = resolve(Deployment(**CASES["speculative"]))
    decode = next(answers(found, [3]))
    assert (decode.num_tokens, decode.padded, decode.mode) == (12, 16, CUDAGraphMode.FULL.value)
