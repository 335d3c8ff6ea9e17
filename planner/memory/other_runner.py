"""The KV cache with the other model runner, where vLLM would serve the deployment with either."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CgplanError
from ..vocabulary import Runner
from .budget.activation import estimate_activation
from .capacity_plan import CapacityPlan
from .plan import plan_of

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"


class OtherRunner(NamedTuple):
    """What another runner would give.

    Attributes:
        runner: V1 or V2.
        change: the variable that chooses it, as NAME=VALUE.
        kv_bytes: of one rank, of the stage with the least, by the best values.
        graphs: of the target model, number of.
        parts: what each part of the budget gives the KV cache, by name, largest first; below 0: takes. They make up
            the difference, up to the bytes of blocks that --num-gpu-blocks-override sets.
    """

    runner: Runner
    change: str
    kv_bytes: int
    graphs: int
    parts: tuple[tuple[str, int], ...] = ()


def other_runner(made: CapacityPlan) -> OtherRunner | None:
    """The other runner; None: it does not serve the deployment, or the memory is not planned."""
    if made.budget is None:
        return None
    other, value = (Runner.V1, "0") if made.resolution.runner is Runner.V2 else (Runner.V2, "1")
    changed = made.deployment.model_copy(update={"env": {**made.deployment.env, VARIABLE: value}})
    try:
        found = plan_of(changed, made.request, advise=False)
    except CgplanError:
        return None
    if found.resolution.runner is not other or found.budget is None:
        return None
    parts = () if made.budget.is_manual else _parts(made, found)
    return OtherRunner(other, f"{VARIABLE}={value}", min(found.best.kv_bytes), found.resolution.graph_count(), parts)


def _parts(made: CapacityPlan, found: CapacityPlan) -> tuple[tuple[str, int], ...]:
    """What moves, without what does not."""
    assert made.budget is not None
    assert found.budget is not None
    one, other = made.budget.tightest, found.budget.tightest
    buffers = [stage.buffers.best if stage.counts_buffers else 0 for stage in (one, other)]
    moved = (
        (_peak(made, found), one.activation.best - other.activation.best),
        ("graphs' estimate", one.deducted.best - other.deducted.best),
        ("buffers", buffers[0] - buffers[1]),
    )
    return tuple(sorted((part for part in moved if part[1]), key=lambda part: -abs(part[1])))


def _peak(made: CapacityPlan, found: CapacityPlan) -> str:
    """The peak of the profile run, by what makes the larger of the two."""
    assert made.budget is not None
    assert found.budget is not None
    larger = max((made, found), key=lambda one: one.budget.tightest.activation.best if one.budget is not None else 0)
    stages = estimate_activation(larger.deployment, larger.resolution).stages
    if larger.request.known.activation is None and max(stages, key=lambda one: one.total.best).moment == "sampler":
        return f"logits of {larger.resolution.max_num_seqs:,} rows"
    return "peak of the profile run"
