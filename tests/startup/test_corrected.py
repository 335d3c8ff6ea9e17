"""The right size of the KV cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from startup_helpers import GIB, public, rank, size, start

from cgplan.memory.budget.estimate_rules import SUGGESTED_TWICE
from cgplan.startup.corrected import correct
from cgplan.startup.findings import findings_of

B200 = {
    "total": 178.35, "free": 175.81, "requested": 164.08, "utilization": 0.92, "consumed": 58.44, "activation": 62.33,
    "activation_includes_estimate": True, "graph_estimate": 57.45, "graph_actual": 63.99,
}  # fmt: skip


class TestC03:
    """B200 x 8: vLLM suggests -20.83 GiB; 36.62 GiB are right, and 48.35 use all that was free."""

    @pytest.mark.parametrize("printed", [{}, {"suggested_kv": -20.83, "suggested_kv_bytes_full": None}])
    def test_the_graphs_are_taken_off_once(self, printed: dict[str, float]) -> None:
        one = rank(**B200, **printed)
        found = correct(start(one), one)
        assert found is not None
        assert found.right / GIB == pytest.approx(36.62, abs=0.01)
        assert (found.right_full or 0) / GIB == pytest.approx(48.35, abs=0.01)

    def test_the_printed_one_is_called_wrong(self) -> None:
        one = rank(**B200, suggested_kv=-20.83)
        found = correct(start(one), one)
        assert found is not None
        assert found.counts_twice
        (finding,) = [f for f in findings_of(start(one)) if f.code == SUGGESTED_TWICE.code]
        assert "(-20.83 GiB)" in finding.message
        assert "36.62 GiB is right" in finding.message
        assert "requested 164.08 - consumed 58.44 - peak without the estimate 4.88 - graphs 63.99" in finding.message
        assert str(found.right) in str(finding.fix)

    def test_without_the_estimate_it_is_right(self) -> None:
        values = {**B200, "activation": 4.88, "activation_includes_estimate": False}
        one = rank(**values, suggested_kv=36.62)
        found = correct(start(one, environment={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}), one)
        assert found is not None
        assert not found.counts_twice

    def test_the_steps_add_up(self) -> None:
        one = rank(**B200)
        found = correct(start(one), one)
        assert found is not None
        *parts, result = found.steps
        assert sum(step.size if step.sign == "+" else -step.size for step in parts) == result.size


@pytest.mark.parametrize(("name", "printed"), [("A01", 61258029056), ("B01", 60645701632)])
def test_before_0_27_the_suggestion_is_right(name: str, printed: int) -> None:
    (one,) = public(name).starts
    found = correct(one, one.ranks[0])
    assert found is not None
    assert found.right == printed
    assert not found.counts_twice


def test_by_what_is_in_use_where_the_parts_are_not_printed() -> None:
    """C05: 90.6 GiB of KV cache for an estimate of -20.5 GiB; about 69 GiB fit."""
    one = rank(total=121.63, free=113.15, utilization=0.8, kv=90.6, graph_estimate=-20.5, graph_actual=0.73)
    found = correct(start(one, version="0.26.0"), one)
    assert found is not None
    assert found.right / GIB == pytest.approx(69.2, abs=0.1)


@pytest.mark.parametrize(
    "values",
    [{"kv": 10.0}, {"graph_actual": 1.0}, {"kv": 10.0, "graph_actual": 1.0, "kv_is_given": True}],
)
def test_what_cannot_be_worked_out_is_not(values: dict[str, float]) -> None:
    one = rank(**values)
    assert correct(start(one, version="0.26.0"), one) is None


def test_an_estimate_that_is_not_known_is_not_taken_for_none() -> None:
    one = rank(kv=10.0, graph_actual=1.0)
    assert correct(start(one, version="0.31.0"), one) is None


@given(
    st.floats(20, 180), st.floats(1, 10), st.floats(0.1, 5), st.floats(0.1, 30), st.floats(0.1, 30), st.floats(0.1, 5)
)
def test_the_right_one_is_the_printed_one_and_the_estimate(
    requested: float, consumed: float, peak: float, estimate: float, actual: float, more: float
) -> None:
    one = rank(
        requested=requested, free=requested + more, consumed=consumed, activation=peak + estimate,
        activation_includes_estimate=True, graph_estimate=estimate, graph_actual=actual, utilization=0.9,
    )  # fmt: skip
    found = correct(start(one, version="0.33.0"), one)
    assert found is not None
    printed = size(requested) - size(consumed) - size(peak + estimate) - size(actual) - 157286400
    assert found.right - printed == size(estimate)
    assert (found.right_full or 0) - found.right == size(requested + more) - size(requested)
