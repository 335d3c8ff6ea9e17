"""Rules of how a start ends that no other part of cgplan has, and the page of every kind of crash."""

from __future__ import annotations

from collections.abc import Mapping

from ..input_rules import OWN
from ..trace import Rule
from . import serving_rules

PROFILE_RUN = Rule(
    "CG512",
    title="Memory ran out in the profile run, before there was a KV cache.",
    why="It is one step of --max-num-batched-tokens tokens, with the largest images of a multimodal model; beside the"
    " weights it has the whole GPU, so --gpu-memory-utilization does not matter here.",
    example="65,536 batched tokens and four images of the largest size on a GPU with 32 GiB.",
    instead="Lower --max-num-batched-tokens or --max-num-seqs, or --limit-mm-per-prompt of a multimodal model.",
    source="vllm/v1/worker/gpu_worker.py:684-700",
)
POOLER = Rule(
    "CG513",
    title="Memory ran out when the pooler was warmed up.",
    why="vLLM runs it with --max-num-seqs rows beside all else.",
    example="1,024 dummy requests of a pooling model with long hidden states.",
    instead="Lower --max-num-seqs or --gpu-memory-utilization.",
    source="vllm/v1/worker/gpu_model_runner.py:6020-6040",
)
OUT_OF_MEMORY = Rule(
    "CG514",
    title="CUDA ran out of memory, and the log does not say at which step.",
    why="Lines of the start are missing, or it had been serving already.",
    example="A log that begins with the traceback.",
    instead="Give the whole log; a lower --gpu-memory-utilization leaves more outside the KV cache.",
    source=OWN,
)
FRONTEND_RESERVE = Rule(
    "CG515",
    title="What is kept for decoding videos and images on the GPU leaves nothing for the KV cache.",
    why="--mm-ipc-gpu-memory-gb and the decoders of each API server come off what is left.",
    example="4 GiB are kept for frames where 3 GiB are left.",
    instead="Lower --mm-ipc-gpu-memory-gb or the number of API servers, or raise --gpu-memory-utilization.",
    source="vllm/multimodal/gpu_ipc_memory.py:152-262",
    since="0.25.1",
)
EXTERNAL_WEIGHTS = Rule(
    "CG516",
    title="Weights that another process holds are more than the memory asked for.",
    why="They are taken off --gpu-memory-utilization first.",
    example="60 GiB of weights held by a loader, and 0.5 of an 80 GiB GPU asked for.",
    instead="Raise --gpu-memory-utilization.",
    source="vllm/v1/worker/utils.py:728-745",
)
PROFILING = Rule(
    "CG816",
    title="Free memory grew while vLLM measured: another process gave some back.",
    why="vLLM works out what it uses from the fall of free memory, and asserts that there was one.",
    example="A second server on the same GPU ends during the profile run of the first.",
    instead="Start one server after the other, and wait until the processes before have ended.",
    source="vllm/v1/worker/gpu_worker.py:726-745",
)
NCCL = Rule(
    "CG817",
    title="NCCL could not set up or use the communication between GPUs.",
    why="Shared memory of the container, the network interface, or a GPU that is not visible; memory plays a part where"
    " NCCL cannot allocate its buffers.",
    example="tensor_parallel_size 4 in a container without --ipc=host.",
    instead="Give the container --ipc=host or a larger /dev/shm, and start with NCCL_DEBUG=INFO to see the cause.",
    source=OWN,
)
KERNEL_IMAGE = Rule(
    "CG818",
    title="A kernel of the build does not fit the GPU or its driver.",
    why="The package has no code for this compute capability, or the driver is older than the CUDA it was built with.",
    example="0.17 and 0.18 on an H100 ended at size 45 of 51 of the PIECEWISE capture with it.",
    instead="Use the official image of a newer release, with a driver that it supports.",
    source=OWN,
)
WRAPPER = Rule(
    "CG819",
    title="The engine did not start, and the log does not hold the cause.",
    why="The API server only reports that a process ended; that process printed why, to the same output.",
    example="`Engine core initialization failed. See root cause above.` in a log of the API server alone.",
    instead="Give the log of all processes, from the beginning of the start.",
    source=OWN,
)
UNKNOWN = Rule(
    "CG820",
    title="The start ended with an error that cgplan does not know.",
    why="It knows those of memory, of CUDA graphs and of the settings around them.",
    example="An exception in the code of a model.",
    instead="Read the message; it is the innermost one of the log.",
    source=OWN,
)
MEMORY_ACCESS = Rule(
    "CG821",
    title="A kernel ended with an error, and CUDA cannot go on after it.",
    why="Illegal memory accesses and failed assertions come up at the next call, often far from their cause.",
    example="Decode context parallelism with FULL graphs before 0.14: a few steps after the start.",
    instead="Try -cc.cudagraph_mode=PIECEWISE, then --enforce-eager: where that helps, a captured graph is at fault,"
    " and a newer release may have it mended.",
    source=OWN,
)
FILES = Rule(
    "CG822",
    title="The model's files cannot be had.",
    why="The name is misspelt, the repository is gated and there is no token, or the disk is full.",
    example="A gated repository without HF_TOKEN.",
    instead="Check the name of the model, access to its repository, and the space of the download folder.",
    source=OWN,
)
UNFINISHED = Rule(
    "CG823",
    title="The log ends before the server is ready, and without an error.",
    why="The start was still under way, the log was cut, or the process was killed from outside.",
    example="A container that the kernel ends for its memory prints no traceback.",
    instead="Look for OOMKilled in the container's state, or give the rest of the log.",
    source=OWN,
)
UNRECOGNISED = Rule(
    "CG824",
    title="vLLM does not know an argument of the command line.",
    why="It is misspelt, or of another release.",
    example="--num-speculative-tokens, which became a key of --speculative-config.",
    instead="`cgplan check` says since when or until when an option exists, and what it became.",
    source="vllm/utils/argparse_utils.py:185",
)

PAGES = {
    "sampler_warm_up": "CG509",
    "pooler_warm_up": POOLER.code,
    "model_len": "CG561",
    "auto_fit": "CG562",
    "no_blocks": "CG560",
    "mamba_blocks": "CG501",
    "free_memory": "CG504",
    "external_weights": EXTERNAL_WEIGHTS.code,
    "profiling": PROFILING.code,
    "frontend_reserve": FRONTEND_RESERVE.code,
    "derived_len": "CG129",
    "heads": "CG606",
    "world_size": "CG605",
    "context_ranks": "CG607",
    "not_divisible": "CG615",
    "quantised_blocks": "CG559",
    "largest_size": "CG117",
    "no_sizes": "CG119",
    "size_below_one": "CG118",
    "rounded_sizes": "CG402",
    "mode": "CG331",
    "batched_below_seqs": "CG120",
    "batched_below_len": "CG121",
    "architecture": "CG137",
    "kernel_image": KERNEL_IMAGE.code,
    "nccl": NCCL.code,
    "unrecognised": UNRECOGNISED.code,
    "memory_access": MEMORY_ACCESS.code,
    "files": FILES.code,
    "out_of_memory": OUT_OF_MEMORY.code,
    "timed_out": serving_rules.TIMED_OUT.code,
    "process_died": serving_rules.PROCESS_DIED.code,
    "wrapper": WRAPPER.code,
    "unknown": UNKNOWN.code,
}
"""The code of every kind of `crashes.classify`."""

OOM_PAGES = {
    "loading": "CG597",
    "profiling": PROFILE_RUN.code,
    "cache": "CG508",
    "capture": "CG507",
    "warm-up": "CG509",
    "": OUT_OF_MEMORY.code,
}
"""The code of running out of memory, by the step."""

LEAST_VOCABULARY = 8192
"""A number that does not divide is a vocabulary from here on, else heads or channels."""


def page_of(kind: str, values: Mapping[str, int | float | str], step: str = "") -> str:
    """The code of a crash.

    Args:
        step: "serving", or of the start, a key of OOM_PAGES.
    """
    if step == "serving" and kind in serving_rules.PAGES:
        return serving_rules.PAGES[kind]
    if kind == "out_of_memory":
        return OOM_PAGES[step]
    number = values.get("number")
    if kind == "not_divisible" and isinstance(number, int) and number < LEAST_VOCABULARY:
        return "CG540"
    return PAGES[kind]
