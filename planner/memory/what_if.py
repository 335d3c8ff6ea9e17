"""The capacity of many variants of one deployment, by best values: one flag over values, or other CUDA graphs.

Each variant costs a resolution, a budget and one KV cache plan; `plan` is asked where more is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..light_dataclass import dataclass
from ..resolve import Resolution, resolve
from ..resolve.memory_deduction import VARIABLE
from ..vocabulary import CUDAGraphMode
from .budget.budget import Budget
from .estimates import MIB
from .graphs.savings import Change, changes, in_place_of_sizes, size_fields
from .limits import broken_by_best, check_start, constraints
from .override_room import override_findings, override_in
from .plan import CapacityPlan, capacity_in
from .request import MemoryRequest, check_sizes, make_budget
from .verdict import LOADING_FAILS, with_loading

WORTH_SAYING = MIB
"""Less than this for the KV cache is no gain."""
FEWEST_SIZES = 8
"""A list of so few sizes is not worth shortening."""


class Variant(NamedTuple):
    """A deployment to look at, by a name; or why there is none."""

    name: str
    deployment: Deployment | None
    request: MemoryRequest = MemoryRequest()
    problem: CgplanError | None = None


@dataclass(frozen=True)
class Outcome:
    """What becomes of a variant, by best values.

    Attributes:
        name: of the variant.
        fits: whether it starts.
        starts: "yes" and "no" hold within the bounds of every estimate; "unsure": they differ.
        kv_bytes: of the stage with the least; None: vLLM refuses before.
        num_blocks, tokens, max_model_len: of the KV cache; where the full length does not fit, of the longest that
            does. None: there is no KV cache.
        max_concurrency: requests at once of the length that is asked for; None: it does not start.
        graphs: of the target model, number of.
        graph_bytes: what capture takes; None where the bytes of the KV cache were given.
        deducted_bytes: vLLM's estimate for the graphs that the KV cache gives up.
        why_not: code and message of what keeps it from starting, or may, or ("", "").
    """

    name: str
    fits: bool
    starts: Literal["yes", "no", "unsure"]
    kv_bytes: int | None = None
    num_blocks: int | None = None
    tokens: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    graphs: int = 0
    graph_bytes: int | None = None
    deducted_bytes: int | None = None
    why_not: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        found = dict(vars(self))
        code, message = found.pop("why_not")
        return {**found, "code": code or None, "message": message or None}


def outcome(variant: Variant) -> Outcome:
    """What becomes of `variant`. What vLLM refuses is an outcome, not an error."""
    if variant.deployment is None:
        return _refused(variant.name, variant.problem)
    try:
        return _outcome(variant.name, variant.deployment, variant.request)
    except CgplanError as error:
        return _refused(variant.name, error)


def outcomes(variants: Iterable[Variant]) -> tuple[Outcome, ...]:
    return tuple(outcome(variant) for variant in variants)


def _refused(name: str, error: CgplanError | None) -> Outcome:
    return Outcome(name, False, "no", why_not=("", "") if error is None else (error.code, error.message))


def _outcome(name: str, deployment: Deployment, request: MemoryRequest) -> Outcome:
    check_sizes(deployment, request)
    resolution = resolve(deployment)
    graph_bytes: int | None = None
    deducted: int | None = None
    errors = [(found.code, found.message) for found in resolution.noted if found.code in LOADING_FAILS]
    budget: Budget | None = None
    if request.kv_bytes is not None:
        available = [request.kv_bytes] * deployment.pipeline_parallel_size
    else:
        budget, _ = make_budget(deployment, resolution, request)
        available = [left.best for left in budget.kv_cache]
        graph_bytes, deducted = budget.tightest.graphs.best, budget.tightest.deducted.best
        errors += [(found.code, found.message) for found in broken_by_best(budget)]
    held = constraints(deployment, resolution, available, request.auto_fit)
    if budget is not None:
        room = broken_by_best(replace(budget, findings=override_findings(deployment, budget, held.cache)))
    else:
        room = override_in(deployment, available, held.cache)
    errors += [(found.code, found.message) for found in room]
    errors += [(found.code, found.message) for found in held.broken]
    why_not = errors[0] if errors else ("", "")
    starts: Literal["yes", "no", "unsure"] = "no" if errors else "yes"
    if budget is not None:
        verdict = check_start(deployment, resolution, budget, auto_fit=request.auto_fit)
        verdict = with_loading(verdict, resolution)
        starts = verdict.starts
        if not errors:
            may = [found for found in verdict.findings if found.severity == "warning"]
            why_not = (may[0].code, may[0].message) if may and starts == "unsure" else why_not
    plan = held.cache.plan if held.cache is not None else None
    held_bytes = [stage.held.best for stage in budget.stages] if budget is not None else available
    return Outcome(
        name=name,
        fits=not errors,
        starts=starts,
        kv_bytes=min(held_bytes),
        num_blocks=plan.num_blocks if plan is not None else None,
        tokens=plan.tokens if plan is not None else None,
        max_concurrency=plan.max_concurrency if plan is not None and not errors else None,
        max_model_len=plan.max_model_len if plan is not None else None,
        graphs=resolution.graph_count(),
        graph_bytes=graph_bytes,
        deducted_bytes=deducted,
        why_not=why_not,
    )


@dataclass(frozen=True)
class BuyBack:
    """What another set of CUDA graphs would give to the KV cache.

    Attributes:
        change: the options that do it, as vLLM takes them.
        outcome: what becomes of it.
        kv_bytes, tokens: more than before; below 0: less. None: not comparable.
        cost: what is lost by it, in words.
    """

    change: str
    outcome: Outcome
    kv_bytes: int | None
    tokens: int | None
    cost: str


def buy_backs(made: CapacityPlan) -> tuple[BuyBack, ...]:
    """What fewer sizes, other modes, or the environment switch would give back; () where there is no budget.

    Of a server that does not start, those alone that let it start; else those that give the KV cache something.
    """
    if made.budget is None or made.resolution.cudagraph_mode is CUDAGraphMode.NONE:
        return ()
    stage = made.budget.tightest
    if not made.fits and stage.kv_cache.best + max(stage.deducted.best, stage.graphs.best) <= 0:
        return ()
    now = _with_layers_of(made, "", made.deployment)
    found = []
    for change in _changes(made):
        changed = made.deployment.model_copy(update=change.fields)
        try:
            then = _with_layers_of(made, change.text, changed)
        except CgplanError:
            continue
        gained = (then.kv_bytes or 0) - (now.kv_bytes or 0)
        if gained < WORTH_SAYING if made.fits else not then.fits:
            continue
        more = None if then.tokens is None or now.tokens is None else then.tokens - now.tokens
        found.append(BuyBack(change.text, then, gained, more, change.price))
    return tuple(found)


def _with_layers_of(made: CapacityPlan, name: str, deployment: Deployment) -> Outcome:
    """What becomes of `deployment`, which differs from that of `made` in its graphs only: the layers are the same."""
    resolution = resolve(deployment)
    budget, _ = make_budget(deployment, resolution, made.request)
    available = [left.best for left in budget.kv_cache]
    held = capacity_in(made.deployment, made.resolution, available, made.request.auto_fit)
    errors = [(found.code, found.message) for found in budget.findings if found.severity == "error"]
    if held.refusal is not None:
        errors.append((held.refusal.code, held.refusal.message))
    unsure = any(found.severity == "warning" for found in budget.findings)
    return Outcome(
        name=name,
        fits=not errors,
        starts="no" if errors else "unsure" if unsure else "yes",
        kv_bytes=min(available),
        num_blocks=held.plan.num_blocks if held.plan is not None else None,
        tokens=held.plan.tokens if held.plan is not None else None,
        max_concurrency=held.plan.max_concurrency if held.plan is not None and not errors else None,
        max_model_len=held.plan.max_model_len if held.plan is not None else None,
        graphs=resolution.graph_count(),
        graph_bytes=budget.tightest.graphs.best,
        deducted_bytes=budget.tightest.deducted.best,
        why_not=errors[0] if errors else ("", ""),
    )


def _changes(made: CapacityPlan) -> Iterable[Change]:
    deployment, resolution = made.deployment, made.resolution
    yield from _half_the_sizes(deployment, resolution)
    if made.graphs is not None:
        yield from changes(deployment, resolution, made.graphs)
    if made.budget is not None and made.budget.tightest.deducted.best > 0:
        fields = {"env": {**deployment.env, VARIABLE: "0"}}
        yield Change(f"{VARIABLE}=0", fields, "what capture takes must then stay free outside --gpu-memory-utilization")


def _half_the_sizes(deployment: Deployment, resolution: Resolution) -> Iterable[Change]:
    """vLLM's own list up to half of the largest size, whatever list is given now."""
    sizes = resolution.capture_sizes
    half = [size for size in sizes if size <= sizes[-1] // 2]
    if len(sizes) < FEWEST_SIZES or not half:
        return
    fields = size_fields(deployment, largest=half[-1])
    try:
        largest = resolve(deployment.model_copy(update=fields)).max_capture_size
    except CgplanError:
        return
    price = f"{in_place_of_sizes(deployment)}batches above {largest} tokens run eager"
    yield Change(f"--max-cudagraph-capture-size {largest}", size_fields(deployment, largest=largest), price)
