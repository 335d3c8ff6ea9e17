"""What one process has printed so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...startup.record import Captured, Place, Rank, Sample
from .shapes import Value

MAX_ITEMS = 64

FIELDS: dict[str, dict[str, str]] = {
    "snapshot": {"free": "free_bytes", "total": "total_bytes"},
    "requested": {"requested": "requested_bytes"},
    "L1": {"weights": "weights_bytes"},
    "L2": {"free": "free_bytes", "utilization": "utilization", "requested": "requested_bytes"},
    "L4": {
        "torch_peak": "torch_peak_bytes",
        "non_torch": "non_torch_bytes",
        "consumed": "consumed_bytes",
        "weights": "weights_bytes",
    },
    "V0": {
        "total": "total_bytes",
        "utilization": "utilization",
        "non_torch": "non_torch_bytes",
        "kv": "kv_bytes",
    },
    "L5": {"kv": "kv_bytes"},
    "L7": {"graph_estimate": "graph_estimate_bytes"},
    "L8": {
        "utilization": "utilization",
        "raised": "raised_utilization",
        "equivalent": "equivalent_utilization",
    },
    "L9": {"utilization": "utilization", "raised": "raised_utilization"},
    "L10": {"graph_actual": "graph_actual_bytes", "seconds": "capture_seconds"},
    "L11": {"graph_actual": "graph_actual_bytes", "graph_estimate": "graph_estimate_bytes"},
    "L12": {
        "free": "free_bytes",
        "total": "total_bytes",
        "utilization": "utilization",
        "requested": "requested_bytes",
        "weights": "weights_bytes",
        "consumed": "consumed_bytes",
        "activation": "activation_bytes",
        "non_torch": "non_torch_bytes",
        "graph_actual": "graph_actual_bytes",
        "suggested": "suggested_kv_bytes",
        "suggested_full": "suggested_kv_bytes_full",
        "kv": "kv_bytes",
        "kv_bytes": "kv_bytes",
    },
    "L19": {"kv_reduced": "kv_after_reserve_bytes"},
    "L22": {"free": "free_bytes", "kv": "kv_bytes"},
    "L23": {"free": "free_bytes", "kv_bytes": "kv_bytes"},
}
"""Of each shape, which of its fields is which field of a rank."""

LAST_COUNTS = ("graph_actual_bytes", "capture_seconds")
"""Captured twice, once for the estimate: the later figure is the one that stays. Of all others the first is kept."""


ONE_VALUE = ("consumed_bytes", "kv_bytes", "graph_estimate_bytes", "torch_peak_bytes", "activation_bytes")
"""Printed by a process once, or again as the same."""


@dataclass
class RankNotes:
    """The values of one process, by the names of Rank's fields.

    Attributes:
        is_contradicted: a value that a process prints once was printed again, as another.
    """

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    profiled: tuple[Captured, ...] = ()
    bars: dict[str, Captured] = field(default_factory=dict)
    backends: list[str] = field(default_factory=list)
    is_contradicted: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.values or self.samples or self.profiled or self.bars or self.backends)

    def put(self, name: str, value: Any, place: Place) -> None:
        if name not in LAST_COUNTS and self.values.get(name, value) != value and name in ONE_VALUE:
            self.is_contradicted = True
        if name in LAST_COUNTS or name not in self.values:
            self.values[name] = value
            self.places[name] = place

    def read(self, shape: str, values: dict[str, Value], place: Place) -> bool:
        """Takes what a line says of this rank; False where it says nothing of a rank."""
        for key, name in FIELDS.get(shape, {}).items():
            if key in values and not (shape == "L12" and key == "kv_bytes" and name in self.values):
                self.put(name, values[key], place)
        if shape == "sample" and len(self.samples) < MAX_ITEMS:
            mode = str(values["mode"])
            first, graphs, each = (int(values[key]) for key in ("first", "graphs", "per_graph"))
            self.samples[mode] = Sample(mode, first, graphs, each)
            self.places.setdefault(f"samples.{mode}", place)
        elif shape == "L6":
            kinds = [kind for kind in values if not kind.endswith("_largest")]
            self.profiled = tuple(Captured(kind, int(values[kind]), int(values[f"{kind}_largest"])) for kind in kinds)
            self.places["profiled"] = place
        elif shape == "L20":
            if str(values["backend"]) not in self.backends and len(self.backends) < MAX_ITEMS:
                self.backends.append(str(values["backend"]))
                self.places.setdefault("attention_backends", place)
        elif shape in ("L22", "L23"):
            self.put("kv_is_given", True, place)
        elif shape not in FIELDS:
            return False
        return True

    def built(self, number: int | None, environment: dict[str, str]) -> Rank:
        values = dict(self.values)
        if "activation_bytes" in values:
            # L12 says consumed memory since 0.27.1; that activation is with the estimate, unless it is switched off.
            estimates = environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS") != "0"
            values["activation_includes_estimate"] = "consumed_bytes" in values and estimates
        elif "torch_peak_bytes" in values:
            values["activation_bytes"] = values["torch_peak_bytes"]
            values["activation_includes_estimate"] = False
        return Rank(
            name=self.name,
            rank=number,
            samples=tuple(self.samples.values()),
            profiled=self.profiled,
            captured=tuple(self.bars.values()),
            attention_backends=tuple(self.backends),
            places=dict(self.places),
            **values,
        )
