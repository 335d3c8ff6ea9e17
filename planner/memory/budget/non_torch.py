"""Memory outside torch's pool: the CUDA context, libraries and kernels, and the buffers of collectives.

Measured constants, because nothing in a configuration says them: see [non_torch] of releases/budget.toml.
"""

from __future__ import annotations

from typing import Any

from ...deployment import Deployment
from ...releases import canonical, facts, table
from ...sections import Gpu
from ..estimates import GIB, MIB, Interval, between, exactly


def estimate_non_torch(deployment: Deployment) -> Interval:
    """Bytes that loading and the profile run add outside torch's pool, on one rank.

    With tensor parallelism the buffers of custom all-reduce and of its fusions are in it. They were measured on H100
    with NVLink only, so the bounds are wide.
    """
    known = _known(deployment)
    ranks, spread = deployment.tensor_parallel_size, float(known["spread"])
    if ranks > 1:
        best = known["tensor_bytes"] + (ranks - 2) * known["tensor_rank_bytes"]
        low, high = known["pipeline_bytes"], best * (1 + float(known["spread_tensor"]))
        if deployment.gpu.major == known["measured_major"]:
            low = best * (1 - float(known["spread_tensor"]) / 2)
        return between(low, best, high, f"runs with tensor parallelism on H100; {ranks} ranks{_unseen(deployment)}")
    if deployment.pipeline_parallel_size > 1:
        best = known["pipeline_bytes"]
        source = f"runs with pipeline parallelism on H100{_unseen(deployment)}"
        return between(best * 0.5, best, known["single_bytes"], source)
    best = known["single_bytes"]
    high = best * (1 + spread)
    if deployment.data_parallel_size > 1 and (deployment.model.is_moe or deployment.enable_expert_parallel):
        high = known["tensor_bytes"] * (1 + float(known["spread_tensor"]))
    return between(best * (1 - spread), best, high, f"runs on H100 and H200{_unseen(deployment)}")


def _unseen(deployment: Deployment) -> str:
    """What of the deployment no run stands behind; "": nothing."""
    others = [] if deployment.gpu.major == _known(deployment)["measured_major"] else ["on this GPU"]
    if deployment.data_parallel_size > 1 or deployment.enable_expert_parallel:
        others.append("with data or expert parallelism")
    if deployment.tensor_parallel_size > 1 and deployment.pipeline_parallel_size > 1:
        others.append("with pipeline stages beside it")
    return f"; none {', none '.join(others)} is known" if others else ""


def context_bytes(deployment: Deployment) -> Interval:
    """Bytes that the CUDA context and NCCL have taken before vLLM first looks at the free memory."""
    known = _known(deployment)
    if deployment.tensor_parallel_size > 1:
        best = known["context_tensor_bytes"]
    elif deployment.pipeline_parallel_size > 1:
        best = known["context_pipeline_bytes"]
    else:
        best = known["context_bytes"]
    return between(best * 0.7, best, best * 1.35, "runs on H100 and H200; no other process on the GPU")


SYSTEM = (2.0, 8.5, 20.4)
"""GiB of a memory that CPU and GPU share which are taken before vLLM starts, CUDA's context among them: low, best and
high. Public starts on GB10s of 121.6 GiB that serve nothing else: 8.5 GiB in one, 19.5 to 20.4 in another, without a
desktop and with the page cache dropped. The low one is assumed: a small system without a desktop."""
FREE_FROM = {False: "the GPU less the CUDA context", True: "public starts; the system's and others' memory is off"}


def taken_before(deployment: Deployment) -> Interval:
    """Bytes that are taken when vLLM first looks at the free memory: CUDA's context and NCCL, and what else lives in a
    memory that the CPU shares: the operating system, its page cache and every other process."""
    own = context_bytes(deployment)
    if not deployment.gpu.integrated:
        return own
    low, best, high = (share * GIB for share in SYSTEM)
    # The figures are of single GPUs; NCCL comes on top.
    more = max(0, own.best - context_bytes(deployment.model_copy(update=_ALONE)).best)
    return between(low + more, best + more, high + more, "public starts of GB10s")


_ALONE = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1}


def total_bytes(gpu: Gpu) -> Interval:
    """What CUDA says is the GPU's memory: less than NVML says, which is what `Gpu.memory_bytes` has."""
    for record in table("gpus")["gpu"]:
        if record["name"] != gpu.name or record["memory_bytes"] != gpu.memory_bytes:
            continue
        shown = f"nvidia-smi shows {gpu.memory_bytes // MIB:,} MiB"
        if "cuda_memory_bytes" in record:
            more = f"; {shown}" if record["cuda_memory_bytes"] < gpu.memory_bytes else ""
            return exactly(record["cuda_memory_bytes"], f"CUDA's own figure for {gpu.name}{more}")
        known = facts("budget", "0.33.0")["non_torch"]
        by_name: dict[str, int] = known["total_by_name"]
        if gpu.name in by_name:
            return exactly(by_name[gpu.name], f"logs of {gpu.name}; {shown}")
        gap, spread = known["total_gap"], known["total_gap_spread"]
        most = gpu.memory_bytes
        return between(most - gap - spread, most - gap, most - gap + spread, "NVML's figure less what CUDA keeps")
    return exactly(gpu.memory_bytes, "as given")


def _known(deployment: Deployment) -> Any:
    return facts("budget", canonical(deployment.vllm))["non_torch"]
