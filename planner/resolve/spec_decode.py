"""Speculative decoding: what the rules make of a validated configuration.

Source: vllm/config/vllm.py:611-713, 1069-1127, 2341-2396 @ 0.33.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import CUDAGraphMode, Runner
from . import dynamic_sd
from .spec_config import refuse

if TYPE_CHECKING:
    from .engine import Engine

DYNAMIC_OFF_DP = Rule(
    "CG403",
    title="Dynamic speculative decoding is dropped under data parallelism.",
    why="Ranks would choose different numbers of draft tokens and wait for each other for ever.",
    example="num_speculative_tokens_per_batch_size with --data-parallel-size 2: the static number is used.",
    instead="Run without data parallelism, or with a fixed number of draft tokens.",
    source="vllm/config/vllm.py:1110-1127",
    since="0.26.0",
)
DYNAMIC_OFF_V1 = Rule(
    "CG404",
    title="Runner V1 drops dynamic speculative decoding for methods whose proposer cannot follow it.",
    why="V2 cuts drafts in one place; in V1 each proposer must do it itself.",
    example="suffix decoding with a schedule on runner V1: the static number is used.",
    instead="Use runner V2 or another method.",
    source="vllm/config/vllm.py:1088-1108",
    since="0.33.0",
)
DYNAMIC_PIECEWISE_V1 = Rule(
    "CG405",
    title="Runner V1 replaces FULL graphs by PIECEWISE under dynamic speculative decoding.",
    why="A V1 FULL decode graph has one query length, and the schedule changes it from step to step.",
    example="A schedule on runner V1 with the default mode: PIECEWISE.",
    instead="Use runner V2, which captures one FULL graph a query length.",
    source="vllm/config/vllm.py:1069-1086",
    since="0.24.0",
)
TIERED_GRAPHS = Rule(
    "CG421",
    title="Runner V2 captures FULL decode graphs for each number of draft tokens of a dynamic schedule.",
    why="The scheduler changes the query length with the batch size, and a FULL graph has one.",
    example="A schedule of 4 and 1 draft tokens: graphs for 5 and for 2 tokens a request.",
    instead="Use a fixed number of draft tokens.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:273-297",
    since="0.25.1",
)
SCHEDULE_INVALID = Rule(
    "CG406",
    title="The dynamic schedule must cover the batch sizes from 1 on, in ranges that do not overlap.",
    why="Every batch size needs a number of draft tokens.",
    example="A schedule that starts at batch size 9: runner V2 fails when it builds its graphs.",
    instead="Start the first range at 1.",
    source="vllm/v1/spec_decode/dynamic/utils.py:7-75",
)
SCHEDULED_TOKENS = Rule(
    "CG407",
    title="With speculative decoding, max_num_scheduled_tokens defaults to max_num_batched_tokens.",
    why="The scheduler's budget has to leave room for draft tokens.",
    example="8192 batched tokens: 8192 scheduled tokens.",
    instead="Set --max-num-scheduled-tokens.",
    source="vllm/config/vllm.py:2341-2370",
    since="0.28.0",
)
LOOKAHEAD = Rule(
    "CG408",
    title="max_num_batched_tokens must exceed the draft slots of one request.",
    why="Otherwise no request could be scheduled together with its drafts.",
    example="--max-num-batched-tokens 4 with 4 draft tokens of EAGLE does not start.",
    instead="Raise --max-num-batched-tokens or lower num_speculative_tokens.",
    source="vllm/config/vllm.py:2372-2381",
    since="0.33.0",
)
DRAFTING_SLOTS = Rule(
    "CG422",
    title="max_num_batched_tokens must exceed the slots that drafting adds to one request.",
    why="Otherwise no request could be scheduled together with its drafts.",
    example="--max-num-batched-tokens 1 with a draft model does not start.",
    instead="Raise --max-num-batched-tokens or lower num_speculative_tokens.",
    source="vllm/config/vllm.py, _set_max_num_scheduled_tokens",
    since="0.28.0",
    until="0.32.0",
    release="0.32.0",
)
SLOTS_FOR_ALL = Rule(
    "CG423",
    title="max_num_scheduled_tokens left room for the extra draft slots of all max_num_seqs sequences.",
    why="A standalone draft model runs on one more token a sequence, in the same buffers.",
    example="8192 batched tokens, 256 sequences and a draft model: 7936 scheduled tokens.",
    instead="Set --max-num-scheduled-tokens, or lower --max-num-seqs.",
    source="vllm/config/vllm.py, _set_max_num_scheduled_tokens",
    until="0.27.1",
    release="0.27.1",
)
DRAFT_ACTIVE_SEQS = Rule(
    "CG409",
    title="DFlash and DSpark lower max_num_active_seqs to what fits one draft pass.",
    why="Their draft pass holds all draft tokens of all requests at once.",
    example="max_num_batched_tokens 2048 and 15 draft tokens of DFlash: at most 128 active requests.",
    instead="Raise --max-num-batched-tokens.",
    source="vllm/config/vllm.py:2382-2396",
    since="0.33.0",
)
ADAPTIVE_VERIFICATION = Rule(
    "CG410",
    title="Adaptive verification needs runner V2 and FULL graphs, and excludes LoRA and pipeline parallelism.",
    why="Trimmed batches are decided on the GPU, after the host has laid out adapters and stages.",
    example="enable_adaptive_verification with --enable-lora does not start.",
    instead="Turn enable_adaptive_verification off, or drop the feature named.",
    source="vllm/config/vllm.py:3153-3180",
    since="0.29.0",
)
DRAFT_MAX_MODEL_LEN = Rule(
    "CG420",
    title="On runner V2 a standalone draft model's shorter context lowers the target's max_model_len.",
    why="V2 cannot skip drafting for sequences that the draft cannot hold.",
    example="A draft of 2,048 positions for a target of 131,072: max_model_len 2048.",
    instead="Choose a draft with the same context, or runner V1.",
    source="vllm/config/vllm.py:3025-3051",
    since="0.33.0",
)


def drop_dynamic(engine: Engine, rule: Rule) -> None:
    """Fall back to the static number of draft tokens."""
    speculation = engine.speculation
    assert speculation is not None
    rows = [list(row) for row in speculation.schedule or ()]
    engine.speculation = replace(speculation, schedule=None, steps=None)
    engine.trace.decide(rule, "num_speculative_tokens_per_batch_size", rows, None)


def settle_schedule(engine: Engine) -> str | None:
    """Turn the schedule into steps, now that max_num_seqs stands. Returns what is wrong with it, or None."""
    speculation = engine.speculation
    if speculation is None or speculation.schedule is None:
        return None
    try:
        steps = dynamic_sd.steps(speculation.schedule, engine.max_num_seqs, speculation.num_speculative_tokens)
    except dynamic_sd.ScheduleError as error:
        return str(error)
    engine.speculation = replace(speculation, steps=steps)
    return None


def apply_dynamic_rules(engine: Engine, runner: Runner) -> None:
    """Steps 3.8 to 3.10: where dynamic speculative decoding cannot hold, and what it costs on V1."""
    speculation = engine.speculation
    if speculation is None or not speculation.is_dynamic:
        return
    if engine.data_parallel_size > 1 and engine.has(DYNAMIC_OFF_DP):
        drop_dynamic(engine, DYNAMIC_OFF_DP)
        return
    if runner is Runner.V2 and engine.has(TIERED_GRAPHS):
        return
    if engine.has(DYNAMIC_OFF_V1) and speculation.method not in engine.facts["speculative"]["v1_dynamic"]:
        drop_dynamic(engine, DYNAMIC_OFF_V1)
    elif engine.graph_mode.has_full:
        engine.set(DYNAMIC_PIECEWISE_V1, "cudagraph_mode", CUDAGraphMode.PIECEWISE)


def set_scheduled_tokens(engine: Engine) -> None:
    """_set_max_num_scheduled_tokens: the scheduler's budget with drafts."""
    speculation = engine.speculation
    if speculation is None:
        return
    batched = engine.max_num_batched_tokens
    if engine.has(SLOTS_FOR_ALL):
        _reserve_slots_for_all(engine, batched, drafting_slots(engine) * engine.max_num_seqs)
        return
    if engine.max_num_scheduled_tokens is None:
        engine.set(SCHEDULED_TOKENS, "max_num_scheduled_tokens", batched)
    lookahead = speculation.lookahead_tokens if engine.has(LOOKAHEAD) else drafting_slots(engine)
    if batched <= lookahead:
        raise StartupError(
            f"max_num_batched_tokens {batched} leaves no slot beside {lookahead} draft slots",
            code=(LOOKAHEAD if engine.has(LOOKAHEAD) else DRAFTING_SLOTS).code,
            where="--max-num-batched-tokens",
            fix=f"set --max-num-batched-tokens above {lookahead}, or lower num_speculative_tokens",
        )
    if engine.has(DRAFT_ACTIVE_SEQS) and speculation.method in ("dflash", "dspark"):
        most = batched // lookahead
        if most < (engine.max_num_active_seqs or engine.max_num_seqs):
            engine.set(DRAFT_ACTIVE_SEQS, "max_num_active_seqs", most)


def drafting_slots(engine: Engine) -> int:
    """Slots that drafting adds to each request's own (speculative.py, max_num_new_slots_for_drafting)."""
    speculation = engine.speculation
    assert speculation is not None
    tokens, method = speculation.num_speculative_tokens, speculation.method
    parallel = bool(speculation.options.parallel_drafting) or method in ("dflash", "dspark")
    if engine.has(SLOTS_FOR_ALL):
        return (tokens - 1 if parallel else 0) + (1 if method == "draft_model" else 0)
    if method == "dflash":
        return tokens
    if parallel:
        return tokens if method == "draft_model" else tokens - 1
    return 1 if method == "draft_model" else 0


def _reserve_slots_for_all(engine: Engine, batched: int, reserved: int) -> None:
    if engine.max_num_scheduled_tokens is None:
        engine.set(SLOTS_FOR_ALL, "max_num_scheduled_tokens", batched - reserved)
    scheduled = engine.max_num_scheduled_tokens or 0
    if engine.facts["speculative"]["scheduled_positive"] and scheduled <= 0:
        problem = f"{reserved} draft slots leave {scheduled} tokens to schedule"
    elif batched < scheduled + reserved:
        problem = f"max_num_batched_tokens {batched} does not hold {scheduled} tokens and {reserved} draft slots"
    else:
        return
    raise StartupError(
        problem,
        code=SLOTS_FOR_ALL.code,
        where="--max-num-batched-tokens",
        fix="raise --max-num-batched-tokens, or lower --spec-tokens or --max-num-seqs",
    )


def check_adaptive_verification(engine: Engine) -> None:
    """Step 3.22."""
    speculation = engine.speculation
    if speculation is None or not speculation.options.enable_adaptive_verification:
        return
    if not engine.has(ADAPTIVE_VERIFICATION):
        return
    what = None
    lacks = not engine.graph_mode.has_full
    if not engine.facts["speculative"]["adaptive_needs_full"]:
        lacks = engine.graph_mode is CUDAGraphMode.NONE
    if engine.max_loras is not None:
        what = "LoRA"
    elif lacks:
        what = f"cudagraph_mode {engine.graph_mode}"
    elif engine.deployment.pipeline_parallel_size > 1:
        what = "pipeline parallelism"
    if what is not None:
        refuse(
            ADAPTIVE_VERIFICATION,
            f"adaptive verification does not work with {what}",
            "speculative_config.enable_adaptive_verification",
            ADAPTIVE_VERIFICATION.instead,
            raised_in="VllmConfig",
        )


def limit_model_len(engine: Engine, runner: Runner) -> None:
    """_limit_max_model_len_to_draft: runner V2 and a standalone draft model of shorter context."""
    speculation = engine.speculation
    if speculation is None or speculation.method != "draft_model" or runner is Runner.V1:
        return
    if not engine.has(DRAFT_MAX_MODEL_LEN):
        return
    draft = speculation.draft
    if draft is None:
        return
    longest = speculation.options.max_model_len or draft.max_model_len
    if longest < engine.max_model_len:
        engine.set(DRAFT_MAX_MODEL_LEN, "max_model_len", longest)
