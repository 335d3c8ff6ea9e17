"""cgplan: which CUDA graphs vLLM will capture, which batches run in them, and why, before the server starts.

>>> from cgplan import Deployment, resolve
>>> resolve(Deployment(max_num_seqs=64)).max_capture_size
128
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .check import Context, Diagnostic, Report, check
    from .deployment import Deployment
    from .errors import CgplanError, InputError, StartupError
    from .inputs.catalogue import load_model
    from .memory.budget.budget import MemoryFlags
    from .memory.budget.measured import Measured
    from .memory.capacity_plan import CapacityPlan
    from .memory.plan import plan
    from .model_shape import ModelShape
    from .releases.gpus import gpu
    from .resolve import Batch, Dispatch, Graph, Overrides, Resolution, resolve
    from .sections import (
        AttentionOptions,
        CompilationOptions,
        Gpu,
        KVTransferOptions,
        PassOptions,
        Software,
        SpeculativeOptions,
    )
    from .vocabulary import AttentionCGSupport, CompilationMode, CUDAGraphMode, Runner, UsageContext
    from .workload.tune.tune import tune
    from .workload.tune.tuning import Tuning

# Imported on first use: `cgplan --version` and shell completion must not pay for pydantic.
_HOMES = {
    "AttentionCGSupport": "vocabulary",
    "AttentionOptions": "sections",
    "Batch": "resolve",
    "CUDAGraphMode": "vocabulary",
    "CapacityPlan": "memory.capacity_plan",
    "CgplanError": "errors",
    "CompilationMode": "vocabulary",
    "CompilationOptions": "sections",
    "Context": "inputs.launches.asked",
    "Deployment": "deployment",
    "Diagnostic": "check.diagnostic",
    "Dispatch": "resolve",
    "Gpu": "sections",
    "Graph": "resolve",
    "InputError": "errors",
    "KVTransferOptions": "sections",
    "Measured": "memory.budget.budget",
    "MemoryFlags": "memory.budget.budget",
    "ModelShape": "model_shape",
    "Overrides": "resolve",
    "PassOptions": "sections",
    "Report": "check.report",
    "Resolution": "resolve",
    "Runner": "vocabulary",
    "Software": "sections",
    "SpeculativeOptions": "sections",
    "StartupError": "errors",
    "Tuning": "workload.tune.tuning",
    "UsageContext": "vocabulary",
    "check": "check",
    "gpu": "releases.gpus",
    "load_model": "inputs.catalogue",
    "plan": "memory.plan",
    "resolve": "resolve",
    "tune": "workload.tune.tune",
}

__all__ = [  # noqa: RUF022
    "__version__",
    "AttentionCGSupport",
    "AttentionOptions",
    "Batch",
    "CUDAGraphMode",
    "CapacityPlan",
    "CgplanError",
    "CompilationMode",
    "CompilationOptions",
    "Context",
    "Deployment",
    "Diagnostic",
    "Dispatch",
    "Gpu",
    "Graph",
    "InputError",
    "KVTransferOptions",
    "Measured",
    "MemoryFlags",
    "ModelShape",
    "Overrides",
    "PassOptions",
    "Report",
    "Resolution",
    "Runner",
    "Software",
    "SpeculativeOptions",
    "StartupError",
    "Tuning",
    "UsageContext",
    "check",
    "gpu",
    "load_model",
    "plan",
    "resolve",
    "tune",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{home}", __name__)
    # The package `resolve` is bound to its own name on import, and is callable; see its docstring.
    value = module if name == home else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
