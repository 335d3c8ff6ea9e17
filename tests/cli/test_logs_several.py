"""`cgplan logs a.log b.log`: a file for each start, as operators keep them."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_lines import BANNER, Run, arguments, document, line, written

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 255.98 GiB"
    " of which 900.00 MiB is free. Including non-PyTorch memory, this process has 255.10 GiB memory in use. Of the"
    " allocated memory 248.10 GiB is allocated by PyTorch, with 9.00 GiB allocated in private pools"
)


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    """Two starts that ran out of memory in capture, at 0.89 and 0.88."""
    names = []
    for at, (share, kv) in enumerate(((0.89, 80.0), (0.88, 77.5)), 1):
        lines = [BANNER, arguments(model_tag="org/M", gpu_memory_utilization=share)]
        lines += [line(f"Available KV cache memory: {kv} GiB"), line("GPU KV cache size: 150,745 tokens")]
        lines += [line(OOM, level="ERROR")]
        names.append(written(tmp_path / f"{at}.log", *lines))
    return names


def test_the_second_file_says_what_the_first_cannot(cgplan: Run, logs: list[str]) -> None:
    out = " ".join(cgplan("logs", *logs, "--no-plan")[1].split())
    assert "CG531" in out
    assert "Start 1 of 2, line 1, 1.log" in out
    assert out.count("75.50 GiB") >= 2
    assert "--gpu-memory-utilization 0.87" not in out
    alone = " ".join(cgplan("logs", logs[0], "--no-plan")[1].split())
    assert "CG531" not in alone
    assert "78.00 GiB" in alone


def test_json_and_markdown_name_the_files(cgplan: Run, logs: list[str]) -> None:
    found = document(cgplan, *logs, "--no-plan", status=1)
    assert [start["source"] for start in found["starts"]] == ["1.log", "2.log"]
    assert "Start 2 of 2, line 1, 2.log" in cgplan("logs", *logs, "--no-plan", "--markdown")[1]


def test_words_without_quotation_marks(cgplan: Run) -> None:
    words = ("No", "available", "memory", "for", "the", "cache", "blocks")
    assert "CG560" in cgplan("logs", *words)[1]


def test_a_file_that_is_missing(cgplan: Run, logs: list[str]) -> None:
    status, _, err = cgplan("logs", logs[0], "gone.log")
    assert status == 2
    assert "gone.log" in err
