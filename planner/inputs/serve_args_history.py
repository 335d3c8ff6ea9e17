"""What to say of a token that no option takes: removed, renamed, not there yet, or a typing error.

What releases between the oldest and the newest known have or lack is read off the data. Options that went before the
oldest are few and are listed here.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import did_you_mean, shorten
from ..releases import SUPPORTED, holds
from .serve_args_flags import Flag, FlagTable, releases_with

BEFORE_ALL = {
    "--task": "--runner pooling, with --convert embed or classify where the model generates",
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
    "--max-seq-len-to-capture": "--max-cudagraph-capture-size, which counts tokens",
    "--speculative-model": "--speculative-config.model",
    "--num-speculative-tokens": "--speculative-config.num_speculative_tokens",
    "--speculative-draft-tensor-parallel-size": "--speculative-config.draft_tensor_parallel_size",
    "--speculative-max-model-len": "--speculative-config.max_model_len",
    "--ngram-prompt-lookup-max": "--speculative-config.prompt_lookup_max",
    "--ngram-prompt-lookup-min": "--speculative-config.prompt_lookup_min",
    "--guided-decoding-backend": "--structured-outputs-config.backend",
    "--guided-decoding-disable-fallback": "",
    "--guided-decoding-disable-any-whitespace": "--structured-outputs-config.disable_any_whitespace",
    "--enable-reasoning": "--reasoning-parser NAME alone",
    "--use-v2-block-manager": "",
    "--num-scheduler-steps": "",
    "--num-lookahead-slots": "--speculative-config.num_speculative_tokens",
    "--swap-space": "",
    "--preemption-mode": "",
    "--worker-use-ray": "--distributed-executor-backend ray",
    "--engine-use-ray": "--distributed-executor-backend ray",
    "--device": "",
    "--disable-async-output-proc": "",
    "--rope-scaling": "--hf-overrides.rope_parameters",
    "--rope-theta": "--hf-overrides.rope_parameters.rope_theta",
    "--lora-extra-vocab-size": "",
    "--enable-prompt-adapter": "",
    "--max-prompt-adapters": "",
    "--tokenizer-pool-size": "",
    "--qlora-adapter-name-or-path": "",
    "--override-neuron-config": "--additional-config",
    "--override-pooler-config": "--pooler-config",
    "--disable-mm-preprocessor-cache": "--mm-processor-cache-gb 0",
    "--enable-multimodal-encoder-data-parallel": "--mm-encoder-tp-mode data",
}
"""Options that older releases had, with what took their place; "" where nothing did."""

REPLACED = {
    "--max-num-partial-prefills": "",
    "--max-long-partial-prefills": "",
    "--override-attention-dtype": "",
    "--enable-mamba-fine-grained-prefix-cache": "--enable-mamba-shared-prefix-checkpoint",
    "--enable-bf16x3-router-gemm": "",
    "--calculate-kv-scales": "",
    "--log-config-file": "--logging-config.pylogging_config_file",
}
"""What took the place of an option that went between the releases known, where its setting went with it."""

EARLIER = {
    "--spec-method": "--speculative-config.method",
    "--spec-tokens": "--speculative-config.num_speculative_tokens",
    "--spec-model": "--speculative-config.model",
}
"""How releases before an option spell the same setting, where another option holds it."""
SHORT_HERE = {"--cudagraph-mode": "-cc.cudagraph_mode"}
"""Options that cgplan has and vLLM has not, with what vLLM has for them."""
IN_FRONT = frozenset(
    ("--gpu", "--gpus-per-node", "--vllm", "--assume-release", "--usage-context", "--software", "--num-gpu-blocks",
     "--gpu-memory-bytes", "--kv-bytes", "--weights-bytes")
)  # fmt: skip
"""Options of cgplan's that say what vLLM is not told; they stand before the line."""


class Unknown(NamedTuple):
    """What is wrong with an unknown option, and the fix."""

    message: str
    fix: str | None


def explain_unknown(text: str, table: FlagTable) -> Unknown:
    """What to say of `text`, which no option of the release takes."""
    typed = text.partition("=")[0]
    option = typed.partition(".")[0].replace("_", "-") if typed.startswith("--") else typed
    if not text.startswith("-"):
        return Unknown(
            f"{shorten(text, 60)!r} is one value too many",
            "the model is the only value without an option; a value with blanks needs quotes",
        )
    if option in table.only_serve:
        return Unknown(
            f"{option} is an option of `vllm serve` alone at vLLM {table.release}", "start with `vllm serve`"
        )
    if option in table.by_option:
        return Unknown(f"{shorten(text, 60)} stands behind `--`, where all is a value", "leave out the `--`")
    if option == "-O":
        return Unknown("-O takes a level of 0 to 3 behind a blank, and nothing else", "write -O3, or -cc.KEY=VALUE")
    holding = list(releases_with(option))
    if holding:
        return _of_other_release(option, holding, table)
    removed = explain_removed(option)
    if removed is not None:
        return removed
    if option in SHORT_HERE:
        return Unknown(f"vLLM {table.release} has no option {option}, which is cgplan's own", _use(SHORT_HERE[option]))
    if option in IN_FRONT:
        said = f"vLLM {table.release} has no option {option}, which is cgplan's own"
        return Unknown(said, f"give it in front of the line: cgplan check {option} ... -- vllm serve ...")
    return Unknown(f"vLLM {table.release} has no option {shorten(option, 60)}", _nearest(option, text, table))


def explain_removed(option: str) -> Unknown | None:
    """What to say of an option that went before the oldest release known; None: it is none of them."""
    option = option.replace("_", "-")
    if option not in BEFORE_ALL:
        return None
    return Unknown(f"{option} was removed from vLLM before {SUPPORTED[0]}", _use(BEFORE_ALL[option]))


def _of_other_release(option: str, holding: list[tuple[str, Flag]], table: FlagTable) -> Unknown:
    first, last = holding[0][0], holding[-1][0]
    if holds(table.release, None, first):
        same = _same_setting(holding[0][1], option, table) or EARLIER.get(option, "")
        return Unknown(f"{option} exists since vLLM {first}; this is {table.release}", _use(same) if same else None)
    gone = next(release for release in SUPPORTED if holds(release, last) and release != last)
    flag = holding[-1][1]
    instead = _same_setting(flag, option, table) or REPLACED.get(option.replace("--no-", "--", 1), "")
    message = f"{option} was removed from vLLM by {gone}; {last} is the last release known to have it"
    return Unknown(message, _use(instead) if instead else flag.advice or _use(""))


def _same_setting(flag: Flag, option: str, table: FlagTable) -> str:
    """How the release spells the same setting, in the same sense, or ""."""
    here = table.by_dest.get(flag.dest)
    if here is None or not here.options:
        return ""
    off = option in flag.negative or option.startswith("--no-")
    spelled = [o for o in here.options if (o in here.negative or o.startswith("--no-")) == off and o.startswith("--")]
    return spelled[0] if spelled else ""


def _nearest(option: str, text: str, table: FlagTable) -> str | None:
    single = f"-{option}"
    if not option.startswith("--") and single in table.by_option:
        return f"did you mean {single}?"
    if option.startswith("-") and not option.startswith("--"):
        for short in sorted((o for o in table.by_option if not o.startswith("--")), key=len, reverse=True):
            if option.startswith(short) and len(short) > 2:
                return f"did you mean {short} {text[len(short) :]}?"
    known = [o for o in table.by_option if o.startswith("--")]
    return did_you_mean(option, known)


def _use(instead: str) -> str:
    return f"use {instead}" if instead else "leave it out; nothing took its place"
