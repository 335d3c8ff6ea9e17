"""What was measured of one deployment, and a variant of it."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, InputError, gpu, load_model, plan, resolve
from cgplan.memory.budget.measured import Measured
from cgplan.memory.capacity_plan import CapacityPlan, vllm_estimate
from cgplan.memory.estimates import GIB, MIB
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest, make_budget
from cgplan.memory.what_if import Variant, buy_backs, outcomes
from cgplan.vocabulary import CUDAGraphMode

GRAPHS, ESTIMATE = 516 * MIB, 368 * MIB


def deployment(**fields: Any) -> Deployment:
    return Deployment(
        model=load_model("meta-llama/Llama-3.1-8B-Instruct"),
        gpu=gpu("h200"),
        vllm="0.25.1",
        max_model_len=8192,
        max_num_seqs=256,
        env={"VLLM_USE_V2_MODEL_RUNNER": "0"},
        **fields,
    )


def measured(**known: int) -> CapacityPlan:
    return plan(deployment(), known=Measured(source="a record", **known))


def stage_of(made: CapacityPlan, **changed: Any) -> Any:
    """The budget of a variant, whose request is that of the plan."""
    other = made.deployment.model_copy(update=changed)
    return make_budget(other, resolve(other), made.request)[0].tightest


def with_mode(made: CapacityPlan, mode: str) -> dict[str, Any]:
    return {
        "compilation_config": made.deployment.compilation_config.model_copy(
            update={"cudagraph_mode": CUDAGraphMode(mode)}
        )
    }


def test_without_graphs_none_are_taken_and_none_deducted() -> None:
    made = measured(graphs=GRAPHS, graph_estimate=ESTIMATE)
    found = {one.change: one for one in buy_backs(made)}["-cc.cudagraph_mode=NONE"]
    assert (found.outcome.graphs, found.outcome.graph_bytes, found.outcome.deducted_bytes) == (0, 0, 0)
    assert found.kv_bytes == ESTIMATE


def test_other_modes_stand_beside_a_record_with_less_memory() -> None:
    made = measured(graphs=GRAPHS, graph_estimate=ESTIMATE)
    found = {one.change: one for one in buy_backs(made)}["-cc.cudagraph_mode=PIECEWISE"]
    assert found.outcome.graph_bytes is not None
    assert 0 < found.outcome.graph_bytes < GRAPHS
    assert found.kv_bytes is not None
    assert 0 < found.kv_bytes < ESTIMATE


def test_the_changes_are_those_of_a_plan_without_a_record() -> None:
    plain = {one.change for one in buy_backs(plan(deployment()))}
    assert {one.change for one in buy_backs(measured(graphs=GRAPHS, graph_estimate=ESTIMATE))} == plain


def test_a_prediction_is_as_much_larger_as_the_measured_value_was() -> None:
    plain, made = plan(deployment()), measured(graphs=GRAPHS)
    mode = with_mode(made, "PIECEWISE")
    was, predicted = (stage_of(plain, **changed).graphs.best for changed in ({}, mode))
    found = stage_of(made, **mode).graphs
    assert found.best == pytest.approx(predicted * GRAPHS / was, abs=2)
    assert found.low < found.best < found.high, "it is a prediction"
    assert "a record" in found.source


def test_what_a_change_does_not_touch_stays_measured() -> None:
    made = measured(graphs=GRAPHS, graph_estimate=ESTIMATE, weights=15 * GIB, activation=2 * GIB, total=140 * GIB)
    found = stage_of(made, max_model_len=4096)
    assert (found.graphs.best, found.deducted.best) == (GRAPHS, ESTIMATE)
    assert (found.weights.best, found.activation.best) == (15 * GIB, 2 * GIB)
    assert found.graphs.is_exact


def test_the_measured_deployment_keeps_its_values() -> None:
    made = measured(graphs=GRAPHS, graph_estimate=ESTIMATE)
    assert made.budget is not None
    assert made.budget.tightest.graphs.best == GRAPHS
    assert made.budget.tightest.graphs.source == "a record"


def test_two_ranks_share_the_measured_weights() -> None:
    made = measured(weights=15 * GIB)
    assert stage_of(made, tensor_parallel_size=2).weights.best == pytest.approx(7.5 * GIB, rel=0.01)


def test_fewer_tokens_have_a_lower_peak_than_measured() -> None:
    made = measured(activation=2 * GIB)
    assert stage_of(made, max_num_batched_tokens=2048).activation.best < 2 * GIB


def test_memory_of_another_gpu_is_not_that_measured() -> None:
    made = measured(total=139 * GIB, free=138 * GIB)
    other = made.deployment.model_copy(update={"gpu": gpu("h100")})
    budget, _ = make_budget(other, resolve(other), made.request)
    assert budget.total.best < 80 * GIB
    assert budget.free.best < 80 * GIB


@pytest.mark.parametrize("value", [0, -10 * MIB, 20 * GIB])
def test_a_strange_value_scales_nothing(value: int) -> None:
    plain, made = plan(deployment()), measured(graphs=value)
    mode = with_mode(made, "PIECEWISE")
    assert stage_of(made, **mode).graphs == stage_of(plain, **mode).graphs


def test_the_estimate_of_a_variant_is_not_the_measured_one() -> None:
    made = measured(graphs=GRAPHS, graph_estimate=ESTIMATE)
    other = plan_of(made.deployment.model_copy(update=with_mode(made, "PIECEWISE")), made.request)
    estimate = vllm_estimate(other)
    assert estimate is not None
    assert estimate.best != ESTIMATE
    same = vllm_estimate(made)
    assert same is not None
    assert (same.best, same.source) == (ESTIMATE, "a record")


def test_a_request_says_of_which_deployment_it_knows() -> None:
    asked = deployment()
    nothing = MemoryRequest().of(asked)
    assert nothing.known_of is None
    known = MemoryRequest(known=Measured(graphs=GRAPHS)).of(asked)
    assert known.known_of is asked
    assert known.of(deployment(dtype="float16")).known_of is asked
    assert known.measured_of(deployment()).graphs == GRAPHS
    assert known.measured_of(deployment(dtype="float16")).graphs is None


def test_a_variant_on_another_gpu_is_not_refused_for_the_bytes_of_the_first() -> None:
    made = measured(total=139 * GIB, free=138 * GIB, weights=15 * GIB)
    variants = [
        Variant(name, made.deployment.model_copy(update={"gpu": gpu(name)}), made.request) for name in ("h100", "l4")
    ]
    assert [one.why_not for one in outcomes(variants)] == [("", "")] * 2
    with pytest.raises(InputError, match="--total-bytes"):
        plan(variants[0].deployment or deployment(), known=Measured(total=139 * GIB))


def test_a_value_that_is_from_elsewhere_says_so() -> None:
    known = Measured(graphs=GRAPHS, graph_estimate=ESTIMATE, source="a record", apart=(("graphs", "as given"),))
    made = plan(deployment(), known=known)
    assert made.budget is not None
    stage = made.budget.tightest
    assert (stage.graphs.source, stage.deducted.source) == ("as given", "a record")
