"""Which attention backend each group of layers gets, and how much the CUDA graphs may hold because of it."""

from __future__ import annotations

from collections.abc import Collection

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...releases import canonical
from ...trace import Rule, Trace
from ...vocabulary import AttentionCGSupport
from .facts import catalogue
from .groups import AttentionGroup, Decided, GroupChooser, Rejected
from .request import request_of

__all__ = ["AttentionGroup", "BackendChoice", "choose_backends"]

WEAKEST_GROUP = Rule(
    code="CG316",
    title="The weakest group of layers bounds what CUDA graphs may hold.",
    why="One graph holds all layers, so it can hold no more than the most restricted backend allows.",
    example="Bamba on an H100: FlashAttention 3 is ALWAYS, Mamba 2 UNIFORM_BATCH, so that counts.",
    instead="Nothing changes a model's layers; where the draft model is the weakest, use another one.",
    source="vllm/v1/worker/gpu_model_runner.py:6760-6788",
)


@dataclass(frozen=True)
class BackendChoice:
    """The backends of a deployment.

    Attributes:
        groups: the main attention first.
        support: the weakest level; ALWAYS when there is no group.
        weakest: class name of the first group that lowered the minimum, None when it is ALWAYS.
        name: the main attention's backend as --attention-backend names it; "none" without attention.
        rejected: candidates of the automatic selection before the one taken, and why not.
    """

    groups: tuple[AttentionGroup, ...]
    support: AttentionCGSupport
    weakest: str | None
    name: str
    rejected: Rejected


def choose_backends(
    deployment: Deployment,
    *,
    dtype: str,
    trace: Trace,
    extra_groups: bool = True,
    unavailable: Collection[str] = (),
    imported_before_env: bool = False,
) -> BackendChoice:
    """The attention backends of `deployment` and the level that bounds its CUDA graphs.

    Args:
        dtype: activation dtype, resolved: bfloat16, float16 or float32.
        extra_groups: count every group that vLLM has; False: only the target's attention and mamba layers.
        imported_before_env: vLLM was imported before its environment variables were set.
        unavailable: backends (enum names) whose modules cannot be imported there.

    Raises:
        InputError: an unknown backend name (CG305), group kind (CG309), or a platform that is not modelled.
        StartupError: vLLM refuses the backend (CG302, CG307), finds none (CG303), or has no batch-invariant
            kernels (CG304).
    """
    facts = catalogue(canonical(deployment.vllm))
    request = request_of(deployment, facts, trace)
    if imported_before_env:
        request = request._replace(imported_before_env=True)
    chooser = GroupChooser(deployment, request, facts, dtype, trace, frozenset(unavailable))
    groups, name, rejected = chooser.groups(extra_groups)
    support, weakest = AttentionCGSupport.ALWAYS, None
    for group, decided in groups:
        if group.support < support:
            support, weakest = group.support, (group, decided)
    if weakest is not None:
        _explain(groups, weakest, trace)
    return BackendChoice(
        groups=tuple(group for group, _ in groups),
        support=support,
        weakest=weakest[0].class_name if weakest is not None else None,
        name=name,
        rejected=rejected,
    )


def _explain(groups: list[Decided], weakest: Decided, trace: Trace) -> None:
    group, decided = weakest
    why = f"{group.class_name}: {decided.condition}"
    main = groups[0][0].support
    trace.decide(decided.rule, "attention_support", "ALWAYS", group.support.name, why)
    if group.support < main:
        trace.decide(WEAKEST_GROUP, "attention_support", main.name, group.support.name, why)
