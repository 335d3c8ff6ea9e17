"""`cgplan diff`: what it says of the memory at both ends, and what no setting restores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from plan_cases import Run

Diff = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def diff(cgplan: Run) -> Diff:
    """Run a command line: (exit status, stdout, stderr)."""
    return lambda line: cgplan(*line.split())


def squeezed(text: str) -> str:
    """`text` without the line breaks of the screen."""
    return " ".join(text.replace("\\", "").split())


KEEPS = "no setting restores it."


class TestWhatAllRowsSay:
    LINE = "diff --from 0.25 --to 0.33 --gpu h100 --model Qwen/Qwen3-8B"

    @pytest.mark.parametrize("form", ["", " --markdown"])
    def test_the_headline_counts_the_rows_of_memory_too(self, diff: Diff, form: str) -> None:
        out = squeezed(diff(self.LINE + form)[1])
        assert "6 values change, in 3 releases, by 2 rules. Its KV cache shrinks" in out
        alone = squeezed(diff("diff --from 0.25 --to 0.33 --gpu h100" + form)[1])
        assert "1 value changes, in 1 release, by 1 rule." in alone

    @pytest.mark.parametrize("form", ["", " --markdown"])
    def test_parts_that_nothing_restores_are_named(self, diff: Diff, form: str) -> None:
        out = squeezed(diff(self.LINE + form)[1])
        kept = out.partition("To keep what 0.25.1 did")[2].partition("Changed too")[0]
        assert re.search(rf"buffers of the runner, -0.67 GiB of KV cache in 0.27.1 \(CG505\): {KEEPS}", kept)
        assert re.search(rf"peak of the profile run, -0.8\d GiB of KV cache in 0.33.0 \(CG505\): {KEEPS}", kept)
        assert "estimate of the graphs, -" not in kept
        back = squeezed(diff(f"{self.LINE.replace('0.25', '0.31').replace('0.33', '0.32')}{form}")[1])
        assert KEEPS not in back

    def test_a_share_that_a_flag_keeps_is_not_among_them(self, diff: Diff) -> None:
        line = "diff --from 0.20.2 --to 0.19.1 --model Qwen/Qwen3-14B --gpu h100"
        out = squeezed(diff(line)[1])
        assert "--gpu-memory-utilization 0.92 keeps: the memory asked for" in out
        assert "memory asked for, -" not in out


class TestACacheOfAGivenSize:
    LINE = "diff --from 0.25 --to 0.33 --gpu h100 -- vllm serve Qwen/Qwen3-8B"

    @pytest.mark.parametrize("form", ["", " --markdown"])
    def test_no_estimate_is_taken_off_it(self, diff: Diff, form: str) -> None:
        line = f"{self.LINE} --kv-cache-memory-bytes 30000000000".replace(" -- ", f"{form} -- ")
        out = squeezed(diff(line)[1])
        assert "Its KV cache stays as --kv-cache-memory-bytes has it." in out
        assert "off the KV cache" not in out
        assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS" not in out
        assert "no release takes its estimate of the graphs off it" in out
        free = squeezed(diff(self.LINE.replace(" -- ", f"{form} -- "))[1])
        assert "off the KV cache" in free
        assert "no release takes" not in free

    def test_an_option_counts_as_the_line_does(self, diff: Diff) -> None:
        option = "--kv-cache-memory-bytes 30000000000 --json -- "
        document = json.loads(diff(self.LINE.replace("-- ", option))[1])
        assert "graph_memory_deducted" not in {one["field"] for one in document["changes"]}
        assert any("--kv-cache-memory-bytes sizes it" in one for one in document["assumptions"])


class TestWhatStartsInNeither:
    def test_without_a_cache_nothing_moves_it(self, diff: Diff) -> None:
        line = "diff --from 0.25 --to 0.33 --model Qwen/Qwen3-8B --gpu t4"
        out = squeezed(diff(line)[1])
        assert "By its memory it starts in neither: CG597; there is no KV cache." in out
        assert "What moves the KV cache" not in out
        assert "graph estimate taken off" not in out
        assert KEEPS not in out
        assert {one["part"] for one in json.loads(diff(f"{line} --json")[1])["memory"]["causes"]} <= {
            "what capture takes"
        }

    def test_of_a_cache_that_holds_no_request_the_size_is_compared(self, diff: Diff) -> None:
        out = squeezed(diff("diff --from 0.25 --to 0.33 --model Qwen/Qwen3.6-27B --gpu h100")[1])
        assert "it starts in neither: CG501, CG561; of its KV cache the size alone is compared." in out
        assert re.search(r"KV cache 16\.\d\d GiB 15\.\d\d GiB", out)
        assert "is not compared" not in out


def test_tokens_counted_in_two_ways_are_marked(diff: Diff) -> None:
    line = "diff --from {} --to 0.33 --model openai/gpt-oss-20b --gpu h100 --json"
    memory = json.loads(diff(line.format("0.19"))[1])["memory"]
    (tokens,) = (one for one in memory["changes"] if one["field"] == "kv_tokens")
    assert (tokens["comparable"], tokens["codes"]) == (False, ["CG581"])
    assert memory["to"]["full_length_tokens"] < memory["from"]["full_length_tokens"]
    assert all(one["comparable"] for one in memory["changes"] if one["field"] != "kv_tokens")
    alike = json.loads(diff(line.format("0.25"))[1])["memory"]["changes"]
    assert all(one["comparable"] for one in alike)
