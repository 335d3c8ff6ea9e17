"""`cgplan explain` with operators' own words, error lines and names: the topic or rule that answers stands first."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cgplan.cli.explained import found
from cgplan.report import topics
from cgplan.rules import all_rules

Run = Callable[..., tuple[int, str, str]]

# fmt: off
# ruff: noqa: E501
QUESTIONS = [
    ("do the cuda graphs come out of my 0.9 gpu memory utilization or extra on top", "graphs-in-the-budget"),
    ("since upgrade from 0.19 to 0.21 kv cache is smaller, same flags Qwen3-14B", "graphs-in-the-budget"),
    ("if I enforce eager do I get more kv cache", "graphs-in-the-budget CG242"),
    ("tokens in log 165792 but concurrency 2.52 x 262144 is much more, Qwen3.5 which is true", "hybrid-kv-tokens CG536"),
    ("why shows GPU KV cache size so few tokens on mamba model", "hybrid-kv-tokens"),
    ("Nemotron nano says too few mamba blocks for 1024 sequences what number to take", "mamba-blocks CG501"),
    ("ValueError: max_num_seqs (512) exceeds available Mamba cache blocks (412). Each decode sequence requires one", "mamba-blocks CG501"),
    ("after enabling mtp my tokens per second got worse", "speculation-slower CG333"),
    ("EAGLE3 with 3 draft tokens is not faster than without on A100", "speculation-slower CG333"),
    ("flashinfer with mtp loses full cudagraph which backend should I use", "speculation-slower CG333 only-piecewise"),
    ("is it worth to have full graphs instead of only piecewise for small model", "full-gain CG243"),
    ("how much faster is FULL_AND_PIECEWISE for a 30B MoE at low batch", "full-gain"),
    ("on my 24GB 4090 with an 8B model graphs bring almost nothing", "small-gain"),
    ("do I need cuda graphs at all if batch is always full", "small-gain full-gain"),
    ("server gets max 8 users at the same time, which graphs can it ever use", "sizes-of-a-concurrency"),
    ("67 graphs are captured but we have only 4 requests in parallel", "sizes-of-a-concurrency"),
    ("batch of 9 is slower than batch of 16 should I put every size from 1 to 16", "density busiest-batches-slow CG706"),
    ("how many capture sizes are good, memory versus padding", "density"),
    ("capturing with lora takes over a minute", "lora-capture"),
    ("max_loras 32 makes the start of server very long", "lora-capture"),
    ("why has llama with lora 204 graphs instead of 102", "lora-capture CG452"),
    ("image encoder graphs need 7 GB, is that in the estimate", "encoder-graphs CG594 CG528"),
    ("cudagraph_mm_encoder true and then out of memory", "encoder-graphs"),
    ("DGX Spark estimated cuda graph memory is minus 20 GiB", "unified-memory CG590 CG592"),
    ("on GB10 graph memory estimate negative and kv cache too large", "unified-memory CG590 CG592"),
    ("it always runs out of the same amount of memory no matter which utilization I give", "accounting-leaks CG531"),
    ("more memory in use than the budget although graphs are tiny", "accounting-leaks CG530"),
    ("0.98 utilization crashes when capturing, what is safe", "little-margin CG504 CG507"),
    ("is 0.95 too high on a 5090", "little-margin CG504 CG521"),
    ("log tells me use --kv-cache-memory=61258029056, can I trust", "kv-cache-memory-advice CG525"),
    ("what value must I give for kv-cache-memory-bytes", "kv-cache-memory-advice CG527"),
    ("pod was OOMKilled with exit 137 although nvidia-smi showed free memory", "host-memory CG823"),
    ("container with 8GB RAM limit dies while loading weights without traceback", "host-memory CG823"),
    ("does this work for AMD MI300 or huawei ascend", "plugins"),
    ("our NPU plugin turned cudagraphs off", "plugins CG831"),
    ("decode context parallel size 2 and full cudagraph crashes with illegal memory access", "context-parallel CG821"),
    ("is dcp allowed together with FULL graphs in which version", "context-parallel"),
    ("deepep high throughput with data parallel has no cuda graphs", "deepep CG601"),
    ("which all2all backend keeps the graphs", "deepep"),
    ("enable-dbo captures more graphs than before near threshold", "dual-batch-overlap"),
    ("how many MiB costs one graph", "cost-per-graph"),
    ("formula for memory of N graphs", "cost-per-graph"),
    ("graphs eat 2 GB how to reduce", "graphs-memory-too-large"),
    ("CUDA out of memory while capturing graphs, weights were loaded fine", "graphs-memory-too-large little-margin CG507"),
    ("startup needs 13 minutes, would less graphs help", "start-up-time"),
    ("where goes the time at start, compile or capture", "start-up-time"),
    ("flag --cudagraph-metrics is set but nothing is printed", "cudagraph-metrics CG245"),
    ("how can I see which batch sizes really occur in production", "cudagraph-metrics"),
    ("what is performance-mode interactivity doing with sizes", "performance-mode CG114"),
    ("AssertionError customized max_cudagraph_capture_size(=8) should be consistent with the max value of cudagraph_capture_sizes(=4)", "capture-sizes-refused CG117"),
    ("set both max capture size and list of sizes, vllm refuses", "capture-sizes-refused CG117"),
    ("with 100 sequences throughput drops suddenly compared to 96", "busiest-batches-slow CG705"),
    ("why is one missing size in the list making the step 6 times slower", "busiest-batches-slow CG701 CG710"),
    ("To serve at least one request with max seq len (262144), 24.00 GiB KV cache is needed, which is larger than the available KV cache memory (9.97 GiB)", "longest-model-len CG561"),
    ("what is the biggest context I can have with Qwen3.5-27B on one card", "longest-model-len"),
    ("skip memory profiling at next start and reuse the numbers", "keep-a-plan"),
    ("VLLM_ENABLE_STARTUP_PLAN when is the stored plan used again", "keep-a-plan CG526"),
    ("only 35 full graphs but 51 piecewise in log, is it a bug", "fewer-full-graphs CG539"),
    ("log has only PIECEWISE capturing bar and no FULL", "only-piecewise"),
    ("embedding model has no full graphs", "only-piecewise CG207"),
    ("why the attention block size was set to 1568 tokens", "block-size CG584"),
    ("ValueError: Selected backend FLASHINFER is not valid for this configuration. Reason: ['kv_cache_dtype not supported']", "backend-does-not-fit CG302"),
    ("fp8 kv cache with flash attention on 3090 not supported what else", "backend-does-not-fit CG303 CG302"),
    ("only 137 requests run though max_num_seqs is 256, others wait", "queueing"),
    ("requests get preempted although max num seqs is large", "queueing"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered during graph replay", "kernel-error CG821"),
    ("vllm estimated 1.69 GiB for graphs but it took only 0.76", "estimate-off CG833"),
    ("gdn model since 0.26 graph estimate suddenly 1 GiB and kv cache fell", "estimate-off CG529"),
    ("AssertionError: 151936 is not divisible by 5", "CG615"),
    ("vocab size does not divide by tensor parallel 5", "CG615 parallel-sizes"),
    ("model needs trust that it starts with -tp 3, 40 heads", "parallel-sizes CG606 CG610 CG611 CG612"),
    ("max_model_len 8192 is greater than the derived max_model_len 2048 phi-2", "length-of-the-model CG129"),
    ("what is VLLM_USE_BREAKABLE_CUDAGRAPH good for", "CG205"),
    ("kv cache of 220 GiB needed for Llama 4 scout with sliding window, why so much", "CG578 longest-model-len"),
    ("sampler warm up out of memory with 1024 dummy requests", "sampler-warm-up CG509"),
]
"""What is asked, and the topics or rules of which one must answer it. The words of topics were mended by them."""
UNSEEN = [
    ("my H200 shows 4 GB less for kv after I went to 0.21, who took it", "graphs-in-the-budget"),
    ("Is graph memory part of budget or not in version 0.28 with v2 runner?", "graphs-in-the-budget CG503"),
    ("the number of tokens printed by vllm 0.19 for Qwen3-Next makes no sense", "hybrid-kv-tokens CG536"),
    ("Jamba start fails, cache blocks fewer than sequences", "mamba-blocks CG501"),
    ("speculative tokens 4 and throughput fell from 57 to 40 t/s", "speculation-slower"),
    ("brings PIECEWISE alone much less speed than with full?", "full-gain CG243"),
    ("why use cudagraphs when enforce-eager gives the same throughput on L4", "small-gain"),
    ("only one user chats with it, do I need 51 sizes", "sizes-of-a-concurrency"),
    ("which list of cudagraph sizes should I choose for up to 64 requests", "density sizes-of-a-concurrency"),
    ("lora adapters 16, capture of graphs took 94 seconds", "lora-capture"),
    ("vision model with encoder cudagraphs takes some GB more than planned", "encoder-graphs"),
    ("GB10 spark: negative graph memory", "unified-memory"),
    ("it is always missing about 2 GiB, with 0.89 and with 0.87 the same", "accounting-leaks CG531"),
    ("which gpu memory utilization can I set at most without risk", "little-margin"),
    ("log suggest --kv-cache-memory but then server crash with OOM", "kv-cache-memory-advice CG525"),
    ("kubernetes restarts my pod with code 137 during model load", "host-memory"),
    ("vllm-ascend graphs FULL_DECODE_ONLY", "plugins"),
    ("prefill context parallel and cudagraph mode FULL", "context-parallel CG611"),
    ("low latency or high throughput deepep for graphs", "deepep CG601"),
    ("how does dbo change captured graphs", "dual-batch-overlap"),
    ("how much gpu memory for 100 graphs of a 70B model tp8", "cost-per-graph"),
    ("graphs use too much vram on my 12GB card", "graphs-memory-too-large small-gain"),
    ("autotune takes 12 minutes at every start", "start-up-time"),
    ("want a table of padded and unpadded tokens", "cudagraph-metrics"),
    ("throughput mode doubles what exactly", "performance-mode CG103"),
    ("cudagraph_capture_sizes empty list assertion", "capture-sizes-refused CG119"),
    ("at 33 concurrent requests itl jumps up", "busiest-batches-slow"),
    ("KV cache 5.27 GiB available, 12 GiB needed, tp 2", "longest-model-len CG561"),
    ("can I store the profile result and reuse it", "keep-a-plan"),
    ("FULL only 19 graphs with AsyncLLMEngine", "fewer-full-graphs CG101"),
    ("mode became NONE without me asking", "only-piecewise CG206 CG233 CG332"),
    ("block size 528 why", "block-size CG584"),
    ("FLASH_ATTN does not support fp8 kv on this gpu", "backend-does-not-fit"),
    ("requests are waiting in queue although gpu is not full", "queueing"),
    ("cudaErrorIllegalAddress in replay", "kernel-error"),
    ("profiler says 118 GiB for graphs which is nonsense", "estimate-off CG590 unified-memory"),
    ("CUDA out of memory occurred when warming up sampler with 512 dummy requests", "sampler-warm-up CG509"),
    ("Total number of attention heads (40) must be divisible by tensor parallel size (3).", "parallel-sizes CG606"),
    ("WARNING: CUDAGraphMode.FULL_AND_PIECEWISE is not supported with FlashInferMetadataBuilder backend (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE", "CG333 CG332 speculation-slower only-piecewise"),
    ("Free memory on device (22.1/23.5 GiB) on startup is less than desired GPU memory utilization (0.95, 22.3 GiB)", "CG504"),
]
"""Written after the mending: 38 of the 40 were answered so before topics were given words for the rest."""
HARDER = [
    ("my decode falls from full to piecewise since i use fp8 kv cache and drafts", "speculation-slower only-piecewise CG333"),
    ("how long lasts graph capture normal", "start-up-time cost-per-graph"),
    ("what does 0.19 do with estimated cudagraph memory", "graphs-in-the-budget CG599 CG502"),
    ("is FULL with GPT-OSS possible on a100", "only-piecewise full-gain"),
    ("with 24 requests and 4 drafts graphs are missing", "speculation-slower CG440 CG704"),
    ("why is my max_num_batched_tokens 8192", "default-limits CG101"),
    ("CUDA error: no kernel image is available", "kernel-error CG818"),
    ("hardware has less memory than nvidia-smi says", "total-of-the-gpu"),
    ("tp 2 needs how many GiB kv per gpu", "longest-model-len"),
    ("eager mode slower by how much", "small-gain full-gain CG242"),
    ("should I lower max_num_seqs to 64 to get more kv cache", "graphs-memory-too-large sizes-of-a-concurrency queueing graphs-in-the-budget"),
    ("torch.compile takes forever at start", "start-up-time"),
    ("sliding window model Gemma needs too much kv", "longest-model-len hybrid-kv-tokens CG578"),
    ("what happens to batch bigger than biggest captured size", "CG701 busiest-batches-slow graphs-memory-too-large"),
    ("which backend is chosen for Llama on B200 and why", "which-backend CG301"),
]
"""Written after both: 6 of the 15 were answered so, before topics and words were added for the rest."""
# fmt: on


@pytest.mark.parametrize(("question", "answers"), [*QUESTIONS, *UNSEEN, *HARDER])
def test_a_question_is_answered_first_by_what_is_meant(question: str, answers: str) -> None:
    answer = found(question)
    assert answer is not None
    first = answer.rules[0].code if answer.rule_first else answer.topics[0].name
    assert first in answers.split()


def test_the_answers_that_are_expected_exist() -> None:
    named = {name for _, answers in (*QUESTIONS, *UNSEEN, *HARDER) for name in answers.split()}
    assert named <= {*all_rules(), *(one.name for one in topics.topics())}


@pytest.mark.parametrize("question", ["how do I cook rice", "what is the weather in Paris", "NoSuchThing: frobnicate"])
def test_what_is_about_something_else_finds_nothing(question: str) -> None:
    assert found(question) is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("AssertionError: 151936 is not divisible by 5", "CG615", "--tensor-parallel-size of 1, 2, 4, 8"),
        ("AssertionError: 32000 is not divisible by 3", "CG615", "--tensor-parallel-size of 1, 2, 4, 8"),
        ("max_num_seqs (256) exceeds available Mamba cache blocks (95).", "CG501", "95 at most"),
    ],
)
def test_an_error_line_is_read_as_logs_reads_it(cgplan: Run, words: str, code: str, said: str) -> None:
    status, out, _ = cgplan("explain", words, "--json")
    document = json.loads(out)
    assert status == 0
    assert document["rules"][0]["code"] == code
    assert said in document["read"]
    assert "In these words:" in cgplan("explain", words)[1]


def test_a_question_has_nothing_read_in_it(cgplan: Run) -> None:
    assert json.loads(cgplan("explain", "why is lora capture slow", "--json")[1])["read"] is None
    assert "In these words:" not in cgplan("explain", "why is lora capture slow")[1]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("VLLM_USE_BREAKABLE_CUDAGRAPH", "CG205"),
        ("VLLM_ENABLE_STARTUP_PLAN", "CG526"),
        ("--specialize-active-lora", "CG450"),
        ("specialize_active_lora", "CG450"),
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "CG522"),
    ],
)
def test_a_name_gives_the_rules_that_speak_of_it(name: str, first: str) -> None:
    answer = found(name)
    assert answer is not None
    assert answer.rules[0].code == first


def test_a_name_is_not_found_in_a_longer_one() -> None:
    assert topics.names_of("--max-num-seqs and VLLM_X, or max_loras?") == ("--max-num-seqs", "VLLM_X", "max_loras")
    whole = topics.with_names(None, ("VLLM_ENABLE_STARTUP",), alone=True)
    assert whole is None


@pytest.mark.parametrize(
    "words",
    [
        "Estimated CUDA graph memory: 97.4 GiB, No available memory for the cache blocks",
        "Estimated CUDA graph memory: 97.4 GiB total\nNo available memory for the cache blocks",
        "Estimated CUDA graph memory: 97.4 GiB total",
    ],
)
def test_an_implausible_estimate_is_read_before_what_came_of_it(cgplan: Run, words: str) -> None:
    document = json.loads(cgplan("explain", words, "--json")[1])
    assert document["rules"][0]["code"] == "CG590"
    assert "97.4" in document["read"]
    assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0" in document["read"]


def test_a_plausible_estimate_leaves_the_error_first(cgplan: Run) -> None:
    words = "Estimated CUDA graph memory: 0.6 GiB, No available memory for the cache blocks"
    assert json.loads(cgplan("explain", words, "--json")[1])["rules"][0]["code"] == "CG560"


@pytest.mark.parametrize("words", ["No available memory for the cache blocks", "pooling models graphs", "--enable-dbo"])
def test_a_page_names_other_commands_than_itself(cgplan: Run, words: str) -> None:
    out = cgplan("explain", words)[1]
    assert "cgplan explain" not in out
    assert "cgplan " in out
    assert "Source: " in out


def test_a_rule_of_no_topic_names_the_command_that_tells_it() -> None:
    from cgplan.report.topics_text import commands_of

    alone = [code for code in all_rules() if not topics.topics_of(code)]
    assert {code[:3] for code in alone} >= {"CG5", "CG8", "CG9"}
    for code in alone:
        run = commands_of(code)
        assert run
        assert ("logs" in run[0]) == code.startswith("CG8")
    assert commands_of("CG590")[0].startswith("cgplan logs server.log")


def test_the_page_of_too_few_blocks_agrees_with_plan_on_the_length(cgplan: Run) -> None:
    """Blocks are pages of the layers: the length changes how many a request takes, not how many there are."""
    line = ("plan", "Qwen/Qwen3.6-27B", "--gpu", "h200", "--max-num-seqs", "64", "--json", "--max-model-len")
    blocks = [json.loads(cgplan(*line, str(length))[1])["num_gpu_blocks"] for length in (8192, 131072)]
    assert blocks[0] == blocks[1] > 0
    assert "a shorter --max-model-len brings no more blocks" in all_rules()["CG501"].instead
    answer = next(one.answer for one in topics.topics() if one.name == "mamba-blocks")
    assert "shorter --max-model-len does not" in answer
