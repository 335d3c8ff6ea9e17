"""How many requests the server lets run, where that comes from, and how many of the full length fit."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CgplanError
from ..memory.capacity_plan import capacity_in
from ..memory.kv.cache_plan import KVCachePlan
from ..memory.kv_specs import MambaSpec
from ..trace import Finding
from ..vocabulary import UsageContext
from .against_plan import Comparison
from .known import MIB, argument, gib, max_num_seqs
from .record import Start
from .rules import FEWER_FIT, OTHER_GPU
from .solved import counted_in
from .stages import kv_bytes_by_stage

CONTEXTS = {
    UsageContext.OPENAI_API_SERVER: "the default of `vllm serve` and LLM() on this GPU",
    UsageContext.LLM_CLASS: "the default of `vllm serve` and LLM() on this GPU",
    UsageContext.ENGINE_CONTEXT: "the default of an engine of one's own",
}
MOST_TOLD = 0.995
"""Of --max-num-seqs; where as many requests of the full length fit, none waits."""


class Requests(NamedTuple):
    """--max-num-seqs, and in words where it is from; "": it was given, or the log prints it."""

    number: int
    source: str = ""


def requests_of(start: Start, comparison: Comparison | None) -> Requests | None:
    """How many requests run at most; None: neither the log nor a plan says it."""
    known = max_num_seqs(start)
    if known is not None:
        is_default = start.arguments and argument(start, "max_num_seqs") is None and start.max_num_seqs is not None
        return Requests(known, "a default, which the log prints; the arguments do not name it" if is_default else "")
    if comparison is not None and any(finding.code == OTHER_GPU.code for finding in comparison.findings):
        comparison = None  # The defaults go by the GPU's memory.
    served = comparison.served if comparison is not None else None
    ends = _full_end(start)
    if comparison is not None and comparison.resolution is not None and served is not None and served.deployment:
        number, deployment = comparison.resolution.max_num_seqs, served.deployment
        tokens = comparison.resolution.uniform_decode_query_len
        if served.is_solved:
            return Requests(number, f"solved from the graphs{_of_full(ends, number, tokens)}")
        source = CONTEXTS.get(deployment.usage_context or UsageContext.OPENAI_API_SERVER, "vLLM's default")
        if deployment.max_num_seqs is not None:
            source = "as the engine's line has it"
        return Requests(number, f"{source}{_of_full(ends, number, tokens)}")
    if ends is not None and start.arguments and argument(start, "speculative_config") is None:
        return Requests(ends, "where the FULL graphs end; a default, for the arguments do not name it")
    return None


def _of_full(ends: int | None, number: int, tokens: int) -> str:
    if ends is None or ends != number * tokens:
        return ""
    times = f" x {tokens} tokens of a request" if tokens > 1 else ""
    return f"; FULL graphs end at {ends} = max_num_seqs{times}"


def _full_end(start: Start) -> int | None:
    """The largest FULL graph, where it is below the largest PIECEWISE one, so that the requests limit it."""
    counted = counted_in(start)
    full, piecewise = counted.get("FULL"), counted.get("PIECEWISE")
    if full is None or piecewise is None or full.largest is None or piecewise.largest is None:
        return None
    return full.largest if full.largest < piecewise.largest else None


def fewer_fit(start: Start, comparison: Comparison | None) -> Finding | None:
    """What to say where fewer requests of the full length fit than run; None: as many do, or it is not known.

    Only of a model whose requests have a state is it worth a word: of others length alone decides, and few requests are
    as long as they may be.
    """
    asked, times, length = requests_of(start, comparison), start.max_concurrency, start.concurrency_length
    if asked is None or times is None or length is None or times >= MOST_TOLD * asked.number:
        return None
    plan = cache_of(start, comparison)
    state = _state(plan)
    is_hybrid = state is not None or is_aligned(start)
    if not is_hybrid:
        return None
    fit = int(times)
    text = (
        f"{times:,.2f} requests of {length:,} tokens fit, and {asked.number:,} may run (--max-num-seqs): of so many at"
        f" that length the rest, about {asked.number - times:,.0f}, wait"
    )
    if plan is not None and state is not None:
        text += f". {state}"
    if is_aligned(start):
        text += f". Blocks have {start.block_size:,} tokens so that one is as large as a state of the model (its page)"
    fix = (
        f"nothing where requests are shorter or fewer; else --max-num-seqs {max(1, fit)}, which also saves graphs, or"
        " more memory for the KV cache"
    )
    return Finding(FEWER_FIT.code, "info", text, fix, "--max-num-seqs")


def cache_of(start: Start, comparison: Comparison | None) -> KVCachePlan | None:
    """The KV cache of the plan in the bytes of the log; None: there is none."""
    if comparison is None or comparison.resolution is None or comparison.served.deployment is None:
        return None
    sizes = kv_bytes_by_stage(start, comparison.served.deployment)
    if sizes is None:
        return None
    try:
        return capacity_in(comparison.served.deployment, comparison.resolution, sizes).plan
    except CgplanError:
        return None


def _state(plan: KVCachePlan | None) -> str | None:
    """What a request takes of state and of tokens, in words; None: the model has no state."""
    if plan is None or not plan.bytes_per_block:
        return None
    states = sum(group.blocks_per_request for group in plan.groups if _has_state(group.spec))
    if not states:
        return None
    rest = sum(group.blocks_per_request for group in plan.groups) - states
    size = plan.bytes_per_block[0] * states
    shown = gib(size) if size >= 1024 * MIB else f"{size / MIB:.0f} MiB"
    return (
        f"Each takes {states + rest} blocks: {states} for its state, {shown} however short it is, and {rest} for"
        f" {plan.max_model_len:,} tokens"
    )


def _has_state(spec: object) -> bool:
    inner = getattr(spec, "specs", None)
    return isinstance(spec, MambaSpec) or (isinstance(inner, dict) and any(map(_has_state, inner.values())))


def is_aligned(start: Start) -> bool:
    """Whether blocks have an odd number of tokens, as vLLM makes them for models with a state."""
    return start.block_size is not None and start.block_size > 64 and start.block_size & (start.block_size - 1) != 0
