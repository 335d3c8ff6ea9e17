"""The edits: what they touch, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asked_lines import mended, told

from cgplan.check import ConfigEdit, Context, check_launch
from cgplan.inputs.launches import launch_of
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.launch import ConfigText


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("--max-num-seqs 100", "--max-num-seqs 104"),
        ("--max-num-seqs=100", "--max-num-seqs=104"),
        ("--max_num_seqs 100", "--max_num_seqs 104"),
        ("--max-num-seqs 100 --port 1", "--max-num-seqs 104 --port 1"),
    ],
)
def test_a_value_is_changed_in_its_own_spelling(given: str, after: str) -> None:
    assert mended(f"Qwen/Qwen3-8B {given}", "CG705", "0.30.0") == f"Qwen/Qwen3-8B {after}"


def test_a_value_out_of_a_variable_is_left_alone() -> None:
    launch = launch_of(["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "100"])
    tokens = (*launch.tokens[:-1], launch.tokens[-1]._replace(literal=False))
    found = check_launch(ask(replace(launch, tokens=tokens), Context(release="0.30.0"))).diagnostics
    assert [(one.code, one.edits, one.flag) for one in found] == [("CG705", (), "--max-num-seqs 104")]


def test_a_setting_of_a_config_file_is_changed_there() -> None:
    text = "model: Qwen/Qwen3-8B\nmax-num-seqs: 100\n"
    launch = replace(
        launch_of(["vllm", "serve", "Qwen/Qwen3-8B", "--config", "c.yaml"]), files={"c.yaml": ConfigText(text, (1, 2))}
    )
    found = check_launch(ask(launch, Context(release="0.30.0"))).diagnostics
    edits = [edit for one in found if one.code == "CG705" for edit in one.edits]
    assert edits == [ConfigEdit("max-num-seqs", 2, "max-num-seqs", 104)]


def test_what_is_added_stands_last() -> None:
    line = "Qwen/Qwen3-30B-A3B -dp 4"
    assert mended(line, "CG701", "0.20.2", "h100") == f"{line} --max-num-seqs 512"


def test_a_dotted_key_of_two_tokens() -> None:
    line = "Qwen/Qwen3-8B --max-num-seqs 64 -cc.max_cudagraph_capture_size 100"
    assert mended(line, "CG116").endswith("-cc.max_cudagraph_capture_size 96")
    one = told(line, "CG116")
    assert one is not None
    assert one.flag == "-cc.max_cudagraph_capture_size=96"
