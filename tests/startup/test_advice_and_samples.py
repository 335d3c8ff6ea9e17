"""vLLM's advice on the share, and the sample that makes its estimate too high."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import MIB, public, rank, start

from cgplan.startup.advice import finding_of
from cgplan.startup.estimate import outlier
from cgplan.startup.findings import findings_of
from cgplan.startup.record import Rank, Sample

MORE = ", and for a larger KV cache fewer --cudagraph-capture-sizes"


def advised(raised: float, **more: float) -> Rank:
    return rank(raised_utilization=raised, **{"utilization": 0.9, **more})


class TestAdviceBeyondWhatIsFree:
    def test_without_the_gpus_memory(self) -> None:
        one = start(advised(0.99))
        found = finding_of(one, one.ranks[0])
        assert found is not None
        assert (found.code, found.severity, found.fix) == (
            "CG523",
            "warning",
            f"--gpu-memory-utilization at most 0.98{MORE}",
        )
        assert "leaves 1.00% of the GPU" in found.message

    @pytest.mark.parametrize(("raised", "fires"), [(0.95, False), (0.97, False), (0.98, True)])
    def test_with_it(self, raised: float, fires: bool) -> None:
        one = start(advised(raised, total=24.0, free=24.0))
        assert (finding_of(one, one.ranks[0]) is not None) is fires

    def test_with_what_was_free(self) -> None:
        one = start(advised(0.95, total=24.0, free=23.0))
        found = finding_of(one, one.ranks[0])
        assert found is not None
        assert "leaves 0.20 GiB" in found.message
        assert found.fix == f"--gpu-memory-utilization at most 0.93{MORE}"

    def test_with_what_the_plan_says_is_free(self) -> None:
        """22.5 of 24 GiB: 0.93 leaves 0.18."""
        one = start(advised(0.93, total=24.0))
        assert finding_of(one, one.ranks[0]) is None
        found = finding_of(one, one.ranks[0], None, 22.5 / 24)
        assert found is not None
        assert "leaves 0.18 GiB" in found.message

    def test_the_bytes_of_all_ranks_are_another_way(self) -> None:
        one = start(advised(0.99))
        found = finding_of(one, one.ranks[0], "--kv-cache-memory-bytes 77")
        assert found is not None
        assert str(found.fix).endswith("fewer --cudagraph-capture-sizes or --kv-cache-memory-bytes 77")

    def test_without_room_above_its_own(self) -> None:
        one = start(advised(0.95, total=24.0, free=22.0))
        found = finding_of(one, one.ranks[0])
        assert found is not None
        assert "no room above it" in str(found.fix)

    def test_bytes_that_were_given_have_no_share(self) -> None:
        one = start(advised(0.99, kv_is_given=True))
        assert finding_of(one, one.ranks[0]) is None


class TestAdviceByAnEstimateThatIsTooHigh:
    def test_of_case_a02(self) -> None:
        (one,) = public("A02").starts
        (found,) = (finding for finding in findings_of(one) if finding.code == "CG835")
        assert "0.9714 by its estimate of 1.69 GiB; capture took 0.76 GiB, with which 0.9596" in found.message
        assert "leave it at 0.95" in str(found.fix)

    def test_where_it_is_taken_off_the_fix_is_in_bytes(self) -> None:
        one = start(
            advised(0.925, total=80.0, free=79.0, graph_estimate=2.0, graph_actual=1.0, kv=50.0), version="0.25.1"
        )
        (found,) = (finding for finding in findings_of(one) if finding.code == "CG835")
        assert str(found.fix).startswith("--kv-cache-memory-bytes ")

    def test_a_near_one_is_followed(self) -> None:
        one = start(
            advised(0.925, total=80.0, free=79.0, graph_estimate=2.0, graph_actual=1.8, kv=50.0), version="0.25.1"
        )
        assert "CG835" not in {finding.code for finding in findings_of(one)}


class TestTheOutlier:
    def sampled(self, piecewise: int, full: int, estimate: int, actual: int) -> Rank:
        samples = (Sample("PIECEWISE", 100 * MIB, 51, piecewise * MIB), Sample("FULL", 90 * MIB, 51, full * MIB))
        return replace(rank(graph_estimate=estimate / 1024, graph_actual=actual / 1024), samples=samples)

    def test_of_case_a02(self) -> None:
        (one,) = public("A02").starts
        (found,) = (finding for finding in findings_of(one) if finding.code == "CG833")
        assert "the outlier is the second PIECEWISE sample of 26 MiB" in found.message
        assert "one piece of 20 MiB" in found.message
        assert "the sum is 0.71 GiB" in found.message

    def test_is_the_kind_far_above_the_other(self) -> None:
        assert "second FULL sample of 40 MiB counted 50 times" in outlier(self.sampled(5, 40, 2350, 620))

    def test_samples_that_are_alike_have_none(self) -> None:
        assert outlier(self.sampled(20, 14, 1800, 600)) == ""

    def test_nor_where_capture_really_took_it(self) -> None:
        assert outlier(self.sampled(26, 6, 1700, 1600)) == ""

    def test_nor_without_capture(self) -> None:
        one = self.sampled(5, 40, 2350, 620)
        assert outlier(replace(one, graph_actual_bytes=None)) == ""
