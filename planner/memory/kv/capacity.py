"""The KV cache of a whole server: from each layer's spec and each rank's bytes to blocks, tokens and requests.

Source: vllm/v1/core/kv_cache_planning.py:50-87 and 1337-1605, vllm/v1/core/kv_cache_utils.py:1061-1155,
vllm/v1/engine/core.py:252-360.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import StartupError
from ...trace import Finding, Rule
from ..kv_specs import KVCacheSpec, RequestLimits
from ..layers.load_rules import load_error
from ..layers.pipeline_stages import PARTITION
from .blocks import (
    PoolRules,
    blocks_of_request,
    bytes_of_request,
    longest_request,
    tensor_parallel_replicas,
)
from .cache_plan import KVCachePlan, PlannedGroup, PlanningSettings
from .grouped import GroupedLayers, grouped
from .groups import GroupSpec, KVCacheGroup
from .layout import KVCacheLayout
from .merge import Facts, UniformTypeKVCacheSpecs
from .prefix import PrefixSteps, prefix_steps

NO_MEMORY = Rule(
    "CG560",
    title="At least one block of the KV cache must fit, since 0.29 two.",
    why="Weights, activations and graphs took the memory. Since 0.29 the check keeps one block back that no request"
    " may have, the null block.",
    example="32 layers of 8 heads of 128: a block is 2 MiB. With 2 MiB left 0.33.0 does not start.",
    instead="Raise --gpu-memory-utilization, or spread the model over more GPUs.",
    source="vllm/v1/core/kv_cache_planning.py:56-64",
)
DOES_NOT_FIT = Rule(
    "CG561",
    title="One request of --max-model-len tokens must fit into the KV cache.",
    why="Such a request could never finish otherwise. Every rank is checked.",
    example="Llama 3 8B with --max-model-len 8192 needs 1 GiB, and on 0.33.0 a block more.",
    instead="Lower --max-model-len to the length named, or raise --gpu-memory-utilization.",
    source="vllm/v1/core/kv_cache_planning.py:66-87",
)
NOTHING_TO_FIT = Rule(
    "CG562",
    title="--max-model-len auto needs room for one token at least.",
    why="The longest length that fits is looked for; here it is 0.",
    example="--max-model-len auto with --num-gpu-blocks-override 1 on 0.33.0: the one block is the null block.",
    instead="Raise --gpu-memory-utilization, or spread the model over more GPUs.",
    source="vllm/v1/core/kv_cache_planning.py:1380-1384",
)
NULL_BLOCK = Rule(
    "CG576",
    title="One block of the KV cache belongs to no request.",
    why="Freed places of a block table point to it, the null block. Since 0.29 the checks of memory leave it out.",
    example="512 blocks hold a request of 511 blocks. Of 8192 tokens in blocks of 16 vLLM 0.28 starts with 512 blocks,"
    " 0.29 needs 513.",
    instead="Leave room for one block more than the longest request takes.",
    source="vllm/v1/core/kv_cache_planning.py:1533-1543",
    since="0.29.0",
)
CAPACITY = Rule(
    "CG581",
    title="The KV cache size that vLLM logs counts requests of the longest length.",
    why="Layers with a window or a state take few blocks of a long request and many of a short one; the number says how"
    " many tokens fit where every request is as long as --max-model-len.",
    example="5120 blocks of 16 tokens and --max-model-len 8192: 512 blocks a request, 10.00x, 81,920 tokens.",
    instead="For another mix of requests divide the blocks by what each takes.",
    source="vllm/v1/core/kv_cache_utils.py:1061-1155",
)
OVERRIDE = Rule(
    "CG577",
    title="--num-gpu-blocks-override sets the blocks whatever the memory.",
    why="It is for tests of preemption. More blocks than the memory holds fail when they are allocated.",
    example="--num-gpu-blocks-override 100 with room for 512 blocks: 100 are used.",
    instead="Leave it out, and size the cache by --gpu-memory-utilization or --kv-cache-memory-bytes.",
    source="vllm/v1/core/kv_cache_planning.py:1512-1531",
)

_GIB = 1 << 30


class KVCacheTooSmall(StartupError):
    """One request of the full length does not fit.

    Attributes:
        needed_bytes, available_bytes: of the rank that vLLM names; available is what the check reckons with.
        estimated_max_model_len: the longest length that would fit; 0: none.
    """

    def __init__(self, length: int, needed: int, available: int, estimate: int, stage: str = "") -> None:
        shorter = f"; {estimate} tokens would fit" if estimate else ""
        super().__init__(
            f"a request of {length} tokens needs {_told_apart(needed, available)} of KV cache, and there are"
            f" {_told_apart(available, needed)}{stage}{shorter}",
            code=DOES_NOT_FIT.code,
            stage="initialize_kv_caches",
            raised_as="ValueError",
            raised_in="_check_enough_kv_cache_memory",
            where="--max-model-len",
            fix=f"--max-model-len {estimate}, or a higher --gpu-memory-utilization" if estimate else NO_MEMORY.instead,
        )
        self.needed_bytes = needed
        self.available_bytes = available
        self.estimated_max_model_len = estimate


def _told_apart(size: int, other: int) -> str:
    """Bytes in GiB, or as they are where both would look the same."""
    text = f"{size / _GIB:.2f}"
    return f"{text} GiB" if text != f"{other / _GIB:.2f}" else f"{size} bytes"


def plan_kv_cache(
    stages: Sequence[Mapping[str, KVCacheSpec]], available_bytes: Sequence[int], settings: PlanningSettings
) -> KVCachePlan:
    """Size the KV cache as vLLM does.

    Args:
        stages: by pipeline stage, layer name to spec, as the workers report them.
        available_bytes: by pipeline stage, the KV cache memory of one rank.
        settings: the rest.

    Raises:
        StartupError: vLLM would refuse to start; `KVCacheTooSmall` where a request does not fit.
        InputError: cgplan does not model these layers.
        ValueError: not as many memories as stages.
    """
    return plan_groups(grouped(stages, settings), available_bytes, settings)


def plan_groups(made: GroupedLayers, available_bytes: Sequence[int], settings: PlanningSettings) -> KVCachePlan:
    """The same, of layers that are in groups already."""
    if len(made.ranks) != len(available_bytes):
        raise ValueError(f"{len(made.ranks)} pipeline stages, but {len(available_bytes)} memories")
    layout = made.rules.layout
    if not made.groups:
        length = settings.limits.max_model_len
        return KVCachePlan((), layout, made.bytes_per_block, 1, settings.block_size, length, None, None, 0)
    pool = _Pool(made, settings)
    blocks, limits = pool.size(available_bytes)
    return _report(made.groups, made.ranks, blocks, limits, pool, layout)


class _Pool:
    """The pools of all ranks, and the checks on them."""

    def __init__(self, made: GroupedLayers, settings: PlanningSettings) -> None:
        self.ranks = made.ranks
        self.rules = made.rules
        self.settings = settings
        self.found = list(made.warnings)
        self.bytes_per_block = made.bytes_per_block

    def size(self, available_bytes: Sequence[int]) -> tuple[int, RequestLimits]:
        """Blocks of every rank, and the limits with the final length."""
        how, override = self.rules.facts["blocks"], self.settings.num_gpu_blocks_override
        available = list(available_bytes)
        self._check_stages()
        if override is not None:
            self._note_override(available, override)
            if how["override_before_checks"]:
                available = [override * size for size in self.bytes_per_block]
        usable = available
        if how["keeps_null_block"]:
            usable = [memory - size for memory, size in zip(available, self.bytes_per_block, strict=True)]
        limits = self.settings.limits
        if self.settings.auto_fit:
            limits = self._fitted(usable)
        for number, (groups, memory) in enumerate(zip(self.ranks, usable, strict=True), 1):
            stage = f" on pipeline stage {number} of {len(self.ranks)}" if len(self.ranks) > 1 else ""
            self._check(groups, memory, limits, stage)
        if override is not None:
            return override, limits
        return min(memory // size for memory, size in zip(available, self.bytes_per_block, strict=True)), limits

    def _check_stages(self) -> None:
        """Each stage divides its memory by what a block takes there."""
        empty = next((number for number, size in enumerate(self.bytes_per_block, 1) if size == 0), None)
        if empty is not None:
            raise load_error(
                PARTITION,
                f"pipeline stage {empty} of {len(self.ranks)} has no layer that keeps anything, so it has no block",
                where="--pipeline-parallel-size",
                raised_in="get_kv_cache_configs",
                raised_as="AssertionError",
                fix="use no more pipeline stages than the model has layers",
            )

    def _note_override(self, available: Sequence[int], override: int) -> None:
        for memory, size in zip(available, self.bytes_per_block, strict=True):
            message = f"{override} blocks instead of the {max(memory // size, 0)} that the memory holds"
            severity = "warning" if override > memory // size else "info"
            self.found.append(Finding(OVERRIDE.code, severity, message, OVERRIDE.instead, "--num-gpu-blocks-override"))

    def _fitted(self, usable: Sequence[int]) -> RequestLimits:
        limits = self.settings.limits
        longest = min(
            longest_request(groups, memory, limits, self.rules)
            for groups, memory in zip(self.ranks, usable, strict=True)
        )
        if longest <= 0:
            raise StartupError(
                "not one token fits into the KV cache, so no length can be found",
                code=NOTHING_TO_FIT.code,
                stage="initialize_kv_caches",
                raised_as="ValueError",
                raised_in="_auto_fit_max_model_len",
                where="--max-model-len",
                fix=NOTHING_TO_FIT.instead,
            )
        return replace(limits, max_model_len=longest)

    def _check(self, groups: Sequence[KVCacheGroup], memory: int, limits: RequestLimits, stage: str) -> None:
        if memory <= 0:
            raise StartupError(
                f"no memory is left for the KV cache{stage}",
                code=NO_MEMORY.code,
                stage="initialize_kv_caches",
                raised_as="ValueError",
                raised_in="_check_enough_kv_cache_memory",
                where="--gpu-memory-utilization",
                fix=NO_MEMORY.instead,
            )
        needed = bytes_of_request(groups, limits, self.rules)
        if needed > memory:
            estimate = longest_request(groups, memory, limits, self.rules)
            raise KVCacheTooSmall(limits.max_model_len, needed, memory, estimate, stage)


def _report(
    groups: Sequence[KVCacheGroup],
    ranks: Sequence[Sequence[KVCacheGroup]],
    num_blocks: int,
    limits: RequestLimits,
    pool: _Pool,
    layout: KVCacheLayout | None,
) -> KVCachePlan:
    """The numbers that vLLM logs, reckoned for the groups of the first stage."""
    rules, settings = pool.rules, pool.settings
    facts = rules.facts
    heads = [_scheduler_spec(group.spec) for group in ranks[0]]
    planned = tuple(
        PlannedGroup(
            group.layer_names,
            tuple(len(rank[i].layer_names) for rank in ranks),
            ranks[0][i].spec,
            blocks_of_request(heads[i], limits, rules),
        )
        for i, group in enumerate(groups)
    )
    reported = heads if facts["capacity"]["of_scheduler"] else [group.spec for group in ranks[0]]
    per_request = _blocks_per_request(reported, limits, rules)
    concurrency = num_blocks / per_request
    tokens = int(concurrency * limits.max_model_len)
    if facts["capacity"]["tokens"] == "blocks":
        tokens = num_blocks // len(heads) * min(spec.block_size for spec in heads) * limits.context_shards
    layers = [spec for rank in ranks for group in rank for spec in group.layer_specs]
    block_size = _block_size(heads, facts)
    steps, refusal = _prefix_steps(heads, block_size, settings, facts)
    return KVCachePlan(
        groups=planned,
        layout=layout,
        bytes_per_block=pool.bytes_per_block,
        num_blocks=num_blocks,
        block_size=block_size,
        max_model_len=limits.max_model_len,
        tokens=tokens,
        max_concurrency=concurrency,
        blocks_per_request=per_request,
        tp_replicas=tensor_parallel_replicas(layers, settings.tensor_parallel_size, rules),
        prefix_steps=steps,
        refusal=refusal,
        warnings=tuple(pool.found),
    )


def _prefix_steps(
    heads: Sequence[KVCacheSpec], block_size: int, settings: PlanningSettings, facts: Facts
) -> tuple[PrefixSteps | None, StartupError | None]:
    """The steps, or why there are none. Since 0.32 they belong to the sizing, and the refusal is raised."""
    try:
        steps = prefix_steps(
            heads,
            block_size,
            settings.limits.context_shards,
            settings.prefix_caching,
            settings.has_connector,
            facts,
        )
    except StartupError as error:
        if facts["prefix_cache"]["within_sizing"]:
            raise
        return None, error
    return steps, None


def _scheduler_spec(spec: GroupSpec) -> KVCacheSpec:
    return spec.first_spec if isinstance(spec, UniformTypeKVCacheSpecs) else spec


def _blocks_per_request(specs: Sequence[GroupSpec], limits: RequestLimits, rules: PoolRules) -> int:
    blocks = [blocks_of_request(spec, limits, rules) for spec in specs]
    if rules.facts["capacity"]["per_request"] == "sum over groups":
        return sum(blocks)
    # Until 0.26 the bytes of all groups were counted in pages of the first.
    usage = sum(count * spec.page_size_bytes for count, spec in zip(blocks, specs, strict=True))
    return -(-usage // specs[0].page_size_bytes)


def _block_size(specs: Sequence[KVCacheSpec], facts: Facts) -> int:
    sizes = [spec.block_size for spec in specs]
    if facts["capacity"]["block_size_leaves_out_uncacheable"]:
        sizes = [spec.block_size for spec in specs if spec.prefix_cacheable] or sizes
    return min(sizes)
