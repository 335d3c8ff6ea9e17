"""`--env`: which variables are looked at, and what is said of the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from cgplan.errors import InputError, shorten
from cgplan.releases import canonical

READ = (
    "TORCH_COMPILE_DISABLE",
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_BATCH_INVARIANT",
    "VLLM_DISABLE_SHARED_EXPERTS_STREAM",
    "VLLM_ENABLE_STARTUP_PLAN",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_KV_CACHE_LAYOUT",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "VLLM_PP_LAYER_PARTITION",
    "VLLM_ROCM_USE_AITER",
    "VLLM_ROCM_USE_AITER_MHA",
    "VLLM_ROCM_USE_AITER_MLA",
    "VLLM_SSM_CONV_STATE_LAYOUT",
    "VLLM_USE_BREAKABLE_CUDAGRAPH",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_OINK_OPS",
    "VLLM_USE_RUST_FRONTEND",
    "VLLM_USE_V2_MODEL_RUNNER",
)
"""Variables that decide something here."""

TYPO = 2
"""Most letters by which a misspelt name differs; no other variable of vLLM is so near to one that is read."""

FAMILY = "VLLM_ROCM_USE_AITER_"
"""vLLM has many variables of that beginning, and endings as short as MOE."""


def check(env: Mapping[str, str]) -> None:
    """Refuse a name that is nearly one that is read: it would change nothing and say nothing."""
    for name in env:
        if name not in READ:
            near = [known for known in READ if _is_typo(name.upper(), known)]
            if near:
                raise InputError(
                    f"no variable of vLLM is named {shorten(name, 60)}",
                    code="CG901",
                    where="--env",
                    fix=f"did you mean {near[0]}?",
                )


def of_vllm(env: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Of all variables of a container those that are vLLM's, and those `given` by the user."""
    return {name: value for name, value in env.items() if name in given or name in READ or name.startswith("VLLM_")}


def notes(env: Mapping[str, str], release: str) -> list[str]:
    """What is assumed of the environment, one line each; of variables that the release ignores what CG811 says."""
    found = []
    here = sorted(name for name in os.environ if name in READ or name.startswith("VLLM_"))
    unread = [name for name in here if name not in env]
    if unread:
        found.append(f"Environment: {_listed(unread)} of this shell and not read; --env sets a variable.")
    elif not env:
        found.append("Environment: none of vLLM's variables is set; --env sets one, this shell's are not read.")
    ignored = _ignored(env, release)
    found += [_of_ignored(name, release) for name in ignored]
    passed = [name for name in env if name not in READ and name not in ignored]
    if passed:
        found.append(f"Environment: {_listed(passed)} not looked at; it is taken to leave CUDA graphs alone.")
    return found


def ignored_later(env: Mapping[str, str], first: str, last: str) -> list[str]:
    """Of the variables that the last of two releases ignores and the first does not, one line each."""
    before = _ignored(env, first)
    return [_of_ignored(name, last) for name in _ignored(env, last) if name not in before]


def _of_ignored(name: str, release: str) -> str:
    return f"Environment: {shorten(name, 60)} is set; vLLM {release} ignores it (CG811)."


def _ignored(env: Mapping[str, str], release: str) -> list[str]:
    """Those that vLLM had before the release, or has since."""
    if not any(name.startswith("VLLM_") for name in env):
        return []
    from cgplan.check.environment_history import is_ignored

    full = canonical(release)
    return [name for name in env if is_ignored(name, full)]


def _listed(names: Iterable[str]) -> str:
    shown = [shorten(name, 60) for name in names]
    more = f" and {len(shown) - 4} more" if len(shown) > 5 else ""
    return ", ".join(shown[:4] if more else shown) + more + (" is" if len(shown) == 1 else " are")


def _is_typo(name: str, known: str) -> bool:
    """Whether at most TYPO letters are missing, too many, or others."""
    if name.startswith(FAMILY) or abs(len(name) - len(known)) > TYPO:
        return False
    row = list(range(len(known) + 1))
    for i, letter in enumerate(name, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(known, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (letter != other))
    return row[-1] <= TYPO
