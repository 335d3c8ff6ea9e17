"""The CUDA graph mode before the attention backend is known: VllmConfig.__post_init__, in its order.

Source: vllm/config/vllm.py:1766-2096, 1129-1149 @ 0.33.0. Each function is one step; `pipeline.py` knows the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CompilationMode, CUDAGraphMode, Runner

if TYPE_CHECKING:
    from .engine import Engine

ENFORCE_EAGER = Rule(
    "CG203",
    title="--enforce-eager switches compilation and CUDA graphs off, whatever else was asked.",
    why="Eager mode is for debugging and for the least memory.",
    example="--enforce-eager with cudagraph_mode FULL: NONE, without an error.",
    instead="Drop --enforce-eager.",
    source="vllm/config/vllm.py:1766-1784",
)
COMPILE_DISABLED = Rule(
    "CG204",
    title="TORCH_COMPILE_DISABLE=1 switches compilation off.",
    why="It is torch's own switch.",
    example="With the default mode FULL_DECODE_ONLY is left.",
    instead="Unset TORCH_COMPILE_DISABLE.",
    source="vllm/config/vllm.py:1786-1791",
    since="0.20.2",
)
NO_PIECEWISE = Rule(
    "CG206",
    title="Without VLLM_COMPILE there are no PIECEWISE graphs: PIECEWISE becomes NONE, FULL_AND_PIECEWISE "
    "FULL_DECODE_ONLY.",
    why="The compiler cuts the model into pieces; nothing else does, but for breakable graphs.",
    example="-cc.mode=none with the default mode: FULL_DECODE_ONLY.",
    instead="Leave -cc.mode unset, or set VLLM_USE_BREAKABLE_CUDAGRAPH=1.",
    source="vllm/config/vllm.py:1129-1149",
    since="0.30.0",
)
NO_PIECEWISE_NO_FULL = Rule(
    "CG233",
    title="Without VLLM_COMPILE a mode with PIECEWISE became NONE: the FULL decode graphs went with it.",
    why="The two parts of the mode were not taken apart yet.",
    example="-cc.mode=none with the default mode on 0.29.0: NONE.",
    instead="Ask for FULL_DECODE_ONLY, or use 0.30.0 and later.",
    source="vllm/config/vllm.py, VllmConfig.__post_init__",
    until="0.29.0",
    release="0.29.0",
)
POOLING = Rule(
    "CG207",
    title="Pooling models have no FULL graphs.",
    why="They have no decode steps; a FULL graph would hold no batch that occurs.",
    example="An embedding model with the default mode: PIECEWISE.",
    instead="Nothing to do.",
    source="vllm/config/vllm.py:1952-1961",
)
ENCODER_DECODER = Rule(
    "CG208",
    title="Encoder-decoder models have graphs for decode batches only.",
    why="A step with new encoder output has shapes of its own.",
    example="Whisper with the default mode: FULL_DECODE_ONLY; PIECEWISE is raised to it as well.",
    instead="Set cudagraph_mode NONE to switch graphs off.",
    source="vllm/config/vllm.py:1962-1975",
)
KV_CONNECTOR = Rule(
    "CG209",
    title="A KV connector that works layer by layer allows PIECEWISE graphs only.",
    why="Its transfers start between layers, and a FULL graph leaves no gap there.",
    example="LMCacheConnectorV1 with use_layerwise: PIECEWISE.",
    instead="Drop use_layerwise.",
    source="vllm/config/vllm.py:1978-2001",
)
NO_GRAPHS_PLATFORM = Rule(
    "CG210",
    title="This platform has no CUDA graphs.",
    why="Graph capture is a feature of the GPU runtime.",
    example="CPU: NONE.",
    instead="Nothing to do.",
    source="vllm/config/vllm.py:1950, 2033",
)
STOCK_COMPILE = Rule(
    "CG211",
    title="Runner V2 with stock torch.compile runs without CUDA graphs.",
    why="V1 never wrapped a stock-compiled model either.",
    example="-cc.mode=stock_torch_compile: NONE.",
    instead="Use VLLM_COMPILE, the default.",
    source="vllm/config/vllm.py:3302-3322",
    since="0.32.0",
)
STOCK_COMPILE_V1 = Rule(
    "CG227",
    title="Runner V1 never captures a stock-compiled model, though its mode and keys say otherwise.",
    why="V1 decides when it loads the model, and wraps nothing then.",
    example="-cc.mode=stock_torch_compile on runner V1: every step runs without a graph.",
    instead="Use VLLM_COMPILE, the default.",
    source="vllm/v1/worker/gpu_model_runner.py:5112-5165",
)
PIECEWISE_UNCOMPILED = Rule(
    "CG222",
    title="PIECEWISE graphs need VLLM_COMPILE or breakable graphs.",
    why="Nothing else cuts the model into pieces.",
    example="A mode that still holds PIECEWISE after every rule, without compilation, does not start.",
    instead="Use FULL or FULL_DECODE_ONLY.",
    source="vllm/config/vllm.py:2166-2178",
)
KV_ROLE = Rule(
    "CG235",
    title="kv_transfer_config names a connector and its role, or neither.",
    why="The connector's class decides what it asks of the graphs, and the role whether it is used at all.",
    example='--kv-transfer-config \'{"kv_connector": "NixlConnector"}\' does not start.',
    instead="Give kv_connector and kv_role (kv_producer, kv_consumer or kv_both).",
    source="vllm/config/kv_transfer.py:117-121",
)
HISPARSE_CONNECTOR = Rule(
    "CG236",
    title="HiSparseConnector, alone or inside MultiConnector, turns HiSparse on.",
    why="The connector is what moves its pages.",
    example="kv_connector HiSparseConnector with cudagraph_mode FULL does not start.",
    instead="Leave the connector out, or use FULL_AND_PIECEWISE.",
    source="vllm/config/vllm.py:1876-1881",
    since="0.30.0",
)
ROCM_ENCODER_DECODER = Rule(
    "CG237",
    title="On ROCm encoder-decoder models run eager.",
    why="Their cross-attention has no kernel there that a graph can hold.",
    example="Whisper on MI300X: --enforce-eager is set.",
    instead="Nothing: the platform has no graphs for these models.",
    source="vllm/config/model.py:1487-1496",
)
HISPARSE = Rule(
    "CG218",
    title="HiSparse needs CUDA, a DSA model, no pipeline or context parallelism, and never plain FULL.",
    why="Its host-side page decisions are made between graph replays.",
    example="hisparse_config with cudagraph_mode FULL does not start.",
    instead="Use FULL_AND_PIECEWISE.",
    source="vllm/config/vllm.py:1883-1928",
    since="0.30.0",
)
HISPARSE_NO_FULL = Rule(
    "CG234",
    title="HiSparse refuses plain FULL.",
    why="Its host-side page decisions are made between the replays of decode graphs only.",
    example="hisparse_config with cudagraph_mode FULL does not start from 0.32.0 on.",
    instead="Use FULL_AND_PIECEWISE.",
    source="vllm/config/vllm.py:1898-1903",
    since="0.32.0",
)
ROCM_PCP = Rule(
    "CG228",
    title="ROCm with prefill context parallelism allows PIECEWISE graphs only.",
    why="Its collectives are not capturable.",
    example="--prefill-context-parallel-size 2 on ROCm: PIECEWISE.",
    instead="Nothing to do.",
    source="vllm/platforms/rocm.py:1169-1185",
)
ROCM_DCP = Rule(
    "CG248",
    title="ROCm with decode context parallelism allowed PIECEWISE graphs only.",
    why="FULL graphs were not made to work with it there; on CUDA what the attention backend supports counts.",
    example="--decode-context-parallel-size 2 on ROCm with 0.28.0: PIECEWISE.",
    instead="Use 0.29.0 and later.",
    source="vllm/platforms/rocm.py, check_and_update_config",
    release="0.28.0",
    until="0.28.0",
)
CPU_COMPILE = Rule(
    "CG229",
    title="On CPU, VLLM_COMPILE becomes DYNAMO_TRACE_ONCE, and LoRA switches compilation off.",
    why="Piecewise compilation is made for graphs, which a CPU does not have.",
    example="CPU: DYNAMO_TRACE_ONCE.",
    instead="Nothing to do.",
    source="vllm/platforms/cpu.py:367-397",
)


def apply_eager(engine: Engine) -> None:
    """Steps 3.2 and 3.3."""
    d = engine.deployment
    if d.model.is_encoder_decoder and d.gpu.platform == "rocm" and not d.enforce_eager:
        engine.set(ROCM_ENCODER_DECODER, "mode", CompilationMode.NONE)
        engine.set(ROCM_ENCODER_DECODER, "cudagraph_mode", CUDAGraphMode.NONE)
    if d.enforce_eager:
        engine.set(ENFORCE_EAGER, "mode", CompilationMode.NONE)
        engine.set(ENFORCE_EAGER, "cudagraph_mode", CUDAGraphMode.NONE)
    if engine.has(COMPILE_DISABLED) and engine.deployment.env.get("TORCH_COMPILE_DISABLE") == "1":
        engine.set(COMPILE_DISABLED, "mode", CompilationMode.NONE)


def uses_hisparse(engine: Engine) -> bool:
    """hisparse_config is given, or a connector asks for it."""
    d = engine.deployment
    if not engine.has(HISPARSE):
        return False
    if d.attention_config.hisparse_config is not None:
        return True
    transfer = d.kv_transfer_config
    if transfer is None or not engine.has(HISPARSE_CONNECTOR):
        return False
    named = [transfer.kv_connector]
    if transfer.kv_connector in engine.facts["kv_connectors"]["multi"]:
        children = transfer.kv_connector_extra_config.get("connectors", [])
        named += [child.get("kv_connector") for child in children if isinstance(child, Mapping)]
    return "HiSparseConnector" in named


def normalise_piecewise(engine: Engine) -> None:
    """Steps 3.12 and 3.20."""
    mode = engine.graph_mode
    if not mode.has_piecewise or engine.mode is CompilationMode.VLLM_COMPILE or engine.breakable:
        return
    if engine.has(NO_PIECEWISE_NO_FULL):
        engine.set(NO_PIECEWISE_NO_FULL, "cudagraph_mode", CUDAGraphMode.NONE)
        return
    engine.set(NO_PIECEWISE, "cudagraph_mode", mode.without_piecewise)
    if engine.cudagraph_mode is CUDAGraphMode.NONE:
        engine.reset_sizes(NO_PIECEWISE)


def has_static_graphs(engine: Engine) -> bool:
    """Step 3.13."""
    return engine.deployment.gpu.platform in ("cuda", "rocm", "xpu")


def apply_model_kind(engine: Engine) -> None:
    """Steps 3.14 and 3.15."""
    mode = engine.graph_mode
    if mode.has_full and engine.runner_type == "pooling":
        engine.set(POOLING, "cudagraph_mode", CUDAGraphMode.PIECEWISE)
    elif engine.deployment.model.is_encoder_decoder and mode not in (
        CUDAGraphMode.NONE,
        CUDAGraphMode.FULL_DECODE_ONLY,
    ):
        engine.set(ENCODER_DECODER, "cudagraph_mode", CUDAGraphMode.FULL_DECODE_ONLY)


def check_kv_connector(engine: Engine) -> None:
    """KVTransferConfig's own check, and what the connector factory says of a config without a connector."""
    transfer = engine.deployment.kv_transfer_config
    if transfer is None or (transfer.kv_connector is None) == (transfer.kv_role is None):
        return
    missing = "kv_role" if transfer.kv_role is None else "kv_connector"
    raise StartupError(
        f"kv_transfer_config has no {missing}",
        code=KV_ROLE.code,
        where=f"kv_transfer_config.{missing}",
        fix=KV_ROLE.instead,
    )


def apply_kv_connector(engine: Engine) -> None:
    """Step 3.16."""
    transfer = engine.deployment.kv_transfer_config
    if transfer is None or transfer.kv_connector is None:
        return
    if not engine.graph_mode.has_full:
        return
    if demands_piecewise(transfer.kv_connector, transfer.kv_connector_extra_config, engine.facts["kv_connectors"]):
        engine.set(KV_CONNECTOR, "cudagraph_mode", CUDAGraphMode.PIECEWISE)


def demands_piecewise(connector: str, extra: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether `connector`, or a child of it, works layer by layer."""
    key = facts["layerwise"].get(connector)
    if key is not None:
        return bool(extra.get(key, False))
    children = extra.get(facts["multi"].get(connector, ""), ())
    if not isinstance(children, (list, tuple)):
        return False
    return any(isinstance(child, Mapping) and _child_demands(child, facts) for child in children)


def _child_demands(child: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    inner = child.get("kv_connector_extra_config")
    return demands_piecewise(str(child.get("kv_connector")), inner if isinstance(inner, Mapping) else {}, facts)


def settle_eager(engine: Engine) -> None:
    """Step 3.17."""
    if engine.deployment.enforce_eager:
        engine.set(ENFORCE_EAGER, "cudagraph_mode", CUDAGraphMode.NONE)
        engine.reset_sizes(ENFORCE_EAGER)
    else:
        engine.cudagraph_num_of_warmups = 1


def apply_platform(engine: Engine) -> None:
    """Step 3.19 for the platforms that change modes."""
    d = engine.deployment
    with_dcp = engine.has(ROCM_DCP) and d.decode_context_parallel_size > 1
    if d.gpu.platform == "rocm" and with_dcp and engine.graph_mode.has_full:
        engine.set(ROCM_DCP, "cudagraph_mode", CUDAGraphMode.PIECEWISE)
    if d.gpu.platform == "rocm" and d.prefill_context_parallel_size > 1 and engine.graph_mode.has_full:
        engine.set(ROCM_PCP, "cudagraph_mode", CUDAGraphMode.PIECEWISE)
    if d.gpu.platform == "cpu":
        engine.reset_sizes(CPU_COMPILE)
        if engine.mode is CompilationMode.VLLM_COMPILE:
            engine.set(CPU_COMPILE, "mode", CompilationMode.DYNAMO_TRACE_ONCE)
        if engine.max_loras is not None:
            engine.set(CPU_COMPILE, "mode", CompilationMode.NONE)


def apply_stock_compile(engine: Engine, runner: Runner) -> None:
    """Step 3.21, and what V1 does silently."""
    if engine.mode is not CompilationMode.STOCK_TORCH_COMPILE or engine.graph_mode is CUDAGraphMode.NONE:
        return
    if runner is Runner.V2:
        if not engine.has(STOCK_COMPILE):
            return
        engine.set(STOCK_COMPILE, "cudagraph_mode", CUDAGraphMode.NONE)
        engine.reset_sizes(STOCK_COMPILE)
    else:
        engine.trace.find(
            STOCK_COMPILE_V1,
            "warning",
            f"runner V1 captures no graph of a stock-compiled model; {engine.graph_mode} stays a name",
            fix=STOCK_COMPILE_V1.instead,
            where="-cc.mode",
        )


def check_piecewise(engine: Engine) -> None:
    """Step 3.26."""
    if engine.deployment.gpu.platform not in ("cuda", "rocm"):
        return
    compiled = engine.mode is CompilationMode.VLLM_COMPILE
    if engine.graph_mode.has_piecewise and not compiled and not engine.breakable:
        raise StartupError(
            f"cudagraph_mode {engine.graph_mode} needs VLLM_COMPILE",
            code=PIECEWISE_UNCOMPILED.code,
            where="-cc.cudagraph_mode",
            fix=PIECEWISE_UNCOMPILED.instead,
        )


def check_hisparse(engine: Engine) -> None:
    """Step 3.11."""
    d = engine.deployment
    if not uses_hisparse(engine):
        return
    problem = None
    if d.gpu.platform != "cuda":
        problem = "needs NVIDIA CUDA"
    elif d.pipeline_parallel_size > 1:
        problem = "does not work with pipeline parallelism"
    elif d.decode_context_parallel_size > 1:
        problem = "does not work with decode context parallelism"
    elif engine.has(HISPARSE_NO_FULL) and engine.cudagraph_mode is CUDAGraphMode.FULL:
        problem = "does not work with cudagraph_mode FULL"
    elif d.model.index_topk is None:
        problem = "needs a DSA model (index_topk)"
    if problem is not None:
        raise StartupError(
            f"HiSparse {problem}", code=HISPARSE.code, where="attention_config.hisparse_config", fix=HISPARSE.instead
        )
