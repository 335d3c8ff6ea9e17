"""A Python program that makes an engine itself: no server is read in it, and which command answers for it is said."""

from __future__ import annotations

import re
import shlex

OPTIONS = (
    "max_num_seqs", "max_num_batched_tokens", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size",
    "gpu_memory_utilization", "dtype", "kv_cache_dtype", "quantization", "block_size",
)  # fmt: skip
"""Arguments that are named as their options are, with a value that is a number or a word."""
FURTHEST = 4000
"""Characters behind `LLM(` that are looked at."""
_CALL = re.compile(r"\b(LLM|AsyncEngineArgs|EngineArgs)\s*\(")
_MODEL = re.compile(r"""^\s*(?:["']|.{0,400}?\bmodel\s*=\s*["'])([\w./-]{1,96})["']""", re.DOTALL)
_NUMBER = r"[0-9][0-9_]{0,12}(?:\.[0-9]{1,6})?"
_VALUE = re.compile(rf"""\b([a-z_]{{4,40}})\s*=\s*(?:["']([\w.-]{{1,40}})["']|({_NUMBER}))\s*(?=[,)\n])""")
CONTEXTS = {"LLM": "LLM_CLASS"}
"""By class: --usage-context. What builds an engine from arguments is neither LLM nor `vllm serve`."""


def fix_of(text: str) -> str | None:
    """The command that answers for the engine of a program, or None: it makes none that can be read."""
    call = _CALL.search(text)
    if call is None:
        return None
    behind = text[call.end() : call.end() + FURTHEST].partition("\n\n")[0]
    named = _MODEL.match(behind)
    words = ["cgplan", "plan", named[1] if named is not None else "MODEL"]
    for name, word, number in _VALUE.findall(behind):
        if name in OPTIONS:
            words += [f"--{name.replace('_', '-')}", word or number.replace("_", "")]
    words += ["--usage-context", CONTEXTS.get(call[1], "ENGINE_CONTEXT")]
    return f"{shlex.join(words)} answers for {call[1]}(...); its other arguments are options of the same name"
