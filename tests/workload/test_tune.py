"""The choice of sizes for traffic: what it promises holds, and it says so where today's list is better."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from choice_helpers import through
from conftest import ROOT
from workload_helpers import decode, either, mixed, resolved

from cgplan import Deployment, InputError, SpeculativeOptions, gpu, load_model, plan, resolve, tune
from cgplan.memory.budget.measured_record import Profile, profile_of
from cgplan.workload.histogram import Batches, Workload, workload_of
from cgplan.workload.mixture import Traffic, mixture
from cgplan.workload.shapes import SHAPES, shape
from cgplan.workload.sizes.effect import runs_of, with_sizes
from cgplan.workload.sizes.limits import Limits
from cgplan.workload.sizes.optimise import curve, demand_of
from cgplan.workload.sizes.prices import TOKENS
from cgplan.workload.sizes.robust import Interval
from cgplan.workload.sizes.steps import groups_of, merged, scaled
from cgplan.workload.tune.tune import Tuning

FOUR = ("steady", "bursty", "bimodal", "uniform")


def deployment(**fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 256)
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **fields)


def steps(*batches: Batches) -> Workload:
    return workload_of(batches, "a test")


@cache
def of_shape(name: str, max_num_seqs: int = 256, spread: float = 0.05) -> Tuning:
    asked = deployment(max_num_seqs=max_num_seqs)
    made = shape(name, max_num_seqs=max_num_seqs)
    return tune(asked, [Traffic(name, made, is_measured=False)], spread=spread)


def record(full: dict[str, float], piecewise: dict[str, float] | None = None, **fingerprint: Any) -> Profile:
    said = {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3", "model": "Qwen/Qwen3-8B", **fingerprint}
    times = {"full": through(full), "piecewise": through(piecewise or full), "eager": {"1": 1.0}}
    document = {"schema_version": 1, "fingerprint": said, "measured": {}, "profile": {"cost_seconds": times}}
    return profile_of(document, "a test")


class TestShapes:
    @pytest.mark.parametrize("max_num_seqs", [256, 1024])
    @pytest.mark.parametrize("name", FOUR)
    def test_it_beats_the_default_with_no_more_graphs(self, name: str, max_num_seqs: int) -> None:
        found = of_shape(name, max_num_seqs)
        assert len(found.today.sizes) == 51
        assert found.chosen.cost <= found.today.cost
        assert found.chosen.graphs <= found.today.graphs
        assert len(found.chosen.sizes) <= 51

    @pytest.mark.parametrize("name", FOUR)
    def test_it_says_for_which_numbers_of_sizes_the_default_is_better(self, name: str) -> None:
        found = of_shape(name)
        assert found.beats_from is not None
        for point in found.points:
            assert (point.cost <= found.today.cost * (1 + 1e-9)) == (len(point.sizes) >= found.beats_from)

    @pytest.mark.parametrize("name", FOUR)
    def test_it_resolves_and_plans_to_what_was_promised(self, name: str) -> None:
        found = of_shape(name)
        asked = with_sizes(found.deployment, found.chosen.sizes)
        assert resolve(asked).capture_sizes == found.chosen.sizes
        assert resolve(asked).graph_count() == found.chosen.graphs
        made = plan(asked)
        assert made.best.plan is not None
        assert made.best.plan.tokens == found.chosen.kv_tokens
        assert made.graphs is not None
        assert made.graphs.total.best == found.chosen.graph_bytes

    def test_without_a_spread_no_list_of_as_many_sizes_costs_less(self) -> None:
        found = of_shape("bursty", spread=0.0)
        demand = demand_of((item.tokens.low, item.count) for item in found.traffic[0].workload.batches)
        best = curve(demand, len(found.points[-1].sizes), fixed=found.fixed, largest=512)
        assert [point.cost for point in found.points] == pytest.approx([choice.cost for choice in best])

    def test_traffic_that_moves_is_not_padded_without_end(self) -> None:
        worst = {
            spread: min(shift.gain for shift in of_shape("steady", spread=spread).shifts) for spread in (0.0, 0.05)
        }
        assert worst[0.0] < -1
        assert worst[0.05] > -0.2

    @pytest.mark.parametrize("name", SHAPES)
    def test_the_page_has_its_figures(self, name: str) -> None:
        found = of_shape(name)
        assert found.knee is not None
        today, chosen = (f"{p.waste:.1%} with {p.graphs}" for p in (found.today, found.chosen))
        worst = min(shift.gain for shift in found.shifts)
        row = f"| {name} | {today} | {chosen} | {found.beats_from} | {len(found.knee.sizes)} | {worst:.1%} |"
        assert row in (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")

    def test_waste_falls_with_the_sizes_and_the_knee_is_on_the_curve(self) -> None:
        found = of_shape("steady")
        costs = [point.guarded for point in found.points]
        assert costs == sorted(costs, reverse=True)
        assert found.knee in found.points


class TestVerdicts:
    def test_a_list_that_fits_already_stays(self) -> None:
        asked = deployment(cudagraph_capture_sizes=[5, 9, 256])
        found = tune(asked, steps(decode(5, 40), decode(9, 50)), spread=0.0)
        assert found.verdict == "best already"
        assert found.chosen is found.today
        assert found.tuned is found.resolution
        assert found.gain == 0

    def test_graphs_that_nothing_runs_in_are_dropped(self) -> None:
        found = tune(deployment(cudagraph_capture_sizes=[5, 9, 100, 256]), steps(decode(5), decode(9)), spread=0.0)
        assert found.verdict == "fewer graphs"
        assert found.chosen.sizes == (5, 9, 256)

    def test_within_limits_that_today_does_not_keep(self) -> None:
        found = tune(deployment(), shape("uniform", max_num_seqs=256), limits=Limits(graphs=8))
        assert found.verdict == "within limits"
        assert found.chosen.graphs <= 8
        assert found.gain < 0

    @pytest.mark.parametrize(
        ("limits", "value"),
        [
            (Limits(graph_bytes=300 << 20), lambda point: point.graph_bytes <= 300 << 20),
            (Limits(capture_seconds=0.5), lambda point: point.capture.best <= 0.5),
            (Limits(graphs=40), lambda point: point.graphs <= 40),
        ],
    )
    def test_limits_hold(self, limits: Limits, value: Any) -> None:
        found = tune(deployment(), shape("steady", max_num_seqs=256), limits=limits)
        assert value(found.chosen)
        assert not value(found.today)

    def test_limits_that_nothing_keeps(self) -> None:
        with pytest.raises(InputError, match=r"fixed \(256, 512\), has 3 graphs, not 1") as caught:
            tune(deployment(), steps(decode(5)), limits=Limits(graphs=1))
        assert caught.value.code == "CG721"

    @pytest.mark.parametrize(
        ("fields", "batch"), [({"enforce_eager": True}, decode(4)), ({}, mixed(4000)), ({}, decode(600, query_len=1))]
    )
    def test_nothing_to_choose(self, fields: dict[str, Any], batch: Batches) -> None:
        with pytest.raises(InputError) as caught:
            tune(deployment(**fields), steps(batch))
        assert caught.value.code == "CG720"

    def test_decode_batches_above_all_sizes_are_told(self) -> None:
        found = tune(deployment(max_num_seqs=1024), steps(decode(5, 50), decode(700, 50)))
        assert found.eager_anyway == pytest.approx(0.5)
        assert found.findings[0].code == "CG724"
        assert "704" in str(found.findings[0].fix)
        assert not tune(deployment(max_num_seqs=1024), steps(decode(5, 50), mixed(700, 50))).findings


class TestRules:
    def test_sizes_that_have_to_be_there(self) -> None:
        found = tune(deployment(), steps(decode(5)), must=[7, 11], spread=0.0)
        assert {7, 11, 256, 512} == set(found.fixed)
        assert all(set(found.fixed) <= set(point.sizes) for point in found.points)

    @pytest.mark.parametrize("size", [0, 9000])
    def test_a_size_that_cannot_be(self, size: int) -> None:
        with pytest.raises(InputError, match="cannot be captured"):
            tune(deployment(), steps(decode(5)), must=[size])

    @pytest.mark.parametrize("runner", ["0", "1"])
    def test_drafts_ask_for_whole_requests(self, runner: str) -> None:
        options = SpeculativeOptions(method="ngram", num_speculative_tokens=2)
        asked = deployment(speculative_config=options, env={"VLLM_USE_V2_MODEL_RUNNER": runner})
        found = tune(asked, shape("bursty", max_num_seqs=256, query_len=3))
        assert found.multiple == (1 if runner == "1" else 3)
        # Runner V2 keeps any size; where decode batches alone run in it, it is of whole requests all the same.
        free = [size for point in found.points for size in point.sizes if size < found.fixed[0]]
        assert all(size % 3 == 0 for size in free)
        assert found.chosen.cost <= found.today.cost

    def test_sequence_parallelism_asks_for_whole_shares(self) -> None:
        passes = {"enable_sp": True, "sp_min_token_num": 1}
        asked = deployment(vllm="0.28.0", tensor_parallel_size=8, compilation_config={"pass_config": passes})
        found = tune(asked, steps(decode(5, 10), decode(37, 10)))
        assert found.multiple == 8
        assert all(size % 8 == 0 for size in found.chosen.sizes)

    def test_decode_graphs_alone_end_at_the_fullest_batch(self) -> None:
        found = tune(
            deployment(compilation_config={"cudagraph_mode": "FULL_DECODE_ONLY"}), steps(decode(5), mixed(100))
        )
        assert max(found.chosen.sizes) == 256
        assert found.eager_anyway == pytest.approx(0.5)

    def test_what_was_said_of_sizes_is_replaced(self) -> None:
        asked = deployment(max_cudagraph_capture_size=64)
        found = tune(asked, steps(decode(5, 10), decode(37, 10)))
        assert max(found.chosen.sizes) == 64
        assert resolve(with_sizes(asked, found.chosen.sizes)).capture_sizes == found.chosen.sizes


class TestSeconds:
    def test_the_cost_is_seconds(self) -> None:
        found = tune(deployment(), steps(decode(5, 10), decode(9, 10)), profile=record({"1": 0.001, "257": 0.257}))
        assert found.prices.unit == "seconds"
        assert found.today.cost == pytest.approx((0.008 + 0.016) / 2)
        assert found.chosen.cost == pytest.approx((0.005 + 0.009) / 2)

    def test_modes_have_times_of_their_own(self) -> None:
        flat = {"1": 0.002, "512": 0.002}
        workload = steps(*(decode(n, 10) for n in range(1, 60)), *(mixed(n, 10) for n in range(300, 400)))
        found = tune(deployment(), workload, profile=record(flat, {"1": 0.001, "512": 0.512}), spread=0.0)
        # Padding of decode batches costs nothing here, that of mixed ones does.
        assert sum(size < 256 for size in found.points[20].sizes) <= 1
        assert sum(300 <= size < 400 for size in found.points[20].sizes) > 15

    @pytest.mark.parametrize("said", [{"gpu": "NVIDIA H200"}, {"model": "other/model"}, {"tensor_parallel_size": 2}])
    def test_a_profile_of_another_deployment_is_refused(self, said: dict[str, Any]) -> None:
        with pytest.raises(InputError) as caught:
            tune(deployment(), steps(decode(5)), profile=record({"1": 0.001}, **said))
        assert caught.value.code == "CG907"
        assert next(iter(said)) in caught.value.message

    def test_what_differs_in_small_is_told(self) -> None:
        found = tune(deployment(), steps(decode(5)), profile=record({"1": 0.001, "512": 0.002}, max_num_seqs=64))
        assert "max_num_seqs 64, not 256" in found.notes[0]
        assert not tune(
            deployment(), steps(decode(5)), profile=record({"1": 0.001, "512": 0.002}, max_num_seqs=256)
        ).notes

    @pytest.mark.parametrize(
        ("full", "code", "said"),
        [
            ({}, "CG723", "no times of full steps"),
            ({"x": 1.0}, "CG911", "cost_seconds.full: 'x' is no size"),
            ({"256": -1.0}, "CG911", "cost_seconds.full.256: '-1.0' is no time"),
            ({"256": float("nan")}, "CG911", "cost_seconds.full.256: 'nan' is no time"),
            ({"256": "fast"}, "CG911", "cost_seconds.full.256: 'fast' is no time"),
            ("fast", "CG911", "cost_seconds.full has no seconds by size"),
        ],
    )
    def test_times_that_cannot_be_read(self, full: Any, code: str, said: str) -> None:
        with pytest.raises(InputError) as caught:
            tune(deployment(), steps(decode(5)), profile=record(full, {"1": 0.001, "8": 0.002}))
        assert caught.value.code == code
        assert said in caught.value.message

    @pytest.mark.parametrize(
        ("full", "said"),
        [
            ({"1": 0.004}, "full steps were timed at 1 token alone"),
            ({"1": 0.004, "8": 0.004}, "full steps were timed at 1, 8 tokens alone"),
            (
                {"1": 0.004, "8": 0.004, "120": 0.004},
                "full steps up to 256 tokens are asked for, timed were 1, 8, 120 tokens",
            ),
        ],
    )
    def test_times_at_too_few_sizes_recommend_nothing(self, full: dict[str, float], said: str) -> None:
        """Times that never rise say that padding is free: 2 sizes would do as well as 51."""
        other = {"1": 0.004, "8": 0.004, "512": 0.004}
        few = record({})
        few = few.model_copy(update={"profile": {"cost_seconds": {"full": full, "piecewise": other}}})
        traffic = shape("steady", max_num_seqs=256)
        found, plain = tune(deployment(), traffic, profile=few), tune(deployment(), traffic)
        assert found.prices.unit == "tokens"
        assert found.chosen.sizes == plain.chosen.sizes
        (note,) = (note for note in found.notes if "do not reach" in note)
        assert said in note
        assert "cgplan profile --times 1,8,64,256" in note

    def test_times_up_to_half_the_largest_size_are_enough(self) -> None:
        full, other = {"1": 0.004, "8": 0.004, "128": 0.005}, {"1": 0.005, "512": 0.006}
        found = tune(deployment(), shape("steady", max_num_seqs=256), profile=record(full, other))
        assert found.prices.unit == "seconds"
        assert not any("do not reach" in note for note in found.notes)

    def test_times_never_fall(self) -> None:
        times = record({"1": 0.002, "8": 0.001, "16": 0.003, "512": 0.003})
        found = tune(deployment(), steps(decode(5)), profile=times).prices
        mode = resolve(deployment()).decode_mode
        assert [found.of(mode, size) for size in (1, 8, 12)] == pytest.approx([0.002, 0.002, 0.0025])


class TestSureness:
    def test_the_interval_holds_the_gain_and_narrows(self) -> None:
        few, many = (tune(deployment(), steps(decode(33, n), decode(40, n), decode(7, n))) for n in (20, 20_000))
        assert few.chance is not None
        assert many.chance is not None
        for found, interval in ((few, few.chance), (many, many.chance)):
            assert interval.low < found.gain < interval.high
        assert many.chance.high - many.chance.low < (few.chance.high - few.chance.low) / 10

    def test_a_shape_is_no_measurement(self) -> None:
        assert of_shape("steady").chance is None
        assert of_shape("steady").held_out is None

    def test_few_steps_flatter_the_list_that_was_chosen_for_them(self) -> None:
        rng = random.Random(3)
        seen = [max(1, round(rng.gauss(150, 40))) for _ in range(40)]
        few = tune(deployment(), steps(*(decode(min(256, n)) for n in seen)))
        assert few.held_out is not None
        assert few.held_out < few.gain - 0.005
        many = tune(deployment(), steps(decode(33, 9000), decode(41, 5000)))
        assert many.held_out == pytest.approx(many.gain, abs=0.005)

    def test_buckets_are_bounds(self) -> None:
        found = tune(deployment(), steps(either(33, 64, 100), either(9, 16, 100)))
        assert found.buckets is not None
        assert found.buckets.low < found.gain < found.buckets.high
        assert tune(deployment(), steps(decode(33, 100))).buckets is None

    def test_each_part_of_a_mixture(self) -> None:
        parts = [Traffic("day", steps(decode(33, 90))), Traffic("night", steps(decode(3, 10)))]
        found = tune(deployment(), parts, spread=0.0)
        day, night = found.parts
        assert (day.name, day.share, night.share) == ("day", 0.9, 0.1)
        assert day.gain == pytest.approx(1 - 33 / 40)
        assert night.gain == pytest.approx(0.25)
        assert day.own_gain >= day.gain
        assert day.gain_without is not None
        assert day.gain_without < 0
        assert not of_shape("steady").parts

    def test_weights_are_shares(self) -> None:
        parts = [Traffic("a", steps(decode(3, 7)), 3.0), Traffic("b", steps(decode(5, 900)))]
        whole = mixture(parts)
        assert {item.tokens.low: item.count / whole.steps for item in whole.batches} == pytest.approx(
            {3: 0.75, 5: 0.25}
        )
        found = tune(deployment(), parts)
        assert found.today.tokens == pytest.approx(0.75 * 4 + 0.25 * 8)
        assert isinstance(found.chance, Interval)


class TestRuns:
    @pytest.mark.parametrize("runner", ["0", "1"])
    @pytest.mark.parametrize("drafts", [0, 2])
    @pytest.mark.parametrize("mode", [None, "FULL", "PIECEWISE", "FULL_DECODE_ONLY"])
    def test_batches_up_to_a_size_run_as_its_first(self, runner: str, drafts: int, mode: str | None) -> None:
        speculation = {"method": "ngram", "num_speculative_tokens": drafts} if drafts else None
        resolution = resolved(
            [3, 8, 30, 33, 64, 100], mode, max_num_seqs=30, env={"VLLM_USE_V2_MODEL_RUNNER": runner},
            speculative_config=speculation,
        )  # fmt: skip
        each = resolution.uniform_decode_query_len
        batches = [decode(n * each, query_len=each) for n in range(1, 31)] + [mixed(n) for n in range(1, 120)]
        given = merged(groups_of(steps(*batches), resolution))
        for step, run in zip(given, runs_of(given, resolution, TOKENS), strict=True):
            found = resolution.dispatch_batch(step.batch)
            assert (run.mode, run.tokens, run.cost) == (found.mode, found.num_tokens, found.num_tokens)


class TestSteps:
    def test_a_range_is_spread_evenly(self) -> None:
        (group,) = groups_of(steps(either(9, 16, 80)), resolved(max_num_seqs=64))
        assert [(step.batch.num_tokens, step.weight) for step in group] == [(n, 10) for n in range(9, 17)]

    def test_kinds(self) -> None:
        resolution = resolved(max_num_seqs=64)
        found = merged(groups_of(steps(mixed(50, 1), decode(50, 2), either(70, 70, 3)), resolution))
        assert [(step.kind, step.batch.num_tokens, step.weight) for step in found] == [
            ("decode", 50, 2), ("mixed", 50, 1), ("mixed", 70, 3),
        ]  # fmt: skip

    def test_a_bucket_without_an_end(self) -> None:
        (group,) = groups_of(steps(either(16385, None, 4)), resolved(max_num_seqs=64))
        assert len(group) == 1
        assert group[0].weight == 4

    def test_traffic_moves_within_the_limits(self) -> None:
        resolution = resolved(max_num_seqs=64)
        found = scaled(merged(groups_of(steps(decode(50), decode(2)), resolution)), 2, resolution)
        assert [step.batch.num_tokens for step in found] == [4, 64]
