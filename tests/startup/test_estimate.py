"""An estimate of the graphs that alone keeps the KV cache too small: the switch is the first fix."""

from __future__ import annotations

import pytest
from startup_helpers import on, rank, size, start

from cgplan.startup.analysis import report_of
from cgplan.startup.diagnosis import Diagnosis, diagnose
from cgplan.startup.estimate import is_implausible, switched_off
from cgplan.startup.record import Rank
from cgplan.startup.scene import Scene

NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
SWITCH = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0"


def died(one: Rank, version: str = "0.28.0", text: str = NO_BLOCKS) -> Diagnosis:
    found = diagnose(start(one, version=version, crash=text, arguments={"model": "m"}))
    assert found is not None
    return found


class TestTheFirstFix:
    def test_c02_is_the_switch_then_the_bytes(self) -> None:
        """Case C02: 118.65 GiB estimated, -59.69 left. It worked with the switch."""
        found = died(rank(graph_estimate=118.65, kv=-59.69))
        assert found.fix.startswith(SWITCH)
        assert "58.96 GiB" in found.fix
        assert found.largest == {"kv_cache_memory_bytes": size(118.65) + size(-59.69) - size(2)}
        assert "more GPUs" not in found.fix

    def test_says_cg590_without_the_gpus_memory(self) -> None:
        one = start(rank(graph_estimate=118.65, kv=-59.69), version="0.28.0", crash=NO_BLOCKS)
        found = report_of(one, 1, (one,), None)
        (finding,) = [finding for finding in found.findings if finding.code == "CG590"]
        assert str(finding.fix).startswith(SWITCH)
        small = start(rank(graph_estimate=18.65, kv=-5.0), version="0.28.0", crash=NO_BLOCKS)
        assert "CG590" not in {one.code for one in report_of(small, 1, (small,), None).findings}

    def test_takes_the_memory_of_the_gpu_that_was_named(self) -> None:
        """18.65 GiB are above a tenth of 80, and not of the largest GPU there is."""
        one = start(
            rank(graph_estimate=18.65, kv=-5.0), version="0.28.0", crash=NO_BLOCKS, model="Qwen/Qwen3-8B",
            arguments={"model": "Qwen/Qwen3-8B"},
        )  # fmt: skip
        assert "CG590" in {finding.code for finding in report_of(one, 1, (one,), on("h100")).findings}

    def test_is_not_the_switch_where_the_release_does_not_take_it_off(self) -> None:
        assert SWITCH not in died(rank(graph_estimate=18.65, kv=-5.0), version="0.19.1").fix

    def test_is_not_the_switch_where_it_is_too_little(self) -> None:
        assert SWITCH not in died(rank(graph_estimate=3.0, kv=-5.0)).fix

    def test_of_a_request_that_does_not_fit(self) -> None:
        text = (
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is"
            " needed, which is larger than the available KV cache memory (14.50 GiB). Based on the available memory,"
            " the estimated maximum model length is 118784. Try increasing `gpu_memory_utilization` or decreasing"
            " `max_model_len` when initializing the engine."
        )
        given = {"utilization": 0.9, "total": 79.1, "requested": 71.2}
        found = died(rank(graph_estimate=2.5, kv=14.5, **given), text=text)
        assert found.fix.startswith(f"{SWITCH}, which gives the KV cache 17.00 GiB")
        assert "118784" in found.fix
        assert SWITCH not in died(rank(graph_estimate=1.0, kv=14.5, **given), text=text).fix


class TestTheGraphsOutsideTheBudget:
    def switch(self, share: float, estimate: float = 3.0, kv: float = 1.0, needed: float = 2.0) -> str | None:
        one = rank(total=80.0, free=79.0, requested=80.0 * share, utilization=share, graph_estimate=estimate, kv=kv)
        return switched_off(Scene(start(one, arguments={"model": "m"}), one, "cache", {}), size(needed))

    def test_have_room(self) -> None:
        assert self.switch(0.9) == f"{SWITCH}, which gives the KV cache 4.00 GiB and leaves 7.00 GiB outside the budget for the graphs"  # fmt: skip  # noqa: E501

    def test_get_it_of_a_lower_share(self) -> None:
        assert self.switch(0.95) == f"{SWITCH} with --gpu-memory-utilization 0.94, which gives the KV cache 3.20 GiB"

    def test_would_take_what_the_request_needs(self) -> None:
        assert self.switch(0.95, needed=3.5) is None
        assert self.switch(0.95, needed=3.1) is not None


@pytest.mark.parametrize(
    ("estimate", "actual", "total", "is_so"),
    [
        (9.0, None, 80.0, True), (7.0, None, 80.0, False), (-1.0, None, None, True), (9.0, 5.0, 80.0, False),
        (9.0, 4.0, 80.0, True), (9.0, None, None, False), (118.65, None, None, True), (None, None, 80.0, False),
    ],
)  # fmt: skip
def test_what_graphs_cannot_take(
    estimate: float | None, actual: float | None, total: float | None, is_so: bool
) -> None:
    given = [None if value is None else size(value) for value in (estimate, actual, total)]
    assert is_implausible(*given) is is_so
