"""One deployment planned at several releases: what moves in its memory, and in which release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import pairwise
from typing import Any, Literal

from ..deployment import Deployment
from ..errors import CgplanError, InputError
from ..light_dataclass import dataclass
from ..releases import SUPPORTED, holds
from ..resolve.downgrade import MAMBA_BLOCKS, MAMBA_SIZES
from ..trace import Finding
from .capacity_plan import CapacityPlan
from .kv.capacity import CAPACITY
from .plan import plan_of
from .reach import MOST_SEQS, with_requests
from .release_causes import CAPTURE, OF_FIELD, Codes, MemoryCause, counts_one_group, memory_causes
from .request import MemoryRequest
from .verdict import verdict_of

FIELDS = (
    "starts", "gpu_memory_utilization", "kv_bytes", "max_concurrency", "kv_tokens", "max_model_len", "deducted_bytes",
    "graph_bytes", "block_size", "max_num_seqs_that_fits", "codes",
)  # fmt: skip
"""What is compared, in the order of the screen."""
OF_ENDS = "max_num_seqs_that_fits"
"""Looked for at both ends only: it takes many small plans."""
_CAPS = tuple(release for release in SUPPORTED if holds(release, MAMBA_SIZES.since, MAMBA_SIZES.until))
"""Releases that cap the sizes of graphs to the blocks of states, where later ones refuse."""


@dataclass(frozen=True)
class MemoryAtRelease:
    """What a plan of one release says.

    Attributes:
        release: of vLLM.
        starts: "yes" and "no" hold within the bounds of every estimate; "unsure": they differ.
        fits: whether it starts, by the best values.
        gpu_memory_utilization: after defaults; None: it does not size the KV cache.
        kv_bytes: of one rank, the tightest stage's; None: vLLM refuses before it is sized.
        max_concurrency: requests of max_model_len tokens that fit at once, two digits; None like kv_tokens.
        kv_tokens: what the KV cache holds, as the log of the release counts; None: there is none, or vLLM refuses.
        counts_one_group: these tokens are of one of several groups of layers, which no other release prints.
        max_model_len: tokens, after fitting; None like kv_tokens.
        deducted_bytes: of the graphs' estimate, off the KV cache of the tightest stage; None: no budget.
        graph_bytes: what capture takes, of the tightest stage; None like deducted_bytes.
        block_size: tokens, or None like kv_tokens.
        max_num_seqs_that_fits: the largest that starts by the best values, 0: none; None: not looked for.
        ends: codes of what ends the start by the best values; () where it starts by them.
        ends_beyond: the same with one sequence more than max_num_seqs_that_fits.
        findings: warnings and errors of the plan.
        made: the plan; None: vLLM refuses before memory counts.
    """

    release: str
    starts: Literal["yes", "no", "unsure"]
    fits: bool
    gpu_memory_utilization: float | None = None
    kv_bytes: int | None = None
    max_concurrency: float | None = None
    kv_tokens: int | None = None
    counts_one_group: bool = False
    max_model_len: int | None = None
    deducted_bytes: int | None = None
    graph_bytes: int | None = None
    block_size: int | None = None
    max_num_seqs_that_fits: int | None = None
    ends: tuple[str, ...] = ()
    ends_beyond: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    made: CapacityPlan | None = field(default=None, repr=False, compare=False)

    @property
    def full_length_tokens(self) -> int | None:
        """What the KV cache holds, counted alike at every release: full-length requests times their length."""
        if self.made is None or self.made.best.plan is None or self.made.best.plan.max_concurrency is None:
            return None
        return int(self.made.best.plan.max_concurrency * self.made.best.plan.max_model_len)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the findings, each once, in order."""
        return tuple(sorted({finding.code for finding in self.findings}))

    def values(self) -> dict[str, Any]:
        """What is compared, by name; `starts` in words that tell the best estimate from the bounds."""
        found = {name: getattr(self, name) for name in FIELDS}
        return found | {"starts": self.starts if self.starts != "unsure" else f"unsure, {self.fits}"}


@dataclass(frozen=True)
class MemoryMoves:
    """A deployment's memory at every release of a path.

    Attributes:
        sides: one a release; the first and the last are the ends.
        causes: what moved the memory, step by step.
    """

    sides: tuple[MemoryAtRelease, ...]
    causes: tuple[MemoryCause, ...] = ()

    @property
    def first(self) -> MemoryAtRelease:
        return self.sides[0]

    @property
    def last(self) -> MemoryAtRelease:
        return self.sides[-1]

    @property
    def refused(self) -> MemoryAtRelease | None:
        """The one end whose release refuses before it looks at memory; None: neither does, or both."""
        ends = [side for side in (self.first, self.last) if side.made is None]
        return ends[0] if len(ends) == 1 else None

    @property
    def is_given(self) -> bool:
        """Whether --kv-cache-memory-bytes sizes the KV cache, at an end that is planned."""
        return any(_is_given(side.made) for side in (self.first, self.last) if side.made is not None)

    @property
    def changed(self) -> tuple[str, ...]:
        """Fields that differ between the ends."""
        one, other = self.first.values(), self.last.values()
        return tuple(name for name in FIELDS if one[name] != other[name])

    def releases(self, field: str) -> tuple[str, ...]:
        """The releases, in the direction of the path, that changed a field; () where it is not known between the ends.

        Named is the newer of two neighbours on the path, which brought the change or, on a downgrade, takes it away.
        """
        if field == OF_ENDS and len(self.sides) > 2:
            return ()
        return self._moved_in(lambda side: side.values()[field])

    @property
    def tokens_moved_in(self) -> tuple[str, ...]:
        """The releases that changed the tokens that full-length requests hold."""
        return self._moved_in(lambda side: side.full_length_tokens)

    @property
    def count_moved_in(self) -> tuple[str, ...]:
        """The releases that changed how the log counts tokens."""
        return self._moved_in(lambda side: side.counts_one_group)

    def _moved_in(self, of: Callable[[MemoryAtRelease], Any]) -> tuple[str, ...]:
        return tuple(
            max(before.release, after.release, key=SUPPORTED.index)
            for before, after in pairwise(self.sides)
            if of(before) != of(after)
        )

    def causes_of(self, field: str) -> tuple[MemoryCause, ...]:
        """What moved a field of `changed`, in the releases that did; () where it is not made of parts."""
        moved = self.releases(field)
        return tuple(cause for cause in self.causes if cause.part in OF_FIELD.get(field, ()) and cause.release in moved)

    def codes_of(self, field: str) -> tuple[str, ...]:
        """The rules behind a field of `changed`; () where none was found."""
        if field == OF_ENDS:
            return tuple(dict.fromkeys((*self.first.ends_beyond, *self.last.ends_beyond)))
        if field == "starts":
            return tuple(dict.fromkeys((*self.first.ends, *self.last.ends))) or self.codes_of("kv_bytes")
        if field == "codes":
            return tuple(dict.fromkeys(found.code for found in (*self.new, *self.gone)))
        return tuple(dict.fromkeys(code for cause in self.causes_of(field) for code in cause.codes))

    @property
    def keeps(self) -> str | None:
        """The flag that keeps the share of memory asked for, where its default moved; else None."""
        before, after = self.first.gpu_memory_utilization, self.last.gpu_memory_utilization
        if before is None or after is None or before == after:
            return None
        return f"--gpu-memory-utilization {before:g}"

    @property
    def ends_both(self) -> tuple[str, ...]:
        """Codes that end the start at either end, by the best values, where neither starts; () where one does."""
        if self.first.fits or self.last.fits:
            return ()
        return tuple(dict.fromkeys((*self.first.ends, *self.last.ends)))

    @property
    def unchecked_blocks(self) -> int | None:
        """Blocks of the first release, which starts with fewer of them than sequences, where the last one refuses.

        None: it is not so.
        """
        plan = self.first.made.best.plan if self.first.made is not None else None
        came = MAMBA_BLOCKS.code in {found.code for found in self.new}
        return plan.num_blocks if plan is not None and came and self.first.release in _CAPS else None

    @property
    def new(self) -> tuple[Finding, ...]:
        """Findings of the last release whose code the first has not, or that end its start where the first starts."""
        return _of_one(self.last, self.first)

    @property
    def gone(self) -> tuple[Finding, ...]:
        """The same of the first release."""
        return _of_one(self.first, self.last)


def _of_one(side: MemoryAtRelease, other: MemoryAtRelease) -> tuple[Finding, ...]:
    """Findings of `side` alone. Of a release without a KV cache no warning is missing: nobody looked for it."""
    ends = side.ends if other.fits else ()
    return tuple(
        found
        for found in side.findings
        if found.code in ends
        or (found.code not in other.codes and (found.severity == "error" or other.kv_tokens is not None))
    )


def is_plannable(deployment: Deployment) -> bool:
    """Whether a plan says something of this deployment: its weights are known, and it runs on CUDA and generates."""
    model = deployment.model
    return deployment.gpu.platform == "cuda" and model.weights is not None and model.runner_type == "generate"


def memory_moves(
    deployment: Deployment,
    request: MemoryRequest,
    releases: Sequence[str],
    refused: Mapping[str, CgplanError] | None = None,
    codes: Codes | None = None,
) -> MemoryMoves | None:
    """The plan of `deployment` at each of these releases; None: of an end nothing can be planned.

    Args:
        refused: why vLLM of a release does not take the command line.
        codes: the rules behind a value of the resolution that differs between two releases; None: not asked for.
    """
    if not is_plannable(deployment):
        return None
    if request.auto_fit:
        deployment = deployment.model_copy(update={"max_model_len": None})
    ends = (releases[0], releases[-1])
    sides = []
    for release in releases:
        error = (refused or {}).get(release)
        side = _refused(release, error) if error is not None else _at(deployment, request, release, release in ends)
        if side is not None:
            sides.append(side)
        elif release in ends:
            return None
    planned = [side.made for side in sides if side.made is not None]
    steps = [memory_causes(before, after, codes or _no_codes) for before, after in pairwise(planned)]
    causes = tuple(cause for step in steps for cause in step)
    if not any(min(made.best.kv_bytes) > 0 for made in planned):
        causes = tuple(cause for cause in causes if cause.part == CAPTURE)  # no release has a KV cache to move
    return MemoryMoves(tuple(sides), causes)


def _is_given(made: CapacityPlan) -> bool:
    return made.budget is not None and made.budget.is_manual


def _no_codes(previous: str, following: str, field: str) -> tuple[str, ...]:
    return ()


def _at(deployment: Deployment, request: MemoryRequest, release: str, is_end: bool) -> MemoryAtRelease | None:
    asked = deployment.model_copy(update={"vllm": release})
    try:
        made = plan_of(asked, request, advise=is_end)
        side = _side(release, made)
        if not is_end:
            return side
        most = made.max_num_seqs_that_fits
        return replace(side, max_num_seqs_that_fits=most, ends_beyond=_ends_beyond(asked, request, most))
    except InputError:
        return None  # of the model is not known what a plan needs
    except CgplanError as error:
        return _refused(release, error)


def _ends_beyond(deployment: Deployment, request: MemoryRequest, most: int) -> tuple[str, ...]:
    if most >= MOST_SEQS:
        return ()
    try:
        return tuple(dict.fromkeys(verdict_of(with_requests(deployment, most + 1), request).ends))
    except CgplanError as error:
        return (error.code,)


def _side(release: str, made: CapacityPlan) -> MemoryAtRelease:
    plan, budget = made.best.plan, made.budget
    sizes = budget is not None and not budget.is_manual and made.deployment.num_gpu_blocks_override is None
    concurrency = plan.max_concurrency if plan is not None else None
    return MemoryAtRelease(
        release,
        made.starts,
        made.fits,
        gpu_memory_utilization=budget.utilization if budget is not None and sizes else None,
        kv_bytes=min(made.best.kv_bytes),
        max_concurrency=round(concurrency, 2) if concurrency is not None else None,
        kv_tokens=plan.tokens if plan is not None else None,
        counts_one_group=counts_one_group(made),
        max_model_len=plan.max_model_len if plan is not None else None,
        deducted_bytes=budget.tightest.deducted.best if budget is not None else None,
        graph_bytes=budget.tightest.graphs.best if budget is not None else None,
        block_size=plan.block_size if plan is not None else None,
        ends=tuple(dict.fromkeys(made.ends)),
        findings=tuple(found for found in made.findings if found.severity != "info"),
        made=made,
    )


def _refused(release: str, error: CgplanError) -> MemoryAtRelease:
    found = Finding(error.code, "error", error.message, error.fix, error.where)
    return MemoryAtRelease(release, "no", False, ends=(error.code,), findings=(found,))


def moves_document(moves: MemoryMoves) -> dict[str, Any]:
    """The section `memory` of the document of `cgplan diff`: JSON values."""
    return {
        "from": _side_document(moves.first),
        "to": _side_document(moves.last),
        "changes": [_change_document(moves, name) for name in moves.changed],
        "causes": [asdict(cause) for cause in moves.causes],
        "new": [asdict(found) for found in moves.new],
        "gone": [asdict(found) for found in moves.gone],
    }


def _change_document(moves: MemoryMoves, name: str) -> dict[str, Any]:
    is_count = name == "kv_tokens" and moves.first.counts_one_group is not moves.last.counts_one_group
    return {
        "field": name,
        "before": _json(getattr(moves.first, name)),
        "after": _json(getattr(moves.last, name)),
        "comparable": not is_count,
        "releases": list(moves.count_moved_in if is_count else moves.releases(name)),
        "codes": [CAPACITY.code] if is_count else list(moves.codes_of(name)),
        "restore": moves.keeps if name == "gpu_memory_utilization" else None,
    }


def _side_document(side: MemoryAtRelease) -> dict[str, Any]:
    return {
        "release": side.release,
        "fits": side.fits,
        **{name: _json(getattr(side, name)) for name in FIELDS if name != "codes"},
        "full_length_tokens": side.full_length_tokens,
        "findings": [asdict(found) for found in side.findings],
    }


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
