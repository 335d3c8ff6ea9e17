"""One deployment planned at several releases: what moves in its memory, and in which release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Literal

from ..deployment import Deployment
from ..errors import CgplanError, InputError
from ..light_dataclass import dataclass
from ..trace import Finding
from .plan import CapacityPlan, plan_of
from .request import MemoryRequest

FIELDS = ("starts", "kv_tokens", "deducted_bytes", "block_size", "max_num_seqs_that_fits", "codes")
"""What is compared, in the order of the screen."""
OF_ENDS = "max_num_seqs_that_fits"
"""Looked for at both ends only: it takes many small plans."""


@dataclass(frozen=True)
class MemoryAtRelease:
    """What a plan of one release says.

    Attributes:
        release: of vLLM.
        starts: "yes" and "no" hold within the bounds of every estimate; "unsure": they differ.
        fits: whether it starts, by the best values.
        kv_tokens: what the KV cache holds; None: there is none, or vLLM refuses.
        deducted_bytes: of the graphs' estimate, off the KV cache of the tightest stage; None: no budget.
        block_size: tokens, or None like kv_tokens.
        max_num_seqs_that_fits: the largest that starts by the best values, 0: none; None: not looked for.
        findings: warnings and errors of the plan.
    """

    release: str
    starts: Literal["yes", "no", "unsure"]
    fits: bool
    kv_tokens: int | None = None
    deducted_bytes: int | None = None
    block_size: int | None = None
    max_num_seqs_that_fits: int | None = None
    findings: tuple[Finding, ...] = ()

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
    """

    sides: tuple[MemoryAtRelease, ...]

    @property
    def first(self) -> MemoryAtRelease:
        return self.sides[0]

    @property
    def last(self) -> MemoryAtRelease:
        return self.sides[-1]

    @property
    def changed(self) -> tuple[str, ...]:
        """Fields that differ between the ends."""
        one, other = self.first.values(), self.last.values()
        return tuple(name for name in FIELDS if one[name] != other[name])

    def releases(self, field: str) -> tuple[str, ...]:
        """The releases, in the direction of the path, that changed a field; () where it is not known between the ends.

        Named is the later one of two neighbours on the path.
        """
        if field == OF_ENDS and len(self.sides) > 2:
            return ()
        return tuple(
            after.release for before, after in pairwise(self.sides) if before.values()[field] != after.values()[field]
        )

    @property
    def new(self) -> tuple[Finding, ...]:
        """Findings of the last release whose code the first has not."""
        return tuple(found for found in self.last.findings if found.code not in self.first.codes)

    @property
    def gone(self) -> tuple[Finding, ...]:
        """Findings of the first release whose code the last has not."""
        return tuple(found for found in self.first.findings if found.code not in self.last.codes)


def is_plannable(deployment: Deployment) -> bool:
    """Whether a plan says something of this deployment: its weights are known, and it runs on CUDA and generates."""
    model = deployment.model
    return deployment.gpu.platform == "cuda" and model.weights is not None and model.runner_type == "generate"


def memory_moves(
    deployment: Deployment,
    request: MemoryRequest,
    releases: Sequence[str],
    refused: Mapping[str, CgplanError] | None = None,
) -> MemoryMoves | None:
    """The plan of `deployment` at each of these releases; None: of an end nothing can be planned.

    Args:
        refused: why vLLM of a release does not take the command line.
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
    return MemoryMoves(tuple(sides))


def _at(deployment: Deployment, request: MemoryRequest, release: str, is_end: bool) -> MemoryAtRelease | None:
    asked = deployment.model_copy(update={"vllm": release})
    try:
        made = plan_of(asked, request, advise=is_end)
        side = _side(release, made)
        return replace(side, max_num_seqs_that_fits=made.max_num_seqs_that_fits) if is_end else side
    except InputError:
        return None  # of the model is not known what a plan needs
    except CgplanError as error:
        return _refused(release, error)


def _side(release: str, made: CapacityPlan) -> MemoryAtRelease:
    plan, budget = made.best.plan, made.budget
    return MemoryAtRelease(
        release,
        made.starts,
        made.fits,
        kv_tokens=plan.tokens if plan is not None else None,
        deducted_bytes=budget.tightest.deducted.best if budget is not None else None,
        block_size=plan.block_size if plan is not None else None,
        findings=tuple(found for found in made.findings if found.severity != "info"),
    )


def _refused(release: str, error: CgplanError) -> MemoryAtRelease:
    return MemoryAtRelease(
        release, "no", False, findings=(Finding(error.code, "error", error.message, error.fix, error.where),)
    )


def moves_document(moves: MemoryMoves) -> dict[str, Any]:
    """The section `memory` of the document of `cgplan diff`: JSON values."""
    return {
        "from": _side_document(moves.first),
        "to": _side_document(moves.last),
        "changes": [
            {
                "field": name,
                "before": _json(getattr(moves.first, name)),
                "after": _json(getattr(moves.last, name)),
                "releases": list(moves.releases(name)),
            }
            for name in moves.changed
        ],
        "new": [asdict(found) for found in moves.new],
        "gone": [asdict(found) for found in moves.gone],
    }


def _side_document(side: MemoryAtRelease) -> dict[str, Any]:
    return {
        "release": side.release,
        "fits": side.fits,
        **{name: _json(getattr(side, name)) for name in FIELDS if name != "codes"},
        "findings": [asdict(found) for found in side.findings],
    }


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
