"""The screen of `cgplan backends`, at the widths that it is made for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from cgplan import Deployment
from cgplan.inputs.catalogue import load_model
from cgplan.releases.gpus import gpu
from cgplan.report.backends import show
from cgplan.report.backends_markdown import as_markdown
from cgplan.report.console import ASCII, THEME
from cgplan.resolve.support_table import SupportTable, support_table

CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "old": {"vllm": "0.20.2"},
    "b200": {"gpu": gpu("b200")},
    "refused": {"gpu": gpu("a100"), "attention_backend": "FLASHMLA"},
    "sparse": {"model": load_model("deepseek-ai/DeepSeek-V3.2")},
    "own attention": {"model": load_model("deepseek-ai/DeepSeek-V4-Flash")},
    "hybrid": {"model": load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")},
    "asked": {"attention_backend": "TRITON_ATTN"},
}


def table(case: str) -> SupportTable:
    return support_table(Deployment(**CASES[case]))


def screen(case: str, width: int) -> str:
    out = Console(file=io.StringIO(), width=width, theme=THEME, highlight=False, emoji=False, markup=False)
    show(table(case), "a model", "a GPU", out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@pytest.mark.parametrize("width", [80, 109, 110, 120])
@pytest.mark.parametrize("case", CASES)
def test_every_backend_is_shown_in_full(case: str, width: int) -> None:
    text = screen(case, width)
    assert max(len(line) for line in text.splitlines()) <= width
    words = text.split()
    for row in table(case).rows:
        assert row.name in words
    for level in ("ALWAYS", "UNIFORM_BATCH", "UNIFORM_SINGLE_TOKEN_DECODE", "NEVER"):
        assert level in words
    assert "…" not in text


@pytest.mark.parametrize("case", CASES)
def test_plain_ascii_is_enough(case: str) -> None:
    assert screen(case, 80).translate(ASCII).isascii()


def test_the_choice_and_the_order() -> None:
    lines = screen("sparse", 120).splitlines()
    assert "Chosen       FLASH_ATTN_MLA_SPARSE  the first candidate that fits" in lines[2]
    order = [line.split()[:2] for line in lines if line[:2].strip(" →").isdigit() and line[2] == " "]
    assert [place.strip("→") for place, _ in order] == [str(n) for n in range(1, len(order) + 1)]
    assert ["→5", "FLASH_ATTN_MLA_SPARSE"] in order


def test_reasons_against_all_stand_in_the_heading() -> None:
    text = screen("default", 120)
    assert "MLA backends  MLA only\n" in text
    assert "State space and linear attention layers  the model has no such layers\n" in text
    assert "head size 128: it takes 256, 512" in text


def test_a_refusal_comes_first() -> None:
    lines = screen("refused", 120).splitlines()
    assert lines[2].startswith("Refused  attention backend FLASHMLA does not fit")
    assert any("fix: use FLASH_ATTN" in line for line in lines)


def test_levels_of_the_layers() -> None:
    text = screen("hybrid", 120)
    assert "mamba  GDN_ATTN  UNIFORM_BATCH  fixed" in text
    assert "layers of this model" in text


def test_documented_differences() -> None:
    text = screen("default", 120)
    assert "page  UNIFORM_SINGLE_TOKEN_DECODE  docs/design/cuda_graphs.md:181" in text
    assert "code  UNIFORM_BATCH: XQA decode kernels  flashinfer.py:1176-1226" in text
    assert "FLASH_ATTN (FlashAttention 4)" in screen("b200", 120)


def test_markdown_escapes() -> None:
    page = as_markdown(table("default"), "a | model\nwith lines", "a GPU")
    assert "a \\| model?with lines on a GPU." in page
