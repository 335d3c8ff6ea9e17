"""The KV cache with the other model runner, where vLLM would serve the deployment with either."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CgplanError
from ..vocabulary import Runner
from .plan import CapacityPlan, plan_of

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"


class OtherRunner(NamedTuple):
    """What another runner would give.

    Attributes:
        runner: V1 or V2.
        change: the variable that chooses it, as NAME=VALUE.
        kv_bytes: of one rank, of the stage with the least, by the best values.
        graphs: of the target model, number of.
    """

    runner: Runner
    change: str
    kv_bytes: int
    graphs: int


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
    if found.resolution.runner is not other:
        return None
    return OtherRunner(other, f"{VARIABLE}={value}", min(found.best.kv_bytes), found.resolution.graph_count())
