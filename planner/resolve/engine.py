"""The working copy of vLLM's configuration while the pipeline runs over it.

Rules read it and change it only through `set`, which notes the decision. Field names are vLLM's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..deployment import Deployment
from ..env_switches import int_switch
from ..releases import facts, holds
from ..trace import Rule, Trace
from ..vocabulary import CompilationMode, CUDAGraphMode, Runner
from .dynamic_sd import Steps
from .speculation import Speculation

Passes = dict[str, bool]


class Engine:
    """Mutable; one `resolve` call owns it. None means: not set yet, as in vLLM."""

    __slots__ = (
        "all2all_backend",
        "async_scheduling",
        "backend",
        "batch_invariant",
        "breakable",
        "breakable_env",
        "compile_ranges_endpoints",
        "compile_sizes",
        "cudagraph_capture_sizes",
        "cudagraph_mode",
        "cudagraph_num_of_warmups",
        "custom_ops",
        "data_parallel_size",
        "deployment",
        "dtype",
        "enable_chunked_prefill",
        "facts",
        "long_prefill_token_threshold",
        "max_cudagraph_capture_size",
        "max_loras",
        "max_model_len",
        "max_num_active_seqs",
        "max_num_batched_tokens",
        "max_num_scheduled_tokens",
        "max_num_seqs",
        "mode",
        "optimization_level",
        "passes",
        "performance_mode",
        "release",
        "requested_mode",
        "runner_type",
        "sp_min_token_num",
        "speculation",
        "splitting_ops",
        "trace",
        "use_inductor_graph_partition",
        "v2_forced",
    )

    def __init__(self, deployment: Deployment, release: str, trace: Trace) -> None:
        d, cc = deployment, deployment.compilation_config
        self.deployment = d
        self.release = release
        self.trace = trace
        self.facts: Mapping[str, Any] = facts("pipeline", release)
        self.runner_type: str = d.model.runner_type if d.runner == "auto" else d.runner
        self.dtype: str = d.model.dtype
        self.max_model_len: int = d.model.max_model_len
        self.max_num_seqs: int = d.max_num_seqs or 0
        self.max_num_batched_tokens: int = d.max_num_batched_tokens or 0
        self.max_num_scheduled_tokens: int | None = d.max_num_scheduled_tokens
        self.max_num_active_seqs: int | None = d.max_num_active_seqs
        self.long_prefill_token_threshold: int = d.long_prefill_token_threshold
        self.enable_chunked_prefill: bool = d.model.chunked_prefill_default
        if d.enable_chunked_prefill is not None:
            self.enable_chunked_prefill = d.enable_chunked_prefill
        self.async_scheduling: bool = True
        self.optimization_level: int = 2 if d.optimization_level is None else d.optimization_level
        self.performance_mode: str = d.performance_mode or "balanced"
        self.mode: CompilationMode | None = cc.mode
        self.backend: str = cc.backend or "inductor"
        self.custom_ops: list[str] = list(cc.custom_ops)
        self.splitting_ops: list[str] | None = self._given_splitting_ops()
        self.use_inductor_graph_partition: bool = bool(cc.use_inductor_graph_partition)
        self.cudagraph_mode: CUDAGraphMode | None = cc.cudagraph_mode
        self.requested_mode: CUDAGraphMode | None = cc.cudagraph_mode
        sizes = d.cudagraph_capture_sizes if cc.cudagraph_capture_sizes is None else cc.cudagraph_capture_sizes
        largest = cc.max_cudagraph_capture_size
        self.cudagraph_capture_sizes: list[int] | None = None if sizes is None else list(sizes)
        self.max_cudagraph_capture_size: int | None = d.max_cudagraph_capture_size if largest is None else largest
        self.cudagraph_num_of_warmups: int = cc.cudagraph_num_of_warmups or 0
        self.compile_sizes: list[int] = []
        self.compile_ranges_endpoints: list[int] = []
        self.passes: Passes = {}
        self.batch_invariant: bool = bool(int_switch(d.env, "VLLM_BATCH_INVARIANT"))
        self.breakable_env: str | None = d.env.get("VLLM_USE_BREAKABLE_CUDAGRAPH")
        self.breakable: bool = self.breakable_env == "1" and self.facts["breakable"]["exists"]
        self.all2all_backend: str = d.all2all_backend or "allgather_reducescatter"
        if self.all2all_backend in ("naive", "pplx"):
            self.all2all_backend = "allgather_reducescatter"
        self.data_parallel_size: int = d.data_parallel_size
        self.speculation: Speculation | None = None
        self.max_loras: int | None = d.max_loras if d.enable_lora else None
        self.sp_min_token_num: int | None = cc.pass_config.sp_min_token_num
        self.v2_forced: bool | None = None

    def has(self, rule: Rule) -> bool:
        """Whether the release has `rule`."""
        return holds(self.release, rule.since, rule.until)

    def set(self, rule: Rule, field: str, after: Any, why: str | None = None) -> None:
        """Change `field` and note which rule did it; nothing is noted when it already has that value."""
        before = getattr(self, field)
        if before == after and type(before) is type(after):
            return
        setattr(self, field, after)
        self.trace.decide(rule, field, plain(before), plain(after), why)

    @property
    def sizes_are_named(self) -> bool:
        """The user listed the capture sizes."""
        d = self.deployment
        return (d.cudagraph_capture_sizes, d.compilation_config.cudagraph_capture_sizes) != (None, None)

    @property
    def graph_mode(self) -> CUDAGraphMode:
        """The CUDA graph mode once the level defaults have filled it in."""
        mode = self.cudagraph_mode
        assert mode is not None
        return mode

    @property
    def query_len(self) -> int:
        """Tokens of each request in a uniform decode batch (vllm/config/vllm.py:694-713)."""
        return 1 + self.num_speculative_tokens

    def decode_query_len(self, runner: Runner) -> int:
        """Tokens of a request in the runner's decode graphs; V2 adds no token to the canvas of a diffusion model."""
        if runner is Runner.V2 and self.speculation is None and self.num_speculative_tokens:
            return self.num_speculative_tokens
        return self.query_len

    @property
    def num_speculative_tokens(self) -> int:
        if self.speculation is not None:
            return self.speculation.num_speculative_tokens
        return (self.deployment.model.canvas_length or 0) if self.facts["speculative"]["counts_canvas"] else 0

    @property
    def schedule(self) -> Steps | None:
        return self.speculation.steps if self.speculation is not None else None

    @property
    def use_ubatching(self) -> bool:
        return self.deployment.enable_dbo or self.deployment.ubatch_size > 1

    @property
    def num_ubatches(self) -> int:
        return 2 if self.deployment.enable_dbo else self.deployment.ubatch_size

    @property
    def attention_ops(self) -> list[str]:
        ops: list[str] = self.facts["splitting"]["attention_ops"]
        return ops

    def reset_sizes(self, rule: Rule) -> None:
        """No graph, no size."""
        self.set(rule, "max_cudagraph_capture_size", 0)
        self.set(rule, "cudagraph_capture_sizes", [])

    def _given_splitting_ops(self) -> list[str] | None:
        given = self.deployment.compilation_config.splitting_ops
        if given is None:
            return None
        ops: list[str] = []
        for op in given:
            ops += self.attention_ops if op == "<attention_ops>" else [op]
        return ops


def plain(value: Any) -> Any:
    """`value` as a JSON value: enums by name, sequences as lists."""
    if isinstance(value, (CUDAGraphMode, CompilationMode)):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
