"""Whether an error of cgplan has the reason of vLLM's: a few words of vLLM's text stand for each code.

Only what tells one reason from another is kept, never a sentence.
"""

from __future__ import annotations

import re

from cgplan import StartupError

SIGNS: dict[str, str] = {
    "CG117": r"customized max_cudagraph_capture_size",
    "CG118": r"Maximum cudagraph size",
    "CG119": r"at least one element",
    "CG120": r"greater than or equal to max_num_seqs",
    "CG121": r"smaller than max_model_len",
    "CG122": r"max_num_active_seqs",
    "CG123": r"long_prefill_token_threshold",
    "CG125": r"mutually exclusive",
    "CG126": r"Unrecognized size type",
    "CG127": r"Invalid compile range",
    "CG129": r"greater than the derived max_model_len",
    "CG132": r"dtype|float16",
    "CG133": r"compile_sizes contains",
    "CG134": r"Mamba prefix caching|mamba cache mode",
    "CG135": r"kv_cache_dtype",
    "CG137": r"not supported|not exist|Model architecture",
    "CG138": r"kv_cache_dtype|cache_dtype",
    "CG139": r"quantization",
    "CG140": r"was supported in vLLM until",
    "CG218": r"HiSparse",
    "CG222": r"should be CompilationMode.VLLM_COMPILE",
    "CG223": r"Invalid backend",
    "CG224": r"should be CompilationMode.VLLM_COMPILE",
    "CG226": r"custom[_ ]op",
    "CG230": r"should not be in splitting_ops",
    "CG235": r"kv_role|Connector name is not set",
    "CG238": r"torch",
    "CG302": r"is not valid for this configuration",
    "CG303": r"No valid attention backend",
    "CG331": r"is not supported with",
    "CG335": r"is not supported with",
    "CG402": r"No valid cudagraph sizes",
    "CG406": r"range|schedule|num_speculative_tokens_per_batch_size",
    "CG408": r"enough slots",
    "CG410": r"Adaptive verification|adaptive",
    "CG412": r"increasing max_num_batched_tokens",
    "CG416": r"speculative|num_speculative_tokens|method\n +Input should be",
    "CG417": r"must be divisible by n_predict|divisible",
    "CG418": r"same vocabulary",
    "CG419": r"draft_tensor_parallel_size",
    "CG422": r"enough slots",
    "CG423": r"enough slots|does not allow|max_num_scheduled_tokens",
    "CG424": r"only supported for",
    "CG425": r"Unexpected keyword argument",
    "CG426": r"by zero",
    "CG427": r"only supported with DSpark",
    "CG428": r"max_model_len|maximum model length|cannot be",
    "CG431": r"is not supported yet",
    "CG429": r"Unsupported speculative method",
    "CG430": r"LoRA is not supported for",
    "CG501": r"Mamba cache blocks",
    "CG603": r"Microbatching currently",
    "CG604": r"dbo_decode_token_threshold",
    "CG605": r"larger than the number of available GPUs",
    "CG606": r"Total number of attention heads",
    "CG607": r"by zero|[Dd]ecode[- ]context|dcp_size|DCP|query heads per KV head",
    "CG608": r"Number of experts",
    "CG610": r"requires Model Runner V2|Model Runner V[12] does not|VLLM_USE_V2_MODEL_RUNNER does not",
    "CG614": r"PCP does not support",
    "CG641": r"Unexpected keyword argument",
    "CG645": r"Can't determine cudagraph shapes",
    "CG612": r"moonep",
    "CG616": r"Pipeline parallelism is not supported",
    "CG802": r"[Aa]sync scheduling",
    "CG901": r"Unexpected keyword argument",
}


def reason_differs(error: StartupError, message: str, where: str) -> str | None:
    """How the two reasons differ, or None. The class that vLLM's message names must be the one cgplan names."""
    named = re.match(r"\d+ validation errors? for (\w+)", message)
    if named and named.group(1) != error.raised_in:
        return f"{where}.raised_in: {error.raised_in} ({error.code}: {error}), vLLM {message[:160]}"
    sign = SIGNS.get(error.code)
    if sign is None:
        return f"{where}: {error.code} has no sign in tools/parity_errors.py; vLLM {message[:160]}"
    if not re.search(sign, message):
        return f"{where}: {error.code} ({error}), vLLM {message[:200]}"
    return None
