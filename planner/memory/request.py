"""What is asked and known of the memory beside a Deployment, and the budget that comes of it."""

from __future__ import annotations

from dataclasses import field, replace

from ..deployment import Deployment
from ..errors import InputError, shorten
from ..light_dataclass import dataclass
from ..resolve import Resolution
from ..vocabulary import CUDAGraphMode
from .budget.budget import Budget, MemoryFlags, estimate_budget
from .budget.measured import Measured
from .budget.non_torch import total_bytes
from .budget.weights import Weights
from .estimates import GIB, MIB, exactly
from .graphs.memory import GraphMemory, predict_graph_memory
from .measured_of import known_of_variant
from .override_room import with_blocks

NO_GRAPHS = exactly(0, "no CUDA graphs")
LEAST_GPU = GIB
"""No GPU that serves a model has less; a smaller number lost its unit."""
MOST_GPU = 4096 * GIB
MUCH_MORE = 1.25
"""Two figures of one GPU's memory differ by less."""
LEAST = MIB
"""Fewer bytes of weights or of free memory are a number without its unit."""


@dataclass(frozen=True)
class MemoryRequest:
    """What is asked and known of the memory beside a Deployment.

    Attributes:
        flags: of memory.
        known: measured values, which take the place of estimates; bytes of one rank.
        weights: counted from files, by pipeline stage; None: estimated from the model's shape.
        kv_bytes: of the KV cache of one rank; the budget is then left out.
        auto_fit: --max-model-len is -1 or auto; the deployment's own length is then None.
        known_of: the deployment that `known` was measured of; None: whichever is asked about.
        is_by_hand: nothing said what `known` was measured of, so it is of what was asked about first.
    """

    flags: MemoryFlags = field(default_factory=MemoryFlags)
    known: Measured = field(default_factory=Measured)
    weights: Weights | None = None
    kv_bytes: int | None = None
    auto_fit: bool = False
    known_of: Deployment | None = field(default=None, repr=False)
    is_by_hand: bool = field(default=False, repr=False)

    def of(self, deployment: Deployment) -> MemoryRequest:
        """The request as it is asked of `deployment`: what is known was measured of it, unless it is said of which."""
        if self.known_of is not None or self.known.is_empty:
            return self
        return replace(self, known_of=deployment, is_by_hand=True)

    @property
    def as_typed(self) -> MemoryRequest:
        """The request that the same options make beside a changed deployment: values given by hand stay as they are."""
        return replace(self, known_of=None, is_by_hand=False) if self.is_by_hand else self

    def measured_of(self, deployment: Deployment) -> Measured:
        """What was measured of `deployment` itself; of a variant that is nothing."""
        return self.known if self.known_of is None or self.known_of == deployment else Measured()


def make_budget(
    deployment: Deployment, resolution: Resolution, request: MemoryRequest
) -> tuple[Budget, GraphMemory | None]:
    """The memory of each rank, and that of the CUDA graphs within it, both predicted and as far as known.

    Raises:
        InputError: something of the model is not known that the budget needs.
    """
    graphs = graph_memory(deployment, resolution)
    of = request.known_of if request.known_of is not None else deployment
    known, taken, estimate = known_of_variant(request.known, of, graph_memory, deployment, resolution, graphs)
    budget = estimate_budget(
        deployment, resolution, request.flags,
        known=known, weights=request.weights, graphs=taken or NO_GRAPHS, graph_estimate=estimate or NO_GRAPHS,
    )  # fmt: skip
    return with_blocks(deployment, resolution, budget), graphs


def graph_memory(deployment: Deployment, resolution: Resolution) -> GraphMemory | None:
    """What the CUDA graphs take, and what vLLM estimates for them; None: there are none."""
    if resolution.cudagraph_mode is CUDAGraphMode.NONE:
        return None
    return predict_graph_memory(deployment, resolution)


def check_sizes(deployment: Deployment, request: MemoryRequest) -> None:
    """Sizes that no such GPU can have are refused: a missing unit, or the bytes of another machine.

    Raises:
        InputError: CG903, with the option that it concerns.
    """
    gpu, known = deployment.gpu, request.known
    if request.known_of is not None and request.known_of.gpu != gpu:
        known = Measured()  # of another GPU; `known_of_variant` takes what holds of it
    if request.kv_bytes is not None and type(request.kv_bytes) is not int:
        raise InputError(
            f"{shorten(request.kv_bytes, 40)} is no number of bytes",
            code="CG903",
            where="--kv-bytes",
            fix="give whole bytes",
        )
    if gpu.memory_bytes < LEAST_GPU:
        raise _wrong(
            "--gpu-memory-bytes", gpu.memory_bytes, f"less than {_gib(LEAST_GPU)}, which is no GPU's memory", "80G"
        )
    if gpu.memory_bytes > MOST_GPU:
        raise _wrong("--gpu-memory-bytes", gpu.memory_bytes, f"above {_gib(MOST_GPU)}, more than any GPU has", "80G")
    if known.total is not None:
        if known.total < LEAST_GPU:
            raise _wrong("--total-bytes", known.total, f"less than {_gib(LEAST_GPU)}, which is no GPU's memory", "79G")
        if known.total > gpu.memory_bytes * MUCH_MORE:
            raise _above("--total-bytes", known.total, gpu.memory_bytes, f"{gpu.name} has", "--gpu-memory-bytes")
    if all(size is None for size in (known.free, known.weights, request.kv_bytes, *_parts(known).values())):
        return
    whole = known.total if known.total is not None else total_bytes(gpu).high
    for flag, size, example in (("--free-bytes", known.free, "78G"), ("--weights-bytes", known.weights, "15G")):
        if size is not None and size < LEAST:
            raise _wrong(flag, size, "less than 1 MiB", example)
    of_gpu = {"--free-bytes": known.free, "--kv-bytes": request.kv_bytes, **_parts(known)}
    for flag, size in of_gpu.items():
        if size is not None and abs(size) > whole:
            raise _above(flag, size, whole, f"{gpu.name} has", "--gpu or --total-bytes")


def _parts(known: Measured) -> dict[str, int | None]:
    return {
        "--activation-bytes": known.activation,
        "--non-torch-bytes": known.non_torch,
        "--graph-bytes": known.graphs,
        "--graph-estimate-bytes": known.graph_estimate,
    }


def _wrong(flag: str, size: int, what: str, example: str) -> InputError:
    return InputError(
        f"{flag} {size} is {what}",
        code="CG903",
        where=flag,
        fix=f"give the bytes with their unit, for example {example}",
    )


def _above(flag: str, size: int, most: int, whose: str, other: str) -> InputError:
    return InputError(
        f"{flag} {size} is more than the {most} bytes that {whose}",
        code="CG903",
        where=flag,
        fix=f"give {most} or less, or another GPU with {other}",
    )


def _gib(size: int) -> str:
    return f"{size // GIB} GiB"
