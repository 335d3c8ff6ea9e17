"""Speculative decoding: how the configuration is validated, and what the rules make of it.

Source: vllm/config/speculative.py:1226-2040 and vllm/config/vllm.py:611-713, 1069-1127, 2341-2396 @ 0.33.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from ..deployment import SpeculativeOptions
from ..errors import StartupError, did_you_mean
from ..model_shape import ModelShape
from ..trace import Rule
from ..vocabulary import CUDAGraphMode, Runner
from . import dynamic_sd
from .parallel import check_model
from .speculation import NO_DRAFT_MODEL, Speculation

if TYPE_CHECKING:
    from .engine import Engine

DYNAMIC_OFF_DP = Rule(
    "CG403",
    title="Dynamic speculative decoding is dropped under data parallelism.",
    why="Ranks would choose different numbers of draft tokens and wait for each other for ever.",
    example="num_speculative_tokens_per_batch_size with --data-parallel-size 2: the static number is used.",
    instead="Run without data parallelism, or with a fixed number of draft tokens.",
    source="vllm/config/vllm.py:1110-1127",
    since="0.27.1",
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
)
LOOKAHEAD = Rule(
    "CG408",
    title="max_num_batched_tokens must exceed the draft slots of one request.",
    why="Otherwise no request could be scheduled together with its drafts.",
    example="--max-num-batched-tokens 4 with 4 draft tokens of EAGLE does not start.",
    instead="Raise --max-num-batched-tokens or lower num_speculative_tokens.",
    source="vllm/config/vllm.py:2372-2381",
)
DRAFT_ACTIVE_SEQS = Rule(
    "CG409",
    title="DFlash and DSpark lower max_num_active_seqs to what fits one draft pass.",
    why="Their draft pass holds all draft tokens of all requests at once.",
    example="max_num_batched_tokens 2048 and 15 draft tokens of DFlash: at most 128 active requests.",
    instead="Raise --max-num-batched-tokens.",
    source="vllm/config/vllm.py:2382-2396",
)
ADAPTIVE_VERIFICATION = Rule(
    "CG410",
    title="Adaptive verification needs runner V2 and FULL graphs, and excludes LoRA and pipeline parallelism.",
    why="Trimmed batches are decided on the GPU, after the host has laid out adapters and stages.",
    example="enable_adaptive_verification with --enable-lora does not start.",
    instead="Turn enable_adaptive_verification off, or drop the feature named.",
    source="vllm/config/vllm.py:3153-3180",
    since="0.28.0",
)
METHOD = Rule(
    "CG416",
    title="A speculative method needs what it drafts with: a known name, a draft model, a number of tokens.",
    why="The proposer is built from them.",
    example="--spec-method eagle without a draft model does not start.",
    instead="Give --spec-model and --spec-tokens, or use ngram or mtp.",
    source="vllm/config/speculative.py:1226-1340",
)
N_PREDICT = Rule(
    "CG417",
    title="More draft tokens than the MTP layers predict must be a multiple of them.",
    why="The layers are run again as a whole.",
    example="5 draft tokens on a checkpoint with 2 MTP layers do not start.",
    instead="Use a multiple of num_nextn_predict_layers.",
    source="vllm/config/speculative.py:1600-1612",
)
DRAFT_VOCABULARY = Rule(
    "CG418",
    title="A standalone draft model must have the target's vocabulary.",
    why="Draft tokens are compared with the target's by number.",
    example="A draft of 32,000 entries for a target of 128,256 does not start.",
    instead="Choose a draft of the same family, or use_heterogeneous_vocab.",
    source="vllm/config/speculative.py:2040-2055",
)
DRAFT_TP = Rule(
    "CG419",
    title="draft_tensor_parallel_size is 1 or the target's.",
    why="The draft runs on the same ranks.",
    example="draft_tensor_parallel_size 2 with --tensor-parallel-size 4 does not start.",
    instead="Drop draft_tensor_parallel_size.",
    source="vllm/config/speculative.py:1849-1870",
)
DRAFT_MAX_MODEL_LEN = Rule(
    "CG420",
    title="On runner V2 a standalone draft model's shorter context lowers the target's max_model_len.",
    why="V2 cannot skip drafting for sequences that the draft cannot hold.",
    example="A draft of 2,048 positions for a target of 131,072: max_model_len 2048.",
    instead="Choose a draft with the same context, or runner V1.",
    source="vllm/config/vllm.py:3025-3051",
)

def read(engine: Engine) -> None:
    """Validate `speculative_config` in vLLM's order and put it on the engine."""
    options = engine.deployment.speculative_config
    if options is None:
        return
    method = _method(engine, options)
    draft = options.model if options.model is not None else _own_draft(engine, method)
    if method not in NO_DRAFT_MODEL and draft is None:
        _refuse(METHOD, f"speculative method {method} needs a draft model", "--spec-model", METHOD.instead)
    tokens = _tokens(options, method, draft)
    if method not in NO_DRAFT_MODEL and draft is not None:
        _check_draft(engine, options, method, draft)
    elif method != "suffix":
        d = engine.deployment
        check_model(
            d.model,
            d.tensor_parallel_size,
            "SpeculativeConfig",
            dcp=d.decode_context_parallel_size,
            expert_parallel=d.enable_expert_parallel,
        )
    schedule = options.num_speculative_tokens_per_batch_size
    engine.speculation = Speculation(method, tokens, draft, schedule, options)


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
        steps = dynamic_sd.steps(
            speculation.schedule, engine.max_num_seqs, speculation.num_speculative_tokens
        )
    except dynamic_sd.ScheduleError as error:
        return str(error)
    engine.speculation = replace(speculation, steps=steps)
    return None


def apply_dynamic_rules(engine: Engine, runner: Runner) -> None:
    """Steps 3.8 to 3.10: where dynamic speculative decoding cannot hold, and what it costs on V1."""
    speculation = engine.speculation
    if speculation is None or not speculation.is_dynamic:
        return
    if engine.data_parallel_size > 1:
        drop_dynamic(engine, DYNAMIC_OFF_DP)
        return
    if runner is Runner.V2:
        return
    if speculation.method not in engine.facts["speculative"]["v1_dynamic"]:
        drop_dynamic(engine, DYNAMIC_OFF_V1)
    elif engine.graph_mode.has_full:
        engine.set(DYNAMIC_PIECEWISE_V1, "cudagraph_mode", CUDAGraphMode.PIECEWISE)


def set_scheduled_tokens(engine: Engine) -> None:
    """_set_max_num_scheduled_tokens: the scheduler's budget with drafts."""
    speculation = engine.speculation
    if speculation is None:
        return
    batched = engine.max_num_batched_tokens
    if engine.max_num_scheduled_tokens is None:
        engine.set(SCHEDULED_TOKENS, "max_num_scheduled_tokens", batched)
    lookahead = speculation.lookahead_tokens
    if batched <= lookahead:
        raise StartupError(
            f"max_num_batched_tokens {batched} leaves no slot beside {lookahead} draft slots",
            code=LOOKAHEAD.code,
            where="--max-num-batched-tokens",
            fix=f"set --max-num-batched-tokens above {lookahead}, or lower num_speculative_tokens",
        )
    if speculation.method in ("dflash", "dspark"):
        most = batched // lookahead
        if most < (engine.max_num_active_seqs or engine.max_num_seqs):
            engine.set(DRAFT_ACTIVE_SEQS, "max_num_active_seqs", most)


def check_adaptive_verification(engine: Engine) -> None:
    """Step 3.22."""
    speculation = engine.speculation
    if speculation is None or not speculation.options.enable_adaptive_verification:
        return
    what = None
    if engine.max_loras is not None:
        what = "LoRA"
    elif not engine.graph_mode.has_full:
        what = f"cudagraph_mode {engine.graph_mode}"
    elif engine.deployment.pipeline_parallel_size > 1:
        what = "pipeline parallelism"
    if what is not None:
        _refuse(
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
    draft = speculation.draft
    if draft is None:
        return
    longest = speculation.options.max_model_len or draft.max_model_len
    if longest < engine.max_model_len:
        engine.set(DRAFT_MAX_MODEL_LEN, "max_model_len", longest)


def _method(engine: Engine, options: SpeculativeOptions) -> str:
    facts = engine.facts["speculative"]
    method = options.method or "draft_model"
    if method in facts["mtp_aliases"]:
        return "mtp"
    if method == "[ngram]":
        return "ngram"
    if method not in facts["methods"]:
        known = [*facts["methods"], *facts["mtp_aliases"]]
        _refuse(
            METHOD,
            f"unknown speculative method {method[:60]}",
            "--spec-method",
            did_you_mean(method, known) or f"known: {', '.join(facts['methods'])}",
        )
    return method


def _own_draft(engine: Engine, method: str) -> ModelShape | None:
    """MTP and DSpark may draft from the target checkpoint itself."""
    return engine.deployment.model if method in ("mtp", "dspark") else None


def _tokens(options: SpeculativeOptions, method: str, draft: ModelShape | None) -> int:
    tokens = options.num_speculative_tokens
    predicted = draft.num_nextn_predict_layers if draft is not None and method == "mtp" else None
    if tokens is None:
        if not predicted:
            _refuse(METHOD, "num_speculative_tokens is missing", "--spec-tokens", "give --spec-tokens")
        return predicted
    if predicted and tokens > predicted and tokens % predicted:
        _refuse(
            N_PREDICT,
            f"{tokens} draft tokens are no multiple of the {predicted} MTP layers",
            "--spec-tokens",
            f"use a multiple of {predicted}",
        )
    return tokens


def _check_draft(engine: Engine, options: SpeculativeOptions, method: str, draft: ModelShape) -> None:
    tp = engine.deployment.tensor_parallel_size
    draft_tp = options.draft_tensor_parallel_size or tp
    if draft_tp not in (1, tp):
        _refuse(DRAFT_TP, f"draft_tensor_parallel_size {draft_tp} is neither 1 nor {tp}", None, DRAFT_TP.instead)
    check_model(draft, draft_tp, "SpeculativeConfig")
    target = engine.deployment.model
    if method == "draft_model" and not options.use_heterogeneous_vocab and draft.vocab_size != target.vocab_size:
        _refuse(
            DRAFT_VOCABULARY,
            f"the draft model has {draft.vocab_size} vocabulary entries, the target {target.vocab_size}",
            "--spec-model",
            DRAFT_VOCABULARY.instead,
        )


def _refuse(
    rule: Rule, what: str, where: str | None, fix: str | None, raised_in: str = "SpeculativeConfig"
) -> NoReturn:
    raise StartupError(what, code=rule.code, raised_in=raised_in, where=where, fix=fix)
