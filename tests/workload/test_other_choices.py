"""What `tune` says of the mode and the largest size: it holds, and it is said only where it is sure."""

from __future__ import annotations

from typing import Any

import pytest
from choice_helpers import (
    BOTH,
    DECODE_ONLY,
    FAST,
    USUAL,
    candidates,
    deployment,
    mode_row,
    ran_in,
    record,
    steps,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_helpers import FULL, NONE, PIECEWISE, decode, either, mixed

from cgplan import CUDAGraphMode, SpeculativeOptions, plan, resolve, tune
from cgplan.memory.budget.measured_record import Profile
from cgplan.workload.choices.graph_modes import ORDER, with_mode
from cgplan.workload.histogram import Workload
from cgplan.workload.mixture import Traffic
from cgplan.workload.shapes import shape
from cgplan.workload.sizes.effect import with_sizes
from cgplan.workload.sizes.flags import flags_of
from cgplan.workload.sizes.limits import Limits


class TestPromises:
    @pytest.mark.parametrize("profile", [None, record()])
    @pytest.mark.parametrize("fields", [{}, {"max_num_seqs": 1024}, {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}])
    def test_each_candidate_resolves_and_plans_to_what_is_shown(
        self, fields: dict[str, Any], profile: Profile | None
    ) -> None:
        found = tune(deployment(**fields), USUAL, profile=profile)
        assert len(candidates(found)) >= 6
        for one in candidates(found):
            again = resolve(one.deployment)
            assert again.capture_sizes == one.point.sizes
            assert again.graph_count() == one.point.graphs
            made = plan(one.deployment)
            assert made.best.plan is not None
            assert made.best.plan.tokens == one.point.kv_tokens
            assert (made.graphs.total.best if made.graphs is not None else 0) == one.point.graph_bytes

    def test_drafts(self) -> None:
        options = SpeculativeOptions(method="ngram", num_speculative_tokens=2)
        traffic = steps(decode(15, 4000, query_len=3), decode(30, 100, query_len=3))
        found = tune(deployment(speculative_config=options), traffic)
        for one in candidates(found):
            if one.resolution.cudagraph_mode.separate_routine and one.resolution.decode_mode is FULL:
                # Above the fullest decode batch, sizes are for mixed ones.
                fullest = min(3 * one.resolution.max_num_seqs, 510)
                assert all(size % 3 == 0 for size in one.point.sizes if size <= fullest)
            assert resolve(one.deployment).capture_sizes == one.point.sizes
        assert found.others.requests.running.high == 10

    def test_limits_hold_for_each(self) -> None:
        limits = Limits(graphs=20, graph_bytes=400 << 20, capture_seconds=0.8)
        found = tune(deployment(max_num_seqs=256), USUAL, limits=limits)
        for one in candidates(found):
            assert one.point.graphs <= 20
            assert one.point.graph_bytes is not None
            assert one.point.graph_bytes <= 400 << 20
            assert one.point.capture.best <= 0.8

    def test_what_a_mode_does_to_the_steps(self) -> None:
        found = tune(deployment(), USUAL)
        assert mode_row(found, DECODE_ONLY).shares == pytest.approx((6000 / 6300, 0, 300 / 6300))
        assert mode_row(found, PIECEWISE).shares == pytest.approx((0, 1, 0))
        assert mode_row(found, NONE).shares == pytest.approx((0, 0, 1))
        assert mode_row(found, NONE).point.graphs == 0
        kept = mode_row(found, NONE).point.kv_tokens
        assert kept is not None
        assert found.chosen.kv_tokens is not None
        assert kept > found.chosen.kv_tokens

    def test_the_list_of_a_mode_is_the_shortest_of_the_good_ones(self) -> None:
        """The same that the whole curve gives, when that mode is today's."""
        traffic, limits = steps(*(decode(n, 100) for n in range(1, 60, 3))), Limits(graphs=19)
        found = tune(deployment(), traffic, limits=limits)
        own = tune(deployment(DECODE_ONLY), traffic, limits=limits)
        point = mode_row(found, DECODE_ONLY).point
        assert len(point.sizes) > 5
        assert point.sizes in [one.sizes for one in own.points]
        shorter = [one for one in own.points if len(one.sizes) < len(point.sizes)]
        assert all(one.guarded > point.guarded for one in shorter)


class TestModes:
    def test_less_time_for_sure(self) -> None:
        found = tune(deployment(PIECEWISE), USUAL, profile=record())
        modes = found.others.modes
        assert modes.recommended is not None
        assert modes.recommended.asked is BOTH
        assert modes.flags is not None
        assert "-cc.cudagraph_mode=FULL_AND_PIECEWISE" in modes.flags.add
        assert modes.flags.replaces == ("cudagraph_mode of --compilation-config",)
        assert modes.recommended.found is not None
        before = 4000 * 0.006 + 2000 * (0.006 + 29 / 511 * 0.004)
        assert modes.first.cost == pytest.approx((before + 4000 * 4 / 511 * 0.004 + 300 * 0.00677495) / 6300, rel=0.01)
        assert modes.chance is not None
        assert modes.chance.low < (modes.recommended.found.gain or 0) < modes.chance.high

    @pytest.mark.parametrize(
        ("traffic", "profile", "said"),
        [
            (USUAL, record(full={"1": 0.0057, "512": 0.0097}), "below 8.5%"),
            (USUAL, record(full={"1": 0.0059, "512": 0.0099}, piecewise={"1": 0.0059, "512": 0.0099}), "no mode takes"),
            (USUAL, None, "tokens do not say"),
            (steps(decode(5, 400), decode(30, 200), mixed(100, 30)), record(), "too few"),
            (steps(either(5, 5, 4000), either(30, 30, 2000)), record(), "not known whether they are decode steps"),
        ],
    )
    def test_no_reason_to_change(self, traffic: Workload, profile: Profile | None, said: str) -> None:
        modes = tune(deployment(PIECEWISE), traffic, profile=profile, spread=0.0).others.modes
        assert modes.recommended is None
        assert modes.flags is None
        assert modes.reason.startswith("PIECEWISE stays")
        assert said in modes.reason

    def test_times_that_are_drawn_on_do_not_decide(self) -> None:
        slow = {"1": 0.012, "64": 0.014}
        traffic = steps(decode(5, 4000), mixed(100, 4000))
        kept = tune(deployment(DECODE_ONLY), traffic, profile=record(eager=slow)).others.modes
        assert kept.recommended is None
        assert "drawn on: eager steps above 64 tokens" in kept.reason
        changed = tune(deployment(DECODE_ONLY), traffic, profile=record(eager={**slow, "512": 0.02})).others.modes
        assert changed.recommended is not None
        assert changed.recommended.asked is BOTH

    def test_no_times_of_eager_steps(self) -> None:
        found = tune(deployment(), USUAL, profile=record(eager={}))
        assert mode_row(found, NONE).cost is None
        assert mode_row(found, NONE).unpriced == "the profile has no times of eager steps"
        assert mode_row(found, PIECEWISE).cost is not None

    def test_a_prefill_in_a_full_graph_was_not_timed(self) -> None:
        found = tune(deployment(), USUAL, profile=record())
        assert mode_row(found, FULL).cost is None
        assert "with a prefill in a FULL graph" in mode_row(found, FULL).unpriced
        alone = tune(deployment(), steps(decode(5, 4000)), profile=record())
        assert mode_row(alone, FULL).cost is not None

    def test_tokens_price_nothing_that_has_another_graph(self) -> None:
        found = tune(deployment(), USUAL)
        assert all(mode_row(found, mode).cost is None for mode in ORDER[1:])

    def test_fewer_graphs_for_the_same_steps(self) -> None:
        found = tune(deployment(), steps(decode(5, 4000), decode(30, 2000), mixed(3000, 50)))
        modes = found.others.modes
        assert modes.recommended is not None
        assert modes.recommended.asked is DECODE_ONLY
        assert modes.recommended.found is not None
        assert modes.recommended.found.point.graphs < found.chosen.graphs
        assert (modes.recommended.found.point.kv_tokens or 0) >= (found.chosen.kv_tokens or 0)

    @pytest.mark.parametrize(
        "traffic",
        [
            steps(decode(5, 4000), decode(30, 2000), mixed(100, 1)),
            steps(decode(5, 1000), decode(30, 1000)),
        ],
    )
    def test_one_step_that_would_lose_its_graph_is_enough_to_keep_it(self, traffic: Workload) -> None:
        assert tune(deployment(), traffic).others.modes.recommended is None

    def test_fewer_graphs_that_take_more_memory_are_no_reason(self) -> None:
        found = tune(deployment(max_num_seqs=1024), steps(decode(30, 4000), mixed(3000, 50)))
        one = mode_row(found, DECODE_ONLY)
        assert one.same_runs
        assert one.point.graphs < found.chosen.graphs
        assert (one.point.kv_tokens or 0) < (found.chosen.kv_tokens or 0)
        assert found.others.modes.recommended is None
        assert "less is left for the KV cache" in found.others.modes.reason

    def test_a_shape_is_no_measurement(self) -> None:
        made = Traffic("steady", shape("steady", max_num_seqs=64), is_measured=False)
        others = tune(deployment(), [made], profile=record()).others
        assert others.modes.recommended is None
        assert others.requests.recommended is None

    def test_a_mode_that_is_lowered_says_why(self) -> None:
        found = tune(deployment(attention_support="UNIFORM_BATCH"), USUAL)
        (row,) = (row for row in found.others.modes.rows if row.asked is FULL)
        assert row.mode is BOTH
        assert row.found is None
        assert "CG330" in row.why_not

    @settings(max_examples=12, deadline=None)
    @given(
        support=st.sampled_from(["NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS", None]),
        today=st.sampled_from([BOTH, FULL, DECODE_ONLY, PIECEWISE]),
        level=st.sampled_from([None, 0, 2]),
        seconds=st.tuples(*[st.sampled_from([0.004, 0.006, 0.02])] * 3),
        long_prefills=st.booleans(),
    )
    def test_a_mode_that_cannot_run_is_never_recommended(
        self, support: str | None, today: CUDAGraphMode, level: int | None, seconds: tuple[float, ...],
        long_prefills: bool,
    ) -> None:  # fmt: skip
        asked = deployment(today, attention_support=support, optimization_level=level, max_num_seqs=16)
        traffic = steps(decode(3, 3000), decode(16, 900), mixed(3000 if long_prefills else 20, 400))
        if ran_in(asked) in (None, NONE):
            return
        times = [{"1": one, "8192": one} for one in seconds]
        modes = tune(asked, traffic, profile=record(*times), spread=0.0).others.modes
        assert [row.asked for row in modes.rows] == list(ORDER)
        for row in modes.rows:
            runs = ran_in(with_mode(asked, row.asked))
            assert row.mode is runs
            assert (row.found is None) or (runs is row.asked and runs is not modes.today)
            if row.found is not None:
                assert resolve(row.found.deployment).cudagraph_mode is row.asked
        if modes.recommended is not None:
            assert modes.recommended.found is not None
            assert modes.recommended in modes.rows


class TestLargestSize:
    WIDE = steps(decode(5, 4000), decode(100, 4000), mixed(3000, 50))

    def test_what_is_above(self) -> None:
        largest = tune(deployment(max_cudagraph_capture_size=64), steps(decode(5, 50), mixed(80, 25), mixed(3000, 25)))
        assert largest.others.largest.today == 64
        assert largest.others.largest.mixed_above == pytest.approx(0.5)
        assert largest.others.largest.decode_above == 0
        (row,) = largest.others.largest.rows
        assert (row.largest, row.above) == (128, pytest.approx(0.25))

    def test_less_time_for_sure(self) -> None:
        asked = deployment(max_num_seqs=128, max_cudagraph_capture_size=64)
        largest = tune(asked, self.WIDE, profile=record()).others.largest
        assert largest.recommended is not None
        assert largest.recommended.largest == 128
        assert largest.flags is not None
        assert largest.flags.replaces == ("--max-cudagraph-capture-size 64",)

    @pytest.mark.parametrize(
        ("profile", "said"),
        [
            (None, "tokens do not say"),
            (record(eager=FAST), "below 8.5%"),
            (record(eager={"1": 0.02, "8": 0.02}), "drawn on"),
        ],
    )
    def test_it_stays(self, profile: Profile | None, said: str) -> None:
        asked = deployment(max_num_seqs=128, max_cudagraph_capture_size=64)
        largest = tune(asked, self.WIDE, profile=profile).others.largest
        assert largest.recommended is None
        assert said in largest.reason

    def test_nothing_above_needs_no_other(self) -> None:
        largest = tune(deployment(), steps(decode(5, 4000))).others.largest
        assert not largest.rows
        assert largest.widest == 5


class TestFlags:
    @pytest.mark.parametrize(
        ("fields", "replaces"),
        [
            ({}, ()),
            ({"max_cudagraph_capture_size": 8}, ()),
            ({"max_cudagraph_capture_size": 9}, ("--max-cudagraph-capture-size 9",)),
            ({"cudagraph_capture_sizes": [1, 2]}, ("--cudagraph-capture-sizes",)),
            (
                {"compilation_config": {"cudagraph_capture_sizes": [1, 2], "max_cudagraph_capture_size": 2}},
                (
                    "cudagraph_capture_sizes of --compilation-config",
                    "max_cudagraph_capture_size 2 of --compilation-config",
                ),
            ),
        ],
    )
    def test_what_they_replace(self, fields: dict[str, Any], replaces: tuple[str, ...]) -> None:
        found = flags_of(deployment(**fields), (4, 8))
        assert found.line == "--cudagraph-capture-sizes 4 8"
        assert found.replaces == replaces

    def test_all_together(self) -> None:
        found = flags_of(deployment(BOTH), (4, 8), DECODE_ONLY, 32)
        assert found.line == "--cudagraph-capture-sizes 4 8 -cc.cudagraph_mode=FULL_DECODE_ONLY --max-num-seqs 32"
        assert found.replaces == ("cudagraph_mode of --compilation-config", "--max-num-seqs 64")
        assert flags_of(deployment(), (), NONE).line == "-cc.cudagraph_mode=NONE"

    def test_a_cap_between_two_sizes_has_to_go(self) -> None:
        found = tune(deployment(max_cudagraph_capture_size=100), USUAL)
        assert max(found.chosen.sizes) == 96
        assert found.replaces == ("--max-cudagraph-capture-size 100",)
        assert resolve(with_sizes(found.deployment, found.chosen.sizes)).capture_sizes == found.chosen.sizes
