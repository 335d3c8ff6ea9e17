"""An estimate that is only printed, and what a later release makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import on, public, rank, start

from cgplan.memory.later_release import FIRST
from cgplan.memory.plan import plan_of
from cgplan.startup.against_plan import compare
from cgplan.startup.deployment import served
from cgplan.startup.known import GIB
from cgplan.startup.record import Place, Rank, Start
from cgplan.startup.upgrade import OLDER, finding_of
from cgplan.trace import Finding

OFF = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


def printed(kv: float = 6.9, estimate: float = 1.62, **more: float) -> Rank:
    return rank(kv=kv, graph_estimate=estimate, utilization=0.9, **more)


def of(one: Rank, times: float | None = 1.36, version: str = "0.19.1", **more: object) -> Start:
    return start(one, version=version, max_concurrency=times, concurrency_length=262_144, **more)


def told(one: Start) -> Finding | None:
    return finding_of(one, one.ranks[0])


class TestWhatItBecomes:
    def test_case_a22_by_its_numbers(self) -> None:
        found = told(of(printed(raised_utilization=0.969)))
        assert found is not None
        assert (found.code, found.severity) == ("CG845", "warning")
        assert "from 6.90 GiB to 5.28 GiB, and 1.36 requests of 262,144 tokens become about 1.04" in found.message
        assert "One more option that takes memory" in found.message
        assert str(found.fix).startswith("--gpu-memory-utilization 0.969 keeps today's KV cache, or --kv-cache-memory")

    def test_with_room_it_is_a_note(self) -> None:
        found = told(of(printed(), times=30.0))
        assert found is not None
        assert found.severity == "info"
        assert "One more option" not in found.message

    def test_below_one_request_the_length_that_fits_is_named(self) -> None:
        found = told(of(printed(), times=1.2))
        assert found is not None
        assert "it does not start; about 240,640 tokens would" in found.message  # 1.2 x 5.28 / 6.90 x 262,144

    def test_nothing_left(self) -> None:
        found = told(of(printed(kv=1.0)))
        assert found is not None
        assert "to 0.00 GiB" in found.message
        assert "does not start" in found.message

    def test_a_share_that_is_not_free_is_not_advised(self) -> None:
        own = printed(raised_utilization=0.969, total=23.5, free=23.0)
        found = told(of(own))
        assert found is not None
        assert str(found.fix).startswith(f"--kv-cache-memory-bytes {round(6.9 * GIB)}")


class TestWhereItSaysNothing:
    @pytest.mark.parametrize("version", ["0.20.2", "0.33.0"])
    def test_it_is_taken_off_already(self, version: str) -> None:
        assert told(of(printed(), version=version)) is None

    def test_a_variable_stays_what_it_is(self) -> None:
        for value in ("0", "1"):
            one = of(printed(), environment={OFF: value})
            assert told(one) is None

    def test_but_not_where_the_line_of_older_releases_tells_it(self) -> None:
        own = replace(printed(raised_utilization=0.969), places={"raised_utilization": Place(4, f"{OLDER} by default")})
        one = replace(of(own, environment={OFF: "0"}), vllm_version=None)
        assert told(one) is not None

    def test_of_an_unknown_release_nothing_is_said(self) -> None:
        one = replace(of(printed()), vllm_version=None)
        assert told(one) is None

    def test_a_start_that_crashed_has_other_worries(self) -> None:
        assert told(of(printed(), crash="torch.OutOfMemoryError: CUDA out of memory.")) is None

    def test_bytes_that_were_given_or_no_estimate(self) -> None:
        assert told(of(printed(kv_is_given=True))) is None
        assert told(of(rank(kv=6.9))) is None
        assert told(of(printed(estimate=0.0))) is None


def test_of_a_public_log() -> None:
    (one,) = public("A08").starts
    found = told(one)
    assert found is not None
    assert "from 19.53 GiB to 18.48 GiB, and 4.46 requests of 8,192 tokens become about 4.22" in found.message


class TestByThePlanOfThatRelease:
    """What 0.20.2 estimates is not what 0.19.1 prints: 266 + 50 x 10 + 50 x 10 MiB in A09."""

    def test_the_estimate_shrinks_as_the_plans_do(self) -> None:
        (one,) = public("A09").starts
        made = compare(one, served(one, on("h100"))).plan
        assert made is not None
        alone, found = finding_of(one, one.ranks[0]), finding_of(one, one.ranks[0], made)
        assert alone is not None
        assert found is not None
        assert "from 15.41 GiB to 14.17 GiB" in alone.message
        assert "which then may be another" in alone.message
        later = made.deployment.model_copy(update={"vllm": FIRST, "env": {}})
        budget = plan_of(later, made.request, advise=False).budget
        assert budget is not None
        own = budget.tightest.deducted.best / GIB
        assert own < 0.8
        assert "there 0.72 GiB by the plan" in found.message  # 1.24 x 0.74 / 1.28
        assert "from 15.41 GiB to 14.69 GiB" in found.message
        assert str(found.fix).startswith("--gpu-memory-utilization 0.96 keeps")
