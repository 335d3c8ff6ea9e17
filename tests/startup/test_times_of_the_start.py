"""Whether a start is long for its CUDA graphs, or for something else."""

from __future__ import annotations

from dataclasses import replace

from startup_helpers import public, rank, start, took

from cgplan.startup.record import Phase, Start
from cgplan.startup.times import finding_of


def lasting(*phases: Phase, **more: object) -> Start:
    return replace(start(rank()), phases=phases, **more)  # type: ignore[arg-type]


class TestSomethingElse:
    def test_kernels_of_case_a18(self) -> None:
        (one,) = public("A18").starts
        found = finding_of(one)
        assert found is not None
        assert found.code == "CG837"
        assert "capture took 24 s of 787 s (3.0%)" in found.message
        assert "autotuning of kernels, between the KV cache and capture (727 s)" in found.message
        assert "VLLM_CACHE_ROOT" in str(found.fix)

    def test_the_longest_part_is_named_first(self) -> None:
        found = finding_of(
            lasting(took("load", 90), took("compile", 200), took("capture", 5), took("init engine", 300))
        )
        assert found is not None
        assert "longer are torch.compile (200 s), loading the weights (90 s)" in found.message

    def test_not_of_a_short_start_nor_of_a_long_capture(self) -> None:
        assert finding_of(lasting(took("capture", 1), took("init engine", 40))) is None
        assert finding_of(lasting(took("capture", 30), took("init engine", 300))) is None

    def test_not_where_the_whole_is_not_known(self) -> None:
        assert finding_of(lasting(took("load", 900), took("capture", 5))) is None


class TestTheGraphs:
    def test_the_estimate_alone_may_be_most(self) -> None:
        """As in case A31, whose log does not say how long the whole took."""
        found = finding_of(lasting(took("compile", 11), took("warm-up", 9), took("graph estimate", 32)))
        assert found is not None
        assert found.code == "CG838"
        assert "32 s of the 52 s that the log has (62%): 32 s for the estimate of their memory" in found.message
        assert str(found.fix).startswith("--kv-cache-memory-bytes")

    def test_bytes_that_were_given_leave_no_estimate_out(self) -> None:
        one = lasting(took("capture", 60), took("init engine", 100), said={"kv_cache_memory_bytes": 1 << 30})
        found = finding_of(one)
        assert found is not None
        assert str(found.fix).startswith("fewer --cudagraph-capture-sizes")

    def test_not_of_a_small_part_nor_of_few_seconds(self) -> None:
        assert finding_of(lasting(took("capture", 30), took("init engine", 100))) is None
        assert finding_of(lasting(took("capture", 12), took("init engine", 20))) is None

    def test_not_where_the_log_has_nothing_else(self) -> None:
        assert finding_of(lasting(took("capture", 24))) is None
