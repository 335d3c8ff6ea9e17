"""Whether the KV cache gives up the memory that the CUDA graphs are estimated to take.

Source: vllm/v1/worker/gpu_worker.py:707-757 @ 0.33.0.
"""

from __future__ import annotations

from typing import NamedTuple

from ..deployment import Deployment
from ..env_switches import int_switch
from ..releases import canonical, facts
from ..trace import Rule
from ..vocabulary import CUDAGraphMode, Runner

VARIABLE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"

DEDUCTED = Rule(
    "CG502",
    title="The KV cache gives up the memory that the CUDA graphs are estimated to take.",
    why="Graphs are captured after the KV cache has been laid out; memory that nobody kept back would be missing then.",
    example="Graphs estimated at 2 GiB: the KV cache is 2 GiB smaller at the same --gpu-memory-utilization.",
    instead="Raise --gpu-memory-utilization by the estimate, or set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
    history="until 0.19.1 only with VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1, by default since 0.20.2; runner V2's"
    " estimate was 0 until 0.28.0 (CG503)",
)
V2_ESTIMATES = Rule(
    "CG503",
    title="Runner V2 estimates the memory of its CUDA graphs by capturing some of them.",
    why="Before, its estimate was always 0, so the KV cache took memory that the capture needed afterwards.",
    example="0.28.0 to 0.29.0 on runner V2: the KV cache shrinks by about what the graphs take.",
    instead="Raise --gpu-memory-utilization by the estimate, or set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:918-1062",
    since="0.29.0",
)


class Deduction(NamedTuple):
    """Whether an estimate is taken off the KV cache, and why it is or not."""

    deducted: bool
    reason: str


def graph_memory_deducted(
    deployment: Deployment, release: str, runner: Runner, mode: CUDAGraphMode | None = None
) -> Deduction:
    """Whether vLLM `release` takes an estimate of the CUDA graphs' memory off the KV cache.

    Args:
        deployment: its GPU's platform, environment and eager switch count.
        release: any supported release; `deployment.vllm` is not looked at.
        runner: the runner that serves it.
        mode: the final CUDA graph mode; None: some mode with graphs.

    Raises:
        InputError: the release is not supported, or the variable is no number.
    """
    known = facts("memory", canonical(release))["graph_estimate"]
    if deployment.gpu.platform not in known["platforms"]:
        return Deduction(False, f"Not estimated on platform {deployment.gpu.platform}.")
    if deployment.enforce_eager or (mode is CUDAGraphMode.NONE and not _encoder_only(deployment, runner, known)):
        return Deduction(False, "There are no CUDA graphs.")
    if runner is Runner.V2 and not known["v2"]:
        return Deduction(False, "The estimate of runner V2 is always 0.")
    given = _given(deployment)
    if given is None:
        applied: bool = known["applied_by_default"]
        return Deduction(applied, f"{VARIABLE} is {int(applied)} by default.")
    return Deduction(given, f"{VARIABLE}={int(given)}.")


def _encoder_only(deployment: Deployment, runner: Runner, known: dict[str, bool]) -> bool:
    """Whether the graphs of a vision encoder alone are estimated."""
    has_graphs = deployment.compilation_config.cudagraph_mm_encoder and deployment.model.is_multimodal_model
    return known["v2_encoder_only"] and runner is Runner.V2 and has_graphs


def _given(deployment: Deployment) -> bool | None:
    """What the environment says, or None."""
    return int_switch(deployment.env, VARIABLE)
