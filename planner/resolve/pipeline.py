"""The order of the rules: the one module that knows it.

`configure` is vLLM's EngineArgs.create_engine_config and VllmConfig.__post_init__; what the worker does once the
attention backends are known stands in `settle.py`. Step numbers follow docs/architecture.md.
"""

from __future__ import annotations

from ..deployment import Deployment
from ..errors import InputError, StartupError
from ..releases import canonical
from ..trace import Rule, Trace
from ..vocabulary import CUDAGraphMode
from . import (
    architectures,
    cache_checks,
    compile_ranges,
    defaults,
    grid,
    hooks,
    levels,
    mode,
    names,
    parallel,
    runner,
    sequence_parallel,
    spec_config,
    spec_decode,
    splitting,
    summary,
)
from .engine import Engine
from .overrides import NONE, Overrides
from .resolution import Resolution
from .settle import settle

LORA_DRAFT_TOKENS = Rule(
    "CG412",
    title="With LoRA and speculative decoding, max_num_batched_tokens must hold every sequence with its drafts.",
    why="LoRA's buffers are sized for that batch.",
    example="--enable-lora --max-num-seqs 1024 --max-num-batched-tokens 2048 with 3 draft tokens does not start.",
    instead="Raise --max-num-batched-tokens to max_num_seqs x (1 + num_speculative_tokens).",
    source="vllm/engine/arg_utils.py:2711-2724",
)
SAID_TWICE = Rule(
    "CG125",
    title="A setting is given once: as a flag of its own or inside its config, not both.",
    why="vLLM refuses to choose between the two.",
    example="--cudagraph-capture-sizes 1 2 and -cc.cudagraph_capture_sizes='[1, 2]' do not start together.",
    instead="Drop one of the two.",
    source="vllm/engine/arg_utils.py:2727-2736, 2834-2849",
)


def resolve(deployment: Deployment, overrides: Overrides = NONE) -> Resolution:
    """The CUDA graphs that vLLM will capture for `deployment`, and why.

    Deterministic and without I/O but for cgplan's own data files.

    Raises:
        InputError: the release, a backend or an environment value is unknown, or `deployment` is no Deployment.
        StartupError: vLLM would refuse to start; it says at which stage.
    """
    if not isinstance(deployment, Deployment):
        raise InputError(
            f"resolve takes a Deployment, got {type(deployment).__name__}",
            code="CG903",
            where="deployment",
            fix="make one: Deployment(max_num_seqs=256)",
        )
    trace = Trace()
    engine = configure(deployment, trace)
    try:
        return settle(engine, overrides)
    except StartupError as error:
        error.settings = summary.settings(engine, runner.choose(engine))
        raise


def configure(deployment: Deployment, trace: Trace) -> Engine:
    """The engine's configuration before the attention backend is known."""
    release = canonical(deployment.vllm)
    deployment = architectures.as_of(deployment, release)
    engine = Engine(deployment, release, trace)
    engine.v2_forced = runner.forced_by_environment(engine)
    levels.check_compilation(engine)
    architectures.check(engine)
    names.check(engine)
    defaults.set_dtype(engine)
    defaults.set_max_model_len(engine)
    parallel.check_world(engine)
    if deployment.speculative_config is not None:
        architectures.check_later(engine)  # a draft of the model is refused where it is read
    spec_config.read(engine)
    defaults.set_batch_limits(engine)
    defaults.check_scheduler(engine)
    _check_lora_budget(engine)
    _check_said_once(deployment)
    _post_init(engine)
    return engine


def _post_init(engine: Engine) -> None:
    """VllmConfig.__post_init__, section 3 of the reference, step by step."""
    d = engine.deployment
    mode.check_kv_connector(engine)
    hooks.apply_architecture(engine)
    defaults.check_kv_cache_dtype(engine)
    architectures.check_pipeline(d.model.architecture, d.pipeline_parallel_size, release=engine.release)
    cache_checks.check_turboquant(engine)
    parallel.check_model(
        d.model,
        d.tensor_parallel_size,
        "VllmConfig",
        dcp=d.decode_context_parallel_size,
        expert_parallel=d.enable_expert_parallel,
    )
    architectures.check_later(engine)
    architectures.check_lora(engine)
    spec_decode.limit_model_len(engine, runner.choose(engine))
    runner.settle_async_scheduling(engine, runner.choose(engine))
    mode.apply_eager(engine)
    sequence_parallel.drop_for_batch_invariance(engine)
    hooks.apply_breakable(engine)
    levels.apply_mode(engine)
    levels.apply_level(engine)
    if engine.requested_mode is None:
        engine.requested_mode = engine.graph_mode
    spec_decode.apply_dynamic_rules(engine, runner.choose(engine))
    mode.check_hisparse(engine)
    mode.normalise_piecewise(engine)
    sequence_parallel.settle(engine)
    spec_decode.set_scheduled_tokens(engine)
    if mode.has_static_graphs(engine):
        mode.apply_model_kind(engine)
        mode.apply_kv_connector(engine)
        mode.settle_eager(engine)
        _set_capture_sizes(engine)
    else:
        engine.set(mode.NO_GRAPHS_PLATFORM, "cudagraph_mode", CUDAGraphMode.NONE)
    mode.apply_platform(engine)
    if engine.has(mode.NO_PIECEWISE):
        mode.normalise_piecewise(engine)
    chosen = runner.choose(engine)
    mode.apply_stock_compile(engine, chosen)
    runner.check(engine, chosen)
    spec_decode.check_adaptive_verification(engine)
    compile_ranges.set_ranges(engine)
    parallel.apply_moonep(engine)
    splitting.apply(engine)
    sequence_parallel.add_rms_norm(engine)
    mode.check_piecewise(engine)
    parallel.check_ubatching(engine)
    levels.enable_quant_fp8_again(engine)
    cache_checks.check(engine)


def _set_capture_sizes(engine: Engine) -> None:
    """Step 3.18."""
    invalid = spec_decode.settle_schedule(engine)
    if engine.deployment.enforce_eager or engine.graph_mode is CUDAGraphMode.NONE:
        engine.max_cudagraph_capture_size = 0
        engine.cudagraph_capture_sizes = []
    else:
        facts, d = engine.facts["grid"], engine.deployment
        cap = facts["platform_cap"]["sm10" if d.gpu.major == 10 and d.gpu.platform == "cuda" else "default"]
        given = grid.GridInput(
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            query_len=engine.query_len,
            platform_cap=cap,
            interactivity=engine.performance_mode == "interactivity",
            user_sizes=engine.cudagraph_capture_sizes,
            user_max=engine.max_cudagraph_capture_size,
            tiers=grid.decode_tiers(
                engine.query_len, engine.max_num_seqs, engine.schedule if invalid is None else None
            ),
            append_off_grid=facts["append_off_grid"],
            append_uniform_decode=facts["append_uniform_decode"],
            multiple_of=d.tensor_parallel_size if sequence_parallel.is_on(engine) else 1,
            append_batched_tokens=facts["append_batched_tokens"],
        )
        sizes = grid.capture_sizes(given, engine.trace)
        engine.cudagraph_capture_sizes = sizes
        engine.max_cudagraph_capture_size = sizes[-1] if sizes else 0
    compile_ranges.expand_compile_sizes(engine)


def _check_lora_budget(engine: Engine) -> None:
    speculation = engine.speculation
    if engine.max_loras is None or speculation is None:
        return
    needed = engine.max_num_seqs * (speculation.num_speculative_tokens + 1)
    if engine.max_num_batched_tokens < needed:
        raise StartupError(
            f"max_num_batched_tokens {engine.max_num_batched_tokens} is below the {needed} tokens of a full decode "
            "batch with drafts, which LoRA needs",
            code=LORA_DRAFT_TOKENS.code,
            raised_as="ValueError",
            raised_in="EngineArgs",
            where="--max-num-batched-tokens",
            fix=f"set --max-num-batched-tokens {needed}, or lower --max-num-seqs or --spec-tokens",
        )


def _check_said_once(deployment: Deployment) -> None:
    d, cc = deployment, deployment.compilation_config
    for flag, outer, inner in (
        ("--attention-backend", d.attention_backend, d.attention_config.backend),
        ("--cudagraph-capture-sizes", d.cudagraph_capture_sizes, cc.cudagraph_capture_sizes),
        ("--max-cudagraph-capture-size", d.max_cudagraph_capture_size, cc.max_cudagraph_capture_size),
    ):
        if outer is not None and inner is not None:
            raise StartupError(
                f"{flag} is given twice: as a flag and inside its config",
                code=SAID_TWICE.code,
                raised_as="ValueError",
                raised_in="EngineArgs",
                where=flag,
                fix=SAID_TWICE.instead,
            )
