"""The capacity of many variants of one deployment, by best values: one flag over values, or other CUDA graphs.

Each variant costs a resolution, a budget and one KV cache plan; `plan` is asked where more is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..light_dataclass import dataclass
from ..resolve import Resolution, resolve
from ..resolve.memory_deduction import VARIABLE
from ..vocabulary import CUDAGraphMode
from .beside_budget import left_outside
from .budget.estimate_rules import SYSTEM_MEMORY
from .budget.gdn_prefill import most_of_prefill
from .budget.rules import THIN_MARGIN
from .capacity_plan import CapacityPlan, capture_time
from .estimates import GIB, MIB
from .graphs.savings import Change, changes, in_place_of_sizes, size_fields
from .kv.cache_plan import KVCachePlan
from .limits import constraints
from .plan import plan_of
from .request import MemoryRequest
from .thin_margin import is_thin

WORTH_SAYING = MIB
"""Less than this for the KV cache is no gain."""
WORTH_FREEING = GIB // 10
"""The same of memory that stays free outside what vLLM asks for."""
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
        capture_seconds: how long capture takes, by the best value; None: there are no graphs.
        activation_bytes: the peak of the profile run; None like graph_bytes.
        surely_free_bytes: what stays free of the GPU while idle, at the low end of the estimates; None likewise.
        prefill_bytes: what a prefill takes at most beyond that peak, where gated delta layers are not profiled (CG552);
            None: there are none, or it is not known.
        unasked_bytes: of the GPU, not asked for, where the budget does not hold the graphs; None: it does.
        why_not: code and message of what keeps it from starting, or may, or ("", "").
        said: code and message of all that a plan of it warns of.
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
    capture_seconds: float | None = None
    activation_bytes: int | None = None
    surely_free_bytes: int | None = None
    prefill_bytes: int | None = None
    unasked_bytes: int | None = None
    why_not: tuple[str, str] = ("", "")
    said: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        found = dict(vars(self))
        found.pop("said")
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


QUALIFYING = (THIN_MARGIN.code, SYSTEM_MEMORY.code)
"""Notes without which a start is not simply said to hold."""


def _outcome(name: str, deployment: Deployment, request: MemoryRequest) -> Outcome:
    """By the plan of it: the two cannot differ."""
    made = plan_of(deployment, request, advise=False)
    budget = made.budget
    said = [(one.code, one.message) for one in made.findings if one.severity != "info" or one.code in QUALIFYING]
    if made.starts == "yes" and budget is not None and is_thin(budget):
        said.append((THIN_MARGIN.code, THIN_MARGIN.title.rstrip(".")))
    plan = made.best.plan or _shorter(made)
    stage = budget.tightest if budget is not None else None
    time = capture_time(made)
    held_bytes = [one.held.best for one in budget.stages] if budget is not None else list(made.best.kv_bytes)
    return Outcome(
        name=name,
        fits=made.fits,
        starts=made.starts,
        kv_bytes=min(held_bytes),
        num_blocks=plan.num_blocks if plan is not None else None,
        tokens=plan.tokens if plan is not None else None,
        max_concurrency=plan.max_concurrency if plan is not None and made.fits else None,
        max_model_len=plan.max_model_len if plan is not None else None,
        graphs=made.resolution.graph_count(),
        graph_bytes=stage.graphs.best if stage is not None else None,
        deducted_bytes=stage.deducted.best if stage is not None else None,
        capture_seconds=time.best if time is not None else None,
        activation_bytes=stage.activation.best if stage is not None else None,
        surely_free_bytes=stage.unused.low if stage is not None else None,
        prefill_bytes=most_of_prefill(made.deployment, made.resolution, stage) if stage is not None else None,
        unasked_bytes=left_outside(budget) if budget is not None else None,
        why_not=_why_not(made),
        said=tuple(dict.fromkeys(said)),
    )


def _shorter(made: CapacityPlan) -> KVCachePlan | None:
    """The KV cache of the longest request that fits, where that of the full length does not."""
    sizes = made.best.kv_bytes
    held = constraints(made.deployment, made.resolution, list(sizes), made.request.auto_fit)
    return held.cache.plan if held.cache is not None else None


def _why_not(made: CapacityPlan) -> tuple[str, str]:
    """The first that ends the start by the best values; where it may, the first that is warned of."""
    if made.fits and made.starts == "yes":
        return ("", "")
    ends = [one for one in made.findings if one.code in made.ends] or list(made.findings)
    found = next((one for one in (made.findings if made.fits else ends) if one.severity != "info"), None)
    return ("", "") if found is None else (found.code, found.message)


@dataclass(frozen=True)
class BuyBack:
    """What another set of CUDA graphs would give to the KV cache.

    Attributes:
        change: the options that do it, as vLLM takes them.
        outcome: what becomes of it.
        kv_bytes, tokens: more than before; below 0: less. None: not comparable.
        cost: what is lost by it, in words.
        freed_bytes: what the graphs take less, where they come on top of what the KV cache shares; else 0.
    """

    change: str
    outcome: Outcome
    kv_bytes: int | None
    tokens: int | None
    cost: str
    freed_bytes: int = 0


def buy_backs(made: CapacityPlan) -> tuple[BuyBack, ...]:
    """What fewer sizes, other modes, or the environment switch would give back; () where there is no budget.

    Of a server that does not start, those alone that let it start; else those that give the KV cache something, or
    where the graphs come on top of it, leave more free.
    """
    if made.budget is None or made.resolution.cudagraph_mode is CUDAGraphMode.NONE:
        return ()
    stage = made.budget.tightest
    if not made.fits and stage.kv_cache.best + max(stage.deducted.best, stage.graphs.best) <= 0:
        return ()
    now = _outcome("", made.deployment, made.request)
    found = []
    for change in _changes(made):
        changed = made.deployment.model_copy(update=change.fields)
        try:
            then = _outcome(change.text, changed, made.request)
        except CgplanError:
            continue
        gained = (then.kv_bytes or 0) - (now.kv_bytes or 0)
        freed = 0 if stage.deducted.best else (now.graph_bytes or 0) - (then.graph_bytes or 0)
        if (gained < WORTH_SAYING and freed < WORTH_FREEING) if made.fits else not then.fits:
            continue
        more = None if then.tokens is None or now.tokens is None else then.tokens - now.tokens
        found.append(BuyBack(change.text, then, gained, more, change.price, max(freed, 0)))
    return tuple(found)


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
