"""Traffic that does not say how far it spreads: one request more than was seen is not padded further than today."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_helpers import decode, mixed

from cgplan import Deployment, gpu, load_model, resolve, tune
from cgplan.report.tune_view import sureness
from cgplan.workload.histogram import Batches, Workload, workload_of
from cgplan.workload.mixture import Traffic
from cgplan.workload.shapes import shape
from cgplan.workload.sizes.effect import Setting, with_sizes
from cgplan.workload.sizes.frame import frame_of
from cgplan.workload.sizes.limits import Limits
from cgplan.workload.sizes.neighbours import FRAGILE
from cgplan.workload.sizes.others import guard_of, traffic_steps
from cgplan.workload.sizes.prices import TOKENS

NOT_KNOWN = "How far the traffic spreads is not known"


def deployment(**fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 256)
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **fields)


def steps(*batches: Batches) -> Workload:
    return workload_of(batches, "a test")


def padded(asked: Deployment, sizes: tuple[int, ...], requests: int) -> int:
    return resolve(with_sizes(asked, sizes)).dispatch(requests, requests, 1).num_tokens


class TestOneSize:
    def test_each_small_number_of_requests_has_a_size(self) -> None:
        found = tune(deployment(), steps(decode(9, 1000)))
        assert set(range(1, 17)) <= set(found.chosen.sizes)
        assert found.chosen.cost == 9
        assert found.chosen.graphs < found.today.graphs
        assert min(one.gain for one in found.shifts) >= 0
        (told,) = (line for line in sureness(found) if line.startswith(NOT_KNOWN))
        assert "batches of 1 size alone were seen" in told
        assert "each number of requests up to 16" in told

    def test_for_the_traffic_alone_it_has_none_of_them(self) -> None:
        found = tune(deployment(), steps(decode(9, 1000)), spread=0.0)
        assert found.chosen.sizes == (9, 256, 512)
        assert found.near.sizes == ()
        assert min(one.gain for one in found.shifts) < -1
        assert not any(line.startswith(NOT_KNOWN) for line in sureness(found))

    def test_many_requests_are_padded_as_today_and_no_grid_is_filled(self) -> None:
        found = tune(deployment(), steps(decode(100, 1000)))
        assert 100 in found.chosen.sizes
        assert found.near.filled == 0
        assert {56, 104, 200} <= set(found.chosen.sizes)
        assert not {1, 2, 3} & set(found.near.sizes)
        assert min(one.gain for one in found.shifts) >= 0

    def test_limits_bring_the_sizes_nearer_and_then_leave_them_out(self) -> None:
        nears = [tune(deployment(), steps(decode(9, 1000)), limits=Limits(graphs=n)).near for n in (60, 20, 4)]
        assert [near.filled for near in nears] == [16, 0, 0]
        assert [bool(near.sizes) for near in nears] == [True, True, False]
        assert all(near.why for near in nears)
        told = sureness(tune(deployment(), steps(decode(9, 1000)), limits=Limits(graphs=4)))
        assert any("the limits leave no room for sizes near" in line for line in told)

    def test_with_drafts_the_grid_is_of_whole_requests(self) -> None:
        model = load_model("meta-llama/Llama-3.1-8B-Instruct")
        asked = Deployment(
            model=model, gpu=gpu("h100"), max_num_seqs=32, vllm="0.24.0",
            speculative_config={"method": "eagle", "model": model, "num_speculative_tokens": 2},
        )  # fmt: skip
        found = tune(asked, steps(decode(9 * 3, 1000, query_len=3)))
        assert set(range(3, 49, 3)) <= set(found.chosen.sizes)


class TestWhen:
    def test_wide_traffic_says_itself_how_far_it_spreads(self) -> None:
        found = tune(deployment(), steps(*(decode(n, 400) for n in range(1, 129))))
        assert found.near.why == ""
        assert found.near.sizes == ()

    def test_few_steps_do_not(self) -> None:
        many, few = ([decode(n, count) for n in range(20, 40)] for count in (400, 4))
        assert tune(deployment(), steps(*few)).near.why == "only 80 steps were seen"
        assert "only" not in tune(deployment(), steps(*many)).near.why

    def test_a_list_that_would_be_a_trap_is_chosen_again(self) -> None:
        """Nine sizes or more, many steps, and next to nothing at half of them."""
        found = tune(deployment(), steps(*(decode(n, 90_000) for n in range(9, 18))), spread=0.0001)
        assert found.near.why == FRAGILE
        assert min(one.gain for one in found.shifts) >= -0.01
        assert any("half to twice as many requests run today" in line for line in sureness(found))

    def test_a_shape_is_wide_or_says_so(self) -> None:
        made = [Traffic("steady", shape("steady", max_num_seqs=256), is_measured=False)]
        assert tune(deployment(), made).near.why == ""
        low = [Traffic("low", shape("low", max_num_seqs=256), is_measured=False)]
        assert tune(deployment(), low).near.filled == 16


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5000)), min_size=1, max_size=3, unique_by=lambda one: one[0])
)
def test_no_neighbour_is_padded_further_than_today(seen: list[tuple[int, int]]) -> None:
    asked = deployment(max_num_seqs=128)
    found = tune(asked, steps(*(decode(n, 300 + count) for n, count in seen)))
    if found.chosen is found.today or found.near.reach < 2:
        return
    for requests, _ in seen:
        for near in range(max(1, requests // 2), min(2 * requests, 128) + 1):
            assert padded(asked, found.chosen.sizes, near) <= padded(asked, found.today.sizes, near)


@pytest.mark.parametrize("batches", [[decode(3, 900)], [decode(2, 500), mixed(5, 400)]])
def test_no_list_with_the_same_sizes_near_costs_less(batches: list[Batches]) -> None:
    """The objective as it is: traffic and steps of any size, over lists that have the fixed sizes and those near."""
    asked = deployment(max_num_seqs=4, max_cudagraph_capture_size=10)
    workload = steps(*batches)
    found = tune(asked, workload, limits=Limits(graphs=100))
    frame = frame_of(asked, found.resolution, ())
    traffic = traffic_steps([Traffic("a test", workload)], frame, found.resolution)
    guard = guard_of(traffic.steps, frame, found.resolution, found.spread)
    setting = Setting(asked, found.resolution, traffic.steps, guard, TOKENS, None)
    kept = {*found.fixed, *found.near.sizes}
    points = [point for point in found.points if kept <= set(point.sizes)]
    assert points
    assert found.near.sizes
    free = [size for size in range(1, frame.largest + 1) if size not in kept]
    for point in points:
        for more in combinations(free, len(point.sizes) - len(kept)):
            other = setting.with_sizes(sorted({*kept, *more}))
            assert other is None or other.guarded >= point.guarded * (1 - 1e-9), more
