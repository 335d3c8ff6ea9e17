"""The capacity of a deployment: the memory of each rank, the KV cache in what is left of it, and whether it starts.

`budget` says where the memory goes, `graph_memory` what CUDA graphs take, `kv_cache` what the rest holds, `limits` why
it would not start. This module puts them together, for the best value and for both ends of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..errors import StartupError
from ..resolve import Overrides, Resolution, resolve
from ..resolve.downgrade import MAMBA_BLOCKS
from ..resolve.overrides import NONE as NO_OVERRIDES
from ..trace import Finding
from .beside_budget import outside_budget, stored_for_next
from .budget.budget import MemoryFlags
from .budget.estimate_findings import estimate_findings
from .budget.estimate_rules import IMPLAUSIBLE, SUGGESTED_TWICE
from .budget.measured import Measured
from .budget.rules import NOT_THE_MODELS
from .budget.weights import Weights
from .capacity_plan import CapacityPlan, capacity_in, vllm_estimate
from .later_release import later_release
from .limits import check_start
from .request import MemoryRequest, check_sizes, make_budget
from .thin_margin import thin_margin
from .unmeasured import unmeasured
from .verdict import in_given_bytes, with_loading


def plan(
    deployment: Deployment,
    flags: MemoryFlags | None = None,
    *,
    known: Measured | None = None,
    weights: Weights | None = None,
    kv_bytes: int | None = None,
    auto_fit: bool = False,
    overrides: Overrides = NO_OVERRIDES,
) -> CapacityPlan:
    """Plan the memory of `deployment`.

    Args:
        flags: of memory; None: vLLM's defaults.
        known: measured values, which take the place of estimates; bytes of one rank.
        weights: counted from files, by pipeline stage; None: estimated from the model's shape.
        kv_bytes: the bytes of the KV cache of one rank; the budget is then left out.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
        overrides: of `resolve`.

    Raises:
        InputError: something of the model is not known that the plan needs.
        StartupError: vLLM would refuse before it looks at memory.
    """
    request = MemoryRequest(flags or MemoryFlags(), known or Measured(), weights, kv_bytes, auto_fit)
    return plan_of(deployment, request, overrides)


def plan_of(
    deployment: Deployment, request: MemoryRequest, overrides: Overrides = NO_OVERRIDES, *, advise: bool = True
) -> CapacityPlan:
    """The same, of a MemoryRequest.

    Args:
        advise: whether the fixes of a start that fails are looked for, which takes many small plans.
    """
    check_sizes(deployment, request)
    deployment, resolution = _resolved(deployment, overrides)
    if request.kv_bytes is not None:
        made = _in_given_bytes(deployment, request, resolution, request.kv_bytes)
        return _advised(made) if advise else made
    request = request.of(deployment)
    budget, graphs = make_budget(deployment, resolution, request)
    low, best, high = (
        capacity_in(deployment, resolution, [getattr(left, end) for left in budget.kv_cache], request.auto_fit)
        for end in ("low", "best", "high")
    )
    verdict = with_loading(check_start(deployment, resolution, budget, auto_fit=request.auto_fit), resolution)
    said = {finding.code for finding in verdict.findings}
    notes = [note for note in best.plan.warnings if note.code not in said] if best.plan is not None else []
    made = CapacityPlan(
        deployment, request, resolution, budget, graphs, low, best, high, verdict.starts, verdict.holds, (),
        resolution.not_modelled, verdict.ends,
    )  # fmt: skip
    measured = request.measured_of(deployment).graph_estimate is not None
    own = estimate_findings(deployment, resolution, budget, vllm_estimate(made), measured)
    if not made.fits:
        # A server that does not start suggests nothing.
        own = tuple(finding for finding in own if finding.code != SUGGESTED_TWICE.code)
    first = () if made.fits else tuple(found.code for found in own if found.code == IMPLAUSIBLE.code)
    if advise and made.starts == "yes":
        own = (*own, *thin_margin(deployment, request, resolution, budget))
    own = (*own, *unmeasured(deployment, request, resolution, budget))
    if made.fits:
        own = (*own, *stored_for_next(deployment, budget), *outside_budget(deployment, request, resolution, budget))
    if advise:
        own = (*own, *later_release(made, plan_of))
    made = replace(made, findings=_pressing([*verdict.findings, *notes, *own, *_of_files(request)], first))
    return _advised(made) if advise else made


def _resolved(deployment: Deployment, overrides: Overrides) -> tuple[Deployment, Resolution]:
    """Too few blocks for the requests of full graphs are a finding of the plan, which tells what else is wrong."""
    try:
        return deployment, resolve(deployment, overrides)
    except StartupError as error:
        if error.code != MAMBA_BLOCKS.code or deployment.num_gpu_blocks_override is None:
            raise
    deployment = deployment.model_copy(update={"num_gpu_blocks": None})
    return deployment, resolve(deployment, overrides)


def _advised(made: CapacityPlan) -> CapacityPlan:
    """The plan with fixes that were planned themselves."""
    findings = made.findings
    if made.starts != "yes":
        from .advice import with_fixes

        findings = with_fixes(made.deployment, made.request, findings, made.budget)
    if made.budget is not None:
        from .tried_fixes import with_tried_fixes

        findings = with_tried_fixes(made.deployment, made.request, findings, made.budget)
    return replace(made, findings=findings)


def _of_files(request: MemoryRequest) -> list[Finding]:
    doubt = request.weights.doubt if request.weights is not None else ""
    return [Finding(NOT_THE_MODELS.code, "warning", doubt, NOT_THE_MODELS.instead, "--weights")] if doubt else []


def _in_given_bytes(
    deployment: Deployment, request: MemoryRequest, resolution: Resolution, kv_bytes: int
) -> CapacityPlan:
    capacity = capacity_in(deployment, resolution, (kv_bytes,), request.auto_fit)
    verdict = in_given_bytes(deployment, request, resolution)
    said = {finding.code for finding in verdict.findings}
    notes = [note for note in capacity.plan.warnings if note.code not in said] if capacity.plan is not None else []
    return CapacityPlan(
        deployment, request, resolution, None, None, capacity, capacity, capacity,
        verdict.starts, verdict.holds, _pressing([*verdict.findings, *notes]), resolution.not_modelled,
        verdict.ends,
    )  # fmt: skip


def _pressing(findings: Sequence[Finding], first: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Those of the codes `first`, which the others come of, then the most pressing; each once."""
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: (found.code not in first, order[found.severity])))
