"""Rules of how a server ends that had come up."""

from __future__ import annotations

from ..input_rules import OWN
from ..trace import Rule

OUT_OF_MEMORY = Rule(
    "CG825",
    title="Memory ran out in a step, while the server was serving.",
    why="A step takes what the profile run did not: buffers of Gated DeltaNet prefill (CG552), of NCCL and of kernels"
    " that are compiled at their first use, and pieces that torch holds and cannot use. The KV cache has all the rest.",
    example="A hybrid model with 8,192 batched tokens starts, and ends at the first long prompt.",
    instead="Lower --gpu-memory-utilization or --kv-cache-memory-bytes by what was missing, and"
    " --max-num-batched-tokens.",
    source="vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py:1052-1068",
    release="0.28.0",
)
NCCL = Rule(
    "CG826",
    title="NCCL failed while the server was serving.",
    why="It was set up and had worked: a rank, a link or a node went away, or a rank waited for another too long. What"
    " the other ranks print is that one is gone.",
    example="`remote process exited or there was a network error` hours after the start.",
    instead="Look for the first rank that ended, and for Xid in the kernel's log; NCCL_DEBUG=WARN names the link.",
    source=OWN,
)
TIMED_OUT = Rule(
    "CG827",
    title="A worker did not answer in time.",
    why="The engine waits VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, 300 unless it is set, for each step. A rank hangs in a"
    " collective or a kernel, or something is compiled in the step.",
    example="`RPC call to sample_tokens timed out.` after five minutes without a line.",
    instead="Raise VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS where the first steps compile; else try"
    " -cc.cudagraph_mode=PIECEWISE, and look where the ranks stand with py-spy dump.",
    source="vllm/v1/executor/multiproc_executor.py:506-510",
)
WRAPPER = Rule(
    "CG828",
    title="The engine died while the server was serving, and the log does not hold the cause.",
    why="EngineDeadError is what the API server says to each request when the process of its engine is gone; that one"
    " printed why, to the same output, or was killed from outside.",
    example="EngineDeadError in a log of the API server alone.",
    instead="Give the log of all processes; where there is no other line, look for OOMKilled and Xid on the node.",
    source="vllm/v1/engine/exceptions.py:12-29",
)
UNKNOWN = Rule(
    "CG829",
    title="The server ended while it served with an error that cgplan does not know.",
    why="It had come up, so sizes and memory of the start are not at fault.",
    example="An exception in the code of a model, at a request of a kind that was not seen before.",
    instead="Read the message; it is the innermost one of the log.",
    source=OWN,
)
PROCESS_DIED = Rule(
    "CG830",
    title="A process of the server ended without an exception.",
    why="It was killed by a signal, so it could print nothing. The number is that of the signal, below 0: -9 is a kill"
    " from outside, mostly for the memory of the host; -11 and -6 are a fault in native code.",
    example="`died unexpectedly (exit code: -9)` in a container with a limit of 64 GiB.",
    instead="Look for OOMKilled in the container's state and for the killer and Xid in the kernel's log.",
    source="vllm/v1/executor/multiproc_executor.py:380-385",
)

PAGES = {
    "out_of_memory": OUT_OF_MEMORY.code,
    "nccl": NCCL.code,
    "wrapper": WRAPPER.code,
    "unknown": UNKNOWN.code,
}
"""The code of a crash of a server that had come up, where it is another than that of the start."""
