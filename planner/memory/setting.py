"""A deployment with some options changed, and whether it starts: what the advice tries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from ..deployment import Deployment
from ..light_dataclass import dataclass
from ..resolve import Resolution, resolve
from ..trace import Finding
from .budget.budget import Budget
from .limits import Verdict
from .request import MemoryRequest, make_budget
from .verdict import verdict_or_none


@dataclass(frozen=True)
class Change:
    """One option, or several that only go together.

    Attributes:
        name: of the option; a change takes the place of another of the same name.
        text: as it is typed.
        fields: of the Deployment, and their values.
        flags: of the MemoryFlags, and their values.
        most: the largest value that would do, where a rounder one is in `text`; 0: that is the largest.
    """

    name: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    most: int = 0

    @property
    def words(self) -> str:
        return f"{self.text} ({self.most} at most)" if self.most else self.text


@dataclass(frozen=True)
class Setting:
    """A deployment as it was asked for, with some options changed.

    Attributes:
        asked, memory: the deployment and what was asked of its memory, without the changes.
        changes: in the order in which they were made.
        surely: it has to start within the bounds of every estimate; else by the best ones.
        verdicts: what was found for each set of changes; settings made of one another share it.
    """

    asked: Deployment
    memory: MemoryRequest
    changes: tuple[Change, ...] = ()
    surely: bool = True
    verdicts: dict[tuple[str, ...], Verdict | None] = field(default_factory=dict)

    def to(self, change: Change) -> Setting:
        """The setting with an option changed; once more in the place that the change had."""
        if all(one.name != change.name for one in self.changes):
            return replace(self, changes=(*self.changes, change))
        return replace(self, changes=tuple(change if one.name == change.name else one for one in self.changes))

    def without(self, change: Change) -> Setting:
        return replace(self, changes=tuple(one for one in self.changes if one.name != change.name))

    @cached_property
    def deployment(self) -> Deployment:
        update = {name: value for change in self.changes for name, value in change.fields.items()}
        return self.asked.model_copy(update=update) if update else self.asked

    @cached_property
    def request(self) -> MemoryRequest:
        update = {name: value for change in self.changes for name, value in change.flags.items()}
        return replace(self.memory, flags=replace(self.memory.flags, **update)) if update else self.memory

    @cached_property
    def resolution(self) -> Resolution:
        return resolve(self.deployment)

    @property
    def budget(self) -> Budget:
        """The memory of each rank; not where the bytes of the KV cache were given."""
        return make_budget(self.deployment, self.resolution, self.request)[0]

    @property
    def _verdict(self) -> Verdict | None:
        key = tuple(sorted(change.text for change in self.changes))
        if key not in self.verdicts:
            self.verdicts[key] = verdict_or_none(self.deployment, self.request)
        return self.verdicts[key]

    @property
    def problems(self) -> tuple[Finding, ...] | None:
        """The constraints that do not hold, or may not; None: vLLM refuses before it looks at memory."""
        found = self._verdict
        if found is None:
            return None
        return () if found.holds and not self.surely else tuple(f for f in found.findings if f.severity != "info")

    @property
    def starts(self) -> bool:
        found = self._verdict
        return found is not None and (found.starts == "yes" if self.surely else found.holds)

    def lacks(self, codes: Collection[str]) -> bool:
        """Whether vLLM takes it, and none of these findings is left."""
        found = self.problems
        return found is not None and not any(finding.code in codes for finding in found)

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        made = self.deployment
        ranks = made.tensor_parallel_size * made.pipeline_parallel_size * made.prefill_context_parallel_size
        return ranks * made.data_parallel_size

    @property
    def words(self) -> str:
        """The changes as they are typed."""
        return " with ".join(change.words for change in self.changes)
