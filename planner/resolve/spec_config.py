"""`speculative_config` as vLLM's SpeculativeConfig validates it, in its order.

Source: vllm/config/speculative.py:1226-2040 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..errors import StartupError, did_you_mean
from ..model_shape import ModelShape
from ..sections import SpeculativeOptions
from ..trace import Rule
from .architectures import check_pipeline
from .parallel import check_model
from .speculation import NO_DRAFT_MODEL, Speculation

if TYPE_CHECKING:
    from .engine import Engine

AUX_HIDDEN_STATES = Rule(
    "CG424",
    title="EAGLE3 needed a target whose intermediate hidden states can be read.",
    why="Each model class had to be taught to hand them out.",
    example="EAGLE3 for Mixtral on 0.21.0 does not start.",
    instead="Use another method, or 0.22.1 and later.",
    source="vllm/config/speculative.py, _verify_args",
    until="0.21.0",
    release="0.21.0",
)
UNKNOWN_SETTING = Rule(
    "CG425",
    title="A setting of speculative_config that the release does not have.",
    why="vLLM refuses names it does not know.",
    example="num_speculative_tokens_per_batch_size on 0.23.0 does not start.",
    instead="Drop the setting, or use the release that has it.",
    source="vllm/config/speculative.py",
)
NO_MTP = Rule(
    "CG429",
    title="MTP drafts need a model with a multi-token-prediction module that the release knows.",
    why="The draft is that module; vLLM finds it by model type.",
    example="--spec-method mtp with Llama does not start.",
    instead="Use ngram, or a draft model.",
    source="vllm/config/speculative.py:1498-1502",
)
ADAPTIVE_METHOD = Rule(
    "CG427",
    title="Adaptive verification works with DSpark drafts only.",
    why="It trims drafts by a confidence that only that drafter gives; later releases say the same by runner.",
    example="enable_adaptive_verification with --spec-method eagle3 does not start.",
    instead="Turn enable_adaptive_verification off, or draft with DSpark.",
    source="vllm/config/speculative.py:1507",
    release="0.29.0",
    since="0.28.0",
    until="0.29.0",
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
DRAFT_LEN = Rule(
    "CG428",
    title="The max_model_len of speculative_config exceeds neither the draft's nor the target's.",
    why="The draft would be asked for positions that one of the two does not have.",
    example="speculative_config.max_model_len 4096 for a draft of 2,048 positions does not start.",
    instead="Lower speculative_config.max_model_len, or leave it out.",
    source="vllm/config/speculative.py:1763-1792",
)


def read(engine: Engine) -> None:
    """Validate `speculative_config` in vLLM's order and put it on the engine."""
    options = engine.deployment.speculative_config
    if options is None:
        return
    _check_settings(engine, options)
    method = _method(engine, options)
    draft = options.model if options.model is not None else _own_draft(engine, method)
    if method not in NO_DRAFT_MODEL and draft is None:
        refuse(METHOD, f"speculative method {method} needs a draft model", "--spec-model", METHOD.instead)
    if method == "mtp":
        _check_mtp(engine, draft)
    tokens = _tokens(options, method, draft)
    if engine.has(ADAPTIVE_METHOD) and options.enable_adaptive_verification and method != "dspark":
        refuse(
            ADAPTIVE_METHOD,
            f"adaptive verification does not work with {method}",
            "speculative_config.enable_adaptive_verification",
            ADAPTIVE_METHOD.instead,
        )
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
    _check_aux_hidden_states(engine, method)
    facts = engine.facts["speculative"]
    engine.speculation = Speculation(
        method,
        tokens,
        draft,
        options.num_speculative_tokens_per_batch_size,
        options,
        uses_target_hidden_states=method in facts["target_hidden_states"],
        multi_module_mtp_exists=facts["multi_module_mtp"],
    )


def _check_settings(engine: Engine, options: SpeculativeOptions) -> None:
    """Settings that came after this release."""
    known = {row["name"] for row in engine.facts["settings"]["SpeculativeConfig"]}
    for name in ("num_speculative_tokens_per_batch_size", "enable_adaptive_verification"):
        if getattr(options, name) and name not in known:
            refuse(
                UNKNOWN_SETTING,
                f"SpeculativeConfig has no field {name} in {engine.release}",
                f"speculative_config.{name}",
                UNKNOWN_SETTING.instead,
            )


def _check_aux_hidden_states(engine: Engine, method: str) -> None:
    supported = engine.facts["speculative"]["aux_hidden_states"]
    methods = ["eagle3", "extract_hidden_states"]
    if "dflash" in engine.facts["speculative"]["methods"]:
        methods.append("dflash")
    kind = engine.deployment.model.model_type
    if supported and method in methods and not any(name in kind for name in supported):
        refuse(
            AUX_HIDDEN_STATES,
            f"{method} does not work with model type {kind} in {engine.release}",
            "--spec-method",
            AUX_HIDDEN_STATES.instead,
        )


def _method(engine: Engine, options: SpeculativeOptions) -> str:
    facts = engine.facts["speculative"]
    method = options.method or "draft_model"
    if method in facts["mtp_aliases"]:
        return "mtp"
    if method not in facts["methods"]:
        known = [*facts["methods"], *facts["mtp_aliases"]]
        refuse(
            METHOD,
            f"unknown speculative method {method[:60]}",
            "--spec-method",
            did_you_mean(method, known) or f"give one of {', '.join(facts['methods'])}",
        )
    return method


def _own_draft(engine: Engine, method: str) -> ModelShape | None:
    """MTP and DSpark may draft from the target checkpoint itself."""
    return engine.deployment.model if method in ("mtp", "dspark") else None


def _check_mtp(engine: Engine, draft: ModelShape | None) -> None:
    """The draft must be an MTP module, or a target that has one."""
    facts = engine.facts["speculative"]
    known = {*facts["mtp_models"], *facts["mtp_aliases"]}
    without = draft is not None and draft.model_type in facts["mtp_needs_layers"] and not draft.num_nextn_predict_layers
    if draft is None or (not without and not known.isdisjoint({draft.model_type, *draft.architectures})):
        return
    raise StartupError(
        f"model type {draft.model_type} has no MTP module in {engine.release}",
        code=NO_MTP.code,
        raised_as="NotImplementedError",
        raised_in="SpeculativeConfig",
        where="--spec-method",
        fix=NO_MTP.instead,
    )


def _tokens(options: SpeculativeOptions, method: str, draft: ModelShape | None) -> int:
    tokens = options.num_speculative_tokens
    predicted = draft.num_nextn_predict_layers if draft is not None and method == "mtp" else None
    if tokens is None:
        if method == "suffix":
            return options.suffix_decoding_max_tree_depth
        if not predicted:
            refuse(METHOD, "num_speculative_tokens is missing", "--spec-tokens", "give --spec-tokens")
        return predicted
    if predicted and tokens > predicted and tokens % predicted:
        refuse(
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
        refuse(DRAFT_TP, f"draft_tensor_parallel_size {draft_tp} is neither 1 nor {tp}", None, DRAFT_TP.instead)
    _check_stages(engine, method, draft)
    experts = engine.deployment.enable_expert_parallel and engine.facts["speculative"]["draft_takes_expert_parallel"]
    check_model(draft, draft_tp, "SpeculativeConfig", expert_parallel=experts)
    target = engine.deployment.model
    if method == "draft_model" and not options.use_heterogeneous_vocab and draft.vocab_size != target.vocab_size:
        refuse(
            DRAFT_VOCABULARY,
            f"the draft model has {draft.vocab_size} vocabulary entries, the target {target.vocab_size}",
            "--spec-model",
            DRAFT_VOCABULARY.instead,
        )
    _check_draft_len(engine, options, draft)


def _check_stages(engine: Engine, method: str, draft: ModelShape) -> None:
    """Until 0.29 the draft was cut into the target's pipeline stages."""
    facts, stages = engine.facts["speculative"], engine.deployment.pipeline_parallel_size
    if not facts["draft_has_stages"]:
        return
    if method == "mtp":
        staged = {draft.model_type, *draft.architectures} & set(facts["mtp_with_stages"])
        check_pipeline(draft.architecture, 1 if staged else stages, method)
    else:
        check_pipeline(draft.architecture, stages, method)


def _check_draft_len(engine: Engine, options: SpeculativeOptions, draft: ModelShape) -> None:
    asked = options.max_model_len
    if asked is None:
        return
    for whose, most in (("draft", draft.max_model_len), ("target", engine.max_model_len)):
        if asked > most:
            refuse(
                DRAFT_LEN,
                f"speculative_config.max_model_len {asked} exceeds the {most} tokens of the {whose}",
                "speculative_config.max_model_len",
                f"use at most {most}",
            )


def refuse(rule: Rule, what: str, where: str | None, fix: str | None, raised_in: str = "SpeculativeConfig") -> NoReturn:
    """Raise that vLLM would not start, by `rule`."""
    raise StartupError(what, code=rule.code, raised_in=raised_in, where=where, fix=fix)
