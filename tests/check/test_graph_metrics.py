from __future__ import annotations

import pytest
from asked_lines import mended, report, told

LINE = "Qwen/Qwen3-0.6B --cudagraph-metrics"


def texts(line: str, release: str) -> list[str]:
    return [one.message for one in report(line, release).diagnostics if one.code == "CG245"]


class TestRunnerThatCountsNothing:
    def test_runner_v2_before_it_counted(self) -> None:
        one = told(LINE, "CG245", "0.27.1", "l40s")
        assert one is not None
        assert one.severity == "warning"
        assert "runner V2" in one.message
        for way in ("VLLM_USE_V2_MODEL_RUNNER=0", "0.30", "vllm:iteration_tokens_total"):
            assert way in str(one.fix)

    @pytest.mark.parametrize(
        ("line", "release"),
        [
            (LINE, "0.30.0"),
            (LINE, "0.33.0"),
            (LINE, "0.19.1"),  # runner V1 is the default there
            (f"VLLM_USE_V2_MODEL_RUNNER=0 vllm serve {LINE}", "0.27.1"),
            ("Qwen/Qwen3-0.6B", "0.27.1"),
        ],
    )
    def test_where_it_is_counted_or_not_asked_for(self, line: str, release: str) -> None:
        assert texts(line, release) == []

    def test_the_last_release_without(self) -> None:
        assert len(texts(LINE, "0.29.0")) == 1


class TestNothingIsPrinted:
    def test_without_statistics(self) -> None:
        line = f"{LINE} --disable-log-stats"
        assert len(texts(line, "0.30.0")) == 1
        assert mended(line, "CG245", "0.30.0") == LINE

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            (f"vllm serve {LINE} --api-server-count 2", "2 API servers"),
            (f"VLLM_LOGGING_LEVEL=ERROR vllm serve {LINE}", "VLLM_LOGGING_LEVEL=ERROR"),
        ],
    )
    def test_other_switches(self, line: str, word: str) -> None:
        assert [word in text for text in texts(line, "0.33.0")] == [True]

    @pytest.mark.parametrize(
        "line",
        [
            f"vllm serve {LINE} --api-server-count 1",
            f"VLLM_LOGGING_LEVEL=DEBUG vllm serve {LINE}",
            "vllm serve Qwen/Qwen3-0.6B --disable-log-stats",
        ],
    )
    def test_their_twins(self, line: str) -> None:
        assert texts(line, "0.33.0") == []
