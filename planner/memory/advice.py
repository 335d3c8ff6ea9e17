"""What to change where a server does not surely start: every fix was planned, and starts.

A fix is one change, or several that are needed together; where there are two fixes, each does alone. More GPUs are
named where no change on the same ones lets it start.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..deployment import Deployment
from ..resolve.checkpoint_method import NOT_STORED
from ..resolve.downgrade import MAMBA_BLOCKS
from ..trace import Finding
from . import levers, model_levers
from .budget.budget import Budget
from .budget.rules import FREE_MEMORY, MANUAL, NO_ROOM_TO_CAPTURE, WARM_UP, WEIGHTS
from .estimates import GIB
from .kv.capacity import DOES_NOT_FIT, NO_MEMORY, NOTHING_TO_FIT, OVERRIDE
from .levers import Lever
from .model_levers import LENGTH_WITH_MORE_GPUS, MOST_GPUS
from .reach import longest_model_len
from .request import MemoryRequest
from .setting import Setting
from .verdict import TOO_LITTLE

ALTERNATIVES = 2
_CHANGES = 3
_FEWEST = "are the fewest that start"
_MEASURED_ANEW = "if the measured values shrink with it as predicted: measure them anew"
_AT_MOST = re.compile(r"\(([0-9]+) at most")
_BLOCKS = re.compile(r"exceeds the ([0-9]+) Mamba cache blocks")
_LENGTH = re.compile(r"--max-model-len ([0-9]+)(?=$|,)")

_FIRST: dict[str, tuple[tuple[Lever, ...], tuple[str, ...]]] = {
    FREE_MEMORY.code: ((levers.smaller_share,), levers.SHARE_TOO_LARGE),
    MANUAL.code: ((levers.fewer_bytes,), (MANUAL.code, WARM_UP.code)),
    OVERRIDE.code: ((levers.fewer_blocks, levers.no_override), (OVERRIDE.code,)),
    NO_ROOM_TO_CAPTURE.code: ((levers.fewer_graphs, levers.smaller_share), (NO_ROOM_TO_CAPTURE.code, WARM_UP.code)),
    WARM_UP.code: ((levers.roomy_share, levers.fewer_bytes, levers.fewer_requests), (WARM_UP.code,)),
    DOES_NOT_FIT.code: ((levers.shorter,), (DOES_NOT_FIT.code, NO_MEMORY.code)),
    MAMBA_BLOCKS.code: ((levers.fewer_requests,), (MAMBA_BLOCKS.code,)),
    NO_MEMORY.code: ((levers.shorter, levers.fewer_requests), (NO_MEMORY.code,)),
}
"""Code to what mends it, in the order in which findings are mended, and the codes that must then be gone."""

_ALSO: dict[str, tuple[Lever, ...]] = {
    **dict.fromkeys((DOES_NOT_FIT.code, NOTHING_TO_FIT.code, NO_MEMORY.code), (levers.more_bytes, levers.more_blocks)),
    MAMBA_BLOCKS.code: (levers.more_blocks, levers.piecewise),
}
"""What else mends it, if it does so alone."""

_BOTH = {"--max-model-len", "--max-num-seqs"}

_BY_A_SHARE = (DOES_NOT_FIT.code, NOTHING_TO_FIT.code, NO_MEMORY.code, MAMBA_BLOCKS.code)
"""What more memory for the KV cache mends."""

CODES = (*_FIRST, NOTHING_TO_FIT.code, WEIGHTS.code)


def with_fixes(
    deployment: Deployment, request: MemoryRequest, findings: Sequence[Finding], budget: Budget | None
) -> tuple[Finding, ...]:
    """The findings of a plan that does not surely start, each with what to change."""
    # Notes that do not keep it from starting have the code of one that does.
    setting = Setting(deployment, request.as_typed)
    stops = set(setting.problems or ())
    setting, first = _of_memory_alone(setting, stops)
    scaled = Setting(setting.asked, request) if request.is_by_hand else None
    fixes: dict[str, str] = {}
    found = []
    for finding in findings:
        code = finding.code
        if finding not in stops or code not in CODES:
            found.append(finding)
            continue
        if code == NO_MEMORY.code and budget is not None:
            finding = replace(finding, message=_nothing_left(budget, finding.message))
        if code == DOES_NOT_FIT.code:
            # The length that vLLM names need not start: its buffers and the bounds are not in it.
            finding = replace(finding, message=finding.message.partition("; ")[0])
        if code not in fixes:
            fixes[code] = f"mend {first} first, then plan again" if first else _fix(setting, code, scaled)
        fix = fixes[code]
        if code == MAMBA_BLOCKS.code:
            more = _of_more_blocks(fix, finding.message) + _of_adapters(budget)
            finding = replace(finding, message=finding.message + more)
        found.append(replace(finding, fix=fix))
    return tuple(found)


def _of_more_blocks(fix: str, message: str) -> str:
    """Why more requests are named than there are blocks now; "": they are not."""
    most, blocks = _AT_MOST.search(fix), _BLOCKS.search(message)
    return (
        "; fewer requests leave more"
        if most is not None and blocks is not None and int(most[1]) > int(blocks[1])
        else ""
    )


def _of_adapters(budget: Budget | None) -> str:
    size = budget.tightest.adapters if budget is not None else 0
    return f"; LoRA's buffers, {size / GIB:.2f} GiB, come off the same memory" if size else ""


def mended(setting: Setting) -> Setting | None:
    """The setting with the first change, or several, with which it starts; None: none on the same GPUs is known."""
    codes = dict.fromkeys(finding.code for finding in setting.problems or ())
    return next((found[0] for code in codes if code in CODES and (found := _alternatives(setting, code))), None)


def _of_memory_alone(setting: Setting, stops: Iterable[Finding]) -> tuple[Setting, str]:
    """The setting without refusals that are not memory's; and the codes of those to be mended first, or ""."""
    others = {finding.code for finding in stops if finding.code not in CODES and finding.severity == "error"}
    if NOT_STORED.code in others:
        # The weights count as they are stored all the same.
        asked = setting.asked.model_copy(update={"quantization": None})
        setting, others = Setting(asked, setting.memory), others - {NOT_STORED.code}
        if not others and setting.starts:
            others = {NOT_STORED.code}
    return setting, " and ".join(sorted(others))


def _with_uncertain_length(setting: Setting, fix: str) -> str:
    """The sure length first, and after it how far the best estimate goes."""
    found = _LENGTH.match(fix)
    if found is None:
        return fix
    best = longest_model_len(setting.deployment, setting.request)
    if not int(found[1]) < best < setting.resolution.max_model_len:
        return fix
    return f"{found[0]} surely starts, up to {best} may{fix[found.end() :]}"


def _nothing_left(budget: Budget, message: str) -> str:
    if budget.is_manual:
        return message
    stage = budget.tightest
    taken = budget.requested.best - stage.kv_cache.best
    return f"{message}: {taken / GIB:.2f} GiB are taken of the {budget.requested.best / GIB:.2f} GiB asked for"


def _fix(setting: Setting, code: str, scaled: Setting | None) -> str:
    """What lets it start.

    Args:
        scaled: the setting with measured values that grow and shrink with what is changed; None: nothing is measured.
    """
    sure = _alternatives(setting, code)
    if sure:
        fix = _with_uncertain_length(setting, ", or ".join(_said(one, code) for one in sure))
        if code == WEIGHTS.code:
            return f"{fix}{_more_gpus_too(setting, 'for the adapters as they are')}"
        return fix if _is_long_enough(setting, sure) else f"{fix}{_more_gpus_too(setting, _LONGER)}"
    more = _more_gpus(setting)
    by_best = _alternatives(replace(setting, surely=False), code)
    if by_best:
        more = more or _no_gpus(setting)
        return f"{_said(by_best[0], code)} starts by the best estimate, not surely; else {more}"
    if scaled is not None and not more:
        found = _alternatives(scaled, code)
        if found:
            return f"{found[0].words}, {_MEASURED_ANEW}"
    return more or _no_gpus(setting)


def _said(one: Setting, code: str) -> str:
    """The changes; of the check of free memory, that a length among them is another finding's."""
    is_others = code == FREE_MEMORY.code and any(change.name == "--max-model-len" for change in one.changes)
    return f"{one.words} (the length is for {DOES_NOT_FIT.code})" if is_others else one.words


def _is_long_enough(setting: Setting, found: Iterable[Setting]) -> bool:
    longest = max(one.resolution.max_model_len for one in found)
    return longest >= min(LENGTH_WITH_MORE_GPUS, setting.resolution.max_model_len)


def _alternatives(setting: Setting, code: str) -> list[Setting]:
    """Changes on the same GPUs, each of which does alone; the first ones that are found."""
    found: dict[tuple[str, ...], Setting] = {}
    more = 0
    for one in _candidates(setting, code):
        _add(found, one)
        if not more and {change.name for change in next(iter(found.values())).changes} >= _BOTH:
            # The other way about: what is asked of one of the two is kept.
            kept = levers.length_kept(setting)
            if kept is not None:
                found.setdefault(tuple(change.name for change in kept.changes), kept)
                more = 1
        if len(found) == ALTERNATIVES + more + any(map(model_levers.is_used, found.values())):
            break
    if not found:
        for one in itertools.islice(_last_ones(setting, code), 1):
            _add(found, one)
    return list(found.values())


def _add(found: dict[tuple[str, ...], Setting], one: Setting) -> None:
    least = levers.most_told(_needed(one))
    found.setdefault(tuple(change.name for change in least.changes), least)


def _candidates(setting: Setting, code: str) -> Iterator[Setting]:
    """Settings that start."""
    if code == WEIGHTS.code:
        yield from _other_models(setting, code)
        return
    first, codes = _FIRST.get(code, ((), (code,)))
    if code in _BY_A_SHARE:
        yield from _kept([_mended(setting, levers.no_estimate, codes)])
        tokens = (one if one.starts else _finished(one, _CHANGES - 1) for one in levers.fewer_tokens(setting))
        yield from itertools.islice(_kept(tokens), 1)
    if code != NO_MEMORY.code:
        yield from _kept(_mended(setting, lever, codes) for lever in first)
    if code in (NO_MEMORY.code, DOES_NOT_FIT.code):
        yield from _other_models(setting, code)
    if code in _BY_A_SHARE:
        yield from _kept([_with_more_memory(setting, finish=code != MAMBA_BLOCKS.code)])
    for lever in _ALSO.get(code, ()):
        changed = lever(setting, TOO_LITTLE if code in TOO_LITTLE else (code,))
        if changed is not None and changed.starts:
            yield changed
    if code in _BY_A_SHARE:
        # vLLM sizes the cache then, and there may be more than was asked for.
        left_open = (lever(setting, ()) for lever in (levers.no_bytes, levers.no_override))
        yield from _all_finished(_kept(left_open))
    if code == NO_MEMORY.code:
        yield from _kept([_mended(setting, levers.shorter, codes)])


def _last_ones(setting: Setting, code: str) -> Iterator[Setting]:
    """What costs more to look for, where nothing else starts."""
    if code == NO_MEMORY.code:
        yield from _kept([_mended(setting, levers.fewer_requests, (code,))])
    if code == MAMBA_BLOCKS.code:
        yield from _kept([_with_more_memory(setting, finish=True)])


def _other_models(setting: Setting, code: str) -> Iterator[Setting]:
    """Without what the model does not need: adapters, videos, images. The first that starts as it is, or shortened."""
    for family in (model_levers.adapters, model_levers.less_media):
        tried = list(family(setting))
        whole = next((one for one in tried if one.starts), None)
        if whole is not None:
            yield whole
        elif family is model_levers.less_media or code != DOES_NOT_FIT.code:
            yield from itertools.islice(filter(model_levers.is_used, map(_needed, _all_finished(tried))), 1)


def _all_finished(tried: Iterable[Setting]) -> Iterator[Setting]:
    return _kept(_finished(one, _CHANGES - 1) for one in tried)


def _with_more_memory(setting: Setting, finish: bool) -> Setting | None:
    """The least larger share that does; where none does, to `finish`, the largest with what is then still needed."""
    top = levers.top_share(setting)
    if top is None:
        return None
    if top.starts:
        return levers.larger_share(setting, top)
    return _finished(top, _CHANGES - 1) if finish else None


def _needed(setting: Setting) -> Setting:
    """The setting without the changes that it starts without."""
    for change in setting.changes if len(setting.changes) > 1 else ():
        fewer = setting.without(change)
        if fewer.changes and fewer.starts:
            setting = fewer
    return setting


def _kept(found: Iterable[Setting | None]) -> Iterator[Setting]:
    return (one for one in found if one is not None)


def _mended(setting: Setting, lever: Lever, codes: Sequence[str], changes: int = _CHANGES) -> Setting | None:
    """The setting with `lever` moved, and with what is then still needed; None: it does not get it to start."""
    changed = lever(setting, codes)
    return None if changed is None else _finished(changed, changes - 1)


def _finished(setting: Setting, changes: int) -> Setting | None:
    left = setting.problems
    if left is None:
        return None
    if not left:
        return setting if setting.starts else None
    code = next((code for code in _FIRST if any(finding.code == code for finding in left)), None)
    if code is None or changes < 1:
        return setting if setting.starts else None
    first, codes = _FIRST[code]
    return next(_kept(_mended(setting, lever, codes, changes) for lever in first), None)


def _loads(setting: Setting) -> bool:
    left = setting.problems
    return left is not None and all(found.code in CODES or found.severity != "error" for found in left)


def _more_gpus(setting: Setting) -> str:
    """The fewest GPUs that start, with a shorter length where that of the model is out of reach; "": none do."""
    for more in model_levers.layouts(setting, _loads):
        found = more if more.starts else _finished(more, 2)
        if found is not None and _is_long_enough(setting, [found]):
            replicas = found.deployment.data_parallel_size
            apart = f" with data parallel size {replicas}" if replicas > 1 else ""
            return f"{found.words} ({found.gpus} GPUs{apart} {_FEWEST})"
    return ""


def _no_gpus(setting: Setting) -> str:
    """What is said where no number of these GPUs does."""
    if setting.request.kv_bytes is not None:
        return "leave --kv-bytes out: the plan then says what gives the KV cache more"
    if next(model_levers.layouts(setting, _loads), None) is not None:
        return f"take GPUs with more memory: {MOST_GPUS} of these do not do"
    return "spread the model over more GPUs, or take GPUs with more memory"


_LONGER = f"are the fewest for {LENGTH_WITH_MORE_GPUS} tokens"


def _more_gpus_too(setting: Setting, why: str) -> str:
    more = _more_gpus(setting)
    return f", or {more.replace(_FEWEST, why)}" if more else ""
