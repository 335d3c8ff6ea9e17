"""How many requests may run, where the number is from, and how many of the full length fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import on, public, rank, start

from cgplan.report.logs_words import facts
from cgplan.startup.analysis import StartReport, report_of
from cgplan.startup.record import Captured, Start
from cgplan.startup.requests import fewer_fit, requests_of


def report(name: str, card: str | None) -> StartReport:
    (one,) = public(name).starts
    return report_of(one, 1, (one,), on(card) if card is not None else None)


class TestWhereItIsFrom:
    def test_a_default_by_which_full_graphs_end(self) -> None:
        """Case A12: LLM() on a GPU of 48 GB."""
        found = report("A12", "l40s")
        got = requests_of(found.start, found.comparison)
        assert got is not None
        assert got.number == 256
        assert got.source == "the default of `vllm serve` and LLM() on this GPU; FULL graphs end at 256 = max_num_seqs"

    def test_solved_back(self) -> None:
        found = report("A13", "l40s")
        got = requests_of(found.start, found.comparison)
        assert got is not None
        assert (got.number, got.source[:22]) == (128, "solved from the graphs")

    def test_a_plan_of_another_gpu_says_nothing(self) -> None:
        found = report("A12", "h100")
        got = requests_of(found.start, found.comparison)
        assert got is not None
        assert got.number == 256

    def test_given_it_needs_no_source(self) -> None:
        one = start(rank(), arguments={"max_num_seqs": 7})
        assert requests_of(one, None) == (7, "")

    def test_without_a_plan_by_the_full_graphs(self) -> None:
        one = self.counted(256, 512)
        got = requests_of(one, None)
        assert got is not None
        assert got.number == 256

    def test_not_where_the_sizes_end_or_drafts_may_be_on(self) -> None:
        assert requests_of(self.counted(512, 512), None) is None
        one = self.counted(256, 512)
        drafted = replace(one, arguments={**one.arguments, "speculative_config": {"num_speculative_tokens": 3}})
        assert requests_of(drafted, None) is None

    def counted(self, full: int, piecewise: int) -> Start:
        profiled = (Captured("PIECEWISE", 51, piecewise), Captured("FULL", 35, full))
        return start(replace(rank(), profiled=profiled), arguments={"model": "org/M"})


class TestHowManyFit:
    def test_a_hybrid_says_what_a_state_costs(self) -> None:
        """Case A14: 137.80 requests of 1,024 tokens, and 256 may run."""
        found = report("A14", "l40s")
        (finding,) = (one for one in found.findings if one.code == "CG836")
        assert "137.80 requests of 1,024 tokens fit, and 256 may run" in finding.message
        assert "about 118, wait" in finding.message
        assert "3 for its state" in finding.message
        assert "Blocks have 528 tokens so that one is as large as a state" in finding.message
        assert ("KV cache", "137.80 requests of 1,024 where 256 may run") in [
            (name, text.split("tokens, ")[-1]) for name, text in facts(found)
        ]

    @pytest.mark.parametrize(("running", "fires"), [(64, False), (137, False), (200, True)])
    def test_only_where_more_may_run(self, running: int, fires: bool) -> None:
        one = start(
            rank(kv=10.0), arguments={"max_num_seqs": running}, block_size=528, max_concurrency=137.8,
            concurrency_length=1024,
        )  # fmt: skip
        assert (fewer_fit(one, None) is not None) is fires

    def test_not_of_a_model_without_a_state(self) -> None:
        one = start(
            rank(kv=10.0),
            arguments={"max_num_seqs": 200},
            block_size=16,
            max_concurrency=137.8,
            concurrency_length=1024,
        )
        assert fewer_fit(one, None) is None
