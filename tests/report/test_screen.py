"""The screen, at the widths that it is made for."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from cgplan import CUDAGraphMode, Deployment, ModelShape, Resolution, resolve
from cgplan.report.batches import answers
from cgplan.report.console import THEME, TidyFile
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
    assert "none eager" in screen(resolve(Deployment(max_num_seqs=64)), 120)


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
    """64 sequences, batch 5: 8, 37.50%. 256 sequences, batch 500: 512, 2.34%."""
    decode = next(answers(resolve(Deployment(max_num_seqs=64)), [5]))
    assert (decode.padded, f"{decode.waste:.2%}") == (8, "37.50%")
    _, mixed = answers(resolve(Deployment(max_num_seqs=256)), [500])
    assert (mixed.padded, f"{mixed.waste:.2%}") == (512, "2.34%")


def test_batches_count_drafts() -> None:
    found = resolve(Deployment(**CASES["speculative"]))
    decode = next(answers(found, [3]))
    assert (decode.num_tokens, decode.padded, decode.mode) == (12, 16, CUDAGraphMode.FULL.value)


def row(text: str, name: str) -> str:
    """The words of a row of the head, its lines joined."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(name))
    end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith(" "))
    return " ".join(" ".join(lines[start:end]).removeprefix(name).split())


@pytest.mark.parametrize(
    ("fields", "decode", "mixed"),
    [
        ({}, "FULL", "PIECEWISE"),
        ({"speculative_config": {"method": "ngram", "num_speculative_tokens": 2000}}, "eager", "PIECEWISE"),
        ({"cudagraph_capture_sizes": [10**9]}, "eager", "eager"),
        ({"enforce_eager": True}, "eager", "eager"),
        ({"compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}, "FULL", "eager"),
    ],
)
def test_the_head_says_what_the_bars_show(fields: dict[str, Any], decode: str, mixed: str) -> None:
    text = screen(resolve(Deployment(**fields)), 120)
    assert row(text, "Decode batches").startswith(decode)
    assert row(text, "Mixed batches").startswith(mixed)
    found = resolve(Deployment(**fields))
    promised = "no graph of it fits such a batch" in row(text, "Decode batches")
    assert promised == (decode == "eager" and found.decode_mode is CUDAGraphMode.FULL)


def test_decode_sizes_are_shown_where_they_are_others() -> None:
    config = {"method": "ngram", "num_speculative_tokens": 2}
    text = screen(resolve(Deployment(speculative_config=config)), 120)
    assert "33" in row(text, "FULL sizes").split()
    assert "33" not in row(text, "Sizes").split()
    assert "FULL sizes" not in screen(resolve(Deployment()), 120)


def test_no_sizes_where_nothing_is_captured() -> None:
    eager = {"compilation_config": {"cudagraph_mode": "NONE"}}
    assert "\nSizes" not in screen(resolve(Deployment(**eager)), 120)
    deep_ep = {
        "model": ModelShape(is_moe=True),
        "data_parallel_size": 8,
        "enable_expert_parallel": True,
        "all2all_backend": "deepep_high_throughput",
    }
    found = resolve(Deployment(**deep_ep))
    assert found.graph_count() == 0
    assert "\nSizes" not in screen(found, 120)
    assert "no size is captured" in screen(found, 120, padding_table=True)


def test_data_parallel_limits_and_modes_are_explained() -> None:
    text = screen(resolve(Deployment(model=ModelShape(is_moe=True), data_parallel_size=8)), 120)
    assert row(text, "Limits").endswith("a step of each data-parallel rank")
    assert "one eager rank makes all eager (CG613)" in row(text, "Data parallel")
    dense = screen(resolve(Deployment(data_parallel_size=8)), 120)
    assert "Data parallel " not in dense


def test_the_layout_is_in_the_first_line() -> None:
    assert screen(resolve(Deployment()), 120, layout="tp 2").splitlines()[0].endswith("a GPU · tp 2 · a model")


@pytest.mark.parametrize("width", [60, 120])
def test_one_is_one(width: int) -> None:
    text = screen(resolve(Deployment(**CASES["one request"])), width, batches=(1,), explain=True)
    assert not re.search(r"\b1 (requests|tokens|decode requests|adapters|models)\b", text)
    assert "1 request, 16 tokens a step" in text
    lora = screen(resolve(Deployment(enable_lora=True, max_loras=1)), 120)
    assert "at most 1 adapter in a batch; each size is captured without adapters, for one" in lora


@pytest.mark.parametrize(
    ("specialised", "words"),
    [
        (False, "each size is captured without adapters, for any number up to 4"),
        (True, "for 0, 1, 2, 4 and 5 adapters (5 is max_loras + 1); no batch runs as 5"),
    ],
)
def test_adapters_are_told_in_words(specialised: bool, words: str) -> None:
    fields = {"enable_lora": True, "max_loras": 4, "specialize_active_lora": specialised}
    assert row(screen(resolve(Deployment(**fields)), 120), "LoRA").endswith(words)


def test_no_words_of_the_source() -> None:
    config = {"method": "eagle3", "num_speculative_tokens": 2, "model": ModelShape()}
    for fields in ({}, {"attention_backend": "flashinfer"}, {"speculative_config": config}):
        text = screen(resolve(Deployment(**fields)), 120)
        assert not re.search(r"metadata builder|_manager|vLLM's cases", text)
    text = screen(resolve(Deployment(speculative_config=config)), 120)
    assert re.search(r"graphs of its own: \d+ for prefill, \d+ for decode", row(text, "Drafter"))


def test_lines_on_stdout_have_no_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    show(resolve(Deployment(speculative_config={"method": "ngram", "num_speculative_tokens": 2})), Screen("m", "g"))
    out = capsys.readouterr().out
    assert out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_blanks_before_a_colour_code_go_too() -> None:
    file = io.StringIO()
    TidyFile(file).write("a  \x1b[0m  \x1b[1m \nb \n c")
    assert file.getvalue() == "a\x1b[0m\x1b[1m\nb\n c"


def test_what_a_file_says_moves_no_cursor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of every text that is printed, in a table too; colours of the screen itself stay."""
    from rich.table import Table

    from cgplan.report.console import console

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = console()
    table = Table("head\x1b]0;t\x07")
    table.add_row("cell\x1b[2Jx")
    out.print(table)
    out.print(Text("plain\x1b[2J\u202eline", style="error"))
    shown = capsys.readouterr().out
    assert "plain?[2J?line" in shown
    assert "cell?[2J" in shown
    assert not re.search(r"\x1b(?!\[[0-9;]*m)|\x07|\r|\u202e", shown)
    assert "\x1b[" in shown, "the style is there"
