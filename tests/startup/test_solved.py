"""Requests and drafts that the graphs of a log come of. The counts are those of vLLM's own rule for the sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import on, public, rank, start

from cgplan.inputs.launches.asked import Context
from cgplan.sections import SpeculativeOptions
from cgplan.startup.against_plan import compare
from cgplan.startup.deployment import Served, served
from cgplan.startup.record import Captured, Start
from cgplan.vocabulary import UsageContext

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def counted(piecewise: tuple[int, int], full: tuple[int, int], version: str = "0.23.0", **more: object) -> Start:
    one = replace(rank(), profiled=(Captured("PIECEWISE", *piecewise), Captured("FULL", *full)))
    return start(one, version=version, model=LLAMA, **more)


def sizes_until_022(requests: int, tokens: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The default sizes by hand: vllm/config/vllm.py:1664-1730 and compilation.py:1473-1515 @ 0.23.0."""
    most = min(requests * tokens * 2, 512)
    grid = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if size <= most]
    largest = grid[-1]
    rounded = sorted({up for up in (-(-size // tokens) * tokens for size in grid) if up <= largest})
    full = [size for size in rounded if tokens <= size <= requests * tokens]
    return (len(rounded), rounded[-1]), (len(full), full[-1])


def with_drafts(count: int) -> Context:
    return on("h100", settings={"speculative_config": SpeculativeOptions(method="ngram", num_speculative_tokens=count)})


def codes(found: Served) -> list[str]:
    return [finding.code for finding in found.findings]


class TestWhereTheLogHasNoArguments:
    def test_both_numbers_are_solved_back(self) -> None:
        assert sizes_until_022(48, 4) == ((41, 384), (25, 192))
        found = served(counted((41, 384), (25, 192)), on("h100"))
        (finding,) = found.findings
        assert (finding.code, finding.severity) == ("CG539", "info")
        assert "48 or 49 requests of 4 tokens (3 drafts), or 32 or 33 requests of 6 tokens" in finding.message
        assert finding.fix is not None
        assert finding.fix.startswith("--max-num-seqs 48 --spec-tokens 3")
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 48

    @pytest.mark.parametrize(("requests", "tokens"), [(48, 4), (49, 4), (32, 6), (33, 6)])
    def test_the_bounds_are_those_of_the_rule(self, requests: int, tokens: int) -> None:
        assert sizes_until_022(requests, tokens) == ((41, 384), (25, 192))

    @pytest.mark.parametrize(("requests", "tokens"), [(47, 4), (50, 4), (31, 6), (34, 6), (96, 2), (64, 3)])
    def test_and_no_others(self, requests: int, tokens: int) -> None:
        assert sizes_until_022(requests, tokens) != ((41, 384), (25, 192))

    def test_without_drafts_only_requests_are_taken(self) -> None:
        found = served(counted((35, 256), (19, 128)), on("h100"))
        assert codes(found) == []
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 128
        assert any("128 to 135 requests" in text for text in found.assumptions)

    def test_the_default_is_said_to_be_one(self) -> None:
        found = served(counted((51, 512), (51, 512)), on("h100"))
        assert any("max_num_seqs 1024, vLLM's default" in text for text in found.assumptions)

    def test_one_number_does_not_tell_two(self) -> None:
        one = start(replace(rank(), profiled=(Captured("FULL", 25, 192),)), version="0.23.0", model=LLAMA)
        assert served(one, on("h100")).findings == ()


class TestWhatTheUserSays:
    def test_is_kept(self) -> None:
        found = served(counted((41, 384), (25, 192)), on("h100", settings={"max_num_seqs": 32}))
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 32
        assert found.deployment.speculative_config is not None
        assert found.deployment.speculative_config.num_speculative_tokens == 5

    def test_drafts_leave_one_answer(self) -> None:
        found = served(counted((41, 384), (25, 192)), with_drafts(5))
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 32
        assert any("32 or 33 requests of 6 tokens" in text for text in found.assumptions)
        assert not any("48" in text for text in found.assumptions)

    def test_and_is_held_against_the_graphs(self) -> None:
        told = on("h100", settings={**with_drafts(1).settings, "max_num_seqs": 96})
        found = served(counted((41, 384), (25, 192)), told)
        (finding,) = found.findings
        assert (finding.code, finding.severity) == ("CG539", "warning")
        assert finding.message.endswith("the deployment has 96 requests of 2 tokens (1 draft)")
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 96

    def test_nothing_is_said_where_it_fits(self) -> None:
        told = on("h100", settings={**with_drafts(3).settings, "max_num_seqs": 48})
        assert codes(served(counted((41, 384), (25, 192)), told)) == []


def test_arguments_with_other_graphs_are_told_once() -> None:
    one = counted((41, 384), (25, 192), arguments={"model_tag": LLAMA, "max_num_seqs": 96})
    found = [finding.code for finding in compare(one, served(one, on("h100"))).findings]
    assert found.count("CG539") == 1
    assert "CG533" not in found


def test_sizes_of_the_users_choice_tell_nothing() -> None:
    one = counted((2, 8), (2, 8), arguments={"model_tag": LLAMA, "cudagraph_capture_sizes": [4, 8], "max_num_seqs": 4})
    assert "CG539" not in codes(served(one, on("h100")))


def test_graphs_are_not_held_against_what_was_solved_from_them() -> None:
    one = counted((41, 384), (25, 192))
    assert [row.key for row in compare(one, served(one, on("h100"))).rows if row.unit == "graphs"] == []
    told = on("h100", settings={**with_drafts(3).settings, "max_num_seqs": 48})
    assert len([row for row in compare(one, served(one, told)).rows if row.unit == "graphs"]) == 2


class TestTheDefaultOfAnotherWayToStart:
    """128 requests and 2,048 tokens: vllm/engine/arg_utils.py, of a usage context that its table does not have."""

    CONTEXT = "--usage-context ENGINE_CONTEXT"

    def test_is_named(self) -> None:
        found = served(counted((35, 256), (19, 128), max_num_batched_tokens=2048), on("h100"))
        (line,) = (text for text in found.assumptions if text.startswith("max_num_seqs 128"))
        assert self.CONTEXT in line
        assert "neither `vllm serve` nor LLM" in line

    @pytest.mark.parametrize("tokens", [8192, 4096])
    def test_not_with_other_tokens_than_its_default(self, tokens: int) -> None:
        found = served(counted((35, 256), (19, 128), max_num_batched_tokens=tokens), on("h100"))
        assert any("128 to 135 requests" in text for text in found.assumptions)
        assert not any(self.CONTEXT in text for text in found.assumptions)

    def test_not_of_another_number_of_requests(self) -> None:
        found = served(counted(*sizes_until_022(64, 1), max_num_batched_tokens=2048), on("h100"))
        assert any(text.startswith("max_num_seqs 64") for text in found.assumptions)
        assert not any(self.CONTEXT in text for text in found.assumptions)

    def test_not_where_it_was_said(self) -> None:
        told = on("h100", settings={"usage_context": UsageContext.ENGINE_CONTEXT})
        found = served(counted((35, 256), (19, 128), max_num_batched_tokens=2048), told)
        assert any("max_num_seqs 128, vLLM's default" in text for text in found.assumptions)

    def test_beside_arguments_that_do_not_name_them(self) -> None:
        one = counted((35, 256), (19, 128), arguments={"model_tag": LLAMA, "max_num_batched_tokens": 2048})
        (finding,) = served(one, on("h100")).findings
        assert (finding.code, finding.severity) == ("CG539", "warning")
        assert self.CONTEXT in finding.message

    def test_fewer_batched_tokens_than_requests_are_tried(self) -> None:
        """2,048 tokens a step are no server of 4,096 requests, and hide no answer (case A13)."""
        found = served(counted((35, 256), (19, 128), max_num_batched_tokens=256), on("h100"))
        assert found.deployment is not None
        assert found.deployment.max_num_seqs == 128

    def test_the_log_of_a13_differs_in_no_graph(self) -> None:
        (one,) = public("A13").starts
        found = compare(one, served(one, on("l40s")))
        assert found.served.deployment is not None
        assert found.served.deployment.max_num_seqs == 128
        assert not any("FULL graphs" in finding.message for finding in found.findings)
