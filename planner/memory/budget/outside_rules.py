"""Rules of memory that the budget leaves out, and of a KV cache size that a start stores for the next one."""

from __future__ import annotations

from ...trace import Rule
from ..estimates import GIB

HIGH = 0.95
"""Utilization from which on what is not counted has little room; nearly all public runs that ran out had more."""
ROOM_FOR_GRAPHS = GIB
"""Graphs of a default grid take 0.5 to 1.9 GiB on large GPUs."""
STARTUP_PLAN = "VLLM_ENABLE_STARTUP_PLAN"

OUTSIDE = Rule(
    "CG521",
    title="The graphs are not in the memory budget of this release, and little is left outside it.",
    why="Until 0.19, and with runner V2 until 0.28, nothing is kept back for graphs; they are captured after the KV "
    "cache has taken the budget. It is a warning where 18 MiB a graph, the sampler's logits and 0.5 GiB that are "
    "taken before the start exceed what is left, else an information.",
    example="0.95 on an H100 with 0.19.1 and 166 graphs: sampler warm-up runs out of memory.",
    instead="Use vLLM's default of --gpu-memory-utilization, or capture fewer sizes.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
    until="0.28.0",
)
SWITCHED_OFF = Rule(
    "CG522",
    title="The estimate of the graphs' memory is switched off, and little is left outside the budget.",
    why="With VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 the graphs come on top of --gpu-memory-utilization.",
    example="VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 with --gpu-memory-utilization 0.97.",
    instead="Leave the variable unset, or lower --gpu-memory-utilization.",
    source="vllm/v1/worker/gpu_worker.py:719-724",
)
PLANNED_TWICE = Rule(
    "CG526",
    title="VLLM_ENABLE_STARTUP_PLAN stores a KV cache size that counts the graphs twice.",
    why="The stored value is the one that the log suggests, see CG525; the next start has that much less KV cache. It"
    " is used where the configuration, the versions of vLLM, torch and CUDA, the GPU with its memory, and the rank are"
    " those of the start that stored it, and at least as much memory is free; else vLLM measures anew.",
    example="VLLM_ENABLE_STARTUP_PLAN=1 with 1 GiB of graphs: the second start has 1.15 GiB less KV cache.",
    instead="Set --kv-cache-memory-bytes to what the first start printed behind `Available KV cache memory`.",
    source="vllm/v1/worker/gpu_worker.py:1068, startup_plan.py:39-86,111-179",
    since="0.27.1",
)
