"""What `tune` says of max_num_seqs: what the traffic needs, and no less than was seen."""

from __future__ import annotations

from typing import Any

import pytest
from choice_helpers import (
    USUAL,
    deployment,
    steps,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_helpers import FULL, decode, either, mixed, point, ran

from cgplan import resolve, tune
from cgplan.workload.choices.request_limit import MARGIN, needed_for, running_in
from cgplan.workload.histogram import Batches, Workload


class TestMaxNumSeqs:
    def test_what_the_traffic_needs(self) -> None:
        traffic = steps(decode(5, 4000), decode(30, 2000), mixed(3000, 50, requests=point(32)))
        found = tune(deployment(max_num_seqs=1024), traffic)
        requests = found.others.requests
        assert (requests.running.low, requests.running.high) == (32, 32)
        assert requests.needed == 40
        assert requests.recommended is not None
        assert requests.recommended.max_num_seqs == 40
        assert requests.flags is not None
        assert "--max-num-seqs 40" in requests.flags.add
        assert requests.flags.replaces == ("--max-num-seqs 1024",)
        assert requests.recommended.found is not None
        assert (requests.recommended.found.point.kv_tokens or 0) > 1.01 * (found.chosen.kv_tokens or 0)
        assert max(requests.recommended.found.point.sizes) == max(found.chosen.sizes)

    @pytest.mark.parametrize(
        ("fields", "traffic", "said"),
        [
            ({}, steps(decode(5, 400), decode(30, 200)), "too few"),
            ({}, steps(decode(5, 4000), mixed(3000, 50)), "may have had up to 1024"),
            ({}, steps(either(1, 8, 4000), either(17, 32, 100)), "not known whether"),
            ({}, steps(either(1, 8, 4000), either(513, 1024, 100)), "may have had up to 1024"),
            ({"max_num_seqs": 64}, steps(decode(5, 4000), decode(60, 30)), "a quarter more"),
            ({"max_num_seqs": 64}, steps(decode(5, 4000), decode(30, 30)), "of the KV cache"),
            ({"max_num_seqs": 64}, steps(decode(5, 4000), decode(64, 300)), "vllm:num_requests_waiting"),
        ],
    )
    def test_it_stays(self, fields: dict[str, Any], traffic: Workload, said: str) -> None:
        requests = tune(deployment(**{"max_num_seqs": 1024, **fields}), traffic).others.requests
        assert requests.recommended is None
        assert said in requests.reason

    def test_more_were_seen_than_are_let_in(self) -> None:
        requests = tune(deployment(), steps(decode(5, 4000), decode(90, 300))).others.requests
        assert requests.recommended is not None
        assert requests.recommended.max_num_seqs == needed_for(90) == 120
        few = tune(deployment(), steps(decode(5, 4000), decode(90, 30))).others.requests
        assert few.recommended is None

    def test_a_larger_value_has_its_price(self) -> None:
        found = tune(deployment(), USUAL, spread=0.0).others.requests
        more = next(row.found for row in found.rows if row.max_num_seqs == 128)
        assert more is not None
        assert more.point.graphs >= found.first.point.graphs
        assert (more.point.kv_tokens or 0) < (found.first.point.kv_tokens or 0)

    @given(
        st.lists(
            st.one_of(
                st.builds(decode, st.integers(1, 300), st.floats(0.5, 5000)),
                st.builds(
                    lambda requests, more, count: mixed(requests + more, count, requests=point(requests)),
                    st.integers(1, 300), st.integers(0, 9000), st.floats(0.5, 5000),
                ),
                st.builds(mixed, st.integers(1, 9000), st.floats(0.5, 5000)),
                st.builds(
                    lambda low, wide, count: either(low, None if wide is None else low + wide, count),
                    st.integers(1, 3000), st.none() | st.integers(0, 500), st.floats(0.5, 5000),
                ),
                st.builds(lambda n, count: ran(n, FULL, n, count), st.integers(1, 64), st.floats(0.5, 5000)),
            ),
            min_size=1, max_size=8,
        )
    )  # fmt: skip
    def test_the_interval_holds_what_ran_and_the_need_is_above_it(self, batches: list[Batches]) -> None:
        resolution = resolve(deployment())
        running = running_in(batches, resolution)
        assert 1 <= running.low <= running.high
        known = [b.requests.low if b.requests else b.tokens.low for b in batches if b.requests or b.kind == "decode"]
        assert running.high >= max(known, default=1)
        assert running.low >= max(known, default=1)
        # A step of unknown requests may have had one a token, as many as are let in.
        assert running.high >= max((min(b.tokens.low, 64) for b in batches if b.requests is None), default=1)
        assert needed_for(running.high) >= MARGIN * running.high
        assert needed_for(running.high) % 8 == 0

    @settings(max_examples=15, deadline=None)
    @given(
        today=st.sampled_from([16, 64, 512]),
        most=st.integers(1, 400),
        of_prefill=st.none() | st.integers(1, 400),
        count=st.sampled_from([1, 100, 5000]),
    )
    def test_what_is_recommended_is_never_below_the_largest_seen(
        self, today: int, most: int, of_prefill: int | None, count: int
    ) -> None:
        batches = [decode(1, 3000), decode(most, count)]
        if of_prefill is not None:
            batches.append(mixed(3000, 5, requests=point(of_prefill)))
        requests = tune(deployment(max_num_seqs=today), steps(*batches), spread=0.0).others.requests
        assert requests.running.high == max(most, of_prefill or 1)
        if requests.recommended is not None:
            assert requests.recommended.max_num_seqs >= MARGIN * requests.running.high
            assert requests.recommended.max_num_seqs != today
