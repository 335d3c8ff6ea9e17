"""What the screen and the page of `cgplan plan` say of its CUDA graphs: their memory, vLLM's estimate, and the time."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import as_fix
from ..memory.budget.suggestion import reserve_of, suggestion
from ..memory.capacity_plan import CapacityPlan, CaptureTime, capacity_in, capture_time, vllm_estimate
from ..memory.estimates import GIB, MIB, Interval
from ..memory.start_time import longest, start_time
from ..memory.what_if import Variant, outcome
from ..vocabulary import CUDAGraphMode
from .plan_words import gib, signed

ON_TOP = "they come on top of --gpu-memory-utilization."


def graph_lines(made: CapacityPlan) -> Iterator[str]:
    """What vLLM will say of its graphs, what they take, and what the difference is worth."""
    budget = made.budget
    if budget is None or budget.tightest.kv_cache.best <= 0:
        return
    stage, mode = budget.tightest, made.resolution.cudagraph_mode
    if mode is CUDAGraphMode.NONE:
        yield "No CUDA graphs are captured."
        return
    estimate = vllm_estimate(made)
    if estimate is None:
        yield f"vLLM estimates nothing for its graphs: {as_fix(budget.deduction.reason)}"
    else:
        yield f"vLLM will estimate {_about(estimate)}{_samples(made)}."
        yield from _outlier(made)
    yield f"Capture really takes {_about(stage.graphs)}{_by_kind(made)}."
    if budget.is_manual:
        yield "Nothing is taken off for them: --kv-cache-memory-bytes sets the KV cache."
    elif stage.deducted.best:
        off = stage.deducted.best - stage.graphs.best
        tokens = _tokens_of(made, abs(off))
        worth = f", {tokens:,} tokens of KV cache" if tokens else ""
        if tokens and abs(off) >= MIB:
            kind = "too much" if off > 0 else "too little"
            held = f"{signed(abs(off)).lstrip('+')}{worth}, {kind}"
        else:
            held = "about what capture takes"
        release = made.resolution.vllm_version
        yield f"The KV cache gives the estimate up: {held}. In {release} graphs are inside --gpu-memory-utilization."
    else:
        why = "" if estimate is None else f" ({as_fix(budget.deduction.reason)})"
        yield f"The KV cache gives up nothing for them{why}: {ON_TOP} {_without_graphs(made)}"
    found = suggestion(budget, stage, made.deployment.vllm)
    if made.fits and found is not None and found.counts_twice and found.right > 0:
        yield (
            f"vLLM's log will suggest --kv-cache-memory={found.printed}, {gib(found.printed)} GiB, which takes the"
            f" graphs off twice; {found.right}, {gib(found.right)} GiB, is right: the KV cache by what capture takes,"
            f" less {gib(reserve_of(made.deployment.vllm))} GiB that vLLM keeps."
        )


def _without_graphs(made: CapacityPlan) -> str:
    """What the KV cache would be without graphs: --enforce-eager takes torch.compile away as well, whose code peaks
    otherwise."""
    eager = outcome(Variant("", made.deployment.model_copy(update={"enforce_eager": True}), made.request)).kv_bytes
    now = min(made.best.kv_bytes)
    if eager is None or abs(eager - now) < MIB:
        return "Without graphs it would be as large."
    return (
        f"-cc.cudagraph_mode=NONE leaves it as large; --enforce-eager, which does not compile either, makes it"
        f" {gib(eager)} GiB ({signed(eager - now)})."
    )


def _samples(made: CapacityPlan) -> str:
    """The first capture and each further one, by mode: what runner V1 adds up; "" where it captures all."""
    known = made.request.measured_of(made.deployment).graph_estimate
    samples = made.graphs.samples if made.graphs is not None and known is None else {}
    if not samples:
        return ""
    said = [
        f"{mode} {sample.first / MIB:.0f} + {sample.graphs - 1} x {sample.each / MIB:.1f} MiB"
        for mode, sample in samples.items()
    ]
    return f": {', '.join(said)}, the larger of the first ones alone"


def _by_kind(made: CapacityPlan) -> str:
    """What one graph of each mode takes; "" where the whole was measured, or is given."""
    graphs = made.graphs
    if graphs is None or made.request.measured_of(made.deployment).graphs is not None:
        return ""
    said, rest = [], graphs.total.best
    for mode in (CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL):
        count, size = made.resolution.graph_count(mode), graphs.in_driver(mode)
        if count and size:
            rest -= size
            said.append(f"{count} {mode} of {size / count / MIB:.1f} MiB")
    return f": {', '.join(said)}, and {max(rest, 0) / GIB:.2f} GiB that all share" if said else ""


def _about(value: Interval) -> str:
    """A measured value is no estimate."""
    if value.is_exact:
        return f"{gib(value.best)} GiB, as measured"
    return f"about {gib(value.best)} GiB ({gib(value.low)} to {gib(value.high)})"


def _outlier(made: CapacityPlan) -> Iterator[str]:
    """Why the estimate is far above that of neighbouring sizes."""
    found = made.graphs.second_segment if made.graphs is not None else None
    if found is None or made.request.measured_of(made.deployment).graph_estimate is not None:
        return
    yield (
        f"It may be an outlier: by the rules of torch's allocator the second largest {found.mode} size, {found.tokens},"
        f" takes {found.grown / MIB:.0f} MiB of the pool that no other does, and vLLM counts them for each of"
        f" {found.graphs - 1} graphs: {gib(found.counted)} GiB. One size more or less has another estimate."
    )


def time_line(made: CapacityPlan) -> str:
    """How long capture takes; "" without graphs, and where the start ends before."""
    found = capture_time(made)
    if found is None or not made.fits:
        return ""
    return _time(made, found) + _cases(made)


def _cases(made: CapacityPlan) -> str:
    """How often LoRA has each size captured."""
    lora = made.resolution.lora
    if lora is None or len(lora.cases) < 2:
        return ""
    if len(lora.cases) == 2:
        return " LoRA doubles it, as it does the graphs: each size is captured with and without adapters."
    return f" LoRA makes it {len(lora.cases)} times as long: each size is captured for {lora.in_words(lora.cases)}."


def _time(made: CapacityPlan, found: CaptureTime) -> str:
    other = "" if "H100" in made.deployment.gpu.name else f"; {made.deployment.gpu.name} was not measured"
    if found.share is None:
        return f"Capture takes {found.best:.1f} s, as measured."
    if made.is_older:
        return (
            f"Capture takes {found.low:.0f} to {found.high:.0f} s, {found.best:.0f} s by {found.basis}{other}: releases"
            " before 0.19 were seen to take many times as long, most of all with adapters. There fewer sizes shorten"
            " the start, and decode keeps its graphs; --enforce-eager takes them away."
        )
    if found.best < 1:
        # So few graphs are no share of a start that was seen.
        return f"Capture takes {seconds_of_capture(found)}, going by {found.basis}{other}."
    least, middle, most = found.share
    each = found.best / made.resolution.graph_count() * 1000
    return (
        f"Capture takes about {found.best:.0f} s ({found.low:.0f} to {found.high:.0f}), {each:.0f} ms a graph and"
        f" {middle:.0%} of the engine's start ({least:.0%} to {most:.0%}), going by {found.basis}{other}."
    )


def seconds_of_capture(found: CaptureTime) -> str:
    """The time in words; what is below a second is not rounded to none."""
    if found.best >= 1:
        return f"about {found.best:.0f} s"
    return "less than 1 s" if found.high < 1 else f"less than {found.high:.0f} s"


def before_capture(made: CapacityPlan) -> str:
    """How long the start takes beside capture; "" where the start fails, or where it is not planned."""
    found = start_time(made)
    if found is None or not made.fits:
        return ""
    parts = [f"{name} {_seconds(seconds)}" for name, seconds in found.parts()]
    text = f"Beside it: {', '.join(parts)}, by {found.basis}; disk and caches decide much of it."
    most = longest(made)
    if most is None or most[0] == "capture" or made.is_older:
        return text
    return f"{text} The longest is {most[0]}; fewer graphs shorten capture alone."


def _seconds(value: tuple[float, float, float]) -> str:
    low, best, high = (max(round(seconds), 1) for seconds in value)
    return f"{best} s ({low} to {high})"


def _tokens_of(made: CapacityPlan, size: int) -> int:
    """The tokens of KV cache that `size` bytes of every rank are worth."""
    plan = made.best.plan
    if plan is None or plan.tokens is None or not size:
        return 0
    more = [kv + size for kv in made.best.kv_bytes]
    other = capacity_in(made.deployment, made.resolution, more, made.request.auto_fit).plan
    return abs((other.tokens if other is not None and other.tokens is not None else plan.tokens) - plan.tokens)


def lines(made: CapacityPlan) -> list[str]:
    """All that is said of the graphs; [] where there is nothing to say."""
    time = time_line(made)
    return [line for line in (*graph_lines(made), time, before_capture(made) if time else "") if line]
