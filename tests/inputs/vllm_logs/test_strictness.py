"""A line in a form that is not known gives no value: it is counted, and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.inputs.vllm_logs import shapes_memory, shapes_start
from cgplan.inputs.vllm_logs.lines import WANTED
from cgplan.inputs.vllm_logs.recognise import recognise
from cgplan.inputs.vllm_logs.shapes import Read, Unfit
from cgplan.startup.record import StartupLog

from . import written
from .written import GIB, line

LOGS = Path(__file__).parents[3] / "fixtures" / "logs"

CHANGED = [
    # Another locale.
    "Available KV cache memory: 14,99 GiB",
    "Model loading took 14,99 GiB memory and 14,429680 seconds",
    "GPU KV cache size: 476.016 tokens",
    "GPU KV cache size: 476 016 tokens",
    "Maximum concurrency for 8.192 tokens per request: 58,11x",
    # Another unit.
    "Available KV cache memory: 58.11 GB",
    "Graph capturing finished in 3 secs, took 910.00 MiB",
    # One more field, one less, another order.
    "Available KV cache memory: 58.11 GiB (rank 0)",
    "Available KV cache memory:",
    "Model loading took 2.5 GiB of host memory, 14.99 GiB memory and 14.429680 seconds",
    "Model loading took 14.429680 seconds and 14.99 GiB memory",
    "Graph capturing finished: took 0.91 GiB in 3 secs",
    "CUDA graph pool memory: 0.84 GiB (estimated), 0.91 GiB (actual), difference: 0.07 GiB (7.7%).",
    "Requested memory: 0.950000 (util), 75.23 GiB; Initial free memory: 78.68 GiB",
    "Initial free memory: 78.68 GiB; Swap: 4.0 GiB; Requested memory: 0.950000 (util), 75.23 GiB",
    "Maximum concurrency for 8,192 tokens per request: 58.11x, GPU KV cache size: 476,016 tokens",
    "GPU KV cache size: 1,234 blocks, 476,016 tokens, Maximum concurrency for 8,192 tokens per request: 58.11x",
    "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), SPLIT=51 (largest=512)",
    "Profiling CUDA graph memory: PIECEWISE=51 (largest=512, smallest=1)",
    "Estimated PIECEWISE CUDA graph memory: 138.00 MiB first-capture + (51-1) x 6.00 MiB per-graph",
    # Numbers that contradict each other.
    "CUDA graph pool memory: 0.91 GiB (actual), 0.84 GiB (estimated), difference: 0.70 GiB (7.7%).",
    written.usage_since_0_27(90 * GIB, 80 * GIB, 70 * GIB, 20 * GIB, 2 * GIB, GIB, 40 * GIB),
    # The dict cut, the engine's line without settings.
    "non-default args: {'model': 'org/Model', 'max_model_len'",
    "Initializing a V1 LLM engine (v0.33.0) with config: everything",
]


@pytest.mark.parametrize("message", CHANGED)
def test_a_changed_line_gives_no_value_and_is_told(message: str, read: Callable[..., StartupLog]) -> None:
    log = read([line("Resolved architecture: LlamaForCausalLM"), line(message)])
    assert log.not_recognised == 1
    assert [(place.line, place.text) for place in log.examples] == [(2, message[:300])]
    (start,) = log.starts
    assert start.ranks == ()
    assert (start.kv_tokens, start.max_concurrency, start.arguments, start.engine) == (None, None, {}, {})


@pytest.mark.parametrize(
    "message",
    [
        "Available KV cache memory: 58.11 GiB",
        "Available KV cache memory: -20.5 GiB",
        "XPU KV cache size: 476,016 tokens, Maximum concurrency for 8,192 tokens per request: 58.11x",
        "GPU + host KV cache size: 476,016 tokens, Maximum concurrency for 8,192 tokens per request: 58.11x",
        "CUDA graph pool memory: -0.19 GiB (actual), 2.43 GiB (estimated), difference: 2.62 GiB (2813001728.0%).",
        "Profiling CUDA graph memory: FULL=51 (largest=512), ENCODER=6 (largest=4096)",
        "init engine (profile, create kv cache, warmup model) took 21.45 seconds",
        "init engine (profile, create kv cache, warmup model) took 30.23 s (compilation: 3.59 s — language_model: 3.00 "
        "s, encoder: 0.59 s)",
    ],
)
def test_the_same_lines_as_vllm_prints_them(message: str, read: Callable[..., StartupLog]) -> None:
    assert isinstance(recognise(message), Read)
    assert read([line(message)]).not_recognised == 0


@pytest.mark.parametrize(
    ("end", "tokens", "told"), [("", 8192, 0), ("cut", None, 1)], ids=["with its line end", "cut in the number"]
)
def test_a_number_at_the_very_end_of_a_log_may_lack_digits(
    end: str, tokens: int | None, told: int, read: Callable[..., StartupLog]
) -> None:
    said = line("Using max model len 8192") + ("" if end else "\n")
    log = read((line("Resolved architecture: LlamaForCausalLM") + "\n" + said).encode())
    assert (log.starts[0].max_model_len, log.not_recognised) == (tokens, told)


@pytest.mark.parametrize(
    "message",
    [
        "Received request chatcmpl-1: prompt: 'Available KV cache memory: 1.0 GiB', params: SamplingParams(n=1)",
        "Cleaned up profiling KV cache and CUDA graphs",
        "Initialized minimal KV cache for CUDA graph profiling",
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 12.5%, Prefix cache hit rate: 0.0%",
    ],
)
def test_other_lines_of_vllm_are_none_of_these(message: str, read: Callable[..., StartupLog]) -> None:
    log = read([line("Resolved architecture: LlamaForCausalLM"), line(message)])
    assert log.not_recognised == 0
    assert log.starts[0].ranks == ()


def test_every_known_line_passes_the_filter() -> None:
    forms = [shape.form for shape in (*shapes_memory.SHAPES, *shapes_start.SHAPES)]
    said = [
        form.replace("[[", "").replace("{backend:word}", "FLASH_ATTN").replace("]]", "")
        for form in forms
        if not form.startswith("Add ")
    ]  # A warning.
    assert [form for form in said if not WANTED.search(form.encode())] == []


def messages() -> list[str]:
    text = "\n".join(path.read_text() for path in sorted(LOGS.glob("*.txt")))
    said = [line.partition("] ")[2] for line in text.splitlines() if ") INFO" in line or ") DEBUG" in line]
    return sorted({message for message in said if isinstance(recognise(message), Read) and len(message) < 2000})


@given(st.sampled_from(messages()), st.data())
def test_a_line_that_lost_or_got_a_word_is_never_read_as_another_number(message: str, data: st.DataObject) -> None:
    words = message.split(" ")
    at = data.draw(st.integers(0, len(words) - 1))
    extra = data.draw(st.sampled_from(["", "9.99", "GiB", "9.99 GiB", "x=1,", "9,99"]))
    changed = " ".join(word for word in [*words[:at], extra, *words[at + (not extra) :]] if word)
    read, whole = recognise(changed), recognise(message)
    assert isinstance(whole, Read)
    if isinstance(read, Unfit) or read is None or changed == message:
        return
    # Only a field of free text may take a word more.
    for name, value in read.values.items():
        assert isinstance(value, str) or whole.values.get(name, value) == value
