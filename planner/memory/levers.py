"""The settings that can let a server start, each moved as little as it takes, with every value planned.

A lever takes a Setting and the codes of the findings to be rid of, and gives the changed Setting; None: no value is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import ceil

from ..resolve.memory_deduction import VARIABLE
from ..vocabulary import CUDAGraphMode
from .budget.budget import Budget, default_utilization
from .budget.estimate_findings import is_implausible
from .budget.non_torch import total_bytes
from .budget.rules import FREE_MEMORY, NO_ROOM_TO_CAPTURE, WARM_UP
from .budget.shortages import warm_up_room, warm_up_spare
from .estimates import GIB, MIB
from .graphs.estimate import gated_delta_bytes
from .reach import largest, least, longest_model_len, most_requests, settled_length
from .setting import Change, Setting
from .verdict import TOO_LITTLE

LEAST_LENGTH = 256
"""A shorter --max-model-len is no advice."""
SHARE_TOO_LARGE = (FREE_MEMORY.code, NO_ROOM_TO_CAPTURE.code, WARM_UP.code)
"""Findings that a larger --gpu-memory-utilization brings."""
MOST_BLOCKS = 1 << 26
MOST_LOWER = 10
"""Hundredths of --gpu-memory-utilization by which a smaller share is looked for where there is no reckoning."""

Lever = Callable[[Setting, Collection[str]], "Setting | None"]


def shorter(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--max-model-len down."""
    if setting.request.auto_fit:
        return None
    made, request = setting.deployment, setting.request
    longest = setting.resolution.max_model_len
    if all(finding.code in TOO_LITTLE for finding in setting.problems or ()):
        # The plan asks for it as well.
        found = min(longest_model_len(made, request, surely=setting.surely), longest - 1)
    else:
        found = largest(
            lambda length: _with_length(setting, length).lacks(codes),
            longest - 1,
            lambda: settled_length(made, request, setting.surely, longest),
        )
    return _with_length(setting, found) if found >= LEAST_LENGTH else None


def _with_length(setting: Setting, length: int) -> Setting:
    return setting.to(Change("--max-model-len", f"--max-model-len {length}", {"max_model_len": length}))


def fewer_requests(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--max-num-seqs down; to a round number, since the number of blocks changes a little from start to start."""
    most = setting.resolution.max_num_seqs - 1
    found = largest(lambda bits: _with_requests(setting, 1 << (bits - 1)).lacks(codes), most.bit_length())
    return _with_requests(setting, 1 << (found - 1)) if found else None


def fewer_graphs(setting: Setting, codes: Collection[str]) -> Setting | None:
    """The same, where graphs are what is too large: fewer requests are fewer FULL graphs, and smaller ones."""
    found = fewer_requests(setting, codes)
    return found if found is not None and (found.deployment.max_num_seqs or 0) >= FEW_REQUESTS else None


FEW_REQUESTS = 8
"""A server of fewer requests is no advice where a smaller share does."""


def length_kept(setting: Setting) -> Setting | None:
    """As many requests as start with the length asked for; None: too few to be advice, or no fewer."""
    most = setting.resolution.max_num_seqs
    found = most_requests(setting.deployment, setting.request, surely=setting.surely)
    changed = _with_requests(setting, found) if FEW_REQUESTS <= found < most else None
    return changed if changed is not None and changed.starts else None


def fewer_tokens(setting: Setting) -> Iterator[Setting]:
    """--max-num-batched-tokens down, where transient memory of that many is taken for graphs; see CG529."""
    asked = setting.request
    if asked.kv_bytes is not None or asked.known.graph_estimate is not None:
        return
    if not gated_delta_bytes(setting.deployment, setting.resolution):
        return
    stage, now = setting.budget.tightest, setting.resolution.max_num_batched_tokens
    if stage.deducted.best - stage.graphs.best < GIB:
        return
    for number in FEWER_TOKENS:
        if number < now:
            text = f"--max-num-batched-tokens {number}"
            yield setting.to(Change("--max-num-batched-tokens", text, {"max_num_batched_tokens": number}))


FEWER_TOKENS = (8192, 4096, 2048)
"""Values of --max-num-batched-tokens that are tried: vLLM's own default, and less."""


def most_told(setting: Setting) -> Setting:
    """The setting with the largest --max-num-seqs beside a round one that starts with all else of it."""
    change = next((change for change in setting.changes if change.name == "--max-num-seqs"), None)
    if change is None:
        return setting
    now, others = setting.deployment.max_num_seqs or 1, setting.without(change)
    if others.changes:
        limit = min(2 * now, others.resolution.max_num_seqs) - 1
        most = now + largest(lambda more: _with_requests(setting, now + more).starts, limit - now)
    else:
        # The plan asks for it as well.
        most = most_requests(others.deployment, others.request, surely=setting.surely)
    return _with_requests(setting, now, most if most > now else 0)


def _with_requests(setting: Setting, number: int, most: int = 0) -> Setting:
    return setting.to(Change("--max-num-seqs", f"--max-num-seqs {number}", {"max_num_seqs": number}, most=most))


def smaller_share(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--gpu-memory-utilization down."""
    if setting.request.kv_bytes is not None:
        return None
    now = _share(setting)
    found = largest(
        lambda hundredth: with_share(setting, hundredth).lacks(codes),
        now - 1 if now > 1 else 0,
        lambda: _near_share(setting, setting.budget),
    )
    return with_share(setting, found) if found else None


def roomy_share(setting: Setting, codes: Collection[str]) -> Setting | None:
    """The same, where the sampler's warm-up is short of memory: down to the share that `cgplan logs` names, too."""
    found = smaller_share(setting, codes)
    if found is None:
        return None
    budget = found.budget
    missing = -warm_up_spare(budget)
    if missing <= 0:
        return found
    lower = with_share(setting, max(1, _share(found) - ceil(missing * 100 / budget.total.best)))
    return lower if lower.lacks(codes) and lower.starts else found


def top_share(setting: Setting) -> Setting | None:
    """--gpu-memory-utilization up to what the free memory, capture and the warm-up allow; None: it is no higher."""
    asked = setting.request
    by_other_means = asked.flags.kv_cache_bytes or setting.deployment.num_gpu_blocks_override is not None
    if asked.kv_bytes is not None or by_other_means:
        return None
    budget, now = setting.budget, _share(setting)
    near = _near_share(setting, budget)
    most = min(near + 1, _free_share(budget)) if setting.surely else 100
    found = largest(lambda hundredth: with_share(setting, hundredth).lacks(SHARE_TOO_LARGE), most, lambda: near)
    return with_share(setting, found) if found > now else None


def larger_share(setting: Setting, top: Setting) -> Setting:
    """The least --gpu-memory-utilization with which it starts as it does with that of `top`."""
    found = least(lambda hundredth: with_share(setting, hundredth).starts, _share(setting) + 1, _share(top))
    return top if found is None else with_share(setting, found)


def _share(setting: Setting) -> int:
    """Hundredths, rounded down."""
    given = setting.request.flags.utilization
    share = default_utilization(setting.deployment.vllm) if given is None else given
    return int(share * 100 + 1e-9)


def _free_share(budget: Budget) -> int:
    return max(0, min(100, int(budget.free.low * 100 / budget.total.high)))


def _near_share(setting: Setting, budget: Budget) -> int:
    """About the hundredths that the free memory and the sampler's warm-up allow."""
    room = int(warm_up_room(budget) * 100 / budget.total.best)
    return min(_free_share(budget), max(1, int(budget.utilization * 100 + 1e-9) + room))


def with_share(setting: Setting, hundredth: int) -> Setting:
    """--gpu-memory-utilization of so many hundredths."""
    share = hundredth / 100
    text = f"--gpu-memory-utilization {share:.2f}"
    return setting.to(Change("--gpu-memory-utilization", text, flags={"utilization": share}))


def fewer_bytes(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--kv-cache-memory-bytes down, in MiB."""
    given = setting.request.flags.kv_cache_bytes
    if not given or setting.request.kv_bytes is not None:
        return None
    most = min(given - 1, _whole(setting)) // MIB
    found = largest(lambda size: _with_bytes(setting, size).lacks(codes), most)
    return _with_bytes(setting, found) if found else None


def more_bytes(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--kv-cache-memory-bytes up, in MiB. The bytes of --kv-bytes are what a start had: nobody can ask for more."""
    given = setting.request.flags.kv_cache_bytes
    if not given or setting.request.kv_bytes is not None:
        return None
    found = least(lambda size: _with_bytes(setting, size).lacks(codes), given // MIB + 1, _whole(setting) // MIB)
    return None if found is None else _with_bytes(setting, found)


def _with_bytes(setting: Setting, mebibytes: int) -> Setting:
    size = mebibytes * MIB
    text = f"--kv-cache-memory-bytes {size}"
    return setting.to(Change("--kv-cache-memory-bytes", text, flags={"kv_cache_bytes": size}))


def _whole(setting: Setting) -> int:
    known = setting.request.known.total
    return known if known is not None else total_bytes(setting.deployment.gpu).low


def no_bytes(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--kv-cache-memory-bytes left out."""
    if not setting.request.flags.kv_cache_bytes or setting.request.kv_bytes is not None:
        return None
    text = "no --kv-cache-memory-bytes"
    found = setting.to(Change("--kv-cache-memory-bytes", text, flags={"kv_cache_bytes": None}))
    return found if found.lacks(codes) else None


def fewer_blocks(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--num-gpu-blocks-override down."""
    given = setting.deployment.num_gpu_blocks_override
    if given is None:
        return None
    found = largest(lambda number: _with_blocks(setting, number).lacks(codes), given - 1)
    return _with_blocks(setting, found) if found else None


def more_blocks(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--num-gpu-blocks-override up."""
    given = setting.deployment.num_gpu_blocks_override
    if given is None:
        return None
    most = given + 1
    while most < MOST_BLOCKS and not _with_blocks(setting, most).lacks(codes):
        most *= 4
    found = least(lambda number: _with_blocks(setting, number).lacks(codes), given + 1, most)
    return None if found is None else _with_blocks(setting, found)


def _with_blocks(setting: Setting, number: int) -> Setting:
    return _with_override(setting, f"--num-gpu-blocks-override {number}", number)


def _with_override(setting: Setting, text: str, number: int | None) -> Setting:
    # The blocks that `resolve` counts with are those of the override.
    known = None if setting.deployment.num_gpu_blocks is None else number
    fields = {"num_gpu_blocks_override": number, "num_gpu_blocks": known}
    return setting.to(Change("--num-gpu-blocks-override", text, fields))


def no_estimate(setting: Setting, codes: Collection[str]) -> Setting | None:
    """The estimate of the graphs switched off, where it was measured and is no measure of what capture takes."""
    estimate = setting.request.known.graph_estimate
    if estimate is None or estimate <= 0 or setting.request.kv_bytes is not None:
        return None
    budget = setting.budget
    taken = max(budget.tightest.graphs.best, 0)
    if not budget.deduction.deducted or not is_implausible(estimate, taken, budget.total.best):
        return None
    off = {"env": {**setting.deployment.env, VARIABLE: "0"}}
    return setting.to(Change(VARIABLE, f"{VARIABLE}=0", off))


def no_override(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--num-gpu-blocks-override left out."""
    if setting.deployment.num_gpu_blocks_override is None:
        return None
    found = _with_override(setting, "no --num-gpu-blocks-override", None)
    return found if found.lacks(codes) else None


def piecewise(setting: Setting, codes: Collection[str]) -> Setting | None:
    """Graphs without attention in them, which need no block for each request."""
    options = setting.deployment.compilation_config.model_copy(update={"cudagraph_mode": CUDAGraphMode.PIECEWISE})
    text = "-cc.cudagraph_mode=PIECEWISE"
    found = setting.to(Change("-cc.cudagraph_mode", text, {"compilation_config": options}))
    return found if found.lacks(codes) else None
