"""Parallelism: what combinations start, and where they cost CUDA graphs.

Source: vllm/config/parallel.py, vllm/config/model.py:1498-1610, vllm/config/vllm.py:2107-2206 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..errors import StartupError
from ..model_shape import ModelShape
from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode
from . import cliffs
from .padding import round_up

if TYPE_CHECKING:
    from .engine import Engine

DEEPEP_HIGH_THROUGHPUT = Rule(
    "CG601",
    title="DeepEP high-throughput kernels under data parallelism switch CUDA graphs off.",
    why="They decide on the host how many tokens each rank sends, which no graph can hold.",
    example="A MoE model with --all2all-backend deepep_high_throughput and --data-parallel-size 2: NONE.",
    instead="Use deepep_low_latency, nixl_ep or allgather_reducescatter for decode.",
    source="vllm/config/compilation.py:1240-1258",
)
MOONEP = Rule(
    "CG602",
    title="MoonEP switches CUDA graphs off wherever all-to-all is used.",
    why="Its dispatch and combine steps run eager only.",
    example="--all2all-backend moonep with --data-parallel-size 2: NONE.",
    instead="Use another --all2all-backend.",
    source="vllm/config/vllm.py:2107-2152",
    since="0.31.0",
)
UBATCH_BACKEND = Rule(
    "CG603",
    title="Microbatching works with DeepEP and NIXL all-to-all only.",
    why="Overlap needs kernels that can be split into a send and a receive half.",
    example="--enable-dbo with allgather_reducescatter does not start.",
    instead="Add --all2all-backend deepep_low_latency.",
    source="vllm/config/vllm.py:2180-2206",
)
UBATCH_THRESHOLD = Rule(
    "CG604",
    title="A microbatch holds at least one token.",
    why="A batch below the number of microbatches cannot be split.",
    example="--enable-dbo --dbo-decode-token-threshold 1 does not start.",
    instead="Set both thresholds to 2 or more.",
    source="vllm/config/parallel.py:1262-1275",
    since="0.30.0",
)
WORLD_SIZE = Rule(
    "CG605",
    title="The ranks of one replica must fit the GPUs of the node, or more nodes be named.",
    why="Without an executor for several nodes every rank is started here.",
    example="--tensor-parallel-size 16 on a node of 8 GPUs does not start.",
    instead="Lower --tensor-parallel-size, give the server more GPUs, or name several nodes with --nnodes or "
    "--distributed-executor-backend ray.",
    source="vllm/config/parallel.py:1183-1200",
)
HEADS_DIVIDE = Rule(
    "CG606",
    title="Attention heads must divide by the tensor parallel size.",
    why="Each rank holds whole heads.",
    example="28 heads and --tensor-parallel-size 8 do not start.",
    instead="Choose a tensor parallel size that divides the heads.",
    source="vllm/config/model.py:1557-1564",
)
VOCABULARY_PADDING = 64
"""Entries that vLLM pads a vocabulary to a multiple of."""

VOCABULARY_DIVIDES = Rule(
    "CG615",
    title="The vocabulary, padded to a multiple of 64, must divide by the tensor parallel size.",
    why="Each rank holds an equal share of the embedding; the worker asserts on it while it loads the model.",
    example="151,936 entries and --tensor-parallel-size 5: the server dies while it loads.",
    instead="Choose a tensor parallel size that divides the padded vocabulary, as a rule a power of two.",
    source="vllm/model_executor/layers/vocab_parallel_embedding.py:304",
)
DCP = Rule(
    "CG607",
    title="Decode context parallelism shares out ranks that would hold copies of the KV heads.",
    why="Only ranks with the same KV head can split its sequence.",
    example="8 KV heads, --tensor-parallel-size 8 and --decode-context-parallel-size 2 do not start.",
    instead="Raise --tensor-parallel-size above the KV heads, or drop the flag.",
    source="vllm/config/model.py:1578-1607",
)
EXPERTS = Rule(
    "CG608",
    title="Expert parallelism needs a mixture-of-experts model.",
    why="There is nothing to spread otherwise.",
    example="Llama with --enable-expert-parallel does not start.",
    instead="Drop --enable-expert-parallel.",
    source="vllm/config/model.py:1498-1503",
)
PCP = Rule(
    "CG611",
    title="Prefill context parallelism runs on runner V2, with MLA models and never with plain FULL.",
    why="Ranks hold different parts of a prefill, so only decode batches can be one graph.",
    example="--prefill-context-parallel-size 2 with cudagraph_mode FULL does not start.",
    instead="Use FULL_AND_PIECEWISE, FULL_DECODE_ONLY, PIECEWISE or NONE.",
    source="vllm/v1/worker/gpu/pcp_manager.py:156-235",
)
MOONEP_NEEDS = Rule(
    "CG612",
    title="MoonEP runs unquantised bfloat16 models only.",
    why="Its kernels know no other type.",
    example="An fp8 checkpoint with --all2all-backend moonep does not start.",
    instead="Use another --all2all-backend.",
    source="vllm/config/vllm.py:2107-2124",
)

PCP_ONE_REPLICA = Rule(
    "CG614",
    title="Prefill context parallelism excluded data parallelism.",
    why="The rank groups of the two overlapped.",
    example="--prefill-context-parallel-size 2 --data-parallel-size 2 on 0.29.0 does not start.",
    instead="Use one of the two, or 0.30.0 and later.",
    source="vllm/config/parallel.py, _validate_parallel_config",
    since="0.26.0",
    until="0.29.0",
    release="0.29.0",
)

BATCHED_MOE_BACKENDS = ("deepep_low_latency", "nixl_ep")


def _fewer_ranks(tp: int, world: int, gpus: int) -> str:
    """How many ranks fit, or how many GPUs are needed; several nodes are a third way, not more GPUs."""
    fewer = gpus // (world // tp)
    lower = f"set --tensor-parallel-size {fewer}, or " if fewer else ""
    return f"{lower}give the server {world} GPUs; where more nodes take part, set --nnodes"


def check_world(engine: Engine) -> None:
    """ParallelConfig's own checks, in its order."""
    d = engine.deployment
    tp, dcp, pcp = d.tensor_parallel_size, d.decode_context_parallel_size, d.prefill_context_parallel_size
    world = tp * d.pipeline_parallel_size * pcp
    if (
        d.distributed_executor_backend is None
        and world * d.data_parallel_size > 1
        and d.nnodes == 1
        and world > d.gpus_per_node
    ):
        _refuse(
            WORLD_SIZE,
            f"{world} ranks do not fit the {d.gpus_per_node} GPUs of this node",
            "--pipeline-parallel-size" if tp == 1 < d.pipeline_parallel_size else "--tensor-parallel-size",
            _fewer_ranks(tp, world, d.gpus_per_node),
        )
    if pcp == 1 and tp % dcp:
        _refuse(
            DCP,
            f"tensor parallel size {tp} does not divide by decode context parallel size {dcp}",
            "--decode-context-parallel-size",
            f"use a divisor of {tp}",
        )
    if engine.has(PCP_ONE_REPLICA) and pcp > 1 and d.data_parallel_size > 1:
        _refuse(
            PCP_ONE_REPLICA,
            "prefill context parallelism does not work with data parallelism",
            "--prefill-context-parallel-size",
            PCP_ONE_REPLICA.instead,
        )
    if pcp > 1 and dcp not in (1, pcp, tp * pcp):
        _refuse(
            DCP,
            f"decode context parallel size {dcp} fits neither 1, {pcp} nor {tp * pcp}",
            "--decode-context-parallel-size",
            f"use one of {', '.join(map(str, sorted({1, pcp, tp * pcp})))}",
        )
    thresholds = (d.dbo_decode_token_threshold, d.dbo_prefill_token_threshold)
    if engine.has(UBATCH_THRESHOLD) and engine.use_ubatching and min(thresholds) < engine.num_ubatches:
        _refuse(
            UBATCH_THRESHOLD,
            f"a token threshold of {min(thresholds)} is below the {engine.num_ubatches} microbatches",
            "--dbo-decode-token-threshold",
            f"set both thresholds to {engine.num_ubatches} or more",
        )


def check_model(model: ModelShape, tp: int, raised_in: str, *, dcp: int = 1, expert_parallel: bool = False) -> None:
    """ModelConfig.verify_with_parallel_config for `model`, target or draft."""
    heads = model.num_attention_heads
    if heads % tp:
        _refuse(
            HEADS_DIVIDE,
            f"{heads} attention heads do not divide by tensor parallel size {tp}",
            "--tensor-parallel-size",
            f"use --tensor-parallel-size {_divisors(heads, model.vocab_size, 16)}" if heads else HEADS_DIVIDE.instead,
            raised_in,
        )
    if expert_parallel and not model.is_moe:
        _refuse(EXPERTS, "the model has no experts", "--enable-expert-parallel", EXPERTS.instead, raised_in)
    if dcp > 1 and not model.use_mla:
        _check_dcp(model, tp, dcp, raised_in)


def _check_dcp(model: ModelShape, tp: int, dcp: int, raised_in: str) -> None:
    kv_heads = model.num_kv_heads
    where = "--decode-context-parallel-size"
    if not kv_heads:
        raise StartupError(
            "decode context parallelism needs attention heads",
            code=DCP.code,
            raised_as="ZeroDivisionError",
            raised_in=raised_in,
            where=where,
            fix="drop --decode-context-parallel-size",
        )
    if tp <= kv_heads:
        what = f"tensor parallel size {tp} is not above the {kv_heads} KV heads"
        _refuse(DCP, f"decode context parallelism: {what}", where, DCP.instead, raised_in)
    most = tp // max(kv_heads, 1)
    if dcp > most:
        _refuse(DCP, f"decode context parallel size {dcp} exceeds {most}", where, f"use at most {most}", raised_in)
    per_kv = model.num_attention_heads // max(kv_heads, 1)
    if per_kv % dcp:
        what = f"{per_kv} query heads a KV head do not divide by decode context parallel size {dcp}"
        _refuse(DCP, what, where, f"use a divisor of {per_kv}", raised_in)


def uses_all2all(engine: Engine) -> bool:
    """ParallelConfig.use_all2all (vllm/config/parallel.py:772-795)."""
    d = engine.deployment
    sequence_parallel_moe = (
        engine.all2all_backend in engine.facts["parallel"]["sequence_parallel_moe"]
        and d.enable_expert_parallel
        and d.tensor_parallel_size > 1
        and d.data_parallel_size > 1
    )
    return (
        d.data_parallel_size > 1
        or sequence_parallel_moe
        or (d.enable_expert_parallel and d.prefill_context_parallel_size > 1)
    )


def uses_batched_dp_moe(engine: Engine) -> bool:
    """ParallelConfig.use_batched_dp_moe (vllm/config/parallel.py:797-806)."""
    d = engine.deployment
    return (
        engine.facts["parallel"]["batched_dp_moe"]
        and engine.all2all_backend in BATCHED_MOE_BACKENDS
        and d.enable_expert_parallel
        and d.data_parallel_size > 1
    )


def apply_moonep(engine: Engine) -> None:
    """Step 3.24."""
    if engine.all2all_backend != "moonep" or not engine.has(MOONEP):
        return
    d = engine.deployment
    quantization = d.quantization or d.model.quantization
    if quantization is not None or engine.dtype != "bfloat16":
        what = f"quantization {quantization}" if quantization is not None else f"dtype {engine.dtype}"
        _refuse(
            MOONEP_NEEDS,
            f"MoonEP does not run with {what}",
            "--all2all-backend",
            MOONEP_NEEDS.instead,
            "VllmConfig",
        )
    if uses_all2all(engine):
        engine.set(MOONEP, "cudagraph_mode", CUDAGraphMode.NONE)


def apply_deepep(engine: Engine) -> None:
    """The last step of the splitting-op rules; reached only under VLLM_COMPILE."""
    parallel = engine.data_parallel_size if engine.deployment.model.is_moe else 1
    if (
        engine.mode is CompilationMode.VLLM_COMPILE
        and engine.all2all_backend == "deepep_high_throughput"
        and parallel > 1
    ):
        engine.set(DEEPEP_HIGH_THROUGHPUT, "cudagraph_mode", CUDAGraphMode.NONE)


def check_ubatching(engine: Engine) -> None:
    """Step 3.27."""
    facts = engine.facts["parallel"]
    known = list(facts["ubatch_backends"])
    if engine.deployment.gpu.platform == "rocm":
        known += facts["rocm_ubatch_backends"]
    if engine.use_ubatching and engine.all2all_backend not in known:
        _refuse(
            UBATCH_BACKEND,
            f"microbatching does not work with all2all backend {engine.all2all_backend}",
            "--all2all-backend",
            f"use one of {', '.join(known)}",
            "VllmConfig",
        )


def check_pcp(engine: Engine, mode: CUDAGraphMode) -> None:
    """What runner V2 checks when prefill context parallelism is on (reference: pcp_manager.validate_config)."""
    d = engine.deployment
    if d.prefill_context_parallel_size <= 1:
        return
    model, sparse = d.model, d.model.index_topk is not None
    problem = None
    if not model.use_mla:
        problem = "needs an MLA model"
    elif model.is_encoder_decoder or model.is_multimodal_model:
        problem = "works neither with encoder-decoder models nor with multimodal input"
    elif engine.max_loras is not None:
        problem = "does not work with LoRA"
    elif not _pcp_speculation_fits(engine):
        problem = "works with DSpark (whose MLA drafts share its ranks) and single-module MTP only"
    elif d.decode_context_parallel_size > 1 and not sparse:
        problem = "together with decode context parallelism needs sparse MLA"
    elif (
        sparse
        and d.decode_context_parallel_size == 1
        and mode is not CUDAGraphMode.NONE
        and model.model_type not in ("deepseek_v32", "glm_moe_dsa")
    ):
        problem = f"of sparse MLA has no CUDA graphs for model type {model.model_type}"
    elif mode is CUDAGraphMode.FULL:
        problem = "does not work with CUDA graph mode FULL"
    if problem is not None:
        raise StartupError(
            f"prefill context parallelism {problem}",
            code=PCP.code,
            stage="v2_runner_init",
            raised_as="NotImplementedError",
            raised_in="PCPManager",
            where="--prefill-context-parallel-size",
            fix=PCP.instead if "graph" in problem else "drop --prefill-context-parallel-size",
        )


def _pcp_speculation_fits(engine: Engine) -> bool:
    speculation = engine.speculation
    if speculation is None:
        return True
    if speculation.method == "dspark":
        d = engine.deployment
        fits = d.decode_context_parallel_size in (1, d.prefill_context_parallel_size)
        return fits or speculation.draft is None or not speculation.draft.use_mla
    return speculation.method == "mtp" and not speculation.is_multi_module_mtp


def note_vocabulary(engine: Engine) -> None:
    """The worker's own check while it loads the model; the configuration passes."""
    model, tp = engine.deployment.model, engine.deployment.tensor_parallel_size
    if round_up(model.vocab_size, VOCABULARY_PADDING) % tp:
        engine.trace.find(
            VOCABULARY_DIVIDES,
            "error",
            f"{model.vocab_size} vocabulary entries do not divide by tensor parallel size {tp}: loading fails",
            fix=f"use -tp {_divisors(model.num_attention_heads, model.vocab_size, 16)}",
            where="--tensor-parallel-size",
        )


def _divisors(heads: int, vocab_size: int, most: int) -> str:
    padded = round_up(vocab_size, VOCABULARY_PADDING)
    return cliffs.listed([n for n in range(1, most + 1) if heads % n == 0 and padded % n == 0], "or")


def _refuse(rule: Rule, what: str, where: str, fix: str | None, raised_in: str = "ParallelConfig") -> NoReturn:
    raise StartupError(what, code=rule.code, raised_in=raised_in, where=where, fix=fix)
