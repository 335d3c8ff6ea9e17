"""How to keep what the first release did: the flag or variable that restores it, where there is one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..deployment import Deployment
from ..resolve.memory_deduction import VARIABLE
from ..resolve.resolution import Resolution
from ..trace import RULES
from ..vocabulary import CompilationMode, CUDAGraphMode
from .changes import Restore
from .snapshot import Snapshot

RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"

FLAGS = {
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_model_len": "--max-model-len",
    "config.max_num_scheduled_tokens": "--max-num-scheduled-tokens",
}
SWITCHES = {
    "config.async_scheduling": "async-scheduling",
    "config.enable_chunked_prefill": "enable-chunked-prefill",
}
NOTHING = Restore(None, "No setting restores it.")


def restore(name: str, deployment: Deployment, first: Snapshot, last: Snapshot) -> Restore:
    """What restores the value that `name` has in `first` under the release of `last`."""
    if name == "startup":
        return _start(first, last)
    a, b = first.resolution, last.resolution
    assert a is not None
    assert b is not None
    before = first.values.get(name)
    if name in FLAGS:
        return NOTHING if before is None else Restore(f"{FLAGS[name]} {before}", "")
    if name in SWITCHES:
        return Restore(f"--{'' if before else 'no-'}{SWITCHES[name]}", "")
    if name.startswith("config.pass_config.") and isinstance(before, bool):
        return _fusion(name.removeprefix("config."), before, last)
    special: dict[str, Callable[[], Restore]] = {
        "runner": lambda: Restore(f"{RUNNER_VARIABLE}={int(a.runner.value == 'V2')}", "Needs what this runner has."),
        "graph_memory_deducted": lambda: _estimate(before),
        "compilation_mode": lambda: _compilation(a),
        "configured_mode": lambda: _mode(a.configured_mode, b.configured_mode),
        "cudagraph_mode": lambda: _mode(a.cudagraph_mode, b.cudagraph_mode),
        "requested_mode": lambda: Restore(f"--cudagraph-mode {a.requested_mode.value}", ""),
        "capture_sizes": lambda: _sizes(a, b),
        "max_capture_size": lambda: _sizes(a, b),
        "backend.name": lambda: _backend(a, b),
    }
    found = special.get(name)
    return NOTHING if found is None else found()


def _start(first: Snapshot, last: Snapshot) -> Restore:
    if last.error is None:
        return Restore(None, "Nothing to do: it starts.")
    return Restore(None, last.error.fix or RULES[last.error.code].instead)


def _estimate(before: Any) -> Restore:
    if not before:
        return Restore(f"{VARIABLE}=0", "Or raise --gpu-memory-utilization by what the log names as the estimate.")
    return Restore(f"{VARIABLE}=1", "Where the runner estimates at all; else lower --gpu-memory-utilization.")


def _compilation(a: Resolution) -> Restore:
    levels = list(CompilationMode)
    return Restore(f"-cc.mode={levels.index(a.compilation_mode)}", "")


def _mode(before: CUDAGraphMode, after: CUDAGraphMode) -> Restore:
    """A mode can be narrowed to what is left of it, not widened."""
    none = CUDAGraphMode.NONE
    kept = before.decode_mode in (none, after.decode_mode) and before.mixed_mode in (none, after.mixed_mode)
    return Restore(f"--cudagraph-mode {before.value}", "") if kept else NOTHING


def _sizes(a: Resolution, b: Resolution) -> Restore:
    sizes = a.capture_sizes
    if not sizes or not b.capture_sizes:
        return NOTHING
    if sizes[-1] > b.max_num_batched_tokens:
        return Restore(None, "--max-num-batched-tokens is below the old sizes.")
    if tuple(size for size in b.capture_sizes if size <= sizes[-1]) == sizes:
        return Restore(f"--max-cudagraph-capture-size {sizes[-1]}", "")
    return Restore(f"--cudagraph-capture-sizes {' '.join(str(size) for size in sizes)}", "")


def _backend(a: Resolution, b: Resolution) -> Restore:
    reasons = dict(b.backend.rejected).get(a.backend.name)
    if reasons:
        return Restore(None, f"{a.backend.name} does not fit: {'; '.join(reasons)}.")
    if not a.backend.groups:
        return NOTHING
    return Restore(f"--attention-backend {a.backend.name}", "")


def _fusion(key: str, before: bool, last: Snapshot) -> Restore:
    if f"config.{key}" not in last.values:
        return NOTHING
    return Restore(f"-cc.{key}={json.dumps(before)}", "")
