from __future__ import annotations

import pytest
from asked_lines import codes, told


@pytest.mark.parametrize("release", ["0.20.2", "0.25.1", "0.33.0"])
def test_hybrids_at_the_default_of_sequences(release: str) -> None:
    one = told("Qwen/Qwen3.5-27B", "CG511", release)
    assert one is not None
    # How many blocks there are is not known: no number is invented, and none is there to paste.
    assert (one.severity, one.flag, one.edits) == ("info", None, ())
    assert one.fix is not None
    assert "cgplan plan" in one.fix
    assert not any(letter.isdigit() for letter in one.fix)


def test_a_number_that_is_given_was_planned() -> None:
    """With the GPU known the plan says how many, and with that many it starts."""
    line = "Qwen/Qwen3.6-27B --gpu-memory-utilization 0.95"
    assert told(line, "CG511", "0.20.2", "h100") is None
    one = told(line, "CG501", "0.20.2", "h100")
    assert one is not None
    assert one.flag is not None
    assert one.flag.startswith("--max-num-seqs ")
    assert told(f"{line} {one.flag}", "CG501", "0.20.2", "h100") is None


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("Qwen/Qwen3-8B", "0.33.0"),
        ("Qwen/Qwen3.5-27B --max-num-seqs 64", "0.33.0"),
        ("Qwen/Qwen3.5-27B -cc.cudagraph_mode=PIECEWISE", "0.33.0"),
        ("Qwen/Qwen3.5-27B --enforce-eager", "0.33.0"),
        ("Qwen/Qwen3.5-27B", "0.19.1"),
        ("Qwen/Qwen3.5-27B --num-gpu-blocks-override 2000", "0.33.0"),
    ],
)
def test_where_blocks_do_not_matter_or_are_known(line: str, release: str) -> None:
    assert told(line, "CG511", release, "h100") is None


def test_too_few_blocks_are_an_error() -> None:
    assert "CG501 error" in codes("Qwen/Qwen3.5-27B --max-num-seqs 64 --num-gpu-blocks-override 40", on="h100")
    fits = "Qwen/Qwen3.5-27B --max-num-seqs 32 --max-model-len 8192 --num-gpu-blocks-override 40"
    assert codes(fits, on="h100") == []


def test_both_ways_out_of_too_few_blocks() -> None:
    line = "Qwen/Qwen3.5-27B --max-num-seqs 64 --num-gpu-blocks-override 40"
    one = told(line, "CG501", on="h100")
    assert one is not None
    assert one.fix is not None
    assert "--max-num-seqs 32 (40 at most), or a larger --num-gpu-blocks-override" in one.fix
    assert "utilization" not in one.fix
    assert "-cc.cudagraph_mode=PIECEWISE" in one.fix
    assert told(f"{line} -cc.cudagraph_mode=PIECEWISE", "CG501", on="h100") is None
    assert told(line.replace("64", "40"), "CG501", on="h100") is None
