"""Checks of how LoRA multiplies the graphs."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CgplanError
from ..resolve import Resolution
from ..trace import Rule
from ..vocabulary import Runner
from .diagnostic import Hit
from .places import drop, related
from .registry import check
from .subject import Subject
from .what_if import what_if

MORE_CASES_THAN_REQUESTS = Rule(
    "CG450",
    title="--specialize-active-lora captures graphs for more active adapters than max_num_seqs lets run.",
    why="One set of graphs is captured for each power of two up to max_loras + 1, and a batch has at most one adapter "
    "a request.",
    example="--max-loras 8 --max-num-seqs 1 --specialize-active-lora: sets for 2, 4, 8 and 9 adapters serve no batch.",
    instead="Drop --specialize-active-lora, or lower --max-loras to --max-num-seqs.",
    source="vllm/lora/utils.py:55-69",
)
MANY_CASES = Rule(
    "CG451",
    title="--specialize-active-lora captures every size once for each number of active adapters in its grid.",
    why="Kernels then skip the adapters that a batch has not, at the price of graph memory and start-up time.",
    example="--max-loras 8 --specialize-active-lora: six sets of graphs, for 0, 1, 2, 4, 8 and 9 adapters.",
    instead="Drop --specialize-active-lora where start-up time or memory matters more.",
    source="vllm/v1/cudagraph_dispatcher.py:110-128",
)


MORE_SETS = Rule(
    "CG452",
    title="LoRA captures the graphs again for batches with adapters, and keeps buffers for --max-loras adapters.",
    why="A graph holds the kernels that it was captured with, so batches without and with adapters have graphs of their"
    " own, from --max-loras 1 on; the buffers are allocated with the weights, whether adapters are loaded or not.",
    example="Qwen3-8B with --max-loras 32: 204 graphs instead of 102, and 2.9 GiB of buffers.",
    instead="Lower --max-loras to the adapters of one batch, for the buffers, and name fewer sizes, for the graphs;"
    " with runner V1 -cc.cudagraph_specialize_lora=false leaves"
    " one set, and batches without adapters run eager.",
    source="vllm/v1/cudagraph_dispatcher.py:110-128",
)
GIB = 1 << 30


@check(MORE_SETS, "info")
def more_sets(subject: Subject) -> Iterator[Hit]:
    d, found = subject.deployment, subject.resolution
    if d is None or found is None or found.lora is None or len(found.lora.cases) != 2:
        return
    alone = _graphs_of(found, [0])
    if not alone or found.graph_count() <= alone:
        return
    size = _buffers(subject)
    fewer = "-cc.cudagraph_specialize_lora=false captures one set"
    section = d.compilation_config.model_copy(update={"cudagraph_specialize_lora": False})
    one_set = what_if(subject, compilation_config=section)
    most = found.lora.max_loras
    fewer_sizes = "name fewer --cudagraph-capture-sizes"
    lower = f"lower --max-loras, which is {most}, to the adapters of one batch, or {fewer_sizes}"
    lower = lower if most > 1 else fewer_sizes
    adapters = "1 adapter" if most == 1 else f"{most} adapters"
    buffers = f"; buffers for {adapters} take {size / GIB:.2f} GiB of each GPU" if size is not None else ""
    trade = "batches without adapters then run eager"
    other = found.runner is Runner.V1 and one_set is not None and 0 < one_set.graph_count() < found.graph_count()
    yield Hit(
        f"{found.graph_count()} graphs are captured, {found.graph_count() / alone:.3g} times the {alone} without LoRA, "
        f"and capture takes longer by as much, whatever --max-loras is{buffers}",
        f"{lower}; {fewer}: {trade}" if other else lower,
        subject.at("max_loras") or subject.at("enable_lora"),
    )


def _buffers(subject: Subject) -> int | None:
    """Bytes of one GPU that hold adapters; None: the model's weights are not known."""
    d = subject.deployment
    named = subject.asked.served.model if subject.asked.served is not None else None
    if d is None or d.model.weights is None or (named is not None and not named.is_known and named.like is None):
        return None
    from ..memory.budget.weights import estimate_weights

    try:
        stages = estimate_weights(d, subject.resolution).stages
    except CgplanError:
        return None
    return max(stage.parts.get("lora", 0) for stage in stages)


@check(MORE_CASES_THAN_REQUESTS, "warning")
def more_cases_than_requests(subject: Subject) -> Iterator[Hit]:
    found = subject.resolution
    if found is None or found.lora is None or not _specialised(found) or found.max_num_seqs >= found.lora.max_loras:
        return
    idle = found.lora.idle_cases(found.max_num_seqs)
    count = _graphs_of(found, idle)
    if not count:
        return
    adapters = "adapter" if found.max_num_seqs == 1 else "adapters"
    yield Hit(
        f"{count} of {found.graph_count()} graphs are captured for {found.lora.in_words(idle)}, "
        f"and max_num_seqs {found.max_num_seqs} lets at most {found.max_num_seqs} {adapters} run; memory and seconds "
        "of capture go to them",
        f"drop --specialize-active-lora, or set --max-loras {found.max_num_seqs}",
        subject.at("specialize_active_lora"),
        edits=drop(subject, "specialize_active_lora"),
        safe=False,
        related=related(subject, "most adapters of a batch", "max_num_seqs")
        + related(subject, "decides how many sets there are", "max_loras"),
    )


@check(MANY_CASES, "info")
def many_cases(subject: Subject) -> Iterator[Hit]:
    found = subject.resolution
    if found is None or found.lora is None or not _specialised(found) or found.max_num_seqs < found.lora.max_loras:
        return
    alone = _graphs_of(found, [0])
    yield Hit(
        f"{found.graph_count()} graphs are captured, {alone} without LoRA and a set for each of "
        f"{found.lora.in_words(found.lora.cases[1:])}",
        MANY_CASES.instead,
        subject.at("specialize_active_lora"),
        related=related(subject, "decides how many sets there are", "max_loras"),
    )


def _specialised(found: Resolution) -> bool:
    """Whether there are sets of graphs beside the one without LoRA and the one for any adapters."""
    return found.lora is not None and len(found.lora.cases) > 2 and found.graph_count() > 0


def _graphs_of(found: Resolution, cases: list[int]) -> int:
    return sum(graph.num_active_loras in cases for graphs in found.captures.values() for graph in graphs)
