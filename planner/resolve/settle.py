"""What the worker does once the attention backends are known: the final mode, the sizes and the graphs.

Source: vllm/v1/worker/gpu_model_runner.py (V1), vllm/v1/worker/gpu/model_runner.py:676-790 (V2) @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import AttentionCGSupport, CompilationMode, CUDAGraphMode, Runner
from . import (
    compile_ranges,
    downgrade,
    draft_sizes,
    drafter,
    hooks,
    parallel,
    runner,
    runner_v1,
    runner_v2,
    sequence_parallel,
    splitting,
    summary,
)
from .backends import BackendChoice, choose_backends
from .backends.own_kernels import check_own_attention
from .drafter import Drafter
from .dynamic_sd import ScheduleError
from .dynamic_sd import steps as schedule_steps
from .engine import Engine
from .graphs import Captures
from .lora import LORA_CASES, NO_GRAPH_WITHOUT_LORA, LoraPlan, lora_cases
from .overrides import Overrides
from .resolution import Resolution
from .spec_decode import SCHEDULE_INVALID

V1_PIECEWISE = Rule(
    "CG224",
    title="Runner V1 takes a PIECEWISE mode only if attention is compiled piecewise, or with breakable graphs.",
    why="It checks before the backend is known, so no downgrade can help.",
    example="-cc.splitting_ops with one attention op and the default mode does not start on runner V1.",
    instead="Leave splitting_ops unset.",
    source="vllm/v1/cudagraph_dispatcher.py:48-62",
)
ADAPTIVE_MODE = Rule(
    "CG411",
    title="Adaptive verification captures decode graphs for any mix of query lengths.",
    why="It trims each request's drafts on the GPU, so query lengths differ inside a decode batch.",
    example="DSpark with adaptive verification and FULL: FULL_AND_PIECEWISE.",
    instead="Turn enable_adaptive_verification off.",
    source="vllm/v1/worker/gpu/spec_decode/adaptive_verification.py:36-43, 491-545",
    since="0.28.0",
)


def settle(engine: Engine, overrides: Overrides) -> Resolution:
    """The resolution of a configured engine."""
    d, trace = engine.deployment, engine.trace
    chosen, why = runner.choose_with_reason(engine)
    trace.decide(runner.CHOICE, "runner", None, chosen.value, why)
    configured = engine.graph_mode
    hooks.check_mixed_full(engine, configured)
    hooks.add_splitting_op(engine)
    if chosen is Runner.V2:
        parallel.check_pcp(engine, configured)
    else:
        _check_v1_piecewise(engine)
    backend = _backend(engine, overrides)
    start = _adaptive_mode(engine, overrides, backend)
    given = _downgrade_input(engine, overrides, backend, chosen)
    final = downgrade.resolve_mode(start, given, trace) if given.lowers else start
    if given.rounds_sizes and final.decode_mode is CUDAGraphMode.FULL and given.query_len > 1:
        given = replace(given, multiple_of=sequence_parallel.common_multiple(engine, given.query_len, downgrade.STAGE))
    sizes = downgrade.round_sizes(final, engine.cudagraph_capture_sizes or [], given, trace)
    sizes = downgrade.cut_to_mamba_blocks(final, sizes, given, trace)
    downgrade.check_mamba_blocks(final, given)
    parallel.note_vocabulary(engine)
    lora = _lora(engine, chosen)
    captures, extra = _captures(engine, overrides, chosen, final, sizes, lora, backend)
    found = Resolution(
        vllm_version=engine.release,
        runner=chosen,
        compilation_mode=engine.mode or CompilationMode.NONE,
        requested_mode=engine.requested_mode or configured,
        configured_mode=configured,
        cudagraph_mode=final,
        capture_sizes=tuple(sizes),
        max_capture_size=sizes[-1] if sizes else 0,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_model_len=engine.max_model_len,
        uniform_decode_query_len=engine.decode_query_len(chosen),
        backend=backend,
        captures=captures,
        schedule=engine.schedule,
        lora=lora,
        drafter=extra,
        num_ubatches=_num_twins(engine),
        data_parallel_ranks=d.data_parallel_size if d.model.is_moe else 1,
        pads_to=d.tensor_parallel_size if chosen is Runner.V1 and sequence_parallel.is_on(engine) else 1,
        habits=_habits(engine),
        sizes_are_named=engine.sizes_are_named,
        config=summary.settings(engine, chosen),
        decisions=tuple(trace.decisions),
        noted=tuple(trace.findings),
        assumptions=tuple(trace.assumptions),
        not_modelled=summary.not_modelled(engine, chosen),
    )
    return draft_sizes.tokens_counted(found, d)


def _check_v1_piecewise(engine: Engine) -> None:
    """The V1 dispatcher is built before the backend is known, and asserts on the configured mode."""
    if not engine.graph_mode.has_piecewise or engine.breakable:
        return
    if not splitting.is_attention_compiled_piecewise(engine):
        raise StartupError(
            f"cudagraph_mode {engine.graph_mode} needs every attention op in splitting_ops on runner V1",
            code=V1_PIECEWISE.code,
            stage="v1_dispatcher_init",
            raised_as="AssertionError",
            raised_in="CudagraphDispatcher",
            where="compilation_config.splitting_ops",
            fix=V1_PIECEWISE.instead,
        )


def _backend(engine: Engine, overrides: Overrides) -> BackendChoice:
    support = overrides.support
    if support is None:
        support = engine.deployment.attention_support
    if support is None:
        chosen = choose_backends(
            engine.deployment,
            dtype=engine.dtype,
            trace=engine.trace,
            extra_groups=not overrides.target_groups_only,
            unavailable=overrides.unavailable_backends,
            imported_before_env=overrides.imported_before_env,
        )
        if overrides.runs_kernels:
            check_own_attention(engine.deployment, chosen)
        return chosen
    weakest = None if support is AttentionCGSupport.ALWAYS else "your backend"
    return BackendChoice(groups=(), support=support, weakest=weakest, name="given", rejected=())


def _adaptive_mode(engine: Engine, overrides: Overrides, backend: BackendChoice) -> CUDAGraphMode:
    """Adaptive verification (V2) replaces the mode before the downgrade."""
    mode = engine.graph_mode
    if not _verifies_adaptively(engine) or overrides.adaptive_mode is False:
        return mode
    unfit = _unfit_for_any_lengths(engine, backend)
    if unfit is not None:
        raise StartupError(
            f"adaptive verification needs a backend that replays any query lengths; {unfit}",
            code=ADAPTIVE_MODE.code,
            stage="initialize_kv_cache",
            raised_as="ValueError",
            raised_in="AdaptiveVerificationManager",
            where="speculative_config.enable_adaptive_verification",
            fix=ADAPTIVE_MODE.instead,
        )
    pieces = _piecewise_available(engine, overrides)
    after = CUDAGraphMode.FULL_AND_PIECEWISE if pieces else CUDAGraphMode.FULL_DECODE_ONLY
    if mode is CUDAGraphMode.FULL_DECODE_ONLY:
        after = mode
    if after is not mode:
        engine.trace.decide(ADAPTIVE_MODE, "cudagraph_mode", mode.value, after.value)
    return after


def _unfit_for_any_lengths(engine: Engine, backend: BackendChoice) -> str | None:
    """A group of the target that replays only equally long queries: below ALWAYS, and no kernel that measures them."""
    if not backend.groups and backend.support is not AttentionCGSupport.ALWAYS:
        return f"{backend.weakest} supports {backend.support}"
    bounded = engine.facts["runner"]["varlen_bounded"]
    for group in backend.groups:
        if group.kind == "draft" or group.support is AttentionCGSupport.ALWAYS:
            continue
        majors = bounded.get(group.name)
        fits = majors is not None and (not majors or engine.deployment.gpu.capability[0] in majors)
        if not fits or group.support is not AttentionCGSupport.UNIFORM_BATCH:
            return f"{group.name} supports {group.support}"
    return None


def _verifies_adaptively(engine: Engine) -> bool:
    speculation = engine.speculation
    return speculation is not None and speculation.options.enable_adaptive_verification


def _piecewise_available(engine: Engine, overrides: Overrides) -> bool:
    """Whether runner V2 finds something to capture in pieces; a compiled model is assumed to have it."""
    if overrides.piecewise_available is not None:
        return overrides.piecewise_available
    return engine.breakable or engine.mode not in (CompilationMode.NONE, CompilationMode.STOCK_TORCH_COMPILE)


def _downgrade_input(
    engine: Engine, overrides: Overrides, backend: BackendChoice, chosen: Runner
) -> downgrade.DowngradeInput:
    d, facts = engine.deployment, engine.facts["downgrade"]
    return downgrade.DowngradeInput(
        support=backend.support,
        backend=backend.weakest or backend.name,
        query_len=engine.decode_query_len(chosen),
        attention_split=splitting.contains_attention(engine),
        compiled=engine.mode is CompilationMode.VLLM_COMPILE,
        inductor_partition=engine.use_inductor_graph_partition,
        runner=chosen,
        rounds_sizes=chosen is Runner.V1 or (facts["on_v2"] and not engine.facts["runner"]["v2_keeps_sizes"]),
        lowers=chosen is Runner.V1 or facts["on_v2"],
        rounds_shared_graphs=facts["rounds_shared_graphs"],
        cuts_to_blocks=chosen is Runner.V1 and facts["cuts_to_mamba_blocks"],
        multiple_of=None,
        piecewise_available=chosen is Runner.V1
        or not engine.has(downgrade.NO_CAPTURE)
        or _piecewise_available(engine, overrides),
        has_mamba=bool(d.model.mamba_backends),
        num_blocks=d.num_gpu_blocks,
        blocks_are_set=d.num_gpu_blocks_override is not None,
        has_lora=d.enable_lora,
        max_num_seqs=engine.max_num_seqs,
        is_profiling=overrides.is_profiling,
    )


def _lora(engine: Engine, chosen: Runner) -> LoraPlan | None:
    if engine.max_loras is None:
        return None
    d, cc = engine.deployment, engine.deployment.compilation_config
    cases = lora_cases(engine.max_loras, d.specialize_active_lora, cc.cudagraph_specialize_lora, chosen)
    engine.trace.decide(LORA_CASES, "lora_cases", [0], list(cases))
    if 0 not in cases:
        engine.trace.find(
            NO_GRAPH_WITHOUT_LORA,
            "warning",
            "batches without an adapter run eager",
            fix=NO_GRAPH_WITHOUT_LORA.instead,
            where="-cc.cudagraph_specialize_lora",
        )
    return LoraPlan(engine.max_loras, d.specialize_active_lora, cases)


def _captures(
    engine: Engine,
    overrides: Overrides,
    chosen: Runner,
    final: CUDAGraphMode,
    sizes: list[int],
    lora: LoraPlan | None,
    backend: BackendChoice,
) -> tuple[Captures, Drafter | None]:
    """The target's graphs and the drafter's."""
    cases = (0,) if lora is None else lora.cases
    speculation = engine.speculation
    if chosen is Runner.V1:
        if final is not CUDAGraphMode.NONE:
            compile_ranges.check_padding(engine, sizes)
        graphs = runner_v1.captures(final, sizes, engine.max_num_seqs, engine.query_len, cases)
        extra = None
        if speculation is not None:
            methods = engine.facts["drafter"]["v1_methods"]
            if overrides.drafter_always_has_graphs:
                methods = [*methods, "draft_model"]
            extra = drafter.v1_drafter(speculation, final, sizes, engine.max_num_seqs, cases, methods)
        return graphs, _noted(engine, extra)
    if engine.facts["runner"]["v2_manager_rounds_sizes"]:
        stage = "v2_manager_init"
        multiple = sequence_parallel.common_multiple(engine, engine.decode_query_len(chosen), stage)
        sizes = downgrade.round_to(multiple, sizes, engine.trace, stage)
    spec = runner_v2.CaptureSpec(
        mode=final,
        sizes=sizes,
        max_capture_size=sizes[-1] if sizes else 0,
        max_num_seqs=engine.max_num_seqs,
        query_len=engine.decode_query_len(Runner.V2),
        query_lens=_query_lens(engine, final, sizes),
        lora_cases=cases if engine.facts["runner"]["v2_lora_graphs"] else (0,),
        rounds_decode=engine.facts["runner"]["v2_keeps_sizes"],
        pieces_hold_requests=engine.breakable and engine.facts["runner"]["v2_pieces_hold_requests"],
        varlen_decode=_varlen(engine, overrides),
        num_ubatches=_num_twins(engine),
        decode_token_threshold=engine.deployment.dbo_decode_token_threshold,
    )
    graphs = runner_v2.captures(spec)
    if speculation is None:
        return graphs, None
    facts, methods = engine.facts["drafter"], engine.facts["runner"]["v2_methods"]
    found = drafter.v2_drafter(speculation, spec, engine.breakable, backend.support, facts, methods)
    return graphs, _noted(engine, found)


def _habits(engine: Engine) -> runner_v2.DispatchHabits:
    facts = engine.facts["runner"]
    return runner_v2.DispatchHabits(
        shared_candidates=facts["v2_shared_candidates"],
        prefills_may_be_uniform=facts["v2_prefills_may_be_uniform"],
        measures_prefills=facts["v2_measures_prefills"],
        looks_at_adapters=facts["v2_lora_graphs"],
    )


def _varlen(engine: Engine, overrides: Overrides) -> bool:
    if not engine.facts["runner"]["v2_varlen_decode"]:
        return False
    if overrides.varlen_decode is not None:
        return overrides.varlen_decode
    return _verifies_adaptively(engine) and overrides.adaptive_mode is not False


def _query_lens(engine: Engine, final: CUDAGraphMode, sizes: Sequence[int]) -> tuple[int, ...]:
    """Decode query lengths that runner V2 captures: one a tier of dynamic speculative decoding."""
    speculation = engine.speculation
    if speculation is None or speculation.schedule is None or final is CUDAGraphMode.NONE or not sizes:
        return (engine.decode_query_len(Runner.V2),)
    if engine.facts["runner"]["v2_query_lens_as_given"]:
        return tuple(tokens + 1 for _, _, tokens in speculation.schedule)
    try:
        found = schedule_steps(speculation.schedule, engine.max_num_seqs, speculation.num_speculative_tokens)
    except ScheduleError as error:
        raise StartupError(
            f"the dynamic speculative schedule cannot be used: {error}",
            code=SCHEDULE_INVALID.code,
            stage="v2_manager_init",
            raised_as="ValueError",
            raised_in="CudaGraphManager",
            where="speculative_config.num_speculative_tokens_per_batch_size",
            fix=SCHEDULE_INVALID.instead,
        ) from None
    return tuple(sorted({tokens + 1 for _, tokens in found}))


def _num_twins(engine: Engine) -> int:
    """Microbatches of runner V2's split graphs; ranks must agree on them, so one rank has none."""
    return engine.num_ubatches if engine.use_ubatching and engine.data_parallel_size > 1 else 1


def _noted(engine: Engine, extra: Drafter | None) -> Drafter | None:
    count = sum(len(g) for manager in extra.managers.values() for g in manager.values()) if extra else 0
    if extra is not None and count:
        engine.trace.decide(drafter.DRAFTER, "drafter", None, f"{count} graphs of {extra.speculator}")
    return extra
