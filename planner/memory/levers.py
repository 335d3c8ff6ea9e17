"""The settings that can let a server start, each moved as little as it takes, with every value planned.

A lever takes a Setting and the codes of the findings to be rid of, and gives the changed Setting; None: no value is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from ..deployment import Deployment
from ..light_dataclass import dataclass
from ..resolve import Resolution, resolve
from ..vocabulary import CUDAGraphMode
from .budget.budget import default_utilization
from .budget.non_torch import total_bytes
from .estimates import MIB
from .reach import largest, least, longest_model_len, with_length, with_requests
from .request import MemoryRequest
from .verdict import problems, starts_by_best, surely_starts

LEAST_LENGTH = 256
"""A shorter --max-model-len is no advice."""
LENGTH_WITH_MORE_GPUS = 4096
"""Nobody pays for more GPUs to serve shorter requests."""
MOST_GPUS = 64
NODE = 8
"""GPUs of a node of those that are rented out for it."""


@dataclass(frozen=True)
class Setting:
    """A deployment as it was asked for, with some options changed.

    Attributes:
        changed: option to its new value, in the order of the changes; "" leaves the option out.
        surely: it has to start within the bounds of every estimate; else by the best ones.
    """

    deployment: Deployment
    request: MemoryRequest
    changed: tuple[tuple[str, str], ...] = ()
    surely: bool = True

    def to(self, flag: str, value: object, **update: Any) -> Setting:
        """The setting with an option changed: `update` holds `deployment` or `request`."""
        before = tuple(pair for pair in self.changed if pair[0] != flag)
        return replace(self, changed=(*before, (flag, str(value))), **update)

    @property
    def starts(self) -> bool:
        return (surely_starts if self.surely else starts_by_best)(self.deployment, self.request)

    def lacks(self, codes: Collection[str]) -> bool:
        """Whether vLLM takes it, and none of these findings is left."""
        found = problems(self.deployment, self.request, self.surely)
        return found is not None and not any(finding.code in codes for finding in found)

    @property
    def resolution(self) -> Resolution:
        return resolve(self.deployment)

    @property
    def words(self) -> str:
        """The changes as they are typed."""
        return " with ".join(_typed(flag, value) for flag, value in self.changed)


def _typed(flag: str, value: str) -> str:
    if not value:
        return f"no {flag}"
    return f"{flag}={value}" if flag.startswith("-cc.") else f"{flag} {value}"


Lever = Callable[[Setting, Collection[str]], "Setting | None"]


def shorter(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--max-model-len down."""
    if setting.request.auto_fit:
        return None
    most = setting.resolution.max_model_len - 1
    found = largest(
        lambda length: _with_length(setting, length).lacks(codes),
        most,
        lambda: longest_model_len(setting.deployment, setting.request, surely=setting.surely),
    )
    return _with_length(setting, found) if found >= LEAST_LENGTH else None


def _with_length(setting: Setting, length: int) -> Setting:
    return setting.to("--max-model-len", length, deployment=with_length(setting.deployment, length))


def fewer_requests(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--max-num-seqs down; to a round number, since the number of blocks changes a little from start to start."""
    found = largest(lambda number: _with_requests(setting, number).lacks(codes), setting.resolution.max_num_seqs - 1)
    if not found:
        return None
    round_number = 1 << (found.bit_length() - 1)
    changed = _with_requests(setting, round_number)
    if round_number == found:
        return changed
    return replace(changed, changed=(*changed.changed[:-1], ("--max-num-seqs", f"{round_number} ({found} at most)")))


def _with_requests(setting: Setting, number: int) -> Setting:
    return setting.to("--max-num-seqs", number, deployment=with_requests(setting.deployment, number))


def smaller_share(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--gpu-memory-utilization down."""
    if setting.request.kv_bytes is not None:
        return None
    now = _share(setting)
    found = largest(lambda hundredth: _with_share(setting, hundredth).lacks(codes), now - 1 if now > 1 else 0)
    return _with_share(setting, found) if found else None


def larger_share(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--gpu-memory-utilization up."""
    if setting.request.kv_bytes is not None:
        return None
    found = least(lambda hundredth: _with_share(setting, hundredth).lacks(codes), _share(setting) + 1, 100)
    return None if found is None else _with_share(setting, found)


def _share(setting: Setting) -> int:
    """Hundredths, rounded down."""
    given = setting.request.flags.utilization
    share = default_utilization(setting.deployment.vllm) if given is None else given
    return int(share * 100 + 1e-9)


def _with_share(setting: Setting, hundredth: int) -> Setting:
    flags = replace(setting.request.flags, utilization=hundredth / 100)
    return setting.to(
        "--gpu-memory-utilization", f"{hundredth / 100:.2f}", request=replace(setting.request, flags=flags)
    )


def fewer_bytes(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--kv-cache-memory-bytes down, in MiB."""
    given = setting.request.flags.kv_cache_bytes
    if not given or setting.request.kv_bytes is not None:
        return None
    most = min(given - 1, _whole(setting)) // MIB
    found = largest(lambda size: _with_bytes(setting, size).lacks(codes), most)
    return _with_bytes(setting, found) if found else None


def more_bytes(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--kv-cache-memory-bytes or --kv-bytes up, in MiB."""
    given = setting.request.kv_bytes if setting.request.kv_bytes is not None else setting.request.flags.kv_cache_bytes
    if given is None:
        return None
    found = least(lambda size: _with_bytes(setting, size).lacks(codes), given // MIB + 1, _whole(setting) // MIB)
    return None if found is None else _with_bytes(setting, found)


def _with_bytes(setting: Setting, mebibytes: int) -> Setting:
    size, request = mebibytes * MIB, setting.request
    if request.kv_bytes is not None:
        return setting.to("--kv-bytes", size, request=replace(request, kv_bytes=size))
    flags = replace(request.flags, kv_cache_bytes=size)
    return setting.to("--kv-cache-memory-bytes", size, request=replace(request, flags=flags))


def _whole(setting: Setting) -> int:
    known = setting.request.known.total
    return known if known is not None else total_bytes(setting.deployment.gpu).low


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


MOST_BLOCKS = 1 << 26


def _with_blocks(setting: Setting, number: int) -> Setting:
    update = {"num_gpu_blocks_override": number}
    return setting.to("--num-gpu-blocks-override", number, deployment=setting.deployment.model_copy(update=update))


def no_override(setting: Setting, codes: Collection[str]) -> Setting | None:
    """--num-gpu-blocks-override left out."""
    if setting.deployment.num_gpu_blocks_override is None:
        return None
    update = {"num_gpu_blocks_override": None}
    found = setting.to("--num-gpu-blocks-override", "", deployment=setting.deployment.model_copy(update=update))
    return found if found.lacks(codes) else None


def piecewise(setting: Setting, codes: Collection[str]) -> Setting | None:
    """Graphs without attention in them, which need no block for each request."""
    options = setting.deployment.compilation_config.model_copy(update={"cudagraph_mode": CUDAGraphMode.PIECEWISE})
    deployment = setting.deployment.model_copy(update={"compilation_config": options})
    found = setting.to("-cc.cudagraph_mode", "PIECEWISE", deployment=deployment)
    return found if found.lacks(codes) else None


def layouts(setting: Setting) -> Iterator[Setting]:
    """More GPUs, fewest first: tensor parallel ranks by powers of two within a node, then pipeline stages of nodes.

    Nothing where the weights were measured or counted: they are those of the ranks that there are.
    """
    request, now = setting.request, setting.deployment
    if request.known.weights is not None or request.weights is not None or request.kv_bytes is not None:
        return
    ranks, stages = now.tensor_parallel_size * 2, now.pipeline_parallel_size
    while ranks <= NODE and ranks * stages <= MOST_GPUS:
        yield _with_layout(setting, ranks, stages)
        ranks *= 2
    ranks = max(NODE, now.tensor_parallel_size)
    stages *= 2
    while ranks * stages <= MOST_GPUS:
        yield _with_layout(setting, ranks, stages)
        stages *= 2


def _with_layout(setting: Setting, ranks: int, stages: int) -> Setting:
    now = setting.deployment
    update: dict[str, Any] = {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
    update["gpus_per_node"] = max(now.gpus_per_node, min(NODE, ranks * stages))
    nodes = max(now.nnodes, -(-ranks * stages // update["gpus_per_node"]))
    update["nnodes"] = nodes
    found = setting.to("--tensor-parallel-size", ranks) if ranks != now.tensor_parallel_size else setting
    if stages != now.pipeline_parallel_size:
        found = found.to("--pipeline-parallel-size", stages)
    if nodes != now.nnodes:
        found = found.to("--nnodes", nodes)
    return replace(found, deployment=now.model_copy(update=update))
