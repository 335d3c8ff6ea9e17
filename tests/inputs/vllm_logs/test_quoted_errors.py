"""Errors that were pasted as their words alone, without traceback and without the name of the exception."""

from __future__ import annotations

import io

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.inputs.vllm_logs.quoted import MOST_LINES
from cgplan.startup.analysis import analyse
from cgplan.startup.crash_rules import PAGES
from cgplan.startup.record import StartupLog

MAMBA = "max_num_seqs (1024) exceeds available Mamba cache blocks (512)."
OTHER = "The weather is fine, and no server is in sight."


def read(text: str) -> StartupLog:
    return read_log(io.StringIO(text))


TEXTS = {
    "mamba_blocks": MAMBA,
    "no_blocks": "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
    "out_of_memory": "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.19 GiB of which"
    " 512.00 MiB is free.",
    "model_len": "To serve at least one request with the model's max seq len (32768), (4.50 GiB KV cache is needed,"
    " which is larger than the available KV cache memory (1.25 GiB).",
    "heads": "Total number of attention heads (25) must be divisible by tensor parallel size (2).",
    "mode": "CUDAGraphMode.FULL is not supported with FlashInferBackend backend",
    "batched_below_seqs": "max_num_batched_tokens (256) must be greater than or equal to max_num_seqs (512).",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_gives_the_rule_as_with_the_name_of_the_exception(kind: str) -> None:
    (bare,) = analyse(read(f"{TEXTS[kind]}\n"))
    (named,) = analyse(read(f"ValueError: {TEXTS[kind]}\n"))
    assert bare.diagnosis is not None
    assert named.diagnosis is not None
    assert (bare.diagnosis.kind, bare.diagnosis.fix) == (kind, named.diagnosis.fix)
    assert bare.diagnosis.code == named.diagnosis.code
    assert bare.diagnosis.values == named.diagnosis.values
    if kind != "out_of_memory":
        assert bare.diagnosis.code == PAGES[kind]


def test_the_numbers_are_those_of_the_line() -> None:
    (found,) = analyse(read("exceeds available Mamba cache blocks (95)"))
    assert found.diagnosis is not None
    assert found.diagnosis.code == "CG501"
    assert "--max-num-seqs 64 (95 at most)" in found.diagnosis.fix


@pytest.mark.parametrize(
    "text", [f"> {MAMBA}", f"`{MAMBA}`", f'  "{MAMBA}"', f"It ended with:\n\n{MAMBA}\nWhy is that?"]
)
def test_what_quotes_it_is_no_part_of_it(text: str) -> None:
    log = read(text)
    assert [one.crash.message for one in log.starts if one.crash is not None] == [MAMBA]
    assert any("what it quotes" in remark for remark in log.remarks)


def test_the_line_is_the_one_it_stands_on() -> None:
    (one,) = read(f"{OTHER}\n\n{MAMBA}\n").starts
    assert one.crash is not None
    assert one.crash.place.line == 3


def test_a_terminal_may_wrap_it() -> None:
    (one,) = read("max_num_seqs (1024) exceeds available\nMamba cache blocks (512).\n").starts
    assert one.crash is not None
    assert one.crash.message == MAMBA
    assert (one.crash.values["max_num_seqs"], one.crash.values["blocks"]) == (1024, 512)


def test_other_words_are_no_start() -> None:
    assert read(f"{OTHER}\n").starts == ()


def test_a_long_text_that_has_it_somewhere_is_no_quotation() -> None:
    short = read(f"{OTHER}\n" * (MOST_LINES - 1) + MAMBA)
    assert len(short.starts) == 1
    assert read(f"{OTHER}\n" * MOST_LINES + MAMBA).starts == ()


def test_in_the_log_of_a_start_its_words_end_nothing() -> None:
    banner = "(APIServer pid=1) INFO 04-22 00:46:03 [utils.py:299] vLLM API server version 0.30.0"
    (one,) = read(f"{banner}\n{MAMBA}\n").starts
    assert one.crash is None
