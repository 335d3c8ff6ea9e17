"""Fixes of notes that do not keep a server from starting: each value in them was planned, and starts.

The notes are of vLLM's figures for its graphs and of memory that it does not profile; advice.py has those of a start
that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..errors import CgplanError
from ..resolve.memory_deduction import VARIABLE
from ..trace import Finding
from . import levers
from .advice import mended
from .budget.budget import Budget
from .budget.estimate_findings import WORTH_SAYING
from .budget.estimate_rules import GATED_DELTA, GDN_PREFILL, IMPLAUSIBLE, SHARED_MEMORY, SUGGESTED_TWICE
from .budget.gdn_prefill import gdn_prefill_findings
from .budget.suggestion import suggestion
from .reach import largest
from .request import MemoryRequest
from .setting import Change, Setting
from .verdict import TOO_LITTLE

_MORE_ROOM = "a lower --max-num-batched-tokens leaves more; no value was found with which the start is sure"
_STEP = 256
"""Tokens: values of --max-num-batched-tokens that are looked at."""
BY_BEST = " (by the best estimate, not surely)"


def with_tried_fixes(
    deployment: Deployment, request: MemoryRequest, findings: Sequence[Finding], budget: Budget
) -> tuple[Finding, ...]:
    """The findings of a plan, with what was tried in the place of what was worked out."""
    asked = Setting(deployment, request.as_typed)
    return tuple(_tried(asked, finding, budget) for finding in findings)


def _tried(asked: Setting, finding: Finding, budget: Budget) -> Finding:
    if finding.code == GDN_PREFILL.code and finding.severity == "warning":
        return replace(finding, fix=_prefill(asked))
    if finding.code == GATED_DELTA.code:
        tokens = next((one.words for one in levers.fewer_tokens(asked) if one.starts and _is_near(one)), "")
        return replace(finding, fix=tokens) if tokens else finding
    if finding.code == SUGGESTED_TWICE.code and finding.fix:
        words = _bytes(asked, budget)
        return replace(finding, fix=f"{words}, where a fixed size is wanted" if words else None)
    if finding.code in (IMPLAUSIBLE.code, SHARED_MEMORY.code):
        # Where the estimate alone keeps it from starting, to leave it out is the smaller change.
        fits = replace(asked, surely=False).starts
        ways = (_bytes(asked, budget), _no_estimate(asked)) if fits else (_no_estimate(asked), _bytes(asked, budget))
        found = [words for words in ways if words]
        return replace(finding, fix=", or ".join(found) or _none(asked))
    return finding


def _is_near(setting: Setting) -> bool:
    """Whether less is taken off for the graphs than would be warned of."""
    stage = setting.budget.tightest
    return stage.deducted.best - stage.graphs.best <= WORTH_SAYING


def _none(asked: Setting) -> str:
    others = sorted({found.code for found in asked.problems or () if found.code not in _NOTES})
    if others:
        return (
            f"mend {' and '.join(others)} first: with neither a fixed size nor without the estimate it starts as it is"
        )
    return f"--kv-cache-memory-bytes, or {VARIABLE}=0; no value of either was found that starts"


_NOTES = (IMPLAUSIBLE.code, SHARED_MEMORY.code, SUGGESTED_TWICE.code)


def _bytes(asked: Setting, budget: Budget) -> str:
    """A fixed size of the KV cache: what is right of vLLM's own figures, or what a request needs; "": none starts."""
    sizes = suggestion(budget, budget.tightest, asked.deployment.vllm)
    if sizes is None or asked.request.kv_bytes is not None:
        return ""
    size = sizes.right
    if size > 0:
        found = _words(asked.to(_of_bytes(size)))
        if found:
            return found
    enough = levers.more_bytes(asked.to(_of_bytes(max(size, 1))), TOO_LITTLE)
    if enough is None:
        return ""
    if enough.starts:
        return f"{enough.words}, what a request of the full length needs"
    lower = levers.smaller_share(enough, ())
    tried = [enough] if lower is None else [enough, lower]
    return next((words for words in map(_words, tried) if words), "")


def _of_bytes(size: int) -> Change:
    return Change("--kv-cache-memory-bytes", f"--kv-cache-memory-bytes {size}", flags={"kv_cache_bytes": size})


def _no_estimate(asked: Setting) -> str:
    """The estimate switched off, at this share or a smaller one; "": it does not start."""
    if asked.deployment.env.get(VARIABLE) == "0" or asked.request.kv_bytes is not None:
        return ""
    off = asked.to(Change(VARIABLE, f"{VARIABLE}=0", {"env": {**asked.deployment.env, VARIABLE: "0"}}))
    if off.starts:
        return off.words
    lower = levers.roomy_share(off, levers.SHARE_TOO_LARGE)
    tried = [off] if lower is None else [lower, off]
    return next((words for words in map(_words, tried) if words), "")


def _words(setting: Setting) -> str:
    """The changes, if it starts with them; "": it does not, even by the best estimate."""
    if setting.starts:
        return setting.words
    return setting.words + BY_BEST if replace(setting, surely=False).starts else ""


def _prefill(asked: Setting) -> str:
    """What leaves room for a prefill; where the start is refused for another cause, together with what mends that."""
    found = ", or ".join(_of_prefill(asked))
    if found or asked.starts:
        return found or _MORE_ROOM
    refused = sorted({one.code for one in asked.problems or ()})
    both = _prefill_and_start(asked)
    if both is not None:
        return f"{both.words}, which mends {' and '.join(refused)}, too"
    return (
        f"mend {' and '.join(refused)} first; a lower --max-num-batched-tokens leaves more" if refused else _MORE_ROOM
    )


def _prefill_and_start(asked: Setting) -> Setting | None:
    """Fewer batched tokens first, as they may mend a part of the rest; else what mends the start, and then fewer."""
    steps = largest(lambda tried: _leaves_room(_with_tokens(asked, tried)), _steps(asked))
    for setting in ([_with_tokens(asked, steps)] if steps else []) + [asked]:
        whole = setting if setting.starts else mended(setting)
        if whole is None:
            continue
        if _has_room(whole):
            return whole
        fewer = largest(lambda tried, of=whole: _has_room(_with_tokens(of, tried)), _steps(whole))  # type: ignore[misc]
        if fewer:
            return _with_tokens(whole, fewer)
    return None


def _steps(setting: Setting) -> int:
    return (setting.resolution.max_num_batched_tokens - 1) // _STEP


def _of_prefill(asked: Setting) -> Iterator[str]:
    """The most batched tokens, and the largest share, with which a prefill surely has room."""
    found = largest(lambda steps: _has_room(_with_tokens(asked, steps)), _steps(asked))
    if found:
        yield _with_tokens(asked, found).words
    if asked.request.flags.kv_cache_bytes or asked.request.kv_bytes is not None:
        return
    top = int(asked.budget.utilization * 100 + 1e-9)
    for hundredth in range(top - 1, max(0, top - levers.MOST_LOWER - 1), -1):
        lower = levers.with_share(asked, hundredth)
        if _has_room(lower):
            yield lower.words
            return


def _with_tokens(asked: Setting, steps: int) -> Setting:
    tokens = steps * _STEP
    text = f"--max-num-batched-tokens {tokens}"
    return asked.to(Change("--max-num-batched-tokens", text, {"max_num_batched_tokens": tokens}))


def _has_room(setting: Setting) -> bool:
    return setting.starts and _leaves_room(setting)


def _leaves_room(setting: Setting) -> bool:
    """Whether a prefill of all batched tokens fits into what surely stays free, be it that it starts or not."""
    try:
        found = gdn_prefill_findings(setting.deployment, setting.resolution, setting.budget)
        return all(one.severity == "info" for one in found)
    except CgplanError:
        return False
