"""Texts of vLLM and torch, and the kinds and numbers that they give."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from startup_helpers import GIB, MIB, oom, size

from cgplan.rules import all_rules
from cgplan.startup.crash_rules import OOM_PAGES, PAGES, page_of
from cgplan.startup.crashes import KINDS, UNKNOWN, classify

LEN = (
    "ValueError: To serve at least one request with the model's max seq len (8192), (1.0 GiB KV"
    " cache is needed, which is"
    " larger than the available KV cache memory (0.5 GiB). Based on the available memory, the estimated maximum model"
    " length is 4080. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when"
    " initializing the engine."
)
TEXTS = {
    LEN: (
        "model_len",
        {"max_model_len": 8192, "needed_bytes": GIB, "available_bytes": GIB // 2, "estimated_len": 4080},
    ),
    LEN.replace("model's", "models's"): ("model_len", {"estimated_len": 4080}),
    LEN.partition(". Based")[0] + ". Try increasing": ("model_len", {"needed_bytes": GIB}),
    "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV"
    " cache (81536).": ("model_len", {"estimated_len": 81536}),
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`": ("no_blocks", {}),
    "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856). Each decode sequence": (
        "mamba_blocks",
        {"max_num_seqs": 1024, "blocks": 856},
    ),
    "exceeds available Mamba cache blocks (95)": ("mamba_blocks", {"blocks": 95}),
    "ValueError: Free memory on device cuda:0 (12.1/79.19 GiB) on startup is less than desired GPU memory utilization"
    " (0.92, 72.86 GiB). Decrease GPU memory utilization": (
        "free_memory",
        {"free_bytes": size(12.1), "total_bytes": size(79.19), "utilization": 0.92, "requested_bytes": size(72.86)},
    ),
    "AssertionError: Error in memory profiling. Initial free memory 10.1 GiB, current free memory 12.2 GiB. This": (
        "profiling",
        {"free_bytes": size(10.1), "free_after_bytes": size(12.2)},
    ),
    "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len"
    " (max_position_embeddings=2048.0 or model_max_length=None in model's config.json).": (
        "derived_len",
        {"max_model_len": 8192, "derived_len": 2048, "tokenizer_len": "None"},
    ),
    "AssertionError: 151936 is not divisible by 5": ("not_divisible", {"number": 151936, "divisor": 5}),
    "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).": (
        "heads",
        {"number": 40, "divisor": 3},
    ),
    "ValueError: Weight input_size_per_partition = 5120 is not divisible by weight quantization block_k = 128.": (
        "quantised_blocks",
        {},
    ),
    "ValueError: customized max_cudagraph_capture_size(=8) should be consistent with the max value of"
    " cudagraph_capture_sizes(=4)": ("largest_size", {"given": 8, "largest": 4}),
    "AssertionError: cudagraph_capture_sizes should contain at least one element when using cuda graph.": (
        "no_sizes",
        {},
    ),
    "ValueError: CUDAGraphMode.FULL is not supported with FlexAttentionBackend backend (support: NEVER); please try"
    " cudagraph_mode=PIECEWISE": ("mode", {"mode": "FULL", "backend": "FlexAttentionBackend"}),
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try": (
        "sampler_warm_up",
        {"max_num_seqs": 1024},
    ),
    "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with 256 dummy requests.": (
        "pooler_warm_up",
        {"max_num_seqs": 256},
    ),
    "RuntimeError: CUDA error: device kernel image is invalid": ("kernel_image", {}),
    "RuntimeError: NCCL error: unhandled cuda error": ("nccl", {}),
    "vllm: error: unrecognized arguments: --max-num-seq 8": ("unrecognised", {"argument": "--max-num-seq"}),
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}": ("wrapper", {}),
    "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve": ("auto_fit", {}),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_gives_its_kind_and_numbers(text: str) -> None:
    kind, values = TEXTS[text]
    found, numbers = classify(text)
    assert found == kind
    assert values.items() <= numbers.items()


def test_torch_says_what_it_wanted_and_what_there_was() -> None:
    kind, values = classify(oom("786.00 MiB", "552.50 MiB", 79.19, 78.64))
    assert kind == "out_of_memory"
    assert values["tried_bytes"] == 786 * MIB
    assert values["free_bytes"] == int(552.5 * MIB)
    assert values["process_bytes"] == size(78.64)
    assert values["private_pool_bytes"] == 62 * MIB


def test_what_torch_leaves_out_is_left_out() -> None:
    kind, values = classify("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.")
    assert (kind, values) == ("out_of_memory", {"tried_bytes": 20 * GIB})


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: max_num_seqs must be positive",
        "INFO the estimated maximum model length is 4080",
        "ValueError: max seq len of blocks (12) and (13)",
        "Memory on device is plentiful",
        "",
    ],
)
def test_other_texts_have_no_kind(text: str) -> None:
    assert classify(text) == (UNKNOWN, {})


def test_an_argument_is_named_without_its_value() -> None:
    assert classify("error: unrecognized arguments: --api-kee=sk-0123456789")[1] == {"argument": "--api-kee"}


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    kind, values = classify(text)
    assert kind in (*KINDS, UNKNOWN)
    assert all(isinstance(value, (int, float, str)) for value in values.values())


def test_a_long_text_takes_no_time() -> None:
    before = time.process_time()
    for text in (
        "max seq len (" * 100_000,
        "Tried to allocate 1" * 100_000,
        "A" * 10_000_000,
        "per_partition " * 100_000,
    ):
        classify(text)
    assert time.process_time() - before < 1


def test_every_kind_and_step_has_a_page() -> None:
    codes = all_rules()
    assert set(PAGES) == {*KINDS, UNKNOWN}
    assert {*PAGES.values(), *OOM_PAGES.values()} <= set(codes)


def test_small_numbers_that_do_not_divide_are_no_vocabulary() -> None:
    assert page_of("not_divisible", {"number": 151936, "divisor": 5}) == "CG615"
    assert page_of("not_divisible", {"number": 40, "divisor": 3}) == "CG540"
