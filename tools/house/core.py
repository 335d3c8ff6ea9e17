"""The pure core: what of cgplan only reckons, and the modules that must do more, each with its reason."""

from __future__ import annotations

from functools import cache

from house.imports import modules
from house.rooms import room_of

OUTSIDE = frozenset(
    {
        *("inputs", "launch words", "shell", "yaml nodes", "launches", "edit", "logs"),
        *("report", "html", "demo", "cli"),
    }
)
"""Rooms that read files, or show what came out."""

ON_THE_DEVICE = frozenset(
    f"cgplan.memory.profile.{name}"
    for name in (
        *("callable_engine", "cuda_graphs", "device", "measure", "ranks", "vllm_engine", "vllm_steps"),
        *("synthetic.attention", "synthetic.attention_kernel", "synthetic.decoder", "synthetic.engine"),
    )
)
"""Modules of `cgplan profile` that drive a GPU; what they import, they import when they are called."""

OWN_DATA = {
    "cgplan.releases": (frozenset({"read_bytes"}), "its own data files, of the package"),
    "cgplan.releases.env_variables": (frozenset({"read_bytes"}), "its own data file, of the package"),
}
ALLOWED = {
    **OWN_DATA,
    "cgplan.sweep.grid_file": (frozenset({"pathlib", "open"}), "reads the grid that the user names"),
    "cgplan.sweep.record_file": (frozenset({"os", "pathlib", "open"}), "keeps records in the file that the user names"),
    "cgplan.sweep.local": (frozenset({"multiprocessing", "signal"}), "spreads a sweep over processes"),
    "cgplan.sweep.on_ray": (frozenset({"ray", "signal", "socket"}), "spreads a sweep over a Ray cluster, if asked to"),
    "cgplan.sweep.profile_jobs": (
        frozenset({"pathlib", "subprocess"}),
        "runs `cgplan profile` on a node, if asked to",
    ),
    "cgplan.workload.sources.sources": (frozenset({"os", "pathlib", "open"}), "reads the files that the user names"),
    "cgplan.workload.sources.fetch": (
        frozenset({"http", "time", "urllib", "open"}),
        "reads /metrics of an address that the user names",
    ),
    "cgplan.workload.sources.own_file": (frozenset({"io"}), "the text of a CSV as lines, in memory"),
}
"""Of each module of the core that does more than reckon: what, as `tests/house/test_purity.py` names it, and why."""


@cache
def core() -> tuple[str, ...]:
    """The modules of the rooms of the core, without those that drive a GPU."""
    return tuple(module for module in modules() if room_of(module) not in OUTSIDE and module not in ON_THE_DEVICE)


@cache
def counted() -> tuple[str, ...]:
    """The modules whose coverage is held to the limits: the core without what reads, writes or spreads."""
    return tuple(module for module in core() if module not in ALLOWED or module in OWN_DATA)
