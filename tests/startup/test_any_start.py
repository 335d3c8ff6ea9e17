"""Whatever a log holds, its report is made: in words, as a page and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from startup_helpers import on

from cgplan.inputs.launches.asked import Context
from cgplan.report.console import console
from cgplan.report.logs_document import as_document
from cgplan.report.logs_markdown import page
from cgplan.report.logs_schema import LogsDocument
from cgplan.report.logs_secrets import LogSecrets
from cgplan.report.logs_text import show
from cgplan.startup.analysis import report_of
from cgplan.startup.crashes import classify
from cgplan.startup.record import Captured, Crash, Phase, Place, Rank, Sample, Start, StartupLog

SIZES = st.none() | st.integers(-(1 << 41), 1 << 48) | st.integers(0, 100 << 30)
BYTES = [field.name for field in fields(Rank) if "_bytes" in field.name]
CRASHES = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 0 dummy requests",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 0 bytes. GPU 0 has a total"
    " capacity of 0 bytes of which"
    " 0 bytes is free.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900000.00 GiB. GPU 0 has a total"
    " capacity of 1.00 GiB of"
    " which 0 bytes is free. this process has 9999 GiB memory in use. with 1 bytes allocated in private pools",
    "max seq len (0), (0 GiB KV cache is needed, which is larger than the available KV cache memory (-1 GiB)",
    "exceeds available Mamba cache blocks (0)",
    "0 is not divisible by 0",
    "Total number of attention heads (0) must be divisible by tensor parallel size (0)",
    "Free memory on device (0/0 GiB) on startup is less than desired GPU memory utilization (0, 0 GiB)",
    "No available memory for the cache blocks",
    "User-specified max_model_len (1) is greater than the derived max_model_len (a=None or model_max_length=None",
    "EngineCore failed to start.",
    "KeyError: 'x'",
)
VALUES = st.sampled_from(
    [None, -1, 0, 1, 8192, 10**9, "x", "", True, 0.5, float("inf"), [], [1, 2], {"a": 1},
     "SpeculativeConfig(method='x')", {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2]}]
)  # fmt: skip
ARGUMENTS = st.sampled_from(
    ["max_model_len", "max_num_seqs", "gpu_memory_utilization", "tensor_parallel_size", "pipeline_parallel_size",
     "data_parallel_size", "compilation_config", "speculative_config", "dtype", "kv_cache_dtype", "quantization",
     "api_key", "enforce_eager", "num_gpu_blocks_override", "kv_cache_memory_bytes", "mm_ipc_gpu_memory_gb", "env"]
)  # fmt: skip
COUNTS = st.none() | st.integers(0, 10**7)


def crash(text: str) -> Crash:
    kind, values = classify(text)
    return Crash(kind, text, Place(3, text), "TP0", values, (text,))


RANKS = st.fixed_dictionaries(
    {
        **dict.fromkeys(BYTES, SIZES),
        "name": st.sampled_from(["TP0", "PP1_TP0", "EngineCore", "x"]),
        "rank": st.none() | st.integers(0, 20),
        "utilization": st.none() | st.floats(0, 1.5),
        "raised_utilization": st.none() | st.floats(0, 1.5),
        "activation_includes_estimate": st.sampled_from([None, True, False]),
        "kv_is_given": st.booleans(),
        "samples": st.sampled_from([(), (Sample("FULL", 1, 50, 1 << 20),)]),
        "captured": st.sampled_from([(), (Captured("FULL", 3, None, 50, "decode, FULL"),)]),
        "profiled": st.sampled_from([(), (Captured("FULL", 3, 8), Captured("PIECEWISE", 3, 16))]),
    }
).map(lambda given: Rank(**given))
STARTS = st.fixed_dictionaries(
    {
        "ranks": st.lists(RANKS, max_size=3).map(tuple),
        "vllm_version": st.sampled_from([None, "0.19.0", "0.33.0", "0.25.1", "9.9", "x", "0.27.1.dev3+g1"]),
        "arguments": st.dictionaries(ARGUMENTS, VALUES, max_size=6),
        "engine": st.sampled_from([{}, {"max_seq_len": 4096, "compilation_config": {"cudagraph_mode": "FULL"}}]),
        "model": st.sampled_from([None, "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3.5-4B", "/no/such"]),
        "crash": st.none() | st.sampled_from(CRASHES).map(crash),
        "kv_tokens": COUNTS,
        "max_concurrency": st.none() | st.floats(0, 1e6),
        "concurrency_length": COUNTS,
        "max_model_len": COUNTS,
        "max_num_seqs": COUNTS,
        "max_num_batched_tokens": COUNTS,
        "num_gpu_blocks": COUNTS,
        "block_size": COUNTS,
        "capture_sizes": st.sampled_from([None, (), (1, 2, 4)]),
        "cudagraph_mode": st.sampled_from([None, "FULL", "NONE", "WEIRD"]),
        "runner": st.sampled_from([None, "V1", "V2"]),
        "ready": st.booleans(),
        "phases": st.sampled_from([(), (Phase("profile", 1.0, "TP0"), Phase("init engine", 2.0))]),
    }
).map(lambda given: Start(1, 100, **given))
CONTEXTS = st.sampled_from([None, Context(), on("h100"), on("gb10")])


@settings(max_examples=60, deadline=None)
@given(STARTS, STARTS, CONTEXTS)
def test_a_report_is_made(first: Start, second: Start, context: Any) -> None:
    log = StartupLog((first, second), 10, 1, (Place(3, "x"),), ())
    reports = [report_of(first, 1, log.starts, context)]
    secrets = LogSecrets(log.starts)
    document = as_document(log, reports, secrets)
    LogsDocument.model_validate(json.loads(json.dumps(document)))
    assert page(log, reports, secrets).startswith("# Log: 1 start of vLLM\n")
    out = console()
    out.file = io.StringIO()
    show(log, reports, secrets, out=out)
    assert "Start 1 of 2" in out.file.getvalue()
